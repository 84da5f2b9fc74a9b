"""What is known of one random unit beyond its second moments: its law, from which means follow and samples are drawn.

A sample is one unit at the `Sites` that one output reads, jointly: ``[count, pairs, blocks, shifts, *size]`` for x and
for y. Different outputs are drawn independently, because only moments within the sites of one are taken from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from initscope.propagate.budget import Memory
from initscope.propagate.joint import Draws, gaussian_draws
from initscope.propagate.offsets import Offset
from initscope.propagate.sites import Sites
from initscope.propagate.state import Given, Maps, NotCovered
from initscope.theory._arccos import half_gap
from initscope.theory.activations import Activation

__all__ = [
    "Activated",
    "Constants",
    "Field",
    "Gaussian",
    "Known",
    "Parts",
    "Rearranged",
    "Remembered",
    "Rescaled",
    "Sampled",
    "Sum",
]
__all__ += ["Symmetric", "Unit", "Windowed", "draw", "fields", "rescaled", "take", "without_samples"]

Pair = tuple[Tensor, Tensor]
Field = tuple[Maps, Sites]
"""Gaussian units, and where they are drawn."""


class Unit:
    """The law of the units of a state."""

    gaussian = False
    lasting = False
    """Whether scaling, moving and averaging units gives units of which as much is known."""

    def means(self, state: Maps) -> Pair:
        """E x and E y, like the maps of ``state``."""
        raise NotCovered("the mean of its input is not known")

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Samples of (x, y) at ``sites``."""
        raise NotCovered("the law of its input is not known beyond second moments")

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """The Gaussian units that `draw` draws."""
        raise NotCovered("the law of its input is not known beyond second moments")


class Gaussian(Unit):
    """Zero-mean Gaussian: sums over many random weights."""

    gaussian = True
    lasting = True

    def means(self, state: Maps) -> Pair:
        """Zero."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Two correlated normal numbers at each position, or as many as there are sites."""
        if len(sites.shifts) > 1:
            return gaussian_draws(state, sites, draws)
        kxx, kyy, d = (sites.take(maps) for maps in (state.kxx, state.kyy, state.d))
        _, h = half_gap(torch, kxx, kyy, d)
        h = h.clamp(0, 1)
        first, second = (draws.normal((draws.count, *kxx.shape), like=h) for _ in range(2))
        x, y = kxx.sqrt() * first, first.mul_(1 - 2 * h).add_(second.mul_(2 * (h * (1 - h)).sqrt()))
        return x, kyy.sqrt() * y

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Themselves."""
        return ((state, sites),)


class Symmetric(Unit):
    """Of zero mean, and otherwise unknown: sums over few random channels."""

    lasting = True

    def means(self, state: Maps) -> Pair:
        """Zero."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero


@dataclass(frozen=True, eq=False)
class Activated(Unit):
    """An activation of the units of another state."""

    sigma: Activation
    before: Maps

    def means(self, state: Maps) -> Pair:
        """E σ of a Gaussian."""
        return self.sigma.mean(self.before.kxx), self.sigma.mean(self.before.kyy)

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """σ of samples of the state before."""
        x, y = draw(self.before, sites, draws)
        return self.sigma(x), self.sigma(y)

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return fields(self.before, sites)


