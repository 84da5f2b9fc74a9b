"""Figure 2 and example 1 of [Nachum2022]_: the shared boundary of two rectangles, plotted and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from initscope.errors import check_count
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.images import rectangle_boundary, shared_boundary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "BoundaryFigure", "BoundaryRow", "run"]


@dataclass(frozen=True)
class BoundaryRow(Result):
    """Number of boundary pixels for one radius: counted, and by the formula 4r(e + f) of the example."""

    r: int
    counted: int
    formula: int


@dataclass(frozen=True)
class BoundaryFigure(Rows):
    """Two rectangles with an overlap of e×f pixels, their boundary for the largest radius, and counts by radius."""

    overlap: tuple[int, int]
    rows: tuple[BoundaryRow, ...]
    a: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)
    boundary: np.ndarray = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the rectangles in blue and orange and the boundary in green, as published."""
        ax = make_axes(ax, figsize=(5, 4.6))
        image = np.ones((*self.a.shape, 3))
        image[self.a > 0] *= (0.55, 0.75, 0.95)
        image[self.b > 0] *= (0.98, 0.8, 0.55)
        image[self.boundary > 0] = (0.2, 0.65, 0.3)
        ax.imshow(image, interpolation="nearest")
        row = self.rows[-1]
        ax.set(xticks=[], yticks=[], title=f"Boundary of radius {row.r}: {row.counted} pixels, formula {row.formula}")
        return ax


def run(*, size: int = 64, radii: tuple[int, ...] = (1, 2, 3)) -> BoundaryFigure:
    """Mark pixels whose square of side 2r + 1 intersects both rectangles but is not inside both (definition 2)."""
    size = check_count("size", size, least=40, hint="on smaller images the boundaries overlap")
    a, b = np.zeros((2, size, size))
    unit = size // 16
    a[2 * unit : 9 * unit, 2 * unit : 10 * unit] = 1
    b[5 * unit : 13 * unit, 4 * unit : 13 * unit] = 1
    overlap = (4 * unit, 6 * unit)
    rows = [BoundaryRow(r, int(shared_boundary(a, b, r).sum()), rectangle_boundary(*overlap, r)) for r in radii]
    return BoundaryFigure(overlap, tuple(rows), a, b, np.asarray(shared_boundary(a, b, radii[-1])))


REPRODUCTIONS = (
    Declared(
        id="cnn-figure-2",
        source="Nachum et al. 2022, figure 2, definition 2 and example 1",
        statement="The shared r-boundary of two rectangles that overlap in e×f pixels has 4r(e + f) pixels.",
        produce=run,
        numbers=lambda result: {f"pixels at r = {row.r}": Number(row.counted) for row in result.rows},
        holds=lambda result: all(row.counted == row.formula for row in result.rows),
        small={"size": 48},
    ),
)
