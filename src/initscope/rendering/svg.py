"""Conversion of a matplotlib figure to inline SVG with the colors and the font of the HTML page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from initscope.rendering.figures import GRAY, MEASURED, PREDICTED, THIRD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["fixed_colors", "inline_svg", "page_colors"]

_COLORS = {
    PREDICTED: "var(--predicted)",
    MEASURED: "var(--measured)",
    THIRD: "var(--third)",
    GRAY: "var(--faint)",
    "#000000": "currentColor",
}


def inline_svg(ax: Axes, name: str) -> str:
    """Return the figure of ``ax`` as a transparent ``<svg>`` element whose ids begin with ``name``.

    Text stays text. The same figure gives the same string, without dates and random ids.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = ax.figure
    assert isinstance(figure, Figure)
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # The <style> of matplotlib would apply to the whole page; the page has the same rules for its figures only.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-labelledby="{name}-says">', svg)
    # Ids must be unique in the page, not only in one figure.
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    return re.sub(r"\n\s*\n+", "\n", page_colors(svg)).strip()


def page_colors(svg: str) -> str:
    """Return the figure with the CSS variables of the page for its colors, which differ on light and dark pages."""
    for color, variable in _COLORS.items():
        svg = svg.replace(color, variable)
    return svg


def fixed_colors(svg: str) -> str:
    """Return the figure with fixed colors, for viewers that know no CSS variables; `page_colors` is the inverse."""
    for color, variable in _COLORS.items():
        svg = svg.replace(variable, color)
    return svg
