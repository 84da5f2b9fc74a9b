"""Shared by reproductions: results with rows or curves, lines with error bars, figures with several panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initscope.reproductions.protocol import Number
from initscope.results import Result, line_color, make_axes, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Curves", "Point", "Rows", "data_title", "draw_lines", "panels"]


class Rows(Result):
    """Base class of results whose table is their ``rows``."""

    rows: tuple[Any, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""
        return [row.to_dict() for row in self.rows]


def data_title(spec: str) -> str:
    """Return the name of a data set with its options in words.

    >>> data_title("photos:crop=48,stride=24")
    'photos (crop 48, stride 24)'
    """
    name, _, options = spec.partition(":")
    return f"{name} ({', '.join(options.replace('=', ' ').split(','))})" if options else name


def draw_lines(ax: Axes, rows: Sequence[Any], *, by: str, x: str, y: str) -> None:
    """Plot ``y`` against ``x`` with bars of two standard errors, one line per value of the field ``by``."""
    for name in dict.fromkeys(getattr(row, by) for row in rows):
        line = [row for row in rows if getattr(row, by) == name]
        positions, heights = ([getattr(row, field) for row in line] for field in (x, y))
        ax.errorbar(positions, heights, [2 * row.standard_error for row in line], fmt="o-", capsize=2, label=name)


@dataclass(frozen=True)
class Point(Result):
    """One point of a curve: measured value, its standard error, and prediction; NaN for missing numbers."""

    kind: str
    x: float
    measured: float = math.nan
    standard_error: float = math.nan
    predicted: float = math.nan


@dataclass(frozen=True)
class Curves(Rows):
    """Curves by kind: measured values as dots with two standard errors, predictions as lines.

    ``logarithmic`` names the logarithmic axes, ``marks`` are vertical lines by name, and the dots of the curves in
    ``loose`` are not joined.
    """

    rows: tuple[Point, ...]
    xlabel: str
    ylabel: str
    logarithmic: str = ""
    marks: dict[str, float] = field(default_factory=dict)
    loose: tuple[str, ...] = ()

    def kinds(self) -> list[str]:
        """Return the names of the curves."""
        return list(dict.fromkeys(row.kind for row in self.rows))

    def curve(self, kind: str) -> list[Point]:
        """Return the points of one curve, sorted by x."""
        return sorted((row for row in self.rows if row.kind == kind), key=lambda row: row.x)

    def numbers(self, *, ends: bool = False) -> dict[str, Number]:
        """Return all points, or the last of each curve, by name: measured values if there are any, else predictions."""
        numbers_by_name = {}
        for kind in self.kinds():
            points = self.curve(kind)
            for point in points[-1:] if ends else points:
                value = point.predicted if math.isnan(point.measured) else point.measured
                name = f"{kind}, {self.xlabel} {point.x:g}" if kind else f"{self.xlabel} {point.x:g}"
                numbers_by_name[name] = Number(
                    value, None if math.isnan(point.standard_error) else point.standard_error
                )
        return numbers_by_name

    def agree(self, errors: float = 4.0, bias: float = 0.0) -> bool:
        """Return whether measured values are within ``errors`` standard errors plus ``bias`` of predictions."""
        gaps = ((abs(row.measured - row.predicted), row.standard_error) for row in self.rows)
        return all(gap <= errors * (0.0 if math.isnan(error) else error) + bias for gap, error in gaps if gap == gap)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot all curves."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        for index, kind in enumerate(self.kinds()):
            color = line_color(index)
            points = self.curve(kind)
            line = [(point.x, point.predicted) for point in points if point.predicted == point.predicted]
            dots = [point for point in points if point.measured == point.measured]
            if line:
                ax.plot(*zip(*line), "-", color=color, linewidth=1.4, label=None if dots else kind)
            if dots:
                bars = [0.0 if math.isnan(point.standard_error) else 2 * point.standard_error for point in dots]
                positions, heights = [point.x for point in dots], [point.measured for point in dots]
                joined = "o" if line or kind in self.loose else "o-"
                ax.errorbar(positions, heights, bars, fmt=joined, color=color, markersize=4, capsize=2, label=kind)
        for name, position in self.marks.items():
            ax.axvline(position, color="0.5", linestyle="--", linewidth=1)
            ax.annotate(
                name, (position, 1), xycoords=("data", "axes fraction"), xytext=(3, -12), textcoords="offset points"
            )
        self._scale(ax)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        if any(self.kinds()):
            ax.legend(fontsize="small")
        return ax

    def _scale(self, ax: Axes) -> None:
        """Set logarithmic scales, with ticks at the points; ticks are whole numbers if all points are."""
        from matplotlib.ticker import MaxNLocator, NullLocator

        positions = sorted({row.x for row in self.rows})
        if "x" in self.logarithmic:
            ax.set_xscale("log")
            ax.set_xticks(positions, [f"{position:g}" for position in positions])
            ax.xaxis.set_minor_locator(NullLocator())
        elif all(position == round(position) for position in positions):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "y" in self.logarithmic:
            ax.set_yscale("log")