@dataclass(frozen=True, eq=False)
class Sum(Unit):
    """A sum of independent units."""

    terms: tuple[Maps, ...]

    def means(self, state: Maps) -> Pair:
        """Means add."""
        x, y = zip(*(term.means() for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Independent samples add."""
        x, y = zip(*(draw(term, sites, draws) for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of every term."""
        return [one for term in self.terms for one in fields(term, sites)]


@dataclass(frozen=True, eq=False)
class Rescaled(Unit):
    """(unit - shift)·scale, each side with its own numbers."""

    before: Maps
    x_scale: float | Tensor
    y_scale: float | Tensor
    x_shift: float | Tensor = 0.0
    y_shift: float | Tensor = 0.0

    def means(self, state: Maps) -> Pair:
        """Means follow the affine map."""
        x, y = self.before.means()
        return (x - self.x_shift) * self.x_scale, (y - self.y_shift) * self.y_scale

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Samples follow the affine map."""
        x, y = draw(self.before, sites, draws)

        def at(numbers: float | Tensor) -> float | Tensor:
            return sites.take(numbers.expand(state.kxx.shape)) if isinstance(numbers, Tensor) else numbers

        return (x - at(self.x_shift)) * at(self.x_scale), (y - at(self.y_shift)) * at(self.y_scale)

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return fields(self.before, sites)


@dataclass(frozen=True, eq=False)
class Rearranged(Unit):
    """Units of another state at other places.

    ``index`` holds flattened positions (of blocks and positions together if ``flat``), -1 for a constant 0;
    ``blocks`` the chosen blocks, None for all; ``whole`` says whether a unit is one unit of the other state everywhere.
    """

    before: Maps
    index: Tensor
    blocks: tuple[int, ...] | None = None
    flat: bool = False
    whole: bool = True

    def means(self, state: Maps) -> Pair:
        """Means move along."""
        x, y = self.before.means()
        return self._move(x), self._move(y)

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Samples move along."""
        x, y = draw(self.before, self._below(sites), draws)
        if self._in_place:
            return self._chosen(x, 2), self._chosen(y, 2)
        x, y = (self._move(side[:, :, :, 0].flatten(0, 1)) for side in (x, y))
        shape = (draws.count, -1, *x.shape[1:])
        return sites.take(x.reshape(shape)), sites.take(y.reshape(shape))

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return fields(self.before, self._below(sites))

    @property
    def _in_place(self) -> bool:
        """Whether positions stay where they are, and only the axis of the channels moves."""
        same = self.whole and not self.flat and tuple(self.index.shape) == self.before.positions
        return same and bool((self.index.flatten() == torch.arange(self.index.numel())).all())

    def _below(self, sites: Sites) -> Sites:
        if self._in_place:
            return sites
        if len(sites.shifts) > 1:
            raise NotCovered("the units it reads together were moved from other places")
        return Sites.aligned(self.before.positions)

    def _chosen(self, values: Tensor, axis: int) -> Tensor:
        if self.blocks is None:
            return values
        return values.index_select(axis, torch.tensor(self.blocks, device=values.device))

    def _move(self, values: Tensor) -> Tensor:
        """``[leading, blocks, *positions]`` at the new places."""
        return take(self._chosen(values, 1), self.index, leading=1 if self.flat else 2)


@dataclass(frozen=True, eq=False)
class Sampled(Unit):
    """Samples kept from a step without a closed form, ``[count, pairs, blocks, *positions]``, and the law of others."""

    x: Tensor
    y: Tensor
    law: Unit

    def means(self, state: Maps) -> Pair:
        """Means over the samples."""
        return self.x.mean(dim=0), self.y.mean(dim=0)

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """The samples, from the first again when more are asked for; at several sites together new ones."""
        if len(sites.shifts) > 1:
            return self.law.draw(state, sites, draws)
        chosen = torch.arange(draws.count, device=self.x.device) % len(self.x)
        return sites.take(self.x[chosen]), sites.take(self.y[chosen])

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """None for kept samples."""
        return self.law.fields(state, sites) if len(sites.shifts) > 1 else ()


@dataclass(frozen=True, eq=False)
class Remembered(Unit):
    """Another law, whose joint samples are kept for a while, so that a chain of such steps is drawn once."""

    law: Unit
    memory: Memory

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """As the law draws, or what it drew there."""
        key = (self, sites, draws.count)
        found = self.memory.get(key)
        if found is None:
            found = self.law.draw(state, sites, draws)
            self.memory.put(key, found)
        return found

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the law."""
        return self.law.fields(state, sites)


@dataclass(frozen=True, eq=False)
class Parts(Unit):
    """Channels of several states side by side."""

    parts: tuple[Maps, ...]

    def means(self, state: Maps) -> Pair:
        """Side by side."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=1), torch.cat(y, dim=1)

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """Side by side."""
        x, y = zip(*(draw(part, sites, draws) for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of every part."""
        return [one for part in self.parts for one in fields(part, sites)]


@dataclass(frozen=True, eq=False)
class Windowed(Unit, ABC):
    """A function of the window of units that each position reads: their largest, their mean, a random filter of them.

    ``taps`` are where the window of position 0 begins and ends, in the state before; windows move by ``stride``.
    """

    before: Maps
    stride: tuple[int, ...]
    taps: tuple[Offset, ...]

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """The function of samples of whole windows."""
        below = sites.through(self.stride, self.taps)
        shape = (len(sites.shifts), len(self.taps))
        inside = below.inside(self.before.positions).to(self.before.kxx.device).reshape(*shape, *sites.size)
        x, y = (side.reshape(*side.shape[:3], *shape, *sites.size) for side in self.windows(below, draws))
        return self.reduce(x, y, inside, draws)

    def windows(self, below: Sites, draws: Draws) -> Pair:
        """Samples of the units that are read."""
        return draw(self.before, below, draws)

    @abstractmethod
    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The function, over axis 4 of ``[count, pairs, blocks, shifts, taps, *size]``; ``inside`` from axis 3 on."""

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the windows."""
        return fields(self.before, sites.through(self.stride, self.taps))


@dataclass(frozen=True, eq=False)
class Known(Unit):
    """Nothing but the means."""

    x: Tensor
    y: Tensor

    def means(self, state: Maps) -> Pair:
        """The means."""
        return self.x, self.y


@dataclass(frozen=True, eq=False)
class Constants(Unit):
    """Given values, whose channels are averaged over as if they were random."""

    given: Given
    axis: int
    groups: int

    def means(self, state: Maps) -> Pair:
        """Means over the channels of each group."""
        x, y = self.given.grouped(self.axis, self.groups)
        return x.mean(dim=2), y.mean(dim=2)


def draw(state: Maps, sites: Sites, draws: Draws) -> Pair:
    """Samples of a state's units at ``sites``, 0 where there is no position."""
    x, y = _law(state).draw(state, sites, draws)
    inside = sites.inside(state.positions)
    if bool(inside.all()):
        return x, y
    inside = inside.to(x)
    return x * inside, y * inside


def fields(state: Maps, sites: Sites) -> Iterable[Field]:
    """The Gaussian units that drawing a state's units at ``sites`` needs."""
    return _law(state).fields(state, sites)


def _law(state: Maps) -> Unit:
    if state.unit is None:
        raise NotCovered("the law of its input is not known beyond second moments")
    return state.unit


def without_samples(unit: Unit) -> Unit:
    """The same law, known by how it is drawn, with no samples kept."""

    def bare(state: Maps) -> Maps:
        return state if state.unit is None else replace(state, unit=without_samples(state.unit))

    if isinstance(unit, Sampled):
        return unit.law
    if isinstance(unit, Sum):
        return Sum(tuple(map(bare, unit.terms)))
    if isinstance(unit, Parts):
        return Parts(tuple(map(bare, unit.parts)))
    if isinstance(unit, (Activated, Rescaled, Rearranged, Windowed)):
        return replace(unit, before=bare(unit.before))
    return unit


def rescaled(state: Maps, x_scale: float | Tensor, y_scale: float | Tensor) -> Unit | None:
    """The law of units times a number."""
    if state.unit is None or state.unit.lasting:
        return state.unit
    return Rescaled(state, x_scale, y_scale)


def take(values: Tensor, index: Tensor, leading: int = 2) -> Tensor:
    """``values`` at the flattened positions ``index``, which may be of any shape; 0 where it is -1."""
    flat = values.flatten(leading) if values.dim() > leading else values[..., None]
    taken = flat[..., index.clamp_min(0)]
    return torch.where(index < 0, torch.zeros((), dtype=taken.dtype, device=taken.device), taken)
