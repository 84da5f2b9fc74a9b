"""Lower Lipschitz constant of random ReLU layers by expansivity: found values, their limit, and a proven bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from initscope.errors import check_between, check_count
from initscope.injectivity import stability
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import extrapolate, mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import frame_limit

__all__ = ["REPRODUCTIONS", "run"]

_LIMIT = "n → ∞: extrapolated"
_PROVEN = "n → ∞: proven lower bound"


def run(
    alphas: Sequence[float] = (8.0, 9.0, 10.0, 12.0, 15.0, 20.0),
    *,
    sizes: Sequence[int] = (10, 20, 50, 100),
    draws: int = 6,
    restarts: int = 4,
    seed: int = 0,
) -> Curves:
    """Return κ/√n of Gaussian layers by expansivity: the smallest ratio found by local search, and its proven bound.

    Found values are attained by a pair of inputs of that layer. They bound its κ from above, and a better search may
    find less. Their limit is a line in n^(-2/3), the order of the finite-size corrections of the threshold. It is an
    estimate. The bound `initscope.theory.injectivity.frame_limit` / 2 is proven. [Maillard2022]_ asks for this curve.

    Parameters
    ----------
    alphas : sequence of float
        Expansivities.
    sizes : sequence of int
        Numbers of inputs.
    draws : int
        Layers for each point.
    restarts : int
        Initial pairs of the local search, added to four at the least stable cell that is found.
    seed : int
        Seed of the weights.

    Returns
    -------
    Curves
        Means over layers with their standard errors, the extrapolation, and the proven bound.
    """
    check_count("draws", draws, least=2)
    means = np.empty((len(sizes), len(alphas), 2))
    for i, n in enumerate(sizes):
        for j, alpha in enumerate(alphas):
            shape = (round(check_between("alpha", alpha, 2.0, 1000.0) * check_count("n", n)), n)
            layers = [np.random.default_rng([seed, *shape, draw]).standard_normal(shape) for draw in range(draws)]
            ratios = [stability(layer, seconds=0, restarts=restarts, seed=seed).upper for layer in layers]
            means[i, j] = mean_and_error(np.array(ratios) / math.sqrt(n))
    rows = [
        Point(f"n = {n}: found", alpha, *map(float, means[i, j]))
        for i, n in enumerate(sizes)
        for j, alpha in enumerate(alphas)
    ]
    for j, alpha in enumerate(alphas):
        limit = extrapolate(sizes, means[:, j, 0], means[:, j, 1])
        rows.append(Point(_LIMIT, alpha, limit.value, limit.error or math.nan))
    fine = np.linspace(min(alphas), max(alphas), 60)
    rows += [Point(_PROVEN, float(alpha), predicted=float(frame_limit(alpha)) / 2) for alpha in fine]
    loose = (_LIMIT,)
    return Curves(tuple(rows), "expansivity α", "lower Lipschitz constant κ / √n", loose=loose)


def _contrary(ours: Mapping[str, Number]) -> str:
    """Name expansivities at which the found values are below the proven bound, or do not rise with α."""
    against = []
    by_kind: dict[str, list[tuple[float, Number]]] = {}
    for name, number in ours.items():
        kind, _, alpha = name.rpartition(", expansivity α ")
        by_kind.setdefault(kind, []).append((float(alpha), number))
        if Number(frame_limit(float(alpha)) / 2).exceeds(number):
            against.append(f"{name}: {number} is below the proven bound {frame_limit(float(alpha)) / 2:.3g}")
    for kind, points in by_kind.items():
        (first, smallest), (last, largest) = min(points), max(points)
        if not largest.exceeds(smallest):
            against.append(f"{kind}: {smallest} at α = {first:g}, {largest} at α = {last:g}")
    return "; ".join(against)


REPRODUCTIONS = (
    Declared(
        id="injectivity-inverse-lipschitz",
        source="Maillard et al. 2022, outlook: 'Stability: Lipschitz constant of the inverse'",
        statement="Above the threshold the inverse of a random layer is Lipschitz with a constant of order 1/√n, which "
        "improves with the expansivity.",
        produce=run,
        numbers=lambda result: {
            name: number for name, number in result.numbers().items() if not name.startswith(_PROVEN)
        },
        contrary=_contrary,
        small={"alphas": (10.0, 20.0), "sizes": (6, 12), "draws": 3, "restarts": 1},
        full={"alphas": (8.0, 10.0, 12.0, 15.0, 20.0), "draws": 4, "restarts": 2},
    ),
)
