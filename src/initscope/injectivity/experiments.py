"""Two questions about random layers, as functions: how far up does the witness search reach, how stable is the inverse?

`collision_curve` sets the search against the thresholds; `stability_curve` measures the constant A against α, the open
question at the end of Maillard et al. 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._results import Result, make_axes
from initscope.errors import InputError, check_between, check_count
from initscope.injectivity._progress import bar
from initscope.injectivity.collision import colliding_pair
from initscope.injectivity.frames import cell_minimum
from initscope.injectivity.search import find_collision

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CollisionCurve", "CollisionPoint", "StabilityCurve", "StabilityPoint", "collision_curve", "stability_curve"]


@dataclass(frozen=True)
class CollisionPoint(Result):
    """Of ``draws`` Gaussian layers, how many had a collision found; ``seconds`` and ``fewest_active``/n are medians."""

    n: int
    alpha: float
    draws: int
    found: int
    seconds: float
    energy: float


@dataclass(frozen=True)
class CollisionCurve(Result):
    """Outcome of `collision_curve`, one point per size and expansivity."""

    budget: float
    points: tuple[CollisionPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per point."""
        return [point.to_dict() for point in self.points]

    def reached(self, n: int) -> float:
        """The largest expansivity at which at least half of the layers of this size had a collision found (0: none)."""
        return max(
            (point.alpha for point in self.points if point.n == n and 2 * point.found >= point.draws), default=0.0
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of collisions found against the expansivity, with the full-RSB threshold."""
        from initscope.theory.injectivity.replica import FULL_RSB

        ax = make_axes(ax, figsize=(6.4, 3.6))
        for n in sorted({point.n for point in self.points}):
            mine = sorted((point for point in self.points if point.n == n), key=lambda point: point.alpha)
            ax.plot([p.alpha for p in mine], [p.found / p.draws for p in mine], "o-", ms=4, label=f"n = {n}")
        ax.axvline(FULL_RSB, color="black", lw=1, ls="--", label="full RSB 6.698")
        ax.set(xlabel="expansivity m/n", ylabel="collisions found", ylim=(-0.03, 1.03))
        ax.set_title(f"Witness search, {self.budget:g} s per layer", fontsize=10)
        ax.legend(fontsize=8)
        return ax


def collision_curve(
    sizes: Sequence[int] = (50, 200, 1000),
    alphas: Sequence[float] = (5.0, 5.5, 6.0, 6.2, 6.4, 6.6),
    *,
    draws: int = 5,
    seconds: float = 60,
    seed: int = 0,
    progress: bool = False,
) -> CollisionCurve:
    """Up to which expansivity does `find_collision` find a collision of a Gaussian layer within ``seconds``?

    Every collision is confirmed with exact signs. Below the true threshold of a size a miss is the search's; above it
    there is nothing to find.
    """
    draws = check_count("draws", draws)
    points: list[CollisionPoint] = []
    with bar("collision curve", "layers", progress) as update:
        for n in sizes:
            for alpha in alphas:
                m = round(check_between("alpha", alpha, 0.0, 100.0) * check_count("n", n))
                layers = [np.random.default_rng([seed, n, m, draw]).standard_normal((m, n)) for draw in range(draws)]
                results = []
                for layer in layers:
                    results.append(find_collision(layer, seconds=seconds, seed=seed))
                    update(len(points) * draws + len(results))
                found = sum(
                    result.found and colliding_pair(layer, None, result.point) is not None
                    for layer, result in zip(layers, results, strict=True)
                )
                points.append(
                    CollisionPoint(
                        n,
                        alpha,
                        draws,
                        found,
                        float(np.median([result.seconds for result in results])),
                        float(np.median([result.fewest_active for result in results])) / n,
                    )
                )
    return CollisionCurve(seconds, tuple(points))


@dataclass(frozen=True)
class StabilityPoint(Result):
    """The constant A/√n of Gaussian layers at one expansivity: quartiles, and the share of injective layers."""

    n: int
    alpha: float
    low: float
    median: float
    high: float
    injective: float


@dataclass(frozen=True)
class StabilityCurve(Result):
    """Outcome of `stability_curve`."""

    draws: int
    points: tuple[StabilityPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per point."""
        return [point.to_dict() for point in self.points]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the median of A/√n with its quartiles against the expansivity."""
        ax = make_axes(ax, figsize=(6.4, 3.6))
        for n in sorted({point.n for point in self.points}):
            mine = [point for point in self.points if point.n == n]
            (line,) = ax.plot([p.alpha for p in mine], [p.median for p in mine], "o-", ms=3, label=f"n = {n}")
            ax.fill_between(
                [p.alpha for p in mine],
                [p.low for p in mine],
                [p.high for p in mine],
                alpha=0.2,
                color=line.get_color(),
            )
        ax.set(
            xlabel="expansivity m/n", ylabel="A / √n", title="Stability constant of random layers (median, quartiles)"
        )
        ax.title.set_fontsize(10)
        ax.legend(fontsize=8)
        return ax


def stability_curve(
    sizes: Sequence[int] = (2, 3, 4),
    alphas: Sequence[float] = (4, 5, 6, 7, 8, 10, 12, 15),
    *,
    draws: int = 50,
    seed: int = 0,
) -> StabilityCurve:
    """The exact constant A of Gaussian layers (entries of variance 1, hence divided by √n) against the expansivity.

    Beyond the sources; compare [Maillard2022]_.
    """
    draws = check_count("draws", draws)
    points = []
    for n in sizes:
        if check_count("n", n) > 6:
            raise InputError(
                f"n = {n} must be at most 6: A is computed exactly from all vertices; use stability() on one layer"
            )
        for alpha in alphas:
            m = round(check_between("alpha", alpha, 1.0, 100.0) * n)
            values = [
                cell_minimum(np.random.default_rng([seed, n, m, draw]).standard_normal((m, n)), None)[0] / np.sqrt(n)
                for draw in range(draws)
            ]
            low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
            points.append(
                StabilityPoint(
                    n, alpha, float(low), float(median), float(high), float(np.mean(np.array(values) > 1e-12))
                )
            )
    return StabilityCurve(draws, tuple(points))
