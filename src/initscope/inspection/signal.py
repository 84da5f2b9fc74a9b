"""The path of the signal: rows that all of it passes through, rows that carry it, and rows that only weight it.

A row is on the *main path* if every path from an input to the output leads through it: layers of a plain stack, sums
of a residual stream, concatenations, pooling. Rows of a branch, inside of a norm, masks and scores are not. A row
*carries* the signal if it reaches the output other than as attention weights or as a gate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats, Row
from initscope.rendering.folding import block_names
from initscope.traits import RowStructure

__all__ = ["Signal", "signal_of"]

_ENTERING = ("input", "embedding")
"""Roles of rows at which real values enter."""
_SAME_VALUES = frozenset({"movement", "bookkeeping", "scaling"})
_SIDE_INPUT = 8
"""An input smaller than the largest by this factor is a condition: a time step, a class, a temperature."""
_GATED = 2
"""A factor of a product is a gate if it has fewer values than the other factor, by at least this factor."""


def signal_of(rows: Sequence[Row], output: int, varied: Collection[int]) -> Signal:
    """Return the graph of the rows: the same object for all samples of the weights of one architecture.

    Parameters
    ----------
    rows : sequence of Row
        Rows of an observation.
    output : int
        The row that the model returns.
    varied : collection of int
        Rows in which samples differ.

    Returns
    -------
    Signal
    """
    structure = [RowStructure(row.layer, row.role, row.shape, row.within, row.reads, row.traits) for row in rows]
    entering = [index for index, row in enumerate(rows) if row.role in _ENTERING and index in varied]
    return _signal(tuple(structure), output, frozenset(entering))


@dataclass(frozen=True)
class Signal:
    """The rows as a graph; ``output`` is the row that the model returns.

    ``varied`` are the inputs and embeddings whose values differ between samples.
    """

    rows: tuple[RowStructure, ...]
    output: int
    varied: frozenset[int] = frozenset()

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """Rows where real values enter: inputs of the model, or embeddings of indices."""
        real = [index for index, row in enumerate(self.rows) if row.role == _ENTERING[0] and row.shape]
        looked_up = [
            index
            for index, row in enumerate(self.rows)
            if row.role == _ENTERING[1] and row.shape and not any(self.rows[r].shape for r in self.before(index))
        ]
        entering = [index for index in (*real, *looked_up) if index in self.varied] or real or looked_up
        if not entering:
            entering = [index for index, row in enumerate(self.rows) if row.shape][:1]
        largest = max((self.units(index) for index in entering), default=0)
        return tuple(index for index in entering if self.units(index) * _SIDE_INPUT >= largest)

    @cached_property
    def main_path(self) -> tuple[int, ...]:
        """Rows that all paths from one of the entry rows to the output lead through, in order."""
        rows: set[int] = set()
        for start in self.entries:
            passed: dict[int, int] = {start: 1 << start}  # the rows on all paths, as bits
            for index in range(start + 1, self.output + 1):
                before = [passed[parent] for parent in self.rows[index].reads if parent in passed]
                if before:
                    common = before[0]
                    for other in before[1:]:
                        common &= other
                    passed[index] = common | 1 << index
            bits = passed.get(self.output, 0)
            rows.update(index for index in range(self.output + 1) if bits >> index & 1)
        rows.update(self.entries)
        return tuple(sorted(index for index in rows if self.rows[index].shape))

    @cached_property
    def streams(self) -> tuple[frozenset[int], ...]:
        """For each entry row, the rows computed from it and from no earlier one: each input has its own angles."""
        rows_of: dict[int, set[int]] = {start: {start} for start in self.entries}
        for index, row in enumerate(self.rows):
            made_of = [start for start in self.entries if rows_of[start].intersection(row.reads)]
            if made_of:
                rows_of[made_of[0]].add(index)
        return tuple(frozenset(rows_of[start]) for start in self.entries)

    @cached_property
    def carrying(self) -> frozenset[int]:
        """Rows that reach the output other than through attention scores or a gate."""
        main_path, seen, waiting = set(self.main_path), set[int](), [self.output]
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            waiting += [
                parent for parent in self.rows[index].reads if parent in main_path or not self._steers(parent, index)
            ]
        return frozenset(seen)

    @cached_property
    def before_weights(self) -> frozenset[int]:
        """Rows that later weights depend on, directly or not."""
        weighty = [index for index, row in enumerate(self.rows) if row.role in ("weights", "recurrent")]
        return frozenset().union(*(self.before(index) for index in weighty))

    @cached_property
    def head(self) -> int:
        """The last weights, if all of the signal passes through them; else the number of rows."""
        weights = [index for index in sorted(self.carrying) if self.rows[index].role == "weights"]
        return weights[-1] if weights and weights[-1] in self.main_path else len(self.rows)

    @cached_property
    def scoring(self) -> frozenset[int]:
        """Weights that only produce attention scores or gates: queries, keys, squeeze-and-excite."""
        ends = {self.output, *self.dangling}
        return frozenset(
            index
            for index, row in enumerate(self.rows)
            if row.role == "weights" and index not in self.carrying and index not in ends
        )

    @cached_property
    def attending(self) -> frozenset[int]:
        """Rows with attention weights: attention ops, and softmaxes that a product with values reads first."""
        rows = {index for index, row in enumerate(self.rows) if row.traits.attention == "fused"}
        for row in self.rows:
            if row.traits.product and len(row.reads) > 1:
                origin = self.origin(row.reads[0])
                if self.rows[origin].traits.attention == "weights":
                    rows.add(origin)
        return frozenset(rows)

    @cached_property
    def looked_at(self) -> frozenset[int]:
        """Rows that some entry row reaches only through scores, such as averages of another input's tokens.

        Uniform attention makes all of these averages equal, but the original tokens continue next to them.
        """
        rows: set[int] = set()
        for start in self.entries:
            reached, carried = {start}, {start}
            for index in range(start + 1, len(self.rows)):
                parents = [parent for parent in self.rows[index].reads if parent in reached]
                if parents:
                    reached.add(index)
                if any(parent in carried and not self._scores(parent, index) for parent in parents):
                    carried.add(index)
            rows |= reached - carried
        return frozenset(rows)

    @cached_property
    def dangling(self) -> frozenset[int]:
        """Rows that no other row reads: rows inside of a loop over time, and further outputs."""
        read = {parent for row in self.rows for parent in row.reads}
        return frozenset(index for index in range(len(self.rows)) if index not in read and index != self.output)

    @cached_property
    def read_by_bounded(self) -> frozenset[int]:
        """Rows that only an exponential or a bounded function reads."""
        readers: dict[int, list[int]] = {}
        for index, row in enumerate(self.rows):
            for parent in row.reads:
                readers.setdefault(parent, []).append(index)
        ends = {index for index, row in enumerate(self.rows) if row.traits.bounded or row.traits.exponential}
        bounded: set[int] = set()
        for index in reversed(range(len(self.rows))):
            if index in readers and all(r in ends or (r in bounded and self._leaves(r)) for r in readers[index]):
                bounded.add(index)
        return frozenset(bounded)

    def _leaves(self, index: int) -> bool:
        """Return whether a row leaves values unchanged, or only moves them."""
        return self.rows[index].role in _SAME_VALUES

    @cached_property
    def reductions(self) -> tuple[int, ...]:
        """Rows of the main path that average positions or select one of them: pooling, a class token, a few latent
        tokens that attend to many."""
        pairs = zip(self.main_path, self.main_path[1:], strict=False)
        kinds = ("pooling", "movement", "merge", "scaling", "attention")
        return tuple(
            after
            for before, after in pairs
            if self.rows[after].role in kinds and 2 * self.units(after) <= self.units(before)
        )

    @cached_property
    def norms(self) -> dict[int, str]:
        """Rows that normalize, with the kind of their norm."""
        normalizations = [(index, row.traits.normalizes) for index, row in enumerate(self.rows)]
        return {index: norm.kind for index, norm in normalizations if norm is not None}

    @cached_property
    def blocks(self) -> list[str]:
        """The block of every row."""
        return block_names(self.rows)

    @cached_property
    def unit_counts(self) -> Floats:
        """Number of units of each row, NaN where it has no values."""
        counts = np.array([math.prod(row.shape) if row.shape else 0 for row in self.rows], dtype=np.float64)
        return np.where(counts > 0, counts, np.nan)

    def units(self, index: int) -> int:
        """Return the number of values of a row for each sample; 0 if it has none."""
        shape = self.rows[index].shape
        return math.prod(shape) if shape else 0

    def mask(self, indices: frozenset[int] | tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return an array with one boolean per row."""
        result = np.zeros(len(self.rows), dtype=bool)
        result[list(indices)] = True
        return result

    def before(self, index: int) -> set[int]:
        """Return the rows that a row depends on."""
        seen: set[int] = set()
        waiting = list(self.rows[index].reads)
        while waiting:
            parent = waiting.pop()
            if parent not in seen:
                seen.add(parent)
                waiting += self.rows[parent].reads
        return seen

    def _scores(self, parent: int, index: int) -> bool:
        """Return whether a row reads another only as attention scores or weights."""
        row = self.rows[index]
        if row.traits.attention == "fused":
            return len(row.reads) > 2 and parent in row.reads[:2]
        return row.traits.attention == "weights"

    def _steers(self, parent: int, index: int) -> bool:
        """Return whether a row reads another only for attention weights, or as a gate."""
        if self._scores(parent, index):
            return True
        row = self.rows[index]
        if row.role != "gate" or len(row.reads) < 2:
            return False
        others = [other for other in row.reads if other != parent]
        if max(self.units(other) for other in others) >= _GATED * self.units(parent):
            return True
        return self.rows[self.origin(parent)].traits.bounded

    def origin(self, index: int) -> int:
        """Return the row that computed the values, upstream of rows that do not change them."""
        while self.rows[index].role in _SAME_VALUES and len(self.rows[index].reads) == 1:
            index = self.rows[index].reads[0]
        return index


@lru_cache(maxsize=16)
def _signal(rows: tuple[RowStructure, ...], output: int, varied: frozenset[int]) -> Signal:
    return Signal(rows, output, varied)
