"""Recovery of inputs from one layer: the error of the linear estimate against the number of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.invert.rates import ErrorRate, error_rate
from initscope.reproductions._statistics import Line, fit_line
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "RecoveryRate", "run"]

_TOLERANCE = 0.05
"""Tolerance of a slope around -1/2, in addition to its standard error."""


@dataclass(frozen=True)
class RecoveryRate(Result):
    """Errors by dimension and number of outputs, with their exact means."""

    errors: ErrorRate

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point."""
        return self.errors.table()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the errors on log-log axes."""
        return self.errors.plot(ax)

    def lines(self) -> dict[int, Line]:
        """Return the line fits of log error against log outputs, by dimension."""
        by_dimension = {}
        for dimension in dict.fromkeys(point.dimension for point in self.errors.points):
            mine = [point for point in self.errors.points if point.dimension == dimension]
            relative = [point.standard_error / point.error for point in mine]
            by_dimension[dimension] = fit_line(
                np.log([point.outputs for point in mine]), np.log([point.error for point in mine]), relative
            )
        return by_dimension

    def holds(self) -> bool:
        """Return whether all slopes are -1/2 and all errors agree with predictions within 4 standard errors."""
        slopes = all(abs(line.slope + 0.5) <= _TOLERANCE + 2 * line.slope_error for line in self.lines().values())
        points = (abs(p.error - p.predicted) <= 4 * p.standard_error for p in self.errors.points)
        return slopes and all(points)


def run(
    *,
    dimensions: Sequence[int] = (4, 16, 64),
    outputs: Sequence[int] = (256, 512, 1024, 2048, 4096),
    inputs: int = 128,
    draws: int = 100,
    seed: int = 0,
) -> RecoveryRate:
    """Estimate unit inputs of random ReLU layers linearly, project on the data subspace, and compute the error."""
    return RecoveryRate(error_rate(dimensions, outputs, inputs=inputs, draws=draws, seed=seed))


REPRODUCTIONS = (
    Declared(
        id="talk-recovery-rate",
        source="Bronstein 2016, 'Stable embedding': recovery from one layer",
        statement="The error of an input recovered from the outputs of a layer falls as ω/√m.",
        produce=run,
        numbers=lambda result: {
            f"slope in log m, dimension {dimension}": Number(line.slope, line.slope_error)
            for dimension, line in result.lines().items()
        },
        holds=RecoveryRate.holds,
        small={"dimensions": (4, 32), "outputs": (128, 256, 512, 1024), "inputs": 40, "draws": 60},
    ),
)
