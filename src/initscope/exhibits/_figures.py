"""What the exhibits share: results that are rows, lines with errors, figures of several panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Rows", "draw_lines", "panels"]


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


def panels(*draws: Callable[[Axes], Any]) -> Figure:
    """A figure with one panel per function, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(draws), 4), layout="constrained")
    for draw, ax in zip(draws, figure.subplots(1, len(draws))):
        draw(ax)
    return figure
