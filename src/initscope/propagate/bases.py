"""What is known of a state beyond its second moments, as its bases: the law of a unit, where covariances come from.

See `initscope.propagate.distributions` and `initscope.propagate.origins` for those that know something.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import Offset, Sites

if TYPE_CHECKING:
    from initscope.propagate.moments import MomentMaps

__all__ = ["Cross", "Distribution", "Draws", "Factor", "Field", "Lookup", "Origin", "Pair", "Wanted"]

Pair = tuple[Tensor, Tensor]
Factor = float | Tensor
Cross = Tensor
"""E of x_p x_q, y_p y_q, x_p y_q, y_p x_q with q = p + offset, at every p for which q exists.

Stacked in this order, in float64: ``[4, pairs, blocks, *positions]``.
"""

Lookup = Callable[["MomentMaps", Offset], Cross]
Wanted = tuple["MomentMaps", Offset]
Field = tuple["MomentMaps", Sites]
"""Gaussian units, and where they are drawn."""


@dataclass(frozen=True)
class Draws:
    """How many samples to draw, with which random numbers, and where covariances between positions are found."""

    count: int
    generator: torch.Generator
    lookup: Lookup

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Standard normal numbers, of the type and on the device of ``like``."""
        numbers = torch.randn(shape, generator=self.generator, dtype=like.dtype, device=self.generator.device)
        return numbers.to(like.device)


class Distribution:
    """The law of the units of a state: nothing is known here, see `initscope.propagate.distributions` for those that know.

    A sample is one unit at the `Sites` that one output reads, jointly: ``[count, pairs, blocks, shifts, *size]`` for x
    and for y. Outputs are drawn independently, because only moments within the sites of one are taken from them.
    """

    gaussian = False
    lasting = False
    """Whether scaling, moving and averaging units gives units of which as much is known."""

    def means(self, state: MomentMaps) -> Pair:
        """E x and E y, like the maps of ``state``."""
        raise NotCovered("the mean of its input is not known")

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Samples of (x, y) at ``sites``."""
        raise NotCovered("the law of its input is not known beyond second moments")

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """The Gaussian units that `draw` draws."""
        raise NotCovered("the law of its input is not known beyond second moments")

    def without_samples(self) -> Distribution:
        """The same law, known by how it is drawn, with no samples kept."""
        return self


class Origin(ABC):
    """How a state's covariances at an offset come from earlier states; see `initscope.propagate.covariances`."""

    @abstractmethod
    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """What `cross` will look up."""

    @abstractmethod
    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """The covariances at ``offset``."""

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """How the covariances move when those of every layer of weights move by themselves (`tangents.tangent`).

        Most origins are linear: what moves goes the way of what is.
        """
        return self.cross(offset, tangents)

    def work(self, offset: Offset) -> int:
        """What an entry of the result costs, against a formula."""
        return 1

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """The state whose units these are, times a number for each position of x and of y; None: they are more."""
        return None
