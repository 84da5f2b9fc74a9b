"""Inputs back from one layer: the error of the linear estimate against the number of outputs."""

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

_ROOM = 0.05
"""How far a slope may be from -1/2 beside its standard error."""


@dataclass(frozen=True)
class RecoveryRate(Result):
    """Errors by dimension and number of outputs, with the exact mean beside them."""

    errors: ErrorRate

    def table(self) -> list[dict[str, Any]]:
        """One row per point."""
        return self.errors.table()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors in log-log axes."""
        return self.errors.plot(ax)

    def lines(self) -> dict[int, Line]:
        """Straight lines through log error against log outputs, by dimension."""
        result = {}
        for dimension in dict.fromkeys(point.dimension for point in self.errors.points):
            mine = [point for point in self.errors.points if point.dimension == dimension]
            relative = [point.standard_error / point.error for point in mine]
            result[dimension] = fit_line(
                np.log([point.outputs for point in mine]), np.log([point.error for point in mine]), relative
            )
        return result

    def holds(self) -> bool:
        """Whether all slopes are -1/2 and every error is the predicted one within 4 standard errors."""
        slopes = all(abs(line.slope + 0.5) <= _ROOM + 2 * line.slope_error for line in self.lines().values())
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
    """Estimate unit inputs of random ReLU layers linearly, project on the subspace of the data, and take the error."""
    return RecoveryRate(error_rate(dimensions, outputs, inputs=inputs, draws=draws, seed=seed))


REPRODUCTIONS = (
    Declared(
        id="talk-recovery-rate",
        source="Bronstein 2016, 'Stable embedding': recovery from one layer",
        statement="The error of an input recovered from a layer's outputs falls as ω/√m.",
        produce=run,
        numbers=lambda result: {
            f"slope in log m, dimension {dimension}": Number(line.slope, line.slope_error)
            for dimension, line in result.lines().items()
        },
        holds=RecoveryRate.holds,
        small={"dimensions": (4, 32), "outputs": (128, 256, 512, 1024), "inputs": 40, "draws": 60},
    ),
)
