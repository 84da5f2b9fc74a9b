"""Growth of mean widths as the talk states it: Gaussian mixtures with rank and number, sparse sets with k log(n/k)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope import mean_width
from initscope._results import Result
from initscope.theory.mean_width import GaussianMixture, SparseSet

__all__ = ["Growth", "SetWidths", "run"]


@dataclass(frozen=True)
class Growth(Result):
    """ω²/4 of a family of sets, and the straight line ``intercept + slope · feature`` fitted to it."""

    family: str
    feature: str
    parameters: tuple[int, ...]
    features: tuple[float, ...]
    squared: tuple[float, ...]
    errors: tuple[float, ...]
    slope: float
    intercept: float
    explained: float


@dataclass(frozen=True)
class SetWidths(Result):
    """One `Growth` per family."""

    families: tuple[Growth, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per set."""
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


def run(
    *,
    ambient: int = 1000,
    ranks: Sequence[int] = (2, 4, 8, 16, 32),
    numbers: Sequence[int] = (1, 10, 100, 1000),
    sparsities: Sequence[int] = (1, 2, 5, 10, 20, 50, 100),
    draws: int = 400,
    seed: int = 0,
) -> SetWidths:
    """Widths of mixtures of ten Gaussians by rank, of rank 8 by number, and of k-sparse sets, in the unit ball."""
    rng = np.random.default_rng(seed)

    def mixture(number: int, rank: int) -> GaussianMixture:
        factors = rng.standard_normal((number, ambient, rank))
        return GaussianMixture(np.zeros((number, ambient)), factors, radius=1.0)

    def family(name: str, feature: str, parameters: Sequence[int], features: Any, sets: Any) -> Growth:
        widths = [mean_width(members, draws=draws, seed=seed) for members in sets]
        squared = np.array([width.one_sided**2 for width in widths])
        errors = [width.one_sided * width.standard_error for width in widths]
        x = np.asarray(features, dtype=np.float64)
        slope, intercept = np.polyfit(x, squared, 1)
        residual = squared - (intercept + slope * x)
        return Growth(
            family=name,
            feature=feature,
            parameters=tuple(parameters),
            features=tuple(x.tolist()),
            squared=tuple(squared.tolist()),
            errors=tuple(errors),
            slope=float(slope),
            intercept=float(intercept),
            explained=float(1 - residual.var() / squared.var()),
        )

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
