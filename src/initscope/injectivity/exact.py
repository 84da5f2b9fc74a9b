"""Exact arithmetic on floats: every float is an integer times a power of two, so ranks and signs need no tolerance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from initscope.injectivity._layer import Floats

__all__ = ["integers", "null_vector", "positive_circuit", "rank", "reduce", "signs", "spans"]

Rows = list[list[int]]


def integers(rows: Floats) -> Rows:
    """Return each row times the power of two that makes it integer; rank and signs of dependencies do not change."""
    result = []
    for row in rows.tolist():
        ratios = [value.as_integer_ratio() for value in row]
        scale = max(bottom for _, bottom in ratios)
        result.append([top * (scale // bottom) for top, bottom in ratios])
    return result


def reduce(rows: Rows) -> tuple[Rows, list[int]]:
    """Return the reduced rows and their pivot columns, by fraction-free Gauss–Jordan elimination (Bareiss)."""
    rows = [list(row) for row in rows]
    pivots: list[int] = []
    previous = 1
    columns = len(rows[0]) if rows else 0
    for column in range(columns):
        done = len(pivots)
        if done == len(rows):
            break
        row_index = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if row_index is None:
            continue
        rows[done], rows[row_index] = rows[row_index], rows[done]
        pivot_row = rows[done]
        pivot = pivot_row[column]
        for i, row in enumerate(rows):
            if i != done:
                factor = row[column]
                rows[i] = [(pivot * a - factor * b) // previous for a, b in zip(row, pivot_row, strict=True)]
        previous = pivot
        pivots.append(column)
    return rows, pivots


def rank(rows: Floats) -> int:
    """Return the exact rank.

    >>> rank(np.array([[0.1, 0.2], [0.2, 0.4]])), rank(np.array([[0.1, 0.3], [0.3, 0.9]]))   # 0.3 is not 3 · 0.1
    (1, 2)
    """
    return len(reduce(integers(rows))[1]) if rows.size else 0


def spans(rows: Floats) -> bool:
    """Return whether the rows span their space: exactly, or modulo two primes above 40 columns.

    Full rank modulo a prime proves full rank. A full-rank matrix has deficient rank modulo both primes with probability
    about 1e-18, unless it is constructed for that.

    >>> spans(np.eye(3)), spans(np.ones((5, 2))), spans(np.eye(50)), spans(np.tile(np.eye(50)[:49], (2, 1)))
    (True, False, True, False)
    """
    columns = rows.shape[1]
    if len(rows) < columns or not rows.any(axis=0).all():
        return False
    if columns <= 40:
        return bool(rank(rows) == columns)
    scaled = integers(rows)
    return any(_rank_modulo(scaled, prime) == columns for prime in (2_147_483_647, 2_147_483_629))


def _rank_modulo(rows: Rows, prime: int) -> int:
    """Rank over the field of ``prime`` (below 2^31) elements, by elimination in 64-bit integers."""
    left = np.array([[value % prime for value in row] for row in rows], dtype=np.int64)
    done = 0
    for column in range(left.shape[1]):
        nonzero = np.flatnonzero(left[done:, column])
        if not len(nonzero):
            continue
        pivot = done + int(nonzero[0])
        left[[done, pivot]] = left[[pivot, done]]
        left[done, column:] = left[done, column:] * pow(int(left[done, column]), -1, prime) % prime
        below = done + 1 + np.flatnonzero(left[done + 1 :, column])
        left[below, column:] = (left[below, column:] - left[below, column, None] * left[done, column:]) % prime
        done += 1
        if done == len(left):
            break
    return done


def null_vector(rows: Rows, columns: int) -> list[int] | None:
    """Return a nonzero integer vector orthogonal to every row, or None if the rows span."""
    reduced, pivots = reduce(rows)
    free = next((column for column in range(columns) if column not in pivots), None)
    if free is None:
        return None
    common = math.lcm(*(reduced[i][column] for i, column in enumerate(pivots))) if pivots else 1
    vector = [0] * columns
    vector[free] = common
    for i, column in enumerate(pivots):
        vector[column] = -reduced[i][free] * common // reduced[i][column]
    return vector


def positive_circuit(rows: Floats) -> bool:
    """True if the rows have exactly one linear dependency (up to a factor) and all its coefficients are positive."""
    transposed = [list(column) for column in zip(*integers(rows), strict=True)]
    reduced, pivots = reduce(transposed)
    size = len(rows)
    if len(pivots) != size - 1:
        return False
    free = next(column for column in range(size) if column not in pivots)
    return all(reduced[i][free] * reduced[i][column] < 0 for i, column in enumerate(pivots))


def signs(rows: Floats, z: Floats, offsets: Floats | None = None) -> Any:
    """Return exact signs of ``rows @ z + offsets``: by floating point with its error bound, or by integers."""
    terms = rows * z
    value, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
    if offsets is not None:
        value, size = value + offsets, size + np.abs(offsets)
    bound = (len(z) + 4) * np.finfo(np.float64).eps * size + (len(z) + 1) * 1e-300
    result = np.sign(value).astype(int)
    for i in np.flatnonzero(np.abs(value) <= bound):
        row = np.append(rows[i], 0.0 if offsets is None else offsets[i])
        (scaled,), (point,) = integers(row[None]), integers(np.append(z, 1.0)[None])
        total = sum(a * b for a, b in zip(scaled, point, strict=True))
        result[i] = (total > 0) - (total < 0)
    return result
