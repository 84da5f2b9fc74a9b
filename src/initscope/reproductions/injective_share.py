"""Probability p that a random layer is injective against α, for several numbers of inputs."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared
from initscope.theory.injectivity import full_rsb_threshold, probability, union_threshold

__all__ = ["REPRODUCTIONS", "run"]


def run(
    sizes: Sequence[int] = (2, 3, 4, 5, 6),
    alphas: Sequence[float] = (2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8),
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Curves:
    """Compute p exactly for n = 2, otherwise from ``samples`` random layers; m is α n, rounded. [Maillard2022]_"""
    rows = []
    for n in sizes:
        for m in sorted({round(alpha * n) for alpha in alphas}):
            result = probability(m, n, samples=None if n == 2 else samples, seed=seed)
            rows.append(Point(f"n = {n}", m / n, result.value, result.error))
    marks = {"Cover 3": 3.0, "full RSB": full_rsb_threshold().value, "union bound": union_threshold().value}
    return Curves(tuple(rows), "expansivity m/n", "fraction of injective layers", marks=marks)


def _holds(result: Curves) -> bool:
    """Return whether p is 0 below m = 3n - 1, grows with m, and exceeds ½ at the largest α."""
    below = all(
        row.measured == 0 for row in result.rows if round(row.x * int(row.kind[4:])) < 3 * int(row.kind[4:]) - 1
    )
    shares = [[row.measured for row in result.curve(kind)] for kind in result.kinds()]
    return below and all(values == sorted(values) for values in shares) and all(values[-1] > 0.5 for values in shares)


REPRODUCTIONS = (
    Declared(
        id="injectivity-probability",
        source="Maillard et al. 2022, 'Injectivity of ReLU networks' and first bounds",
        statement="The probability that a random layer is injective rises with m/n from 0 to 1, later for larger n.",
        produce=run,
        numbers=lambda result: result.numbers(ends=True),
        holds=_holds,
        small={"sizes": (2, 3, 4), "alphas": (2.5, 3.5, 4.5, 6.0, 8.0), "samples": 150},
    ),
)
