"""Base classes of knowledge about random units beyond second moments: their distribution, and their origin.

A `Distribution` answers questions about one unit, an `Origin` about its covariances between positions. Subclasses say
how both follow from earlier values; for every question that they cannot answer, they raise `NotCovered` with the
reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import Offset, Sites

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.context import Context
    from initscope.propagate.values.inputs import InputValues
    from initscope.propagate.values.moment_maps import MomentMaps
    from initscope.theory.activations import Activation

__all__ = ["Cross", "Distribution", "Draws", "Factor", "Field", "Lookup", "Origin", "Pair", "Shares", "Wanted"]

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
Shares = list[tuple["MomentMaps", Tensor]]
"""Gradients ``[2·pairs, blocks, P, P]`` at each of the values before."""
Expression = tuple["MomentMaps", Callable[[Any], Any]]
"""A Gaussian value, and a function of its units."""


@dataclass(frozen=True)
class Draws:
    """Number of samples to draw, their random numbers, and a source of covariances between positions."""

    count: int
    generator: torch.Generator
    lookup: Lookup

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return standard normal numbers, of the type and on the device of ``like``."""
        numbers = torch.randn(shape, generator=self.generator, dtype=like.dtype, device=self.generator.device)
        return numbers.to(like.device)


class Distribution:
    """The distribution of a unit; this class knows nothing, see `initscope.propagate.distributions` for those that do.

    A sample is one unit at all `Sites` that one output reads, jointly: ``[count, pairs, blocks, shifts, *size]`` for x
    and for y. Outputs are drawn independently, because only moments within the sites of one output are used.
    """

    known = True
    """Whether anything is known beyond second moments."""
    gaussian = False
    zero_mean = False
    stable = False
    """Whether scaled, moved and averaged units have this distribution too."""
    random_means = False
    """Whether the mean over channels may itself be random, as after a sampled network."""
    activation: Activation | None = None
    """The activation, of units that are one of Gaussian units ``before``."""
    stacked_parts: tuple[MomentMaps, ...] = ()
    """The values whose channels these are, one after the other."""
    joined_parts: tuple[MomentMaps, ...] = ()
    """The values whose positions these are, one after the other."""
    input_values: InputValues | None = None
    """The values themselves, where no weights have touched them."""
    written_out = False
    """Whether it is part of an activation that the model writes out in ops of its own."""

    @property
    def sampler(self) -> Distribution:
        """Return the way to draw units that were not drawn yet."""
        return self

    def means(self, state: MomentMaps) -> Pair:
        """Return E x and E y, shaped like the maps of ``state``."""
        if self.zero_mean:
            zero = torch.zeros_like(state.kxx)
            return zero, zero
        raise NotCovered("the mean of its input is not known")

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Samples of (x, y) at ``sites``."""
        raise NotCovered("the distribution of its input is not known beyond second moments")

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """The Gaussian units that `draw` draws."""
        raise NotCovered("the distribution of its input is not known beyond second moments")

    def without_samples(self) -> Distribution:
        """Return the same distribution, defined by how it is drawn, without stored samples."""
        return self

    def activated_gram(self, sigma: Activation) -> Tensor | None:
        """Exact second moments over the whole batch of ``sigma`` of these units, if there is a formula."""
        return None

    def expression(self, state: MomentMaps) -> Expression | None:
        """Return the Gaussian value and the elementwise function that give the units of ``state``."""
        return None

    def token_values(self, state: MomentMaps, context: Context) -> Pair:
        """New values of all units of tokens, ``[pairs, tokens, channels]`` for x and for y."""
        raise NotCovered("the distribution of its input is not known beyond second moments")

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Some channels at all positions, drawn for gradients: ``[count, 2·pairs, blocks, P]``."""
        raise NotCovered("the distribution of its units is not known beyond second moments")

    def parents(self) -> tuple[MomentMaps, ...]:
        """The values that gradients reach from units that were drawn."""
        raise NotCovered("this step has no rule for gradients")

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Return gradients at the parents, from those at ``state``, whose units were drawn."""
        raise NotCovered("this step has no rule for gradients")


class Origin(ABC):
    """How a value's covariances at an offset follow from earlier values; see `initscope.propagate.covariances`.

    Gradients pass back along the same origins: `transposed` is the transpose of `cross`.
    """

    knows_offsets = True
    """Whether covariances are known at single offsets, not only of all positions together."""
    gram_cost = 1
    """What an entry of a Gram matrix over positions costs."""
    grouped: Pair | None = None
    """Input values ``[pairs, groups, channels of a group, *positions]``, where no weights have touched them."""
    elementwise_of: MomentMaps | None = None
    """The value that this one is a function of, unit by unit."""
    through_samples = False
    """Whether gradients pass through values that were sampled."""

    @abstractmethod
    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return the covariances that `cross` will look up."""

    @abstractmethod
    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """The covariances at ``offset``."""

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Return how the covariances change when those of every layer of weights change (`tangents.tangent`).

        Most origins are linear: changes are propagated as the covariances themselves.
        """
        return self.cross(offset, tangents)

    def cost(self, offset: Offset) -> int:
        """Cost of an entry of `cross`, relative to a formula."""
        return 1

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """Return the value whose units these are, times a number for each position of x and of y.

        None if they are not.
        """
        return None

    def constant_factor(self) -> tuple[MomentMaps, float] | None:
        """Return the Gaussian value whose units these are, times one number for all of them."""
        return None

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return the share of the rows of an embedding table in the units, see `rules.tied.table_shares`."""
        raise NotCovered("another step reads its weights in a different way")

    def batch_parent(self) -> MomentMaps | None:
        """Return the value whose covariance over the whole batch `batch_gram` reads; None if it reads nothing."""
        raise NotCovered("the covariance of the whole batch is not known")

    def batch_gram(self, before: Tensor) -> Tensor:
        """Covariance of a dense layer's unit over the whole batch, x first: ``[2·pairs, 2·pairs]``."""
        raise NotCovered("the covariance of the whole batch is not known")

    def layers(self, state: MomentMaps) -> tuple[MomentMaps, ...]:
        """Return the values directly after weights that ``state``, of this origin, consists of.

        Empty if it consists of others.
        """
        return ()

    def weight_squares(self, gradients: Tensor, channels: Channels) -> Tensor | None:
        """E of the squared norm of the gradient of a layer's own weights, for each sample."""
        return None

    def parents(self) -> tuple[MomentMaps, ...]:
        """The values that gradients reach from this one."""
        raise NotCovered("this step has no rule for gradients")

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Return gradients at the parents, from those at ``state``."""
        return [(before, self.back(gradients, channels)) for before in self.parents()]

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Gradients at the only parent."""
        raise NotCovered("this step has no rule for gradients")
