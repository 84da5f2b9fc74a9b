"""The branching of `initscope.theory.injectivity.branching` in rational arithmetic: slow but always exact.

`decide` uses it when floating point cannot separate a point from a hull, as for rows that are dependent up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from initscope.injectivity import exact
from initscope.injectivity._layer import Floats
from initscope.injectivity.records import Certificate

__all__ = ["branch_exactly", "separate_exactly"]


def separate_exactly(points: Sequence[Sequence[int | Fraction]]) -> tuple[list[int], list[Fraction] | None]:
    """Gordan's alternative, exactly: (circuit, None), a set of points with a positive dependency, or ([], z), z·p < 0.

    Phase one of the simplex method with Bland's rule on Σ λ_i p_i = 0, Σ λ_i = 1, λ ≥ 0.
    """
    dim, count = len(points[0]), len(points)
    height = dim + 1
    table = [[Fraction(point[d]) for point in points] for d in range(dim)] + [[Fraction(1)] * count]
    table = [
        row + [Fraction(int(i == d)) for i in range(height)] + [Fraction(int(d == dim))] for d, row in enumerate(table)
    ]
    basis = [count + i for i in range(height)]
    cost = [-sum((row[j] for row in table), Fraction(0)) for j in range(count)] + [Fraction(0)] * height
    cost.append(-sum((row[-1] for row in table), Fraction(0)))
    while True:
        entering = next((j for j in range(count) if cost[j] < 0), None)
        if entering is None:
            break
        ratios = [(row[-1] / row[entering], basis[i], i) for i, row in enumerate(table) if row[entering] > 0]
        leaving = min(ratios)[2]
        pivot = table[leaving][entering]
        table[leaving] = [value / pivot for value in table[leaving]]
        for i, row in enumerate(table):
            if i != leaving and row[entering]:
                factor = row[entering]
                table[i] = [a - factor * b for a, b in zip(row, table[leaving], strict=True)]
        factor = cost[entering]
        cost = [a - factor * b for a, b in zip(cost, table[leaving], strict=True)]
        basis[leaving] = entering
    if cost[-1] == 0:
        return [basis[i] for i in range(height) if basis[i] < count and table[i][-1] > 0], None
    # The multipliers y = 1 - cost of the artificial columns satisfy y·(p, 1) ≤ 0 for every point and y·(0, 1) > 0.
    multipliers = [1 - cost[count + d] for d in range(height)]
    return [], multipliers[:dim]


def _of_size_one(row: list[int]) -> list[Fraction]:
    """Return a row divided by a power of two above its largest entry, so that all rows have similar magnitude."""
    size = 1 << max(abs(value) for value in row).bit_length()
    return [Fraction(value, size) for value in row]


def branch_exactly(weight: Floats, bias: Floats | None, go_on: Callable[[], bool]) -> Certificate | Floats | None:
    """Return a tree certificate, a witness point rounded to floats, or None if ``go_on`` returned False."""
    m, n = weight.shape
    rows = exact.integers(weight)
    points = rows if bias is None else [*exact.integers(np.column_stack([weight, bias])), [0] * n + [-1]]
    tree: list[int] = []
    inactive = set() if bias is None else {m}
    witness: list[Fraction] = []

    def closed(path: list[int]) -> bool:
        """Explore below ``path``; return False if there is a witness or the time is over."""
        if not go_on():
            return False
        spanned = len(path)
        live = [
            i
            for i in range(len(points))
            if i in inactive or (i < m and len(exact.reduce([rows[j] for j in path] + [rows[i]])[1]) > spanned)
        ]
        circuit, z = (
            separate_exactly([_of_size_one(points[i]) for i in live]) if live else ([], [Fraction(0)] * len(points[0]))
        )
        if z is not None:
            witness.extend(z)
            return False
        circuit = [live[i] for i in circuit]
        tree.extend([len(circuit), *circuit])
        children = [row for row in circuit if row not in inactive] if spanned < n - 1 else []
        for row in children:
            if not closed([*path, row]):
                return False
            inactive.add(row)
        inactive.difference_update(children)
        return True

    if closed([]):
        return Certificate.of("tree", np.array(tree, dtype=np.int32))
    if not witness:
        return None
    if bias is not None:
        if witness[-1] <= 0:
            return None
        witness = [value / witness[-1] for value in witness[:-1]]
    largest = max((abs(value) for value in witness), default=Fraction(0))
    scale = largest if bias is None and largest else Fraction(1)
    return np.array([float(value / scale) for value in witness])
