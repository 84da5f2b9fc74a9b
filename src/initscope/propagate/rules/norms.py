"""Normalization: deterministic if many channels are averaged, batch norm by its exact integral.

Layer, RMS and group norm divide by averages over many channels, which have no randomness left in a wide layer. Batch
norm in training divides by each channel's own average over the batch, which stays random: see `rules.batch`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from initscope.geometry import weakest
from initscope.propagate.context import Context
from initscope.propagate.distributions import KnownMeans
from initscope.propagate.registry import operation, rule
from initscope.propagate.rules.batch_norm import batch_normalized
from initscope.propagate.rules.elementwise import apply_activation
from initscope.propagate.rules.gates import known
from initscope.propagate.rules.merging import per_channel
from initscope.propagate.rules.weights import WIDE_GROUP
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value, is_maps
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["batch_norm", "channel_mean", "group_norm", "layer_norm", "rms_norm"]


@rule(nn.LayerNorm, reads=("means",), fixed=True)
def layer_norm(module: nn.LayerNorm, state: MomentMaps, context: Context) -> MomentMaps:
    """Subtract the mean of each sample (or each of its positions), and divide by its standard deviation."""
    over = _normalized_axes(module.normalized_shape, state)
    return affine(_divided(_centered(state, over), over, module.eps), module.weight, module.bias)


@rule(nn.RMSNorm, reads=(), fixed=True)
def rms_norm(module: nn.RMSNorm, state: MomentMaps, context: Context) -> MomentMaps:
    """Divide each sample (or each of its positions) by its root mean square."""
    over = _normalized_axes(module.normalized_shape, state)
    eps = torch.finfo(state.kxx.dtype).eps if module.eps is None else module.eps
    return affine(_divided(state, over, eps), module.weight, None)


@rule(nn.GroupNorm, reads=("means",), fixed=True)
def group_norm(module: nn.GroupNorm, state: MomentMaps, context: Context) -> MomentMaps:
    """Subtract the mean of each group of channels of a sample, and divide by its standard deviation."""
    groups = module.num_groups
    if state.channels // groups < WIDE_GROUP:
        raise NotCovered(f"only {state.channels // groups} channels are in a group, so its divisor stays random")
    if groups > 1 and (len(state.sizes) not in (1, groups) or len(set(state.sizes)) > 1 or state.mixed):
        raise NotCovered("its groups mix channels of different distributions")
    over = _Axes(blocks=groups == 1, positions=True)
    return affine(_divided(_centered(state, over), over, module.eps), module.weight, module.bias)


@operation("pow", "square", reads=("distribution", "positions"))
def power(context: Context, state: Any, exponent: Any = 2) -> Any:
    """Compute powers of units; squares also if their distribution is unknown, because a norm reads only their mean."""
    if not is_maps(state) or not isinstance(exponent, (int, float)):
        raise NotCovered("its exponent is random")
    inner = state.expression()
    if inner is not None and not (exponent == 2 and state.gaussian):
        before, function = inner
        return apply_activation(known(lambda x: function(x) ** exponent), before, context)
    if exponent != 2:
        raise NotCovered("the distribution of its input is not known beyond second moments")
    kxy = (state.kxx + state.kyy - state.d) / 2
    note = "" if state.gaussian else "squares of units that are taken as Gaussian"
    xx, yy = 3 * state.kxx.square(), 3 * state.kyy.square()
    return state.after(
        (xx, yy, xx + yy - 2 * (state.kxx * state.kyy + 2 * kxy.square())),
        distribution=KnownMeans(state.kxx, state.kyy),
        fresh=frozenset(),
        origin=None,
        status=state.status if state.gaussian else weakest(state.status, "approximate"),
        note=note,
    )


def channel_mean(state: MomentMaps, *, keepdim: bool) -> InputValues:
    """Return the mean over many channels, its expectation: one number per position."""
    x, y = (_Axes(blocks=True, positions=False).mean(mean, state.sizes)[:, 0] for mean in state.means())
    x, y = (side.unsqueeze(state.axis + 1) if keepdim else side for side in (x, y))
    status = "closed form" if state.status == "approximate" else state.status
    return InputValues(x, y, status)


@operation("var", reads=("means",))
def variance(context: Context, state: Any, dim: Any = None, *, correction: float = 1, **options: Any) -> Value:
    """Return the variance over the channels of a position."""
    keepdim = bool(options.get("keepdim", False))
    if not is_maps(state) or dim not in (-1, [-1], (-1,)) or state.axis != len(state.shape) - 1:
        raise NotCovered("it is not a variance over channels")
    centered = _centered(state, _Axes(blocks=True, positions=False))
    factor = state.channels / (state.channels - correction)
    squares = centered.after(distribution=KnownMeans(factor * centered.kxx, factor * centered.kyy))
    return channel_mean(squares, keepdim=keepdim)


@rule(_BatchNorm, reads=("positions",))
def batch_norm(module: Any, state: Any, context: Context) -> Value:
    """Apply batch norm: in evaluation an affine map.

    In training each channel is divided by its deviation over the batch of all x and y.
    """
    if isinstance(module, _InstanceNorm):
        raise NotCovered("each channel is divided by its own deviation, which stays random")
    training = context.training(module) or module.running_mean is None
    if not state.random:
        both = torch.cat([state.x, state.y])
        mean, variance = (None, None) if training else (module.running_mean, module.running_var)
        values = nn.functional.batch_norm(both, mean, variance, module.weight, module.bias, training, 0.0, module.eps)
        return InputValues(values[: len(state.x)], values[len(state.x) :], state.status)
    if training:
        return affine(batch_normalized(state, module.eps), module.weight, module.bias)
    scale = (module.running_var + module.eps).rsqrt()
    weight = scale if module.weight is None else scale * module.weight
    shift = -module.running_mean * weight
    return affine(state, weight, shift if module.bias is None else shift + module.bias)


@rule(_InstanceNorm, reads=(), fixed=True)
def instance_norm(module: Any, state: MomentMaps, context: Context) -> Value:
    """Raise an error: each channel of a sample has its own deviation, which stays random."""
    raise NotCovered("each channel is divided by its own deviation, which stays random")


class _Axes:
    """Return the axes of a statistic: blocks of channels, positions, or both."""

    def __init__(self, *, blocks: bool, positions: bool) -> None:
        self.blocks, self.positions = blocks, positions

    def mean(self, maps: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Average and keep the axes."""
        if self.blocks and maps.shape[1] > 1:
            share = torch.tensor(sizes, dtype=maps.dtype, device=maps.device) / sum(sizes)
            maps = (maps * share.reshape(-1, *(1,) * (maps.dim() - 2))).sum(dim=1, keepdim=True)
        if self.positions and maps.dim() > 2:
            maps = maps.mean(dim=tuple(range(2, maps.dim())), keepdim=True)
        return maps


