"""`ShownAxes`: axes that a notebook shows as a picture when they are the last expression of a cell.

A figure that pyplot does not know is shown by nobody; its axes would be one line of text.
"""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["ShownAxes"]


class ShownAxes(Axes):
    """Like any axes; a notebook asks them for the PNG of their whole figure."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        whole: Figure = self.figure.canvas.figure  # also of axes in a part of a figure, by every matplotlib
        whole.savefig(stream, format="png", dpi=110, bbox_inches="tight")
        return stream.getvalue()
