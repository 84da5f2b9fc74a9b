"""`ShownAxes`: axes that a notebook displays as a figure when they are the last expression of a cell.

Notebooks display only figures that pyplot has registered; other axes would appear as one line of text.
"""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["ShownAxes"]


class ShownAxes(Axes):
    """Axes with a PNG representation of their whole figure, for notebooks."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        whole: Figure = self.figure.canvas.figure  # works for subfigures too, in all supported matplotlib versions
        whole.savefig(stream, format="png", dpi=110, bbox_inches="tight")
        return stream.getvalue()
