"""Stability of the inverse of a random injective ReLU layer, an open question of [Maillard2022]_."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.injectivity.frames import cell_minimum
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "StabilityCurve", "StabilityPoint", "run"]


@dataclass(frozen=True)
class StabilityPoint(Result):
    """The constant A/√n of Gaussian layers at one expansivity: quartiles, and the fraction of injective layers."""

    n: int
    alpha: float
    low: float
    median: float
    high: float
    injective: float


@dataclass(frozen=True)
class StabilityCurve(Result):
    """Result of `run`."""

    draws: int
    points: tuple[StabilityPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point."""
        return [point.to_dict() for point in self.points]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the median of A/√n with its quartiles against the expansivity."""
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


def run(
    sizes: Sequence[int] = (2, 3, 4),
    alphas: Sequence[float] = (4, 5, 6, 7, 8, 10, 12, 15),
    *,
    draws: int = 50,
    seed: int = 0,
) -> StabilityCurve:
    """Compute the exact constant A of Gaussian layers (entries of variance 1), divided by √n, by expansivity.

    This is not in the sources; compare [Maillard2022]_.
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


REPRODUCTIONS = (
    Declared(
        id="injectivity-stability",
        source="Maillard et al. 2022, outlook: stability of the inverse",
        statement="The inverse of a random injective layer is Lipschitz, and its "
        "constant improves with the expansivity.",
        produce=run,
        numbers=lambda curve: {f"A/√n at n = {p.n}, α = {p.alpha:g}": Number(p.median) for p in curve.points},
        holds=lambda curve: all(
            before.median <= after.median
            for before, after in zip(curve.points, curve.points[1:])
            if before.n == after.n and after.alpha > before.alpha + 2
        ),
        small={"sizes": (2, 3), "alphas": (4, 8, 15), "draws": 12},
    ),
)
