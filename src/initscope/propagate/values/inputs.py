"""`InputValues`: tensors that no random weights have touched, for both sides of the pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.geometry import Status, weakest
from initscope.propagate import loops
from initscope.propagate.bases import Cross, Distribution, Factor, Lookup, Origin, Pair, Wanted
from initscope.propagate.totals import NotCovered, Totals, own_call, total
from initscope.propagate.values.base import Value
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.values.unit_view import UnitView
from initscope.propagate.windows import EVERY, Offset, at_both
from initscope.theory._fast import as_numpy

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.context import Context

__all__ = ["InputChannels", "InputProducts", "InputValues"]

_UNLIKE = 64.0  # ratio of two norms from which on squared differences are taken in double precision


@dataclass(frozen=True, eq=False)
class InputValues(Value):
    """Values before any weights: the inputs, or a fixed function of them. ``[pairs, ...]``."""

    x: Tensor
    y: Tensor
    status: Status = "closed form"
    note: str = ""
    random = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def real(self) -> bool:
        """Whether these are real values, several for each input: no masks, no indices, no single numbers."""
        return self.x.is_floating_point() and self.x.dim() > 1

    @property
    def zero(self) -> bool:
        """Whether all values are zero."""
        return not bool(self.x.any()) and not bool(self.y.any())

    def run(self, function: Callable[[Tensor], Any]) -> InputValues:
        """Return a fixed function of the values, which an in-place function must not overwrite."""
        return replace(self, x=own_call(function, self.x.clone()), y=own_call(function, self.y.clone()))

    def moved(self, operation: Callable[[Tensor], Any]) -> Any:
        """Return the operation on the values; several results are a tuple."""
        x, y = own_call(operation, self.x.clone()), own_call(operation, self.y.clone())
        if isinstance(x, Tensor):
            return InputValues(x, y, self.status)
        return tuple(InputValues(a, b, self.status) for a, b in zip(x, y, strict=True))

    def scaled(self, x: Factor, y: Factor | None = None) -> InputValues:
        """Return the values times the factors."""
        return replace(self, x=self.x * x, y=self.y * (x if y is None else y), note="")

    def plus(self, other: InputValues) -> InputValues:
        """Return the sum of both."""
        return InputValues(self.x + other.x, self.y + other.y, weakest(self.status, other.status))

    @cached_property
    def _squares(self) -> Tensor:
        """Means of x², y², (x-y)² over the first axis: ``[3, pairs, *positions]``."""
        return _mean_squares(*self._sides) if self._unlike else self._as_they_are

    @cached_property
    def _as_they_are(self) -> Tensor:
        """The same in the values' own precision."""
        return _mean_squares(self.x.detach(), self.y.detach())

    @cached_property
    def _sides(self) -> Pair:
        """Return both sides, in double precision if the norms of a pair differ so much that single loses the angle."""
        x, y = self.x.detach(), self.y.detach()
        return (x.double(), y.double()) if self._unlike else (x, y)

    @cached_property
    def _unlike(self) -> bool:
        """Whether the norms of some pair are far apart."""
        xx, yy = (square.flatten(1).sum(dim=1, dtype=torch.float64) for square in self._as_they_are[:2, :, None])
        return bool(((xx > _UNLIKE**2 * yy) | (yy > _UNLIKE**2 * xx)).any())

    def moments(self, axis: int, groups: int = 1) -> MomentMaps:
        """Mean squares over the channels (``axis`` of a sample) of each group, as if channels were random draws."""
        if axis == 0 and groups == 1:
            kxx, kyy, d = self._squares[:, :, None]
        else:
            x, y = self.grouped(axis, groups)
            kxx, kyy, d = (v.square().mean(dim=2) for v in (x, y, x - y))
        return MomentMaps(
            kxx,
            kyy,
            d,
            sizes=(self.shape[axis] // groups,) * groups,
            status=self.status,
            axis=axis,
            distribution=InputChannels(self, axis, groups),
            origin=InputProducts(self, axis, groups),
            alike=False,
        )

    def grouped(self, axis: int, groups: int) -> Pair:
        """Return both sides as ``[pairs, groups, channels of a group, *positions]``."""
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
        """Return sums over units."""
        if not self.real:
            raise NotCovered("its output is not one value per unit")
        return self._totals

    @cached_property
    def _totals(self) -> Totals:
        xx, yy, distance = total(self._squares, kept=2)[0] * self.shape[0]
        units = math.prod(self.shape)
        if not self._unlike:
            return Totals(xx, yy, units, distance)
        # as vectors of length 1, which no ratio of the norms troubles
        flat = [side.flatten(1) for side in (self.x, self.y)]
        norms = [torch.linalg.vector_norm(side, dim=1, dtype=torch.float64) for side in flat]
        x, y = (side.double() / norm[:, None] for side, norm in zip(flat, norms, strict=True))
        return Totals(xx, yy, units, given_gap=(x - y).square().sum(dim=1) / 2)

    def token_cosine(self, context: Context) -> float:
        """Return the shape of their second moments."""
        return self.moments(1).token_cosine(context) if self.real and len(self.shape) == 2 else math.nan

    def units(self) -> UnitView:
        """Return all values of tokens."""
        if not self.x.is_floating_point():
            raise NotCovered("whole numbers have no moments")
        return self.moments(1).units() if len(self.shape) == 2 else super().units()

    def placeholder(self) -> Tensor:
        """Return the values themselves."""
        return self.x


def _mean_squares(x: Tensor, y: Tensor) -> Tensor:
    """Return means of x², y², (x-y)² over the first axis of a sample."""
    fused = loops.large_loops(x, y)
    if fused is not None:
        return torch.from_numpy(fused.pair_maps(as_numpy(x), as_numpy(y))).div_(x.shape[1])
    buffer = torch.square(x)
    return torch.stack([
        buffer.mean(dim=1),
        torch.square(y, out=buffer).mean(dim=1),
        torch.sub(x, y, out=buffer).square_().mean(dim=1),
    ])  # fmt: skip


@dataclass(frozen=True, eq=False)
class InputChannels(Distribution):
    """Channels of input values, averaged over as if they were random."""

    values: InputValues
    axis: int
    groups: int

    @property
    def input_values(self) -> InputValues | None:  # type: ignore[override]
        """The values."""
        return self.values

    def means(self, state: MomentMaps) -> Pair:
        """Return means over the channels of each group."""
        x, y = self.values.grouped(self.axis, self.groups)
        return x.mean(dim=2), y.mean(dim=2)

    def token_values(self, state: MomentMaps, context: Context) -> Pair:
        """Return the values themselves."""
        return self.values.x, self.values.y

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return channels chosen at random."""
        sides = torch.cat(self.values.grouped(self.axis, self.groups)).double().flatten(3)
        return channels.chosen(sides[..., None] if sides.dim() == 3 else sides)


@dataclass(frozen=True, eq=False)
class InputProducts(Origin):
    """Origin of input values: products, averaged over the channels of each group."""

    values: InputValues
    axis: int
    groups: int

    @property
    def grouped(self) -> Pair:  # type: ignore[override]
        """The values, group by group."""
        return self.values.grouped(self.axis, self.groups)

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return nothing, because the values are known."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return products of the values themselves."""
        if offset is EVERY:
            return self.values.products(self.axis, self.groups)[None]
        x, y = (side.double() for side in self.grouped)
        first, second = at_both(x, y, offset)
        return (first * second).mean(dim=3)

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Return zero, because no weights act on the values."""
        return torch.zeros_like(self.cross(offset, values))

    def batch_parent(self) -> MomentMaps | None:
        """Return None, because the values are known."""
        return None

    def batch_gram(self, before: Tensor) -> Tensor:
        """Return products of the values of all samples."""
        values = torch.cat([self.values.x, self.values.y]).double()
        return values @ values.T / values.shape[1]

    def parents(self) -> tuple[MomentMaps, ...]:
        """None, unless the values were drawn: gradients end there."""
        return super().parents() if self.values.sampled else ()
