"""The Euler surrogate q of [Maillard2022]_ and the true 1 - p: exact for two inputs, from decided layers otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import (
    euler_characteristic,
    euler_crossing,
    euler_threshold,
    full_rsb_threshold,
    probability,
)

__all__ = ["REPRODUCTIONS", "crossings", "run"]


def run(
    sizes: Sequence[int] = (2, 3, 4, 5),
    alphas: Sequence[float] = (3, 3.5, 4, 5, 6, 7, 8, 9, 10),
    *,
    samples: int = 2000,
    seed: int = 0,
) -> Curves:
    """Return 1 - p (dots, with the standard error over decided layers) and q (lines), where q is below 10."""
    rows = []
    for n in sizes:
        for m in sorted({round(alpha * n) for alpha in alphas}):
            result = probability(m, n, samples=None if n == 2 else samples, seed=seed)
            surrogate = float(euler_characteristic(m, n))
            if surrogate < 10:
                rows.append(Point(f"n = {n}", m / n, 1 - result.value, result.error, surrogate))
    return Curves(tuple(rows), "expansivity m/n", "1 - p (dots) and the surrogate q (lines)")


def crossings(sizes: Sequence[int] = (5, 10, 20, 50, 100, 200, 400)) -> Curves:
    """Return where q crosses ½ for growing n, with the thresholds of the surrogate and of full RSB as lines."""
    rows = [Point("q = ½", n, euler_crossing(n)) for n in sizes]
    rows += [Point("Euler threshold", n, predicted=euler_threshold().value) for n in sizes]
    rows += [Point("full RSB", n, predicted=full_rsb_threshold().value) for n in sizes]
    return Curves(tuple(rows), "inputs n", "expansivity", "x")


def _differs(result: Curves) -> bool:
    """Return whether the surrogate differs from the truth by more than four standard errors at two points or more."""
    significant = [abs(row.measured - row.predicted) > 4 * row.standard_error + 1e-9 for row in result.rows]
    return sum(significant) >= 2


REPRODUCTIONS = (
    Declared(
        id="injectivity-euler",
        source="Maillard et al. 2022, 'Approach from integral geometry' and summary: provably wrong",
        statement="The Euler characteristic q is not the probability 1 - p that a layer is not injective.",
        produce=run,
        numbers=lambda result: {
            f"{row.kind}, α = {row.x:g}: q - (1 - p)": Number(row.predicted - row.measured, row.standard_error)
            for row in result.rows
            if 4 <= row.x <= 6
        },
        holds=_differs,
        small={"sizes": (2, 3), "alphas": (3.5, 4, 5, 6, 8), "samples": 400},
    ),
    Declared(
        id="injectivity-euler-crossing",
        source="Maillard et al. 2022, 'Approach from integral geometry': α ≈ 8.34",
        statement="The threshold of the surrogate is 8.34, and its finite-size crossings approach it from below.",
        produce=crossings,
        numbers=lambda result: {
            "threshold": Number(result.curve("Euler threshold")[0].predicted),
            **{f"q = ½ at n = {row.x:g}": Number(row.measured) for row in result.curve("q = ½")},
        },
        holds=lambda result: (
            [row.measured for row in result.curve("q = ½")] == sorted(row.measured for row in result.curve("q = ½"))
        ),
        small={"sizes": (5, 10, 20, 50, 100)},
    ),
)
