"""Random triplets and class-boundary triplets of CIFAR-10 at random weights and at 25, 21 and 18 % test error.

Distances after the last activation over distances of the images, the layer's scale divided out; at the boundary both
readings of the talk's symbols.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from initscope.class_geometry import Separations, Shift, separations
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import CHECKPOINTS, networks_at_errors, split_sets
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "ClassBoundaries", "RatioRow", "run"]

_SIDES, _READINGS = ("intra", "inter"), ("random", "boundary", "rechosen")


@dataclass(frozen=True)
class RatioRow(Result):
    """Median of one ratio under one network, with its 95 % interval; size and p-value of the change.

    ``superiority`` is the probability that a ratio exceeds one under random weights: .5 is no change.
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
    """Ratios after one layer, by network; ``found`` has all layers and the single ratios."""

    rows: tuple[RatioRow, ...]
    layer: str
    found: Separations = field(repr=False, compare=False)

    def last_shifts(self) -> dict[str, Shift]:
        """What changed between random weights and the last network, by ratio."""
        last = list(self.found.networks)[-1]
        return {test.column: test for test in self.found.tests(self.layer) if test.after == last}

    def figure(self) -> Figure:
        """Histograms as in the talk: within classes above, between classes below; random, mapped, re-chosen points."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 6), layout="constrained")
        axes = figure.subplots(2, 3)
        for row, side in enumerate(_SIDES):
            for column, reading in enumerate(_READINGS):
                ax = self.found.plot(axes[row, column], column=f"{side}_{reading}", layer=self.layer)
                ax.set(xlabel=f"{side}-class, {reading}", ylabel="")
                legend = ax.get_legend()
                if legend is not None and (row, column) != (0, 0):
                    legend.remove()
        return figure


def run(
    *, spec: str = "cifar10", checkpoints: str = CHECKPOINTS, anchors: int = 2000, seed: int = 0
) -> ClassBoundaries:
    """Triplets of the test images; ``checkpoints`` as in `networks_at_errors`."""
    found = separations(networks_at_errors(spec, checkpoints), split_sets(spec)[1], anchors=anchors, seed=seed)
    layer = found.layers[-2]
    shifts = {(test.column, test.after): test for test in found.tests(layer)}
    rows = []
    for reading in _READINGS:
        for side in _SIDES:
            column = f"{side}_{reading}"
            for name, each in found.networks.items():
                shift = shifts.get((column, name))
                interval = getattr(each.rows[found.layers.index(layer)], column)
                change = (None, None) if shift is None else (shift.superiority, shift.mann_whitney_p)
                rows.append(RatioRow(f"{side}, {reading}", name, *interval, *change))
    return ClassBoundaries(tuple(rows), layer, found)


def _holds(result: ClassBoundaries) -> bool:
    """Mapped boundary points: intra shrinks and inter grows, beyond doubt and by more than either moves at random."""
    shifts = result.last_shifts()
    moved = {column: shift.superiority - 0.5 for column, shift in shifts.items()}
    at_random = max(abs(moved["intra_random"]), abs(moved["inter_random"]))
    sure = all(shifts[f"{side}_boundary"].mann_whitney_p < 1e-3 for side in _SIDES)
    return sure and min(-moved["intra_boundary"], moved["inter_boundary"]) > at_random


REPRODUCTIONS = (
    Declared(
        id="talk-class-boundaries",
        source="Bronstein 2016, 'Random data points', 'Class boundary points'",
        statement="Training has a negligible effect on random points and a major one at class boundaries: distances "
        "within classes shrink and distances between classes grow.",
        produce=run,
        numbers=lambda found: {
            f"{row.ratio}, {row.network}": Number(row.median, (row.high - row.low) / 3.92) for row in found.rows
        },
        holds=_holds,
        small={"spec": "digits", "anchors": 500},
    ),
)
