"""Figure 2 and example 1 of [Nachum2022]_: the shared boundary of two rectangles, drawn and counted."""

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

__all__ = ["REPRODUCTIONS", "BoundaryPicture", "BoundaryRow", "run"]


@dataclass(frozen=True)
class BoundaryRow(Result):
    """Pixels of the boundary at one radius: counted, and by the example's 4r(e + f)."""

    r: int
    counted: int
    formula: int


@dataclass(frozen=True)
class BoundaryPicture(Rows):
    """Two rectangles with an overlap of e×f pixels, their boundary at the largest radius, and counts by radius."""

    overlap: tuple[int, int]
    rows: tuple[BoundaryRow, ...]
    a: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)
    boundary: np.ndarray = field(repr=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The rectangles in blue and orange, the boundary in green, as published."""
        ax = make_axes(ax, figsize=(5, 4.6))
        picture = np.ones((*self.a.shape, 3))
        picture[self.a > 0] *= (0.55, 0.75, 0.95)
        picture[self.b > 0] *= (0.98, 0.8, 0.55)
        picture[self.boundary > 0] = (0.2, 0.65, 0.3)
        ax.imshow(picture, interpolation="nearest")
        row = self.rows[-1]
        ax.set(xticks=[], yticks=[], title=f"r = {row.r}: {row.counted} pixels, 4r(e + f) = {row.formula}")
        return ax


def run(*, size: int = 64, radii: tuple[int, ...] = (1, 2, 3)) -> BoundaryPicture:
    """Mark the pixels whose square of side 2r + 1 meets both rectangles and is not inside both (definition 2)."""
    size = check_count("size", size, least=40, hint="the rectangles need room, so that boundaries do not meet")
    a, b = np.zeros((2, size, size))
    unit = size // 16
    a[2 * unit : 9 * unit, 2 * unit : 10 * unit] = 1
    b[5 * unit : 13 * unit, 4 * unit : 13 * unit] = 1
    overlap = (4 * unit, 6 * unit)
    rows = [BoundaryRow(r, int(shared_boundary(a, b, r).sum()), rectangle_boundary(*overlap, r)) for r in radii]
    return BoundaryPicture(overlap, tuple(rows), a, b, np.asarray(shared_boundary(a, b, radii[-1])))


REPRODUCTIONS = (
    Declared(
        id="cnn-figure-2",
        source="Nachum et al. 2022, figure 2, definition 2 and example 1",
        statement="The shared r-boundary of two rectangles that overlap in e×f pixels has 4r(e + f) pixels.",
        produce=run,
        numbers=lambda found: {f"pixels at r = {row.r}": Number(row.counted) for row in found.rows},
        holds=lambda found: all(row.counted == row.formula for row in found.rows),
        small={"size": 48},
    ),
)
