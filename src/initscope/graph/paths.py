"""Paths through rows that read each other: readers of a row, rows on all paths, branches and joins.

Rows are numbers; ``reads[i]`` are the rows whose values row i reads, all of them before i. Nodes of a graph and rows of
a result have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Branch", "ancestors", "branches", "main_path", "readers"]

Reads = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Branch:
    """One path between two neighboring rows of the main path.

    Attributes
    ----------
    start, end : int
        Return the rows of the main path at which it branches and joins.
    rows : tuple of int
        The rows on it, in order; empty for a skip connection.
    """

    start: int
    end: int
    rows: tuple[int, ...]


def readers(reads: Reads) -> tuple[tuple[int, ...], ...]:
    """Return for every row the rows that read it.

    Parameters
    ----------
    reads : sequence of sequences of int
        For every row those that it reads.

    Returns
    -------
    tuple of tuples of int

    >>> readers([(), (0,), (0, 1)])
    ((1, 2), (2,), ())
    """
    readers: list[list[int]] = [[] for _ in reads]
    for index, parents in enumerate(reads):
        for parent in dict.fromkeys(parents):
            readers[parent].append(index)
    return tuple(map(tuple, readers))


def ancestors(reads: Reads, index: int) -> set[int]:
    """Return the rows that a row is made of.

    Parameters
    ----------
    reads : sequence of sequences of int
        For every row those that it reads.
    index : int
        A row.

    Returns
    -------
    set of int

    >>> ancestors([(), (0,), (1,), (0,)], 2)
    {0, 1}
    """
    seen: set[int] = set()
    waiting = list(reads[index])
    while waiting:
        parent = waiting.pop()
        if parent not in seen:
            seen.add(parent)
            waiting += reads[parent]
    return seen


def main_path(reads: Reads, sources: Iterable[int], output: int) -> tuple[int, ...]:
    """Return the rows that all ways from a start to the output lead through, in order.

    Parameters
    ----------
    reads : sequence of sequences of int
        For every row those that it reads.
    sources : iterable of int
        Rows where values enter.
    output : int
        The row that the model returns.

    Returns
    -------
    tuple of int

    >>> main_path([(), (0,), (1,), (1, 2), (3,)], sources=[0], output=4)    # row 2 is a residual branch
    (0, 1, 3, 4)
    """
    visited: set[int] = set()
    for source in sources:
        passed: dict[int, int] = {source: 1 << source}  # the rows on all ways, as bits
        for index in range(source + 1, output + 1):
            before = [passed[parent] for parent in reads[index] if parent in passed]
            if before:
                common = before[0]
                for other in before[1:]:
                    common &= other
                passed[index] = common | 1 << index
        bits = passed.get(output, 0)
        visited.update(index for index in range(output + 1) if bits >> index & 1)
        visited.add(source)
    return tuple(sorted(visited))


def branches(reads: Reads, path: Sequence[int]) -> tuple[Branch, ...]:
    """Return the parallel paths between neighboring rows of the main path.

    Parameters
    ----------
    reads : sequence of sequences of int
        For every row those that it reads.
    path : sequence of int
        The main path.

    Returns
    -------
    tuple of Branch

    >>> branches([(), (0,), (1,), (1, 2), (3,)], (0, 1, 3, 4))
    (Branch(start=1, end=3, rows=()), Branch(start=1, end=3, rows=(2,)))
    """
    branches = []
    for start, end in pairwise(path):
        parents = dict.fromkeys(reads[end])
        if len(parents) < 2:
            continue
        for parent in parents:
            on_way = {parent, *ancestors(reads, parent)}
            branches.append(Branch(start, end, tuple(row for row in sorted(on_way) if start < row < end)))
    return tuple(branches)
