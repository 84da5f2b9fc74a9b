"""What the exhibits share: results that are rows, axes made on demand, figures of several panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from initscope._results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Rows", "make_axes", "panels"]


class Rows(Result):
    """Mixin of results whose table is their ``rows``, each a result of its own."""

    rows: tuple[Any, ...]

    def table(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [row.to_dict() for row in self.rows]


def make_axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(layout="constrained").add_subplot()


def panels(*draws: Callable[[Axes], Any]) -> Figure:
    """A figure with one panel per function, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(draws), 4), layout="constrained")
    for draw, ax in zip(draws, figure.subplots(1, len(draws))):
        draw(ax)
    return figure