def _normalized_axes(shape: Any, state: MomentMaps) -> _Axes:
    if tuple(shape) == state.shape:
        return _Axes(blocks=True, positions=True)
    if len(shape) == 1 and state.axis == len(state.shape) - 1 and shape[0] == state.channels:
        return _Axes(blocks=True, positions=False)
    raise NotCovered(f"it normalizes over {tuple(shape)} of units {state.shape}, which are not all of its channels")


def _centered(state: MomentMaps, over: _Axes) -> MomentMaps:
    if state.distribution.random_means:
        raise NotCovered("the mean over channels may be random, because an earlier step is sampled")
    mx, my = (over.mean(mean, state.sizes) for mean in state.means())
    if not bool(mx.any()) and not bool(my.any()):
        return state
    return state.shifted(mx, my)


def _divided(state: MomentMaps, over: _Axes, eps: float) -> MomentMaps:
    x, y = ((over.mean(k, state.sizes) + eps).rsqrt() for k in (state.kxx, state.kyy))
    return state.scaled(x, y)


def affine(state: MomentMaps, weight: Tensor | None, bias: Tensor | None) -> MomentMaps:
    """Return the learned scale and shift of a normalization, at initialization 1 and 0."""
    if bias is not None and bool((bias != 0).any()):
        raise NotCovered("its bias is not zero: channels have means of their own")
    if weight is None or bool((weight == 1).all()):
        return state
    shape = (-1, *(1,) * (len(state.shape) - 1 - state.axis)) if weight.dim() == 1 else tuple(weight.shape)
    return per_channel(state, weight.reshape(shape))
