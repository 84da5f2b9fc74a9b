"""The evidence for verdicts: what an observation says of angles, sizes, gradients and ranks, row by row.

Rows that do not carry the signal (see `Signal`) hold NaN: the inside of norms, masks, scores, gates, branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats, median_over_pairs
from initscope.inspection.blocks import block_names
from initscope.inspection.signal import Signal
from initscope.measurement.observation import Observation

__all__ = ["FEW_UNITS", "Evidence"]

FEW_UNITS = 4
"""Layers of so few units have neither angles nor a rank worth judging."""
_PARALLEL = 1e-3
"""Degrees between samples below which an input is the same for all of them."""


@dataclass(frozen=True)
class Evidence:
    """What `observe` saw, as the numbers that verdicts look at: arrays with a value for every row."""

    seen: Observation

    @cached_property
    def signal(self) -> Signal:
        """The graph of the rows."""
        rows = self.seen.rows
        angles = median_over_pairs(self.seen.angle)
        varied = frozenset(int(index) for index in np.flatnonzero(angles > _PARALLEL))
        return Signal(rows, self.seen.output % len(rows), varied)

    @cached_property
    def blocks(self) -> list[str]:
        """The block of every row."""
        return block_names(self.seen.rows)

    @cached_property
    def start(self) -> int:
        """The row at which real values begin."""
        return self.signal.starts[0] if self.signal.starts else 0

    @cached_property
    def varied(self) -> npt.NDArray[np.bool_]:
        """Pairs whose first sample has a size to compare with: samples of zeros have none."""
        return np.asarray(np.isfinite(self.seen.norm_ratio[self.start]))

    @property
    def constant(self) -> bool:
        """Whether the samples are all equal, so that angles, ranks and units tell nothing."""
        return bool(self.seen.mean_width[self.start] >= 0 and np.isnan(self.seen.effective_rank[self.start]))

    @cached_property
    def trunk(self) -> npt.NDArray[np.bool_]:
        """Rows that all of the signal passes."""
        return self.signal.mask(self.signal.trunk)

    @cached_property
    def hidden(self) -> npt.NDArray[np.bool_]:
        """Rows before the head."""
        return np.asarray(np.arange(len(self.seen.rows)) < self.signal.head)

    @cached_property
    def carrying(self) -> npt.NDArray[np.bool_]:
        """Rows that carry the signal, branches too."""
        return self.signal.mask(self.signal.carrying)

    @cached_property
    def told(self) -> npt.NDArray[np.bool_]:
        """Rows that carry the signal, and the gates inside of loops over time."""
        return self.carrying | self.signal.mask(self.signal.dangling)

    @cached_property
    def sizes(self) -> Floats:
        """Median size per unit over the input's, on the trunk."""
        return np.where(self.trunk, median_over_pairs(self.seen.rms_ratio[:, self.varied]), np.nan)

    @cached_property
    def gradients(self) -> Floats:
        """Median weight gradient of the layers that have one, all of them."""
        return median_over_pairs(self.seen.gradient_ratio[:, self.varied])

    @cached_property
    def block_gradients(self) -> Floats:
        """At the first weights of each block, the geometric mean of the gradients of its layers that carry the signal.

        Queries, keys and gates are left out: their gradients are below the others by nature (Noci et al. 2022).
        """
        counted = self.carrying & (self.gradients > 0)
        result = np.full(len(self.seen.rows), np.nan)
        for block in dict.fromkeys(self.blocks):
            members = [index for index in np.flatnonzero(counted) if self.blocks[index] == block]
            if members:
                result[members[0]] = np.exp(np.log(self.gradients[members]).mean())
        return result

    @cached_property
    def kept(self) -> Floats:
        """Median angle of pairs over that of the input, at every row of the trunk whose angles tell something, else NaN.

        Few units have none that do. What the last weights make is left out too: a vector that is common to all outputs,
        from the bias, closes the angles there, and training moves it with the first steps. Pooling averages places
        away by design, and the token of a class is one of many, so that behind these angles count from those that go
        in.
        """
        judged = self.trunk & self.hidden & (self.units > FEW_UNITS)
        angles = np.where(judged, median_over_pairs(self.seen.angle), np.nan)
        known = np.flatnonzero(np.isfinite(angles))
        if not len(known) or not angles[known[0]] > 0:
            return np.full(len(angles), np.nan)
        start = angles[known[0]]
        for reduced in self.signal.reductions:
            before = known[known < reduced]
            if len(before) and angles[reduced] > 0:
                angles[reduced:] *= angles[before[-1]] / angles[reduced]
        return np.asarray(angles / start)

    @cached_property
    def ranks(self) -> Floats:
        """Effective rank on the trunk before the head, where more than a few units and samples could have one."""
        told = self.trunk & self.hidden & (self.units > FEW_UNITS) & (self.seen.samples > FEW_UNITS)
        return np.where(told, self.seen.effective_rank, np.nan)

    @cached_property
    def most_directions(self) -> Floats:
        """Effective rank that each row could have: the data's, or the units of the narrowest layer before it."""
        units = np.where(self.trunk, self.units, np.nan)
        return np.asarray(np.fmin(self.seen.effective_rank[self.start], np.fmin.accumulate(units)))

    @cached_property
    def directions(self) -> Floats:
        """Share of the directions beyond the first that the outputs differ in, by effective rank."""
        most = self.most_directions
        return np.divide(self.ranks - 1, most - 1, out=np.ones(len(most)), where=most > 1)

    @cached_property
    def units(self) -> Floats:
        """Number of units of each row, NaN where it has no values."""
        counts = np.array([self.signal.units(index) for index in range(len(self.seen.rows))], dtype=np.float64)
        return np.where(counts > 0, counts, np.nan)
