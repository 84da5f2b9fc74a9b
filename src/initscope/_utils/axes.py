"""The style of all figures, and `ShownAxes`: axes that a notebook displays as the last expression of a cell.

Notebooks display only figures that pyplot has registered; other axes would appear as one line of text.
"""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend

from initscope._utils.palette import GRAY, PALETTE

__all__ = ["STYLE", "ShownAxes", "figure_style"]

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 10,
    "grid.alpha": 0.25,
    "grid.color": GRAY,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}
"""Settings of matplotlib for figures of this library and of its documentation."""


def figure_style() -> AbstractContextManager[Any]:
    """Return a context in which new axes have the style of initscope; it leaves the user's settings alone."""
    return rc_context(STYLE)


class ShownAxes(Axes):
    """Axes with a PNG representation of their whole figure, legends without frames, and no grid over images."""

    def legend(self, *args: Any, **options: Any) -> Legend:
        """Add a legend without a frame."""
        return super().legend(*args, **({"frameon": False, "fontsize": 9} | options))

    def imshow(self, *args: Any, **options: Any) -> AxesImage:
        """Show an image without a grid."""
        self.grid(False)
        return super().imshow(*args, **options)

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        whole: Figure = self.figure.canvas.figure  # works for subfigures too, in all supported matplotlib versions
        whole.savefig(stream, format="png", dpi=110, bbox_inches="tight")
        return stream.getvalue()
