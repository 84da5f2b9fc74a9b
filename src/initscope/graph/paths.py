"""Ways through rows that read each other: who reads what, what all ways pass, where ways part and join.

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
    """One way between two neighbours of the main path.

    Attributes
    ----------
    start, end : int
        The rows of the main path where it leaves and joins.
    rows : tuple of int
        The rows on it, in order; empty for a skip connection.
    """

    start: int
    end: int
    rows: tuple[int, ...]


def readers(reads: Reads) -> tuple[tuple[int, ...], ...]:
    """Return for every row those that read it.

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
    found: list[list[int]] = [[] for _ in reads]
    for index, parents in enumerate(reads):
        for parent in dict.fromkeys(parents):
            found[parent].append(index)
    return tuple(map(tuple, found))


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


def main_path(reads: Reads, starts: Iterable[int], output: int) -> tuple[int, ...]:
    """Return the rows that all ways from a start to the output lead through, in order.

    Parameters
    ----------
    reads : sequence of sequences of int
        For every row those that it reads.
    starts : iterable of int
        Rows where values enter.
    output : int
        The row that the model returns.

    Returns
    -------
    tuple of int

    >>> main_path([(), (0,), (1,), (1, 2), (3,)], starts=[0], output=4)    # row 2 is a residual branch
    (0, 1, 3, 4)
    """
    found: set[int] = set()
    for start in starts:
        passed: dict[int, int] = {start: 1 << start}  # the rows on all ways, as bits
        for index in range(start + 1, output + 1):
            before = [passed[parent] for parent in reads[index] if parent in passed]
            if before:
                common = before[0]
                for other in before[1:]:
                    common &= other
                passed[index] = common | 1 << index
        bits = passed.get(output, 0)
        found.update(index for index in range(output + 1) if bits >> index & 1)
        found.add(start)
    return tuple(sorted(found))


def branches(reads: Reads, path: Sequence[int]) -> tuple[Branch, ...]:
    """Return the ways between neighbours of the main path, where there are several.

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
    found = []
    for start, end in pairwise(path):
        parents = dict.fromkeys(reads[end])
        if len(parents) < 2:
            continue
        for parent in parents:
            on_way = {parent, *ancestors(reads, parent)}
            found.append(Branch(start, end, tuple(row for row in sorted(on_way) if start < row < end)))
    return tuple(found)
