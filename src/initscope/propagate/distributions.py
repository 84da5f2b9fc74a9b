"""What is known of one random unit beyond its second moments: its law, from which means follow and samples are drawn.

`GaussianUnits` where many random weights are summed; the others say how a unit comes from those of the state before, and pass
the question on. What is scaled or given is in `initscope.propagate.moments`, what was drawn in `draws`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from initscope.propagate.draws import gaussian_draws
from initscope.propagate.duals import means
from initscope.propagate.moments import Distribution, Draws, Field, MomentMaps, NotCovered, Pair
from initscope.propagate.windows import Offset, Sites
from initscope.theory._arccos import half_gap
from initscope.theory.activations import Activation

__all__ = [
    "WRITTEN_OUT",
    "ActivatedUnits",
    "GaussianUnits",
    "JoinedUnits",
    "KnownMeans",
    "MovedUnits",
    "StackedUnits",
    "SummedUnits",
    "WindowUnits",
    "ZeroMeanUnits",
    "take",
]


WRITTEN_OUT = "written out"
"""Name of an activation that was put together from a model's own steps and is none of the catalogue."""


class GaussianUnits(Distribution):
    """Zero-mean Gaussian: sums over many random weights."""

    gaussian = True
    lasting = True

    def means(self, state: MomentMaps) -> Pair:
        """Zero."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Two correlated normal numbers at each position, or as many as there are sites."""
        if len(sites.shifts) > 1:
            return gaussian_draws(state, sites, draws)
        kxx, kyy, d = (sites.take(maps) for maps in (state.kxx, state.kyy, state.d))
        _, h = half_gap(torch, kxx, kyy, d)
        h = h.clamp(0, 1)
        first, second = (draws.normal((draws.count, *kxx.shape), like=h) for _ in range(2))
        x, y = kxx.sqrt() * first, first.mul_(1 - 2 * h).add_(second.mul_(2 * (h * (1 - h)).sqrt()))
        return x, kyy.sqrt() * y

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Themselves."""
        return ((state, sites),)


class ZeroMeanUnits(Distribution):
    """Of zero mean, and otherwise unknown: sums over few random channels."""

    lasting = True

    def means(self, state: MomentMaps) -> Pair:
        """Zero."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero


@dataclass(frozen=True, eq=False)
class ActivatedUnits(Distribution):
    """An activation of the units of another state."""

    sigma: Activation
    before: MomentMaps

    def means(self, state: MomentMaps) -> Pair:
        """E σ of a Gaussian."""
        return means(self.sigma, self.before.kxx, self.before.kyy)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """σ of samples of the state before."""
        x, y = self.before.draw(sites, draws)
        return self.sigma(x), self.sigma(y)

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return self.before.fields(sites)

    def without_samples(self) -> Distribution:
        """The same of the state before."""
        return replace(self, before=self.before.without_samples())


@dataclass(frozen=True, eq=False)
class SummedUnits(Distribution):
    """A sum of independent units."""

    terms: tuple[MomentMaps, ...]

    def means(self, state: MomentMaps) -> Pair:
        """Means add."""
        x, y = zip(*(term.means() for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Independent samples add."""
        x, y = zip(*(term.draw(sites, draws) for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of every term."""
        return [one for term in self.terms for one in term.fields(sites)]

    def without_samples(self) -> Distribution:
        """The same of every term."""
        return SummedUnits(tuple(term.without_samples() for term in self.terms))


@dataclass(frozen=True, eq=False)
class MovedUnits(Distribution):
    """Units of another state at other places.

    ``index`` holds flattened positions (of blocks and positions together if ``flat``), -1 for a constant 0;
    ``blocks`` the chosen blocks, None for all; ``whole`` says whether a unit is one unit of the other state everywhere.
    """

    before: MomentMaps
    index: Tensor
    blocks: tuple[int, ...] | None = None
    flat: bool = False
    whole: bool = True

    def means(self, state: MomentMaps) -> Pair:
        """Means move along."""
        x, y = self.before.means()
        return self._move(x), self._move(y)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Samples move along."""
        x, y = self.before.draw(self._below(sites), draws)
        if self._in_place:
            return self._chosen(x, 2), self._chosen(y, 2)
        x, y = (self._move(side[:, :, :, 0].flatten(0, 1)) for side in (x, y))
        shape = (draws.count, -1, *x.shape[1:])
        return sites.take(x.reshape(shape)), sites.take(y.reshape(shape))

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of the state before."""
        return self.before.fields(self._below(sites))

    def without_samples(self) -> Distribution:
        """The same of the state before."""
        return replace(self, before=self.before.without_samples())

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
class StackedUnits(Distribution):
    """Channels of several states side by side."""

    parts: tuple[MomentMaps, ...]

    def means(self, state: MomentMaps) -> Pair:
        """Side by side."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=1), torch.cat(y, dim=1)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Side by side."""
        x, y = zip(*(part.draw(sites, draws) for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of every part."""
        return [one for part in self.parts for one in part.fields(sites)]

    def without_samples(self) -> Distribution:
        """The same of every part."""
        return StackedUnits(tuple(part.without_samples() for part in self.parts))


@dataclass(frozen=True, eq=False)
class JoinedUnits(Distribution):
    """Positions of several states one after the other."""

    parts: tuple[MomentMaps, ...]

    def means(self, state: MomentMaps) -> Pair:
        """One after the other."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)


@dataclass(frozen=True, eq=False)
class WindowUnits(Distribution, ABC):
    """A function of the window of units that each position reads: their largest, their mean, a random filter of them.

    ``taps`` are where the window of position 0 begins and ends, in the state before; windows move by ``stride``.
    """

    before: MomentMaps
    stride: tuple[int, ...]
    taps: tuple[Offset, ...]

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """The function of samples of whole windows."""
        below = sites.through(self.stride, self.taps)
        shape = (len(sites.shifts), len(self.taps))
        inside = below.inside(self.before.positions).to(self.before.kxx.device).reshape(*shape, *sites.size)
        x, y = (side.reshape(*side.shape[:3], *shape, *sites.size) for side in self.windows(below, draws))
        return self.reduce(x, y, inside, draws)

    def windows(self, below: Sites, draws: Draws) -> Pair:
        """Samples of the units that are read."""
        return self.before.draw(below, draws)

    @abstractmethod
    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The function, over axis 4 of ``[count, pairs, blocks, shifts, taps, *size]``; ``inside`` from axis 3 on."""

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of the windows."""
        return self.before.fields(sites.through(self.stride, self.taps))

    def without_samples(self) -> Distribution:
        """The same of the state before."""
        return replace(self, before=self.before.without_samples())


@dataclass(frozen=True, eq=False)
class KnownMeans(Distribution):
    """Nothing but the means."""

    x: Tensor
    y: Tensor

    def means(self, state: MomentMaps) -> Pair:
        """The means."""
        return self.x, self.y


def take(values: Tensor, index: Tensor, leading: int = 2) -> Tensor:
    """``values`` at the flattened positions ``index``, which may be of any shape; 0 where it is -1."""
    flat = values.flatten(leading) if values.dim() > leading else values[..., None]
    taken = flat[..., index.clamp_min(0)]
    return torch.where(index < 0, torch.zeros((), dtype=taken.dtype, device=taken.device), taken)
