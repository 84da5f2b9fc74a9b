"""The evidence for verdicts: what an observation says of angles, sizes, gradients and ranks, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats, median_over_pairs
from initscope.measurement.observation import Observation

__all__ = ["FEW_UNITS", "Evidence", "angles_kept", "first_real_row"]

FEW_UNITS = 4
"""Layers of so few units have neither angles nor a rank worth judging."""


@dataclass(frozen=True)
class Evidence:
    """What `observe` saw, as the numbers that verdicts look at: arrays with a value for every row."""

    seen: Observation

    @cached_property
    def start(self) -> int:
        """The row at which real values begin."""
        return first_real_row(self.seen)

    @cached_property
    def varied(self) -> npt.NDArray[np.bool_]:
        """Pairs whose first sample has a size to compare with: samples of zeros have none."""
        return np.asarray(np.isfinite(self.seen.norm_ratio[self.start]))

    @property
    def constant(self) -> bool:
        """Whether the samples are all equal, so that angles, ranks and units tell nothing."""
        return bool(self.seen.mean_width[self.start] >= 0 and np.isnan(self.seen.effective_rank[self.start]))

    @cached_property
    def sizes(self) -> Floats:
        """Median size per unit over the input's."""
        return median_over_pairs(self.seen.rms_ratio[:, self.varied])

    @cached_property
    def gradients(self) -> Floats:
        """Median weight gradient of the layers that have one."""
        return median_over_pairs(self.seen.gradient_ratio[:, self.varied])

    @cached_property
    def kept(self) -> Floats:
        """See `angles_kept`."""
        return angles_kept(self.seen)

    @cached_property
    def hidden(self) -> npt.NDArray[np.bool_]:
        """Rows before the last weights."""
        return np.asarray(np.arange(len(self.seen.rows)) < _last_weights(self.seen))

    @cached_property
    def ranks(self) -> Floats:
        """Effective rank, where more than a few units and samples could have one."""
        told = (_units(self.seen) > FEW_UNITS) & (self.seen.samples > FEW_UNITS)
        return np.where(told, self.seen.effective_rank, np.nan)

    @cached_property
    def most_directions(self) -> Floats:
        """Effective rank that each row could have: the data's, or the units of the narrowest layer before it."""
        return np.asarray(np.fmin(self.seen.effective_rank[self.start], np.fmin.accumulate(_units(self.seen))))

    @cached_property
    def directions(self) -> Floats:
        """Share of the directions beyond the first that the outputs differ in, by effective rank."""
        most = self.most_directions
        return np.divide(self.ranks - 1, most - 1, out=np.ones(len(most)), where=most > 1)


def first_real_row(seen: Observation) -> int:
    """The input, or the first step that makes real values of indices."""
    return int(np.argmax(np.isfinite(seen.norm_ratio).any(axis=1)))


def angles_kept(seen: Observation) -> Floats:
    """Median angle of pairs over that of the input, at every row whose angles tell something, else NaN.

    Few units have none that do. What the last weights make is left out too: a vector that is common to all outputs,
    from the bias, closes the angles there, and training moves it with the first steps. Global pooling averages places
    away by design, so that behind it angles count from those that go in.
    """
    units = _units(seen)
    judged = (units > FEW_UNITS) & (np.arange(len(units)) < _last_weights(seen))
    angles = np.where(judged, median_over_pairs(seen.angle), np.nan)
    known = np.flatnonzero(np.isfinite(angles))
    if not len(known) or not angles[known[0]] > 0:
        return np.full(len(angles), np.nan)
    start, pooled = angles[known[0]], _global_pooling(seen)
    if pooled is not None and known[0] < pooled and angles[pooled] > 0:
        angles[pooled:] *= angles[known[known < pooled][-1]] / angles[pooled]
    return np.asarray(angles / start)


def _units(seen: Observation) -> Floats:
    """Number of units of each row, NaN where it has no values."""
    return np.array([math.prod(row.shape) if row.shape else np.nan for row in seen.rows])


def _last_weights(seen: Observation) -> int:
    """The row of the last weights; the end if there are none."""
    weights = [index for index, row in enumerate(seen.rows) if row.role == "weights"]
    return weights[-1] if weights else len(seen.rows)


def _global_pooling(seen: Observation) -> int | None:
    """The row that averages all places away, for good."""
    several = [index for index, row in enumerate(seen.rows) if math.prod(row.shape[1:]) > 1]
    pooled = several[-1] + 1 if several else 0
    return pooled if pooled < len(seen.rows) and seen.rows[pooled].role == "pooling" else None
