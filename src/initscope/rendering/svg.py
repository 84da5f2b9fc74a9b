"""A matplotlib figure as SVG text to stand inside an HTML page and take the page's colours and font."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from initscope.rendering.figures import GREY, MEASURED, PREDICTED, THIRD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["inline_svg"]

_COLOURS = {
    PREDICTED: "var(--predicted)",
    MEASURED: "var(--measured)",
    THIRD: "var(--third)",
    GREY: "var(--faint)",
    "#000000": "currentColor",
}


def inline_svg(ax: Axes, name: str) -> str:
    """The figure of ``ax`` as an ``<svg>`` element whose ids begin with ``name``, transparent, its text as text.

    The same picture gives the same text: no date, no random ids.
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
    # matplotlib's <style> would reach beyond the picture; the page says the same for its pictures only.
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-labelledby="{name}-says">', svg)
    # Ids are unique in a page, not only in a picture.
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\1{name}-", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    return re.sub(r"\n\s*\n+", "\n", svg).strip()
