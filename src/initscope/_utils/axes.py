"""The style of all figures, and `ShownAxes`: axes that a notebook displays as the last expression of a cell.

Notebooks display only figures that pyplot has registered; other axes would appear as one line of text.
"""

from __future__ import annotations

import io
import math
from contextlib import AbstractContextManager
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator

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


def _tick_text(value: float, plain: bool) -> str:
    """Return the label of a logarithmic tick: a ``plain`` number if that is short, otherwise with a power of ten.

    >>> _tick_text(0.05, True), _tick_text(2000.0, True), _tick_text(1e-6, True), _tick_text(100.0, False)
    ('0.05', '2,000', '$10^{-6}$', '$10^{2}$')
    """
    if plain and 1e-3 <= value < 1e5:
        return f"{value:,.6g}"
    exponent, factor = _parts(value)
    times = "" if factor == 1 else rf"{factor} \cdot "
    return f"${times}10^{{{exponent}}}$"


def _parts(value: float) -> tuple[int, int]:
    """Return the exponent of ten of a positive number, and its first digit."""
    exponent = math.floor(math.log10(value) + 1e-9)
    return exponent, round(value / 10.0**exponent)


def _set_log_ticks(axis: Axis) -> None:
    """Label at most nine powers of ten; within two decades also their multiples by 2 and 5."""

    def decades() -> float:
        low, high = sorted(axis.get_view_interval())
        return math.log10(high / low) if low > 0 else math.inf

    def major_text(value: float, _: Any = None) -> str:
        return _tick_text(value, decades() < 4)

    def minor_text(value: float, _: Any = None) -> str:
        shown = decades() < 0.5 or (decades() < 2 and _parts(value)[1] in (2, 5))
        return _tick_text(value, plain=True) if shown else ""

    axis.set_major_locator(LogLocator(numticks=9))
    axis.set_major_formatter(FuncFormatter(major_text))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=99))
    axis.set_minor_formatter(FuncFormatter(minor_text))


class ShownAxes(Axes):
    """Axes with a PNG representation of their whole figure, legends without frames, and no grid over images.

    Ticks of logarithmic axes have labels that do not overlap.
    """

    def set_xscale(self, value: Any, **options: Any) -> None:
        """Set the scale of the x-axis."""
        super().set_xscale(value, **options)
        if value == "log":
            _set_log_ticks(self.xaxis)

    def set_yscale(self, value: Any, **options: Any) -> None:
        """Set the scale of the y-axis."""
        super().set_yscale(value, **options)
        if value == "log":
            _set_log_ticks(self.yaxis)

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
