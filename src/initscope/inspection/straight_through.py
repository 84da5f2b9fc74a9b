"""`straight_through`: ops that detach on purpose, as in z + (q - z).detach(), which has the gradient of z."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from initscope.geometry import Row

__all__ = ["straight_through"]

_NESTED = 4
"""Largest number of nested sums and detachments; three terms need three."""


def straight_through(rows: Sequence[Row]) -> frozenset[int]:
    """Return the detached rows of sums z + (q - z).detach(), with the value of q and the gradient of z.

    Source: Bengio, Léonard & Courville 2013; van den Oord et al. 2017. Any order of the terms is recognized.
    """
    detached_rows: set[int] = set()
    for index, row in enumerate(rows):
        if _is_sum(row):
            terms = list(_terms(rows, index, 1, -1, _NESTED))
            live = {leaf for leaf, sign, detached in terms if sign > 0 and detached < 0}
            if any(leaf in live and sign < 0 for leaf, sign, detached in terms if detached >= 0):
                detached_rows |= {detached for _, _, detached in terms if detached >= 0}
    return frozenset(detached_rows)


def _terms(rows: Sequence[Row], index: int, sign: int, detached: int, nested: int) -> Iterator[tuple[int, int, int]]:
    """Return the terms of a sum: row, sign, and the detached row in between, or -1."""
    row = rows[index]
    if nested and _is_sum(row):
        for parent, sign_of in zip(row.reads, row.traits.summand_signs, strict=True):
            yield from _terms(rows, parent, sign * sign_of, detached, nested - 1)
    elif nested and row.traits.detaches and row.reads:
        yield from _terms(rows, row.reads[0], sign, index, nested - 1)
    else:
        yield index, sign, detached


def _is_sum(row: Row) -> bool:
    return len(row.reads) == len(row.traits.summand_signs) == 2
