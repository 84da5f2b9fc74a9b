"""Up to which expansivity a search finds collisions of random ReLU layers, compared with the thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.errors import check_between, check_count
from initscope.injectivity import find_collision
from initscope.injectivity.collision import colliding_pair
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.injectivity.replica import FULL_RSB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "CollisionCurve", "CollisionPoint", "run"]


@dataclass(frozen=True)
class CollisionPoint(Result):
    """Number of ``collisions`` in ``draws`` layers; ``seconds`` and ``energy`` (fewest active / n) are medians."""

    n: int
    alpha: float
    draws: int
    collisions: int
    seconds: float
    energy: float


@dataclass(frozen=True)
class CollisionCurve(Result):
    """Result of `run`, one point per size and expansivity."""

    budget: float
    points: tuple[CollisionPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point."""
        return [point.to_dict() for point in self.points]

    def reached(self, n: int) -> float:
        """Return the largest expansivity at which half of the layers of size n have a known collision, or 0."""
        return max(
            (point.alpha for point in self.points if point.n == n and 2 * point.collisions >= point.draws), default=0.0
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the fraction of layers with a collision against the expansivity, with the full-RSB threshold."""
        ax = make_axes(ax, figsize=(6.4, 3.6))
        for n in sorted({point.n for point in self.points}):
            mine = sorted((point for point in self.points if point.n == n), key=lambda point: point.alpha)
            ax.plot([p.alpha for p in mine], [p.collisions / p.draws for p in mine], "o-", ms=4, label=f"n = {n}")
        ax.axvline(FULL_RSB, color="black", lw=1, ls="--", label="full RSB 6.698")
        ax.set(xlabel="expansivity m/n", ylabel="fraction with a collision", ylim=(-0.03, 1.03))
        ax.set_title(f"Witness search, {self.budget:g} s per layer", fontsize=10)
        ax.legend(fontsize=8)
        return ax


def run(
    sizes: Sequence[int] = (50, 200, 1000),
    alphas: Sequence[float] = (5.0, 5.5, 6.0, 6.2, 6.4, 6.6),
    *,
    draws: int = 5,
    seconds: float = 60,
    seed: int = 0,
) -> CollisionCurve:
    """Search Gaussian layers for collisions with `find_collision`, ``seconds`` per layer.

    Every collision is confirmed with exact signs. Below the true threshold of a size, a miss is a failure of the
    search; above it there are no collisions.
    """
    draws = check_count("draws", draws)
    points: list[CollisionPoint] = []
    for n in sizes:
        for alpha in alphas:
            m = round(check_between("alpha", alpha, 0.0, 100.0) * check_count("n", n))
            layers = [np.random.default_rng([seed, n, m, draw]).standard_normal((m, n)) for draw in range(draws)]
            results = [find_collision(layer, seconds=seconds, seed=seed) for layer in layers]
            collisions = sum(
                result.found and colliding_pair(layer, None, result.point) is not None
                for layer, result in zip(layers, results, strict=True)
            )
            points.append(
                CollisionPoint(
                    n,
                    alpha,
                    draws,
                    collisions,
                    float(np.median([result.seconds for result in results])),
                    float(np.median([result.fewest_active for result in results])) / n,
                )
            )
    return CollisionCurve(seconds, tuple(points))


_NEAR = 0.9
"""Up to this fraction of the full-RSB threshold the search must find a collision in every layer."""


def _contrary(ours: Mapping[str, Number]) -> str:
    """Name points near the threshold with a layer without collision, and points far above it with a collision."""
    misses, refuting = [], []
    for name, number in ours.items():
        alpha = float(name.rpartition("α = ")[2])
        if alpha <= _NEAR * FULL_RSB and number.value < 1:
            misses.append(f"{name}: {number.value:.2f}")
        if alpha > 2 * FULL_RSB and number.value > 0:
            refuting.append(f"{name}: {number.value:.2f}")
    if misses:
        return f"the search misses collisions below {_NEAR:g} of the threshold {FULL_RSB:.3f} ({'; '.join(misses)})"
    return f"there are collisions far above the threshold ({'; '.join(refuting)})" if refuting else ""


REPRODUCTIONS = (
    Declared(
        id="injectivity-collisions",
        source="Maillard et al. 2022, the injectivity threshold, tried by search",
        statement="Below the threshold of random layers a search finds collisions, in every layer up to 0.9 of it; far "
        "above there are none.",
        produce=run,
        numbers=lambda curve: {
            f"found at n = {point.n}, α = {point.alpha:g}": Number(point.collisions / point.draws)
            for point in curve.points
        },
        contrary=_contrary,
        small={"sizes": (12,), "alphas": (4.0, 30.0), "draws": 2, "seconds": 0.3},
        full={"alphas": (5.0, 5.5, 6.0, 6.4), "draws": 3, "seconds": 20},
    ),
)
