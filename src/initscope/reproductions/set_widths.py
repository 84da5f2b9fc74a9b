"""Growth of mean widths as in the talk: Gaussian mixtures with rank and number, sparse sets with k log(n/k)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import mean_width
from initscope.measurement import MeanWidth
from initscope.reproductions._figures import panels
from initscope.reproductions._statistics import fit_line
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.mean_width import GaussianMixture, SparseSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "Growth", "SetWidths", "run"]


@dataclass(frozen=True)
class Growth(Result):
    """ω²/4 of a family of sets, and the fitted line ``intercept + slope · feature``."""

    family: str
    feature: str
    parameters: tuple[int, ...]
    features: tuple[float, ...]
    squared: tuple[float, ...]
    errors: tuple[float, ...]
    slope: float
    slope_error: float
    intercept: float
    explained: float

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the sets, with bars of two standard errors, and the line."""
        ax = make_axes(ax)
        ax.errorbar(self.features, self.squared, 2 * np.array(self.errors), fmt="o", capsize=2, label=self.family)
        ends = np.array([min(self.features), max(self.features)])
        label = f"slope {self.slope:.3g} ± {self.slope_error:.1g}"
        ax.plot(ends, self.intercept + self.slope * ends, color="gray", label=label)
        ax.set(xlabel=self.feature, ylabel="ω² / 4", ylim=(0, None))
        ax.legend()
        return ax


@dataclass(frozen=True)
class SetWidths(Result):
    """One `Growth` per family."""

    families: tuple[Growth, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per set."""
        return [
            {
                "family": growth.family,
                "parameter": parameter,
                "feature": feature,
                "squared_width_over_4": squared,
                "standard_error": error,
                "fitted": growth.intercept + growth.slope * feature,
            }
            for growth in self.families
            for parameter, feature, squared, error in zip(
                growth.parameters, growth.features, growth.squared, growth.errors
            )
        ]

    def plot(self, ax: Axes | None = None, *, family: int = 0) -> Axes:
        """Plot one family; `figure` plots all."""
        return self.families[family].plot(ax)

    def figure(self) -> Figure:
        """Return a figure with one panel per family."""
        return panels(*(growth.plot for growth in self.families))


def run(
    *,
    ambient: int = 1000,
    ranks: Sequence[int] = (2, 4, 8, 16, 32),
    numbers: Sequence[int] = (1, 10, 100, 1000),
    sparsities: Sequence[int] = (1, 2, 5, 10, 20, 50, 100),
    draws: int = 400,
    seed: int = 0,
) -> SetWidths:
    """Compute widths of mixtures of ten Gaussians by rank, of rank 8 by number, and of k-sparse sets, in the unit ball.

    Source: [Bronstein2016]_, 'Gaussian mean width': mixtures and sparse representations.
    """
    rng = np.random.default_rng(seed)

    def mixture(number: int, rank: int) -> GaussianMixture:
        factors = rng.standard_normal((number, ambient, rank))
        return GaussianMixture(np.zeros((number, ambient)), factors, radius=1.0)

    def family(name: str, feature: str, parameters: Sequence[int], features: Any, sets: Any) -> Growth:
        # Each set has other directions; with the same ones the errors of the points would be correlated.
        widths = [mean_width(members, draws=draws, seed=seed + number) for number, members in enumerate(sets)]
        return _growth(name, feature, parameters, features, widths)

    return SetWidths(
        (
            family("10 Gaussians", "rank", ranks, ranks, (mixture(10, rank) for rank in ranks)),
            family("rank 8", "log(number)", numbers, np.log(numbers), (mixture(number, 8) for number in numbers)),
            family(
                f"sparse in {ambient}",
                "k log(n/k)",
                sparsities,
                [k * np.log(ambient / k) for k in sparsities],
                (SparseSet(ambient, k) for k in sparsities),
            ),
        )
    )


def _growth(name: str, feature: str, parameters: Sequence[int], features: Any, widths: Sequence[MeanWidth]) -> Growth:
    """Fit the line of squared widths against the feature."""
    squared = np.array([width.one_sided**2 for width in widths])
    errors = [width.one_sided * width.standard_error for width in widths]
    x = np.asarray(features, dtype=np.float64)
    line = fit_line(x, squared, errors)
    return Growth(
        family=name,
        feature=feature,
        parameters=tuple(parameters),
        features=tuple(x.tolist()),
        squared=tuple(squared.tolist()),
        errors=tuple(errors),
        slope=line.slope,
        slope_error=line.slope_error,
        intercept=line.intercept,
        explained=line.explained,
    )


REPRODUCTIONS = (
    Declared(
        id="talk-mean-widths",
        source="Bronstein 2016, 'Gaussian mean width': examples",
        statement="ω² grows with the rank and the logarithm of the number of "
        "components of a mixture, and for k-sparse sets "
        "like k log(n/k).",
        produce=run,
        numbers=lambda result: {
            f"{growth.family}: slope in {growth.feature}": Number(growth.slope, growth.slope_error)
            for growth in result.families
        },
        holds=lambda result: all(growth.slope > 0 and growth.explained > 0.9 for growth in result.families),
        small={"ambient": 200, "ranks": (2, 8, 24), "numbers": (1, 10, 100), "sparsities": (1, 5, 20), "draws": 100},
    ),
)
