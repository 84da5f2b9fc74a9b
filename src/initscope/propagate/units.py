"""What is known of one random unit beyond its second moments: its law, from which means follow and samples are drawn.

Samples are of one unit at each position, ``[count, pairs, blocks, *positions]`` for x and for y; different positions
are drawn independently, because only moments at equal positions are taken from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate.state import Given, Maps, NotCovered
from initscope.theory._arccos import half_gap
from initscope.theory.activations import Activation

__all__ = ["Activated", "Averaged", "Constants", "Gaussian", "Known", "Parts", "Rearranged", "Rescaled", "Sampled"]
__all__ += ["Sum", "Symmetric", "Unit", "draw", "rescaled", "take"]

Pair = tuple[Tensor, Tensor]


class Unit:
    """The law of the units of a state."""

    gaussian = False
    centred = False
    """Whether all that is known is a zero mean, or that and being Gaussian: moving and scaling units keep that."""

    def means(self, state: Maps) -> Pair:
        """E x and E y, like the maps of ``state``."""
        raise NotCovered("the mean of its input is not known")

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """``count`` samples of (x, y) at each position."""
        raise NotCovered("the law of its input is not known beyond second moments")


class Gaussian(Unit):
    """Zero-mean Gaussian: sums over many random weights."""

    gaussian = True
    centred = True

    def means(self, state: Maps) -> Pair:
        """Zero."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """Two correlated normal numbers at each position."""
        _, h = half_gap(torch, state.kxx, state.kyy, state.d)
        h = h.clamp(0, 1)
        shape = (count, *state.kxx.shape)
        first, second = (
            torch.randn(shape, generator=generator, dtype=h.dtype, device=generator.device).to(h.device)
            for _ in range(2)
        )
        x, y = state.kxx.sqrt() * first, first.mul_(1 - 2 * h).add_(second.mul_(2 * (h * (1 - h)).sqrt()))
        return x, state.kyy.sqrt() * y


class Symmetric(Unit):
    """Of zero mean, and otherwise unknown: sums over few random channels."""

    centred = True

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

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """σ of samples of the state before."""
        x, y = draw(self.before, count, generator)
        return self.sigma(x), self.sigma(y)


@dataclass(frozen=True, eq=False)
class Sum(Unit):
    """A sum of independent units."""

    terms: tuple[Maps, ...]

    def means(self, state: Maps) -> Pair:
        """Means add."""
        x, y = zip(*(term.means() for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """Independent samples add."""
        x, y = zip(*(draw(term, count, generator) for term in self.terms), strict=True)
        return sum(x[1:], x[0]), sum(y[1:], y[0])


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

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """Samples follow the affine map."""
        x, y = draw(self.before, count, generator)
        return (x - self.x_shift) * self.x_scale, (y - self.y_shift) * self.y_scale


@dataclass(frozen=True, eq=False)
class Rearranged(Unit):
    """Units of another state at other places.

    ``index`` holds flattened positions (of blocks and positions together if ``flat``), -1 for a constant 0;
    ``blocks`` the chosen blocks, None for all.
    """

    before: Maps
    index: Tensor
    blocks: tuple[int, ...] | None = None
    flat: bool = False

    def means(self, state: Maps) -> Pair:
        """Means move along."""
        x, y = self.before.means()
        return self._move(x[None])[0], self._move(y[None])[0]

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """Samples move along."""
        x, y = draw(self.before, count, generator)
        return self._move(x), self._move(y)

    def _move(self, values: Tensor) -> Tensor:
        chosen = values if self.blocks is None else values[:, :, list(self.blocks)]
        return take(chosen, self.index, leading=2 if self.flat else 3)


@dataclass(frozen=True, eq=False)
class Sampled(Unit):
    """Samples kept from a step without a closed form."""

    x: Tensor
    y: Tensor

    def means(self, state: Maps) -> Pair:
        """Means over the samples."""
        return self.x.mean(dim=0), self.y.mean(dim=0)

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """The samples, from the first again when more are asked for."""
        chosen = torch.arange(count, device=self.x.device) % len(self.x)
        return self.x[chosen], self.y[chosen]


@dataclass(frozen=True, eq=False)
class Parts(Unit):
    """Channels of several states side by side."""

    parts: tuple[Maps, ...]

    def means(self, state: Maps) -> Pair:
        """Side by side."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=1), torch.cat(y, dim=1)

    def draw(self, state: Maps, count: int, generator: torch.Generator) -> Pair:
        """Side by side."""
        x, y = zip(*(draw(part, count, generator) for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)


@dataclass(frozen=True, eq=False)
class Averaged(Unit):
    """Averages over positions, of which only the means are known."""

    before: Maps
    average: Callable[[Tensor], Tensor]

    def means(self, state: Maps) -> Pair:
        """Averages of the means."""
        x, y = self.before.means()
        return self.average(x), self.average(y)


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


def draw(state: Maps, count: int, generator: torch.Generator) -> Pair:
    """Samples of a state's units."""
    if state.unit is None:
        raise NotCovered("the law of its input is not known beyond second moments")
    return state.unit.draw(state, count, generator)


def rescaled(state: Maps, x_scale: float | Tensor, y_scale: float | Tensor) -> Unit | None:
    """The law of units times a number."""
    if state.unit is None or state.unit.centred:
        return state.unit
    return Rescaled(state, x_scale, y_scale)


def take(values: Tensor, index: Tensor, leading: int = 2) -> Tensor:
    """``values`` at the flattened positions ``index``, which may be of any shape; 0 where it is -1."""
    flat = values.flatten(leading) if values.dim() > leading else values[..., None]
    taken = flat[..., index.clamp_min(0)]
    return torch.where(index < 0, torch.zeros((), dtype=taken.dtype, device=taken.device), taken)
