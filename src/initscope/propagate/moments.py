r"""The state of a batch of pairs between two layers: what a wide random network remembers of them.

For each pair and position: the second moments of a unit, ``kxx`` and ``kyy``, and the mean squared difference
``d = kxx + kyy - 2 kxy``, which keeps the digits that kxy loses near cosine 1. Before the first weights nothing is
random and the state is the pair of tensors itself (`InputValues`); behind weights it is `MomentMaps`. These also carry what is
known of a unit beyond its second moments (`Distribution`), and where covariances between positions come from (`Origin`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import Status
from initscope.propagate import loops
from initscope.propagate.bases import Cross, Distribution, Draws, Factor, Field, Lookup, Origin, Pair, Wanted
from initscope.propagate.totals import NotCovered, Totals, own_call, total
from initscope.propagate.windows import EVERY, Offset, Sites, at_both
from initscope.theory._fast import as_numpy

# fmt: off
__all__ = [
    "AffineUnits",
    "Cross",
    "Distribution",
    "Draws",
    "Factor",
    "Field",
    "InputChannels",
    "InputProducts",
    "InputValues",
    "Lookup",
    "MapSums",
    "MomentMaps",
    "NotCovered",
    "Origin",
    "Pair",
    "Scaled",
    "State",
    "Totals",
    "Wanted",
]
# fmt: on

_UNLIKE = 64.0  # ratio of two norms from which on squared differences are taken in double precision


@dataclass(frozen=True, eq=False)
class InputValues:
    """Values that no weights have touched yet: the inputs, or a fixed function of them. ``[pairs, ...]``."""

    x: Tensor
    y: Tensor
    status: Status = "closed form"
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def real(self) -> bool:
        """Whether these are real values, several for each input: no masks, no indices, no single numbers."""
        return self.x.is_floating_point() and self.x.dim() > 1

    def run(self, function: Callable[[Tensor], Tensor]) -> InputValues:
        """A fixed function of the values, which an in-place function must not overwrite."""
        return replace(self, x=own_call(function, self.x.clone()), y=own_call(function, self.y.clone()))

    @cached_property
    def _squares(self) -> Tensor:
        """Means of x², y², (x-y)² over the first axis: ``[3, pairs, *positions]``."""
        return _mean_squares(*self._sides) if self._unlike else self._as_they_are

    @cached_property
    def _as_they_are(self) -> Tensor:
        """The same in the values' own precision."""
        return _mean_squares(self.x.detach(), self.y.detach())

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Both sides, in double precision where a pair's norms are so unlike that single loses the angle."""
        x, y = self.x.detach(), self.y.detach()
        return (x.double(), y.double()) if self._unlike else (x, y)

    @cached_property
    def _unlike(self) -> bool:
        """Whether the norms of some pair are far apart."""
        xx, yy = (square.flatten(1).sum(dim=1, dtype=torch.float64) for square in self._as_they_are[:2, :, None])
        return bool(((xx > _UNLIKE**2 * yy) | (yy > _UNLIKE**2 * xx)).any())

    @cached_property
    def _norms(self) -> tuple[Tensor, Tensor]:
        """Norms of each input, in float64."""
        x, y = (torch.linalg.vector_norm(v.flatten(1), dim=1, dtype=torch.float64) for v in (self.x, self.y))
        return x, y

    def as_maps(self, axis: int, groups: int = 1) -> MomentMaps:
        """Mean squares over the channels (``axis`` of a sample) of each group, as if channels were random draws."""
        channels = self.shape[axis]
        if axis == 0 and groups == 1:
            kxx, kyy, d = self._squares[:, :, None]
        else:
            x, y = self.grouped(axis, groups)
            kxx, kyy, d = (v.square().mean(dim=2) for v in (x, y, x - y))
        sizes = (channels // groups,) * groups
        distribution, origin = InputChannels(self, axis, groups), InputProducts(self, axis, groups)
        return MomentMaps(kxx, kyy, d, sizes, self.status, axis, distribution=distribution, origin=origin, alike=False)

    def grouped(self, axis: int, groups: int) -> tuple[Tensor, Tensor]:
        """Both sides as ``[pairs, groups, channels of a group, *positions]``."""
        x, y = (side.movedim(axis + 1, 1) for side in self._sides)
        shape = (len(x), groups, self.shape[axis] // groups, *x.shape[2:])
        return x.reshape(shape), y.reshape(shape)

    @cached_property
    def _products(self) -> dict[tuple[int, int], Tensor]:
        return {}

    def products(self, axis: int, groups: int) -> Tensor:
        """Means over the channels of each group at every two positions, x's first: found once for all replicates."""
        if (axis, groups) not in self._products:
            sides = [side.double() for side in self.grouped(axis, groups)]
            both = torch.cat([side.flatten(3) if side.dim() > 3 else side[..., None] for side in sides], dim=3)
            self._products[axis, groups] = both.mT @ both / both.shape[2]
        return self._products[axis, groups]

    def totals(self) -> Totals:
        """Sums over units."""
        return self._totals

    @cached_property
    def _totals(self) -> Totals:
        xx, yy, distance = total(self._squares, kept=2) * self.shape[0]
        units = math.prod(self.shape)
        if not self._unlike:
            return Totals(xx, yy, units, distance)
        # as vectors of length 1, which no ratio of the norms troubles
        x, y = (v.flatten(1).double() / n[:, None] for v, n in zip((self.x, self.y), self._norms, strict=True))
        return Totals(xx, yy, units, given_gap=(x - y).square().sum(dim=1) / 2)


def _mean_squares(x: Tensor, y: Tensor) -> Tensor:
    """Means of x², y², (x-y)² over the first axis of a sample."""
    fused = loops.large_loops(x, y)
    if fused is not None:
        return torch.from_numpy(fused.pair_maps(as_numpy(x), as_numpy(y))).div_(x.shape[1])
    room = torch.square(x)
    return torch.stack([
        room.mean(dim=1),
        torch.square(y, out=room).mean(dim=1),
        torch.sub(x, y, out=room).square_().mean(dim=1),
    ])  # fmt: skip


@dataclass(frozen=True, eq=False)
class MapSums:
    """Maps of kxx, kyy and d as compiled loops return them, with their sums over positions, ``[3, pairs, blocks]``."""

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    sums: Tensor

    @classmethod
    def found(cls, maps: Any, sums: Any) -> MapSums:
        """From arrays ``[3, …]``."""
        kxx, kyy, d = torch.from_numpy(maps).unbind()
        return cls(kxx, kyy, d, torch.from_numpy(sums))

    def of(self, *maps: Tensor) -> tuple[Tensor, ...] | None:
        """The sums, if these are the maps that they are of."""
        same = all(one is other for one, other in zip(maps, (self.kxx, self.kyy, self.d), strict=True))
        return self.sums.unbind() if same else None


_ORDER = itertools.count()


@dataclass(frozen=True, eq=False)
class MomentMaps:
    """Second moments ``[pairs, blocks, *positions]`` of random units.

    Channels come in blocks of equal law, ``sizes`` says how many each: a convolution with groups makes as many blocks
    as it has groups, a concatenation puts blocks side by side. ``axis`` is where channels stand in a sample's shape.

    Attributes
    ----------
    unit : Law or None
        The law of a unit where it is known: Gaussian, an activation of a Gaussian, a sum … None: second moments only.
        A dual may be applied to a Gaussian unit alone.
    weights : frozenset
        The parameters (by ``id``) that the units depend on.
    fresh : frozenset
        Those whose zero-mean weights every unit is linear in, not empty only if so: what depends on none of them is
        uncorrelated with the units.
    mixed : bool
        Whether blocks are no longer runs of neighbouring channels, as after flattening.
    alike : bool
        Whether the channels of a block have one law. Those of given values and of sampled networks are averaged over
        as if they had: a factor or a mean of each channel's own cannot be applied to them.
    origin : Origin or None
        How covariances between different positions come from the states before; None where that is not known.
    part : tuple of int, or None
        Of which state, by its order, these are the channels from … to: two that do not overlap are independent.
    summed : Summed or None
        Sums over the positions, where the loop that made the maps has them.
    """

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    sizes: tuple[int, ...]
    status: Status
    axis: int = 0
    distribution: Distribution | None = None
    weights: frozenset[object] = frozenset()
    fresh: frozenset[object] = frozenset()
    origin: Origin | None = None
    mixed: bool = False
    alike: bool = True
    part: tuple[int, int, int] | None = None
    note: str = ""
    summed: MapSums | None = None
    order: int = field(default_factory=lambda: next(_ORDER))

    @property
    def gaussian(self) -> bool:
        """Whether the units are zero-mean Gaussian."""
        return self.distribution is not None and self.distribution.gaussian

    @property
    def channels(self) -> int:
        """Number of channels of the layer."""
        return sum(self.sizes)

    @property
    def positions(self) -> tuple[int, ...]:
        """Sizes of the axes that are not channels."""
        return tuple(self.kxx.shape[2:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the layer's output for one input."""
        return (*self.positions[: self.axis], self.channels, *self.positions[self.axis :])

    def means(self) -> tuple[Tensor, Tensor]:
        """E x and E y of a unit, like the maps."""
        if self.distribution is None:
            raise NotCovered("the mean of its input is not known")
        return self.distribution.means(self)

    def draw(self, sites: Sites, draws: Draws) -> Pair:
        """Samples of the units at ``sites``, 0 where there is no position."""
        x, y = self._known_law.draw(self, sites, draws)
        inside = sites.inside(self.positions)
        if bool(inside.all()):
            return x, y
        inside = inside.to(x)
        return x * inside, y * inside

    def fields(self, sites: Sites) -> Iterable[Field]:
        """The Gaussian units that drawing units at ``sites`` needs."""
        return self._known_law.fields(self, sites)

    @property
    def _known_law(self) -> Distribution:
        return Distribution() if self.distribution is None else self.distribution

    def without_samples(self) -> MomentMaps:
        """The same state, its law known by how it is drawn, with no samples kept."""
        return self if self.distribution is None else replace(self, distribution=self.distribution.without_samples())

    def totals(self) -> Totals:
        """Sums over units."""
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=self.kxx.device)
        maps = self.kxx, self.kyy, self.d
        sums = None if self.summed is None else self.summed.of(*maps)
        xx, yy, distance = ((one * sizes).sum(dim=1) for one in sums or [total(each, kept=2) for each in maps])
        return Totals(xx, yy, math.prod(self.shape), distance)

    def after(self, **changes: Any) -> MomentMaps:
        """A later state, equal to this one but for ``changes``."""
        new: dict[str, Any] = {"note": "", "order": next(_ORDER)} | changes
        return replace(self, **new)

    def scaled(self, x: float | Tensor, y: float | Tensor | None = None) -> MomentMaps:
        """The state of units multiplied by ``x`` (for the second inputs by ``y``, if that differs)."""
        a, b = x, x if y is None else y
        # E(aX - bY)² = ab d + (a - b)(a kxx - b kyy): nothing cancels where a = b
        d = a * b * self.d if a is b else a * b * self.d + (a - b) * (a * self.kxx - b * self.kyy)
        return self.after(
            kxx=a * a * self.kxx,
            kyy=b * b * self.kyy,
            d=d,
            distribution=self._rescaled(a, b),
            origin=Scaled(self, a, b),
        )

    def _rescaled(self, x: float | Tensor, y: float | Tensor) -> Distribution | None:
        return self.distribution if self.distribution is None or self.distribution.lasting else AffineUnits(self, x, y)


State = InputValues | MomentMaps


@dataclass(frozen=True, eq=False)
class InputChannels(Distribution):
    """Given values, whose channels are averaged over as if they were random."""

    given: InputValues
    axis: int
    groups: int

    def means(self, state: MomentMaps) -> Pair:
        """Means over the channels of each group."""
        x, y = self.given.grouped(self.axis, self.groups)
        return x.mean(dim=2), y.mean(dim=2)


@dataclass(frozen=True, eq=False)
class InputProducts(Origin):
    """Of given values: products, averaged over the channels of each group."""

    given: InputValues
    axis: int
    groups: int

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Nothing: the values are known."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Products of the values themselves."""
        if offset is EVERY:
            return self.given.products(self.axis, self.groups)[None]
        x, y = (side.double() for side in self.given.grouped(self.axis, self.groups))
        first, second = at_both(x, y, offset)
        return (first * second).mean(dim=3)

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Zero: no weights have touched the values."""
        return torch.zeros_like(self.cross(offset, values))


@dataclass(frozen=True, eq=False)
class AffineUnits(Distribution):
    """(unit - shift)·scale, each side with its own numbers."""

    before: MomentMaps
    x_scale: float | Tensor
    y_scale: float | Tensor
    x_shift: float | Tensor = 0.0
    y_shift: float | Tensor = 0.0

    def means(self, state: MomentMaps) -> Pair:
        """Means follow the affine map."""
        x, y = self.before.means()
        return (x - self.x_shift) * self.x_scale, (y - self.y_shift) * self.y_scale

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Samples follow the affine map."""
        x, y = self.before.draw(sites, draws)

        def at(numbers: float | Tensor) -> float | Tensor:
            return sites.take(numbers.expand(state.kxx.shape)) if isinstance(numbers, Tensor) else numbers

        return (x - at(self.x_shift)) * at(self.x_scale), (y - at(self.y_shift)) * at(self.y_scale)

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return self.before.fields(sites)

    def without_samples(self) -> Distribution:
        """The same affine map."""
        return replace(self, before=self.before.without_samples())


@dataclass(frozen=True, eq=False)
class Scaled(Origin):
    """Of units times a number, each side its own; numbers may differ from position to position."""

    before: MomentMaps
    x: float | Tensor
    y: float | Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Covariances times both factors."""
        x, y = (
            torch.as_tensor(factor, dtype=torch.float64, device=self.before.kxx.device).expand(self.before.kxx.shape)
            for factor in (self.x, self.y)
        )
        first, second = at_both(x, y, offset)
        return lookup(self.before, offset) * first * second

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """This is all."""
        return self.before, self.x, self.y
