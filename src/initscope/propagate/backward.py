r"""One step of the backward recursion: what gradients behind a step are before it.

Gradients of wide random networks are sums over fresh weights, so that of :math:`\delta = \partial\ell/\partial h` the
Gram matrix over positions, :math:`\Delta_{pp'} = E\sum_c\delta_{pc}\delta_{p'c}` summed over the channels of a block,
is all that the steps before see. Every step acts on it by the transpose of what it does to covariances forward
([Schoenholz2017]_: backward weights pass for independent of forward ones):
weights by :math:`\sigma_w^2`, summed over the taps; activations by :math:`E\,\sigma'(X)\sigma'(Y)`; attention by its
drawn heads (`Attended`). Gradients behind an activation of units that are no Gaussian are known for single channels,
``[count, 2·pairs, blocks, P, P]``, until the next weights average over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from initscope.propagate.attended import Attended
from initscope.propagate.channels import Channels, law_of, places_of, positions_of
from initscope.propagate.distributions import ActivatedUnits
from initscope.propagate.heads import gradients_through_heads
from initscope.propagate.moments import InputProducts, MomentMaps, NotCovered, Scaled
from initscope.propagate.origins import (
    Activations,
    GatheredPositions,
    JoinedPositions,
    Multiplied,
    PermutedPositions,
    SelectedBlocks,
    Shifted,
    StackedChannels,
    SummedBranches,
)
from initscope.propagate.rules.pooling import Pooled, WindowMaximum, WindowMean
from initscope.propagate.rules.shapes import FlattenedPositions
from initscope.propagate.rules.weights import WeightedSums
from initscope.propagate.units import SampledUnits
from initscope.theory.activations import Activation

__all__ = ["back", "sources_of", "spread_over_taps"]

Shares = list[tuple[MomentMaps, Tensor]]
_TABLE, _NODES = 1 << 14, 257  # entries from which on a dual is interpolated, and between how many angles
_NEARLY = 1.05


def sources_of(state: MomentMaps) -> tuple[MomentMaps, ...]:
    """The states before, which gradients reach from this one; raises `NotCovered` where there is no rule."""
    origin, law = state.origin, law_of(state)
    if isinstance(origin, InputProducts) and not isinstance(origin.given, SampledUnits):
        return ()
    if isinstance(origin, Attended):
        return (origin.value, *(root.base for root in origin.roots))
    if isinstance(origin, Multiplied):
        return origin.first, origin.second
    if isinstance(origin, (SummedBranches, StackedChannels)):
        return origin.terms
    if isinstance(origin, JoinedPositions):
        return origin.parts
    if origin is None and isinstance(law, (ActivatedUnits, WindowMaximum, WindowMean)):
        return (law.before,)
    if type(origin) in _BACK:
        before: MomentMaps = origin.before  # type: ignore[union-attr]
        return (before,)
    raise NotCovered("gradients have no rule there")


def back(state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
    """What ``gradients`` at a state are at the states before it."""
    origin, law = state.origin, law_of(state)
    if isinstance(origin, Attended):
        return _through_heads(origin, channels.mean(gradients), channels)
    if isinstance(origin, Multiplied):
        both = origin.first, origin.second
        return [(one, gradients * channels.gram(other)) for one, other in zip(both, both[::-1], strict=True)]
    if isinstance(origin, SummedBranches):
        return [(term, gradients) for term in origin.terms]
    if isinstance(origin, StackedChannels):
        sizes = [len(part.sizes) for part in origin.terms]
        return list(zip(origin.terms, torch.split(gradients, sizes, dim=-3), strict=True))
    if isinstance(origin, JoinedPositions):
        sizes = [positions_of(part) for part in origin.parts]
        blocks = zip(*(torch.split(one, sizes, -1) for one in torch.split(gradients, sizes, -2)), strict=True)
        return [(part, column[index]) for index, (part, column) in enumerate(zip(origin.parts, blocks, strict=True))]
    if origin is None and law is not None:
        return _through_law(law, state, gradients, channels)
    before = sources_of(state)
    return [(before[0], _BACK[type(origin)](origin, gradients, channels))] if before else []


def spread_over_taps(origin: WeightedSums, gradients: Tensor) -> Tensor:
    r"""Gradients before weights of variance 1: sums over the taps, and over the outputs that read each channel.

    E of the squared norm of the weights' own gradient is the sum of its products with the Gram matrix before them.
    """
    before, outputs = origin.before, gradients.shape[-3]
    width = before.channels // outputs
    edges = [sum(before.sizes[:k]) for k in range(len(before.sizes) + 1)]
    counts = torch.tensor(
        [
            [max(0, min(edges[b + 1], (o + 1) * width) - max(edges[b], o * width)) for b in range(len(before.sizes))]
            for o in range(outputs)
        ],
        dtype=gradients.dtype,
    )
    if origin.windows is not None:
        gradients = _scattered(gradients, origin.windows.places(before.positions), positions_of(before))
    shared = torch.einsum("ob,...opq->...bpq", counts, gradients)
    return shared / (origin.groups // outputs)


def _weights(origin: WeightedSums, gradients: Tensor, channels: Channels) -> Tensor:
    if origin.law.strength > 0 or origin.law.centre:
        raise NotCovered("gradients of weights that are bound to each other have no rule")
    return origin.law.variance * spread_over_taps(origin, channels.mean(gradients))


def _scattered(gradients: Tensor, taps: Iterable[Tensor], count: int) -> Tensor:
    """The transpose of reading places: entries are added where each tap read them, -1 is nowhere."""
    total = gradients.new_zeros((*gradients.shape[:-2], count, count))
    for place in taps:
        inside = (place >= 0).nonzero()[:, 0]
        where, part = place[inside], gradients[..., inside, :][..., inside]
        if len(torch.unique(where)) < len(where):  # copies, as a padding makes them: their gradients add up
            part = part.new_zeros((*part.shape[:-1], count)).index_add_(-1, where, part)
            total.index_add_(-2, where, part)
        else:
            total[..., where[:, None], where] += part
    return total


def _activation(origin: Activations, gradients: Tensor, channels: Channels) -> Tensor:
    return _activated(origin.sigma, origin.before, gradients, channels)


def _activated(sigma: Activation, before: MomentMaps, gradients: Tensor, channels: Channels) -> Tensor:
    """By E σ'(X_p)σ'(X_p'); where channels are drawn, by their slopes."""
    if before.gaussian and gradients.dim() == 4:
        return gradients * _slopes(sigma, channels.gram(before))
    slope = torch.as_tensor(sigma.derivative(channels.values(before)))
    return slope[..., :, None] * slope[..., None, :] * gradients


def _slopes(sigma: Activation, gram: Tensor) -> Tensor:
    """E σ'(X_p)σ'(X_p') of Gaussian units; of many with nearly the same variance, between values at some angles."""
    if not bool(torch.isfinite(gram).all()):
        raise NotCovered("the mean square before it is beyond the largest number of its precision")
    variance = gram.diagonal(dim1=-2, dim2=-1)
    first, second = (one.expand_as(gram) for one in (variance[..., :, None], variance[..., None, :]))
    limit = (first * second).sqrt()
    least, most = float(variance.min()), float(variance.max())
    if not sigma.integrated or gram.numel() <= _TABLE or not 0 < most <= _NEARLY * least:
        return torch.as_tensor(sigma.derivative_dual(first, second, gram.clamp(-limit, limit)))
    angle = torch.linspace(0, math.pi, _NODES, dtype=torch.float64)
    middle = torch.full_like(angle, math.sqrt(least * most))
    nodes = torch.as_tensor(sigma.derivative_dual(middle, middle, middle * angle.cos()))
    place = torch.arccos((gram / limit).clamp(-1, 1)) * ((_NODES - 1) / math.pi)
    below = place.long().clamp(0, _NODES - 2)
    return torch.lerp(nodes[below], nodes[below + 1], place - below)


def _scaled(origin: Scaled, gradients: Tensor, channels: Channels) -> Tensor:
    shape = origin.before.kxx.shape
    sides = [torch.as_tensor(side, dtype=torch.float64).expand(shape) for side in (origin.x, origin.y)]
    factor = torch.cat(sides).reshape(2 * shape[0], shape[1], -1)
    return factor[..., :, None] * gradients * factor[..., None, :]


def _passed(origin: Shifted, gradients: Tensor, channels: Channels) -> Tensor:
    """What is taken off, the mean over many channels, moves a single one by next to nothing."""
    return gradients


def _chosen(origin: SelectedBlocks, gradients: Tensor, channels: Channels) -> Tensor:
    shape = list(gradients.shape)
    shape[-3] = len(origin.before.sizes)
    return gradients.new_zeros(shape).index_add_(gradients.dim() - 3, torch.tensor(origin.blocks), gradients)


def _placed(origin: PermutedPositions, gradients: Tensor, channels: Channels) -> Tensor:
    return _scattered(gradients, [origin.where.flatten()], positions_of(origin.before))


def _gathered(origin: GatheredPositions, gradients: Tensor, channels: Channels) -> Tensor:
    return _scattered(gradients, [origin.places()], positions_of(origin.before))


def _pooled(origin: Pooled, gradients: Tensor, channels: Channels) -> Tensor:
    mean = origin.averages()
    return mean.mT @ gradients @ mean


def _flattened(origin: FlattenedPositions, gradients: Tensor, channels: Channels) -> Tensor:
    """Positions that have become channels have weights of their own: nothing is between them."""
    before, count = origin.before, positions_of(origin.before)
    inside = origin.keys >= 0
    keys = origin.keys[inside].flatten()
    flat = gradients[..., 0, 0][..., inside.flatten()] if inside.numel() > 1 else gradients[..., 0, 0]
    whole = flat.new_zeros((*flat.shape[:-1], len(before.sizes) * count))
    whole[..., keys] = flat
    return torch.diag_embed(whole.reshape(*flat.shape[:-1], len(before.sizes), count))


_BACK: dict[Any, Callable[[Any, Tensor, Channels], Tensor]] = {
    WeightedSums: _weights,
    Activations: _activation,
    Scaled: _scaled,
    Shifted: _passed,
    SelectedBlocks: _chosen,
    PermutedPositions: _placed,
    GatheredPositions: _gathered,
    Pooled: _pooled,
    FlattenedPositions: _flattened,
}


def _through_law(law: Any, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
    """Steps whose units were drawn: by the slopes of drawn channels, or to the position that was the largest."""
    before = law.before
    if isinstance(law, ActivatedUnits):
        return [(before, _activated(law.sigma, before, gradients, channels))]
    places, count = places_of(law, state.positions), positions_of(before)
    if isinstance(law, WindowMean):
        mean = torch.zeros(places.shape[1], count, dtype=torch.float64).scatter_(1, places.T, 1 / len(places))
        return [(before, mean.mT @ gradients @ mean)]
    values = channels.values(before)[..., places.clamp_min(0)].masked_fill(places < 0, -math.inf)
    largest = places.T.gather(1, values.argmax(dim=-2).reshape(-1, places.shape[1]).T).T.reshape(
        *values.shape[:3], places.shape[1]
    )
    pair = (largest[..., :, None] * count + largest[..., None, :]).flatten(3)
    total = torch.zeros((*pair.shape[:3], count * count), dtype=torch.float64)
    total.scatter_add_(3, pair, gradients.expand(*pair.shape[:3], *gradients.shape[-2:]).flatten(3))
    return [(before, total.reshape(*pair.shape[:3], count, count))]


def _through_heads(origin: Attended, gradients: Tensor, channels: Channels) -> Shares:
    """Values by the drawn weights, queries and keys by gradients drawn for them (`heads.gradients_through_heads`)."""
    values = channels.gram(origin.value)[:, origin.block]
    tensors = [side for root in origin.roots for side in (root.x, root.y)]
    by_values, by_roots = gradients_through_heads(
        origin.weights, tensors, gradients[:, 0], values, origin.width, channels.gaussian
    )
    value = gradients.new_zeros((len(gradients), len(origin.value.sizes), *values.shape[-2:]))
    value[:, origin.block] = by_values
    shares: Shares = [(origin.value, value)]
    for found in by_roots:
        for root, x, y in zip(origin.roots, found[::2], found[1::2], strict=True):
            parts = torch.split(torch.cat([x, y]).double(), list(root.base.sizes), dim=-1)
            squares = torch.stack([part @ part.mT for part in parts], dim=1)
            shares.append((root.base, squares / (len(by_roots) * len(origin.weights))))
    return shares
