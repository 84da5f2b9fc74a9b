r"""What the backward recursion reads of the forward one: Gram matrices over positions, and channels drawn from them.

Both inputs of a pair are samples here: arrays are ``[2·pairs, blocks, ...]``, the x first. Positions are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from initscope.propagate.distributions import ActivatedUnits, MovedUnits, StackedUnits, SummedUnits, WindowUnits, take
from initscope.propagate.draws import Empirical, factor_of
from initscope.propagate.moments import AffineUnits, Cross, Distribution, InputChannels, MomentMaps, NotCovered, Origin
from initscope.propagate.origins import Activations
from initscope.propagate.rules.pooling import WindowMaximum, WindowMean
from initscope.propagate.windows import EVERY, Offset

__all__ = ["MOST_POSITIONS", "Channels", "law_of", "places_of", "positions_of"]

MOST_POSITIONS = 1024
"""Positions of a layer from which on its Gram matrices take too much: an image of 32 x 32."""
_WORK = 1 << 25  # entries of all Gram matrices, times the taps of filters: some ten seconds
_INTEGRATED = 128  # of them is an entry worth behind an activation without a closed form
_ENTRIES = 1 << 22  # of gradients that are known channel by channel
_FEWEST, _MOST = 16, 4096


def positions_of(state: MomentMaps) -> int:
    """Number of positions, 1 where there is no axis of them."""
    return math.prod(state.positions)


def law_of(state: MomentMaps) -> Distribution | None:
    """The law of a unit, by how it is drawn."""
    return state.distribution.law if isinstance(state.distribution, Empirical) else state.distribution


def places_of(law: WindowUnits, positions: tuple[int, ...]) -> Tensor:
    """The flattened position that each tap reads for every one of ``positions``, ``[taps, P]``, -1 where none is."""
    rows = []
    for tap in law.taps:
        place, inside = torch.zeros((), dtype=torch.long), torch.ones((), dtype=torch.bool)
        for size, count, stride, shift in zip(law.before.positions, positions, law.stride, tap, strict=True):
            line = torch.arange(count) * stride + shift
            place, inside = (
                place[..., None] * size + line.clamp(0, size - 1),
                inside[..., None] & (line >= 0) & (line < size),
            )
        rows.append(torch.where(inside, place, -1).flatten())
    return torch.stack(rows)


class Channels:
    """Gram matrices of states, and values of some of their channels, each found once and remembered."""

    def __init__(self, generator: torch.Generator, origins: Mapping[int, Origin]) -> None:
        """``origins``: where states come from that the walk sampled as a whole, by their order."""
        self._generator, self._origins = generator, origins
        self._grams: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}
        self._count = 0
        self._spent = 0

    def known(self, state: MomentMaps) -> MomentMaps:
        """A state with its origin, if that is known better than the walk knows it."""
        return replace(state, origin=self._origins[state.order]) if state.order in self._origins else state

    def gram(self, state: MomentMaps) -> Tensor:
        """E h_p h_p' of a unit: ``[2·pairs, blocks, P, P]``."""
        for one in self._unknown(state):
            self._grams[one.order] = self._found(one)
        return self._grams[state.order]

    def variance(self, state: MomentMaps) -> Tensor:
        """E h_p²: ``[2·pairs, blocks, P]``."""
        return torch.cat([state.kxx, state.kyy]).double().reshape(2 * len(state.kxx), len(state.sizes), -1)

    def values(self, state: MomentMaps) -> Tensor:
        """Some channels of a state at all positions, jointly with those of other states: ``[count, 2·pairs, …, P]``."""
        if state.order not in self._values:
            self._values[state.order] = self._drawn(state)
        return self._values[state.order]

    def mean(self, gradients: Tensor) -> Tensor:
        """Gradients that are known channel by channel (``[count, …]``), on the average over these."""
        return gradients.mean(dim=0) if gradients.dim() == 5 else gradients

    def gaussian(self, root: Tensor, count: int) -> Tensor:
        """Numbers with covariance root·rootᵀ, ``[…, P, count]``."""
        normal = torch.randn((*root.shape[:-1], count), generator=self._generator, dtype=root.dtype)
        return root @ normal

    def release(self, order: int) -> None:
        """Forget what is known of a state, which nobody asks for any more."""
        self._grams.pop(order, None)
        self._values.pop(order, None)

    def _unknown(self, state: MomentMaps) -> list[MomentMaps]:
        """States whose Gram matrices are needed for this one, in their order."""
        found: dict[int, MomentMaps] = {}
        stack = [state]
        while stack:
            one = self.known(stack.pop())
            if one.order in self._grams or one.order in found:
                continue
            if positions_of(one) > MOST_POSITIONS:
                raise NotCovered(f"gradients need the covariances between {positions_of(one)} positions")
            found[one.order] = one
            if positions_of(one) > 1 and one.origin is not None:
                stack += [source for source, offset in one.origin.sources(EVERY) if offset is EVERY]
        self._spent += sum(positions_of(one) ** 2 * _taps(one) for one in found.values())
        if self._spent > _WORK:
            raise NotCovered(
                f"gradients need the covariances between all positions of its layers: {self._spent:.1e} entries "
                f"(bound: {_WORK:.1e})"
            )
        return [found[order] for order in sorted(found)]

    def _found(self, state: MomentMaps) -> Tensor:
        if positions_of(state) == 1:
            return self.variance(state)[..., None]
        if state.origin is None:
            if state.gaussian:  # whose values would be drawn by this very matrix
                raise NotCovered("the covariances between its positions are not known")
            values = self.values(state)
            return torch.einsum("cnbp,cnbq->nbpq", values, values) / len(values)
        both = state.origin.cross(EVERY, self._lookup)[0]
        half = both.shape[-1] // 2
        return torch.cat([both[..., :half, :half], both[..., half:, half:]])

    def _lookup(self, state: MomentMaps, offset: Offset) -> Cross:
        """What `Origin.cross` reads: x and y are samples by themselves here, and nothing is between them."""
        x, y = self._grams[state.order].chunk(2)
        zero = torch.zeros_like(x)
        return torch.cat([torch.cat([x, zero], dim=-1), torch.cat([zero, y], dim=-1)], dim=-2)[None]

    def _drawn(self, state: MomentMaps) -> Tensor:
        law = law_of(state)
        if state.gaussian:
            root = factor_of(self.gram(state))
            count = self._how_many(root)
            return self.gaussian(root, count).movedim(-1, 0)
        if isinstance(law, ActivatedUnits):
            result: Tensor = law.sigma(self.values(law.before))
            return result
        if isinstance(law, SummedUnits):
            return torch.stack([self.values(term) for term in law.terms]).sum(dim=0)
        if isinstance(law, AffineUnits):
            shift, scale = (
                torch.cat([_like(one, state) for one in both])
                for both in ((law.x_shift, law.y_shift), (law.x_scale, law.y_scale))
            )
            return (self.values(law.before) - shift) * scale
        if isinstance(law, StackedUnits):
            return torch.cat([self.values(part) for part in law.parts], dim=2)
        if isinstance(law, InputChannels):
            return self._channels_of(law)
        if isinstance(law, (WindowMaximum, WindowMean)):
            return self._windows(law, state.positions)
        if isinstance(law, MovedUnits) and law.whole and not law.flat and law.blocks is None:
            return take(self.values(law.before), law.index.flatten(), leading=3)
        raise NotCovered("the law of its units is not known beyond second moments")

    def _how_many(self, root: Tensor) -> int:
        """Channels that are drawn: the same number for all states, that of the first that asks."""
        if not self._count:
            size = len(root) * root.shape[-1] ** 2
            self._count = min(_MOST, max(_FEWEST, _ENTRIES // size))
        return self._count

    def _channels_of(self, law: InputChannels) -> Tensor:
        """Channels of given values, chosen at random."""
        sides = torch.cat(law.given.grouped(law.axis, law.groups)).double().flatten(3)
        sides = sides[..., None] if sides.dim() == 3 else sides
        count = self._how_many(sides)
        chosen = torch.randint(sides.shape[2], (count,), generator=self._generator)
        return sides[:, :, chosen].movedim(2, 0)

    def _windows(self, law: WindowUnits, positions: tuple[int, ...]) -> Tensor:
        values, places = self.values(law.before), places_of(law, positions)
        read = values[..., places.clamp_min(0)]
        if isinstance(law, WindowMean):
            return read.mean(dim=-2)
        return read.masked_fill(places < 0, -math.inf).amax(dim=-2)


def _taps(state: MomentMaps) -> int:
    """What an entry of a Gram matrix costs: one for each tap of a filter, many if it is integrated, one for itself."""
    if isinstance(state.origin, Activations) and state.origin.sigma.integrated:
        return _INTEGRATED
    windows = getattr(state.origin, "windows", None)
    return 1 + (0 if windows is None else int(windows.taps))


def _like(numbers: float | Tensor, state: MomentMaps) -> Tensor:
    """Numbers of an affine map for every position: ``[pairs, blocks, P]``."""
    shape: Sequence[int] = (len(state.kxx), len(state.sizes), positions_of(state))
    return torch.as_tensor(numbers, dtype=torch.float64).expand(state.kxx.shape).reshape(shape)
