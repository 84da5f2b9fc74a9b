"""What the reproductions share: results that are rows or curves, lines with errors, figures of several panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initscope.reproductions.protocol import Number
from initscope.results import Result, make_axes, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Curves", "Point", "Rows", "draw_lines", "panels"]


class Rows(Result):
    """Mixin of results whose table is their ``rows``, each a result of its own."""

    rows: tuple[Any, ...]

    def table(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [row.to_dict() for row in self.rows]


def draw_lines(ax: Axes, rows: Sequence[Any], *, by: str, x: str, y: str) -> None:
    """One line for each value of the field ``by``: ``y`` against ``x``, with bars of two standard errors."""
    for name in dict.fromkeys(getattr(row, by) for row in rows):
        line = [row for row in rows if getattr(row, by) == name]
        places, heights = ([getattr(row, field) for row in line] for field in (x, y))
        ax.errorbar(places, heights, [2 * row.standard_error for row in line], fmt="o-", capsize=2, label=name)


@dataclass(frozen=True)
class Point(Result):
    """One point of a curve: measured with its standard error, and predicted; NaN for what there is not."""

    kind: str
    x: float
    measured: float = math.nan
    standard_error: float = math.nan
    predicted: float = math.nan


@dataclass(frozen=True)
class Curves(Rows):
    """Points by kind: what was measured as dots with two standard errors, what was predicted as lines.

    ``logarithmic`` names the axes that are, ``marks`` are vertical lines by name, ``loose`` curves whose dots are not
    joined.
    """

    rows: tuple[Point, ...]
    xlabel: str
    ylabel: str
    logarithmic: str = ""
    marks: dict[str, float] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    def kinds(self) -> list[str]:
        """Names of the curves."""
        return list(dict.fromkeys(row.kind for row in self.rows))

    def curve(self, kind: str) -> list[Point]:
        """Points of one curve, by their place."""
        return sorted((row for row in self.rows if row.kind == kind), key=lambda row: row.x)

    def numbers(self, *, ends: bool = False) -> dict[str, Number]:
        """Every point, or the last of each curve, by name; what was measured comes first."""
        found = {}
        for kind in self.kinds():
            points = self.curve(kind)
            for point in points[-1:] if ends else points:
                value = point.predicted if math.isnan(point.measured) else point.measured
                name = f"{kind}, {self.xlabel} {point.x:g}" if kind else f"{self.xlabel} {point.x:g}"
                found[name] = Number(value, None if math.isnan(point.standard_error) else point.standard_error)
        return found

    def agree(self, errors: float = 4.0, bias: float = 0.0) -> bool:
        """Whether measured is within so many standard errors, and ``bias``, of predicted, wherever both are."""
        gaps = ((abs(row.measured - row.predicted), row.standard_error) for row in self.rows)
        return all(gap <= errors * (0.0 if math.isnan(error) else error) + bias for gap, error in gaps if gap == gap)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all curves."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        for index, kind in enumerate(self.kinds()):
            colour = f"C{index}"
            points = self.curve(kind)
            line = [(point.x, point.predicted) for point in points if point.predicted == point.predicted]
            dots = [point for point in points if point.measured == point.measured]
            if line:
                ax.plot(*zip(*line), "-", color=colour, linewidth=1.4, label=None if dots else kind)
            if dots:
                bars = [0.0 if math.isnan(point.standard_error) else 2 * point.standard_error for point in dots]
                places, heights = [point.x for point in dots], [point.measured for point in dots]
                joined = "o" if line or kind in self.loose else "o-"
                ax.errorbar(places, heights, bars, fmt=joined, color=colour, markersize=4, capsize=2, label=kind)
        for name, place in self.marks.items():
            ax.axvline(place, color="0.5", linestyle="--", linewidth=1)
            ax.annotate(
                name, (place, 1), xycoords=("data", "axes fraction"), xytext=(3, -12), textcoords="offset points"
            )
        self._scale(ax)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        if any(self.kinds()):
            ax.legend(fontsize="small")
        return ax

    def _scale(self, ax: Axes) -> None:
        """Logarithmic axes with ticks at the points, whole numbers where all points are."""
        from matplotlib.ticker import MaxNLocator, NullLocator

        places = sorted({row.x for row in self.rows})
        if "x" in self.logarithmic:
            ax.set_xscale("log")
            ax.set_xticks(places, [f"{place:g}" for place in places])
            ax.xaxis.set_minor_locator(NullLocator())
        elif all(place == round(place) for place in places):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "y" in self.logarithmic:
            ax.set_yscale("log")
