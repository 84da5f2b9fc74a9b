"""Recovery of inputs from deep networks: the error of the linear estimate against depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.invert.rates import ErrorGrowth, error_growth
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "RecoveryDepth", "run"]


@dataclass(frozen=True)
class RecoveryDepth(Result):
    """Errors by depth, with and without projections between layers."""

    growth: ErrorGrowth

    def table(self) -> list[dict[str, Any]]:
        """Return one row per depth."""
        return self.growth.table()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot both errors against the number of layers."""
        return self.growth.plot(ax)

    def numbers(self) -> dict[str, Number]:
        """Return the median error by depth with projections, with the standard error of a normal median."""
        by_depth = {}
        for point in self.growth.points:
            spread = (
                point.projected_high - point.projected_low
            ) / 1.349  # interquartile range of a normal distribution, in standard deviations
            error = math.sqrt(math.pi / 2 / self.growth.draws) * spread
            by_depth[f"layers {point.depth}: relative error"] = Number(point.projected, error)
        return by_depth

    def holds(self) -> bool:
        """Return whether errors grow at most linearly with projections, and agree with theory without them."""
        numbers = list(self.numbers().values())
        first = numbers[0]
        linear = all(
            number.value - depth * first.value <= 3 * math.hypot(number.error or 0.0, depth * (first.error or 0.0))
            for depth, number in enumerate(numbers, 1)
        )
        points = self.growth.points
        return linear and all(abs(p.plain - p.plain_predicted) <= 4 * p.plain_standard_error for p in points)


def run(*, depth: int = 8, width: int = 600, dimension: int = 5, draws: int = 40, seed: int = 0) -> RecoveryDepth:
    """Invert 1 to ``depth`` layers of random ReLU networks, with and without projection on possible outputs."""
    return RecoveryDepth(error_growth(depth, width=width, dimension=dimension, draws=draws, seed=seed))


REPRODUCTIONS = (
    Declared(
        id="talk-recovery-depth",
        source="Bronstein 2016, 'Stable embedding': recovery after N layers",
        statement="After N layers the error of the recovered input is at most of "
        "the order of N times that after one layer.",
        produce=run,
        numbers=RecoveryDepth.numbers,
        holds=RecoveryDepth.holds,
        small={"depth": 4, "width": 300, "dimension": 4, "draws": 16},
    ),
)
