"""Random triplets and class-boundary triplets of CIFAR-10 at random weights and at 25, 21 and 18 % test error.

The ratios are distances after the last activation divided by distances of the images, normalized by the scale of the
layer. At the boundary, both interpretations of the symbols of the talk are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from initscope.class_geometry import Separations, Shift, separations
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import CHECKPOINTS, networks_at_errors, split_sets
from initscope.results import Result, make_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "ClassBoundaries", "RatioRow", "run"]

_SIDES, _READINGS = ("intra", "inter"), ("random", "boundary", "rechosen")


@dataclass(frozen=True)
class RatioRow(Result):
    """Median of one ratio in one network with its 95 % interval, and the effect size and p-value of its change.

    ``superiority`` is the probability that a ratio exceeds a ratio of random weights; 0.5 means no change.
    """

    ratio: str
    network: str
    median: float
    low: float
    high: float
    superiority: float | None
    p: float | None


@dataclass(frozen=True)
class ClassBoundaries(Rows):
    """Ratios after one layer, by network; ``separations`` has all layers and the single ratios."""

    rows: tuple[RatioRow, ...]
    layer: str
    separations: Separations = field(repr=False, compare=False)

    def last_shifts(self) -> dict[str, Shift]:
        """Return the changes between random weights and the last network, by ratio."""
        last = list(self.separations.networks)[-1]
        return {test.column: test for test in self.separations.tests(self.layer) if test.after == last}

    def figure(self) -> Figure:
        """Plot histograms as in the talk: within classes above, between classes below; a column per kind of points."""
        axes = make_grid(2, 3, (11, 6))
        for row, side in enumerate(_SIDES):
            for column, reading in enumerate(_READINGS):
                ax = self.separations.plot(axes[row, column], column=f"{side}_{reading}", layer=self.layer)
                ax.set(xlabel=f"{side}-class, {reading}", ylabel="")
                legend = ax.get_legend()
                if legend is not None and (row, column) != (0, 0):
                    legend.remove()
        return axes.flat[0].figure  # type: ignore[no-any-return]


def run(
    *, spec: str = "cifar10", checkpoints: str = CHECKPOINTS, anchors: int = 2000, seed: int = 0
) -> ClassBoundaries:
    """Compute ratios for triplets of test images; ``checkpoints`` as in `networks_at_errors`."""
    result = separations(networks_at_errors(spec, checkpoints), split_sets(spec)[1], anchors=anchors, seed=seed)
    layer = result.layers[-2]
    shifts = {(test.column, test.after): test for test in result.tests(layer)}
    rows = []
    for reading in _READINGS:
        for side in _SIDES:
            column = f"{side}_{reading}"
            for name, separation in result.networks.items():
                shift = shifts.get((column, name))
                interval = getattr(separation.rows[result.layers.index(layer)], column)
                change = (None, None) if shift is None else (shift.superiority, shift.mann_whitney_p)
                rows.append(RatioRow(f"{side}, {reading}", name, *interval, *change))
    return ClassBoundaries(tuple(rows), layer, result)


def _holds(result: ClassBoundaries) -> bool:
    """Return whether boundary ratios shrink within and grow between classes, significantly and more than at random."""
    shifts = result.last_shifts()
    moved = {column: shift.superiority - 0.5 for column, shift in shifts.items()}
    at_random = max(abs(moved["intra_random"]), abs(moved["inter_random"]))
    sure = all(shifts[f"{side}_boundary"].mann_whitney_p < 1e-3 for side in _SIDES)
    return sure and min(-moved["intra_boundary"], moved["inter_boundary"]) > at_random


REPRODUCTIONS = (
    Declared(
        id="talk-class-boundaries",
        source="Bronstein 2016, 'Random data points', 'Class boundary points'",
        statement="Training has a negligible effect on random points and a large one at class boundaries: distances "
        "within classes shrink and distances between classes grow.",
        produce=run,
        numbers=lambda result: {
            f"{row.ratio}, {row.network}": Number(row.median, (row.high - row.low) / 3.92) for row in result.rows
        },
        holds=_holds,
        small={"spec": "digits", "anchors": 500},
    ),
)
