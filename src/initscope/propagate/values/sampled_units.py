"""`SampledUnits`: values of units that were drawn, which any op can be run on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from initscope.geometry import weakest
from initscope.graph import SampleAxis
from initscope.propagate.heads import entropy_of
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps

if TYPE_CHECKING:
    from initscope.propagate.context import Context

__all__ = ["NO_SAMPLE_AXIS", "SampledUnits"]

NO_SAMPLE_AXIS = SampleAxis(-1)
"""Samples do not lie along one axis."""


@dataclass(frozen=True, eq=False)
class SampledUnits(InputValues):
    """Values of one drawn layer, ``[pairs, ...]``, or with the ``count`` samples along another ``sample_axis``."""

    weights: frozenset[object] = frozenset()
    sample_axis: SampleAxis | None = None
    count: int = 0
    entropy: float = math.nan
    sampled = knows_samples = True

    @classmethod
    def after(
        cls, parents: Sequence[SampledUnits], axis: SampleAxis | None, count: int, *, attends: bool = False
    ) -> Callable[[Tensor, Tensor], SampledUnits]:
        """Function that computes values of an op from those of others.

        ``attends``: they are weights of an attention.
        """
        weights = frozenset[object]().union(*(parent.weights for parent in parents))
        status = weakest(*(parent.status for parent in parents))

        def make(x: Tensor, y: Tensor) -> SampledUnits:
            where = None if x.dim() > 0 and len(x) == count == len(y) else axis or NO_SAMPLE_AXIS
            if where is not None and any(where.to_front(side, count) is None for side in (x, y)):
                where = NO_SAMPLE_AXIS
            entropy = entropy_of(x, y) if attends and x.dim() >= 3 else math.nan
            return cls(x, y, status, weights=weights, sample_axis=where, count=count, entropy=entropy)

        return make

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of one sample's output; if samples are not first, of all of them."""
        return tuple(self.x.shape[1:] if self.sample_axis is None else self.x.shape)

    @property
    def real(self) -> bool:
        """Return whether these are real values with a known sample axis."""
        return super().real and self.sample_axis is not NO_SAMPLE_AXIS

    def moments(self, axis: int, groups: int = 1) -> MomentMaps:
        """Return mean squares over the channels."""
        if self.sample_axis is not None:
            raise NotCovered("its first axis is not the sample axis")
        return super().moments(axis, groups).after(weights=self.weights, status=self.status)

    def totals(self) -> Totals:
        """Return sums over units."""
        if self.sample_axis is None or not self.real:
            return super().totals()
        x, y = (self.sample_axis.to_front(side, self.count) for side in (self.x, self.y))
        if x is None or y is None:
            raise NotCovered("it mixes samples")
        return replace(self, x=x, y=y, sample_axis=None).totals()

    def token_cosine(self, context: Context) -> float:
        """Return NaN: one draw has its own cosine."""
        return math.nan
