"""Quantities against depth: panels above each other on one axis of layers, drawn as SVG that stretches with the page.

Lines and dots stand in an SVG without any text, whose width is the page's; names and ticks are HTML beside it, so that
they have the size of text at every width. Nothing here needs a script; the page's own reads `Panel.to_dict`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.geometry import Floats
from initscope.results import plain

__all__ = ["Panel", "axis_limits", "axis_name", "depth_ticks", "drawn_panels", "rounded"]

_WIDTH, _HEIGHT = 1000.0, 100.0  # of the drawing's own coordinates
_MOST_TICKS = 8
_TWENTYFOLD = 20.0
_DIGITS = 6
_NEAR_THE_END = 0.96
"""Part of the width behind which a name would stand over the edge; as near to the other edge is the first."""
_APART = 0.8
"""Part of an even step by which names have to be apart."""
_SHORT = 13
"""Letters of a name on the axis."""
_LONG = 10
"""Letters of a name that a phone has no room for at every second tick."""


def rounded(values: Floats) -> list[float | None]:
    """As JSON has it: six digits, None where there is no number."""
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in plain(values)]


@dataclass(frozen=True)
class Panel:
    """One quantity after every layer.

    Attributes
    ----------
    name, title, says : str
        In a word, in a line, and how to read it.
    measured, error, predicted : array ``[rows]``
        Means, one standard error of the measured ones, and theory; NaN where there is none.
    low, high : float or None
        The healthy band; None where it has no end.
    least, most : float or None
        Ends of the quantity itself, which the axis has; None: as the values are.
    logarithmic : bool or None
        None: if the values differ twentyfold.
    rounding : float
        Measured values below it are rounding.
    """

    name: str
    title: str
    says: str
    measured: Floats
    error: Floats | None = None
    predicted: Floats | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    logarithmic: bool | None = None
    rounding: float = 0.0

    @property
    def known(self) -> Floats:
        """All finite values."""
        values = np.concatenate([self.measured, np.array([]) if self.predicted is None else self.predicted])
        return np.asarray(values[np.isfinite(values)])

    @property
    def highest_bar(self) -> float:
        """The upper end of the longest error bar, 0 without any."""
        ends = self.measured + 2 * self.error if self.error is not None else np.array([])
        return float(max(ends[np.isfinite(ends)], default=0.0))

    def to_dict(self) -> dict[str, Any]:
        """What the page's script reads."""
        sides = {"measured": self.measured, "error": self.error, "predicted": self.predicted}
        known = {name: rounded(values) for name, values in sides.items() if values is not None}
        return {"name": self.name, "low": self.low, "high": self.high, "rounding": self.rounding} | known


@dataclass(frozen=True)
class _Scale:
    """From values to heights in the drawing, 0 at the top."""

    low: float
    high: float
    logarithmic: bool

    def height(self, value: float) -> float:
        if self.logarithmic:
            value = math.log10(value) if value > 0 else -math.inf
        low, high = (math.log10(self.low), math.log10(self.high)) if self.logarithmic else (self.low, self.high)
        share = (value - low) / (high - low)
        return _HEIGHT * (1 - min(1.0, max(0.0, share)))

    def ticks(self) -> list[float]:
        """Three or four round numbers."""
        if not self.logarithmic:
            step = 10 ** math.floor(math.log10(self.high - self.low))
            for part in (2.0, 1.0, 0.5, 0.25, 0.2, 0.1):
                ticks = np.arange(math.ceil(self.low / (part * step)), math.floor(self.high / (part * step)) + 1) * part
                if len(ticks) >= 3:
                    break
            return [float(tick * step) for tick in ticks]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        every = max(1, -(-(last - first) // 3))
        tens = [10.0**power for power in range(first, last + 1) if power % every == 0]
        return tens if len(tens) > 1 else [float(f"{self.low:.1g}"), *tens, float(f"{self.high:.1g}")]


def _scale(panel: Panel) -> _Scale:
    values = panel.known
    positive = values[values > 0]
    logarithmic = panel.logarithmic
    if logarithmic is None:
        logarithmic = bool(len(positive)) and positive.max() > _TWENTYFOLD * positive.min()
    if logarithmic and len(positive):
        low, high = positive.min() / 1.6, positive.max() * 1.6
        for edge in (panel.low, panel.high):  # an edge that is near stands in the picture
            if edge is not None and low / 100 < edge < 100 * high:
                low, high = min(low, edge / 2), max(high, edge * 2)
        return _Scale(max(float(low), 1e-300), min(float(high), 1e300), logarithmic=True)
    low = min(0.0, values.min()) if panel.least is None else panel.least
    high = 1.08 * max(values.max(), panel.highest_bar, 1e-12) if panel.most is None else panel.most
    return _Scale(float(low), float(high), logarithmic=False)


def axis_limits(panel: Panel) -> tuple[float, float, bool]:
    """Lower and upper end of a panel's axis, and whether it is logarithmic."""
    scale = _scale(panel)
    return scale.low, scale.high, scale.logarithmic


def drawn_panels(panels: Sequence[Panel], names: Sequence[str], bad: Sequence[frozenset[int]] = ()) -> dict[str, Any]:
    """What the template ``depth.html`` shows: a drawing for each panel that has a value, and the ticks of the axis.

    ``names`` are those of the layers, ``bad`` for each panel the rows to be marked.
    """
    shown = [(panel, bad[index] if bad else frozenset()) for index, panel in enumerate(panels) if len(panel.known)]
    return {
        "panels": [_drawn(panel, marked) for panel, marked in shown],
        "axis": _axis(names, [panel for panel, _ in shown]),
        "data": [panel.to_dict() for panel, _ in shown],
        "rows": len(names),
    }


def _drawn(panel: Panel, marked: frozenset[int]) -> dict[str, Any]:
    scale = _scale(panel)
    count = len(panel.measured)
    places = [_WIDTH * (index + 0.5) / count for index in range(count)]
    top = 0.0 if panel.high is None else scale.height(panel.high)
    bottom = _HEIGHT if panel.low is None else scale.height(panel.low)
    good = [index for index in range(count) if np.isfinite(panel.measured[index]) and index not in marked]
    return {
        "name": panel.name,
        "title": panel.title,
        "says": panel.says,
        "healthy": (f"{top:.1f}", f"{bottom - top:.1f}"),
        "has_band": panel.low is not None or panel.high is not None,
        "line": "" if panel.predicted is None else _line(panel.predicted, places, scale),
        "bars": "" if panel.error is None else _bars(panel, places, scale),
        "dots": _dots(panel.measured, good, places, scale),
        "marked": _dots(panel.measured, sorted(marked), places, scale),
        "ticks": [(f"{scale.height(tick):.1f}", _tick(tick)) for tick in scale.ticks()],
    }


def _tick(value: float) -> str:
    """1e-12, 0.01, 20, 1000: as short as it is clear."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return f"{value:g}"


def _line(values: Floats, places: Sequence[float], scale: _Scale) -> str:
    """Interrupted where nothing is known, unless by the rows between two that are known."""
    known = [index for index, value in enumerate(values) if np.isfinite(value)]
    points = [f"{places[index]:.1f} {scale.height(values[index]):.2f}" for index in known]
    return "M" + "L".join(points) if points else ""


def _bars(panel: Panel, places: Sequence[float], scale: _Scale) -> str:
    """Two standard errors up and down."""
    assert panel.error is not None
    parts = []
    for index, (value, error) in enumerate(zip(panel.measured, panel.error, strict=True)):
        if np.isfinite(value) and np.isfinite(error) and error > 0:
            high, low = scale.height(value + 2 * error), scale.height(value - 2 * error)
            if low - high > 0.5:
                parts.append(f"M{places[index]:.1f} {high:.1f}V{low:.1f}")
    return "".join(parts)


def _dots(values: Floats, rows: Sequence[int], places: Sequence[float], scale: _Scale) -> str:
    """Strokes without length, which round ends make dots: they stay round when the drawing is stretched."""
    known = [index for index in rows if np.isfinite(values[index])]
    return "".join(f"M{places[index]:.1f} {scale.height(values[index]):.2f}h0" for index in known)


def depth_ticks(rows: int) -> list[int]:
    """Rows that are named below the axis, in even steps from the first."""
    return list(range(0, rows, max(1, -(-(rows - 1) // (_MOST_TICKS - 1)))))


def axis_name(title: str) -> str:
    """Without the kind; of a long path the numbered block, else its end.

    >>> axis_name("encoder.blocks.3.attention.query (Linear)"), axis_name("attention.output.dense")
    ('blocks.3…', '…output.dense')
    """
    name = title.partition(" (")[0]
    if len(name) <= _SHORT:
        return name
    block = re.search(r"(?:^|\.)([^.]+\.\d+)\.(?!.*\.\d+\.)", name)
    return f"{block[1]}…" if block and len(block[1]) < _SHORT else f"…{name[1 - _SHORT :]}"


def _axis(names: Sequence[str], panels: Sequence[Panel]) -> list[dict[str, str]]:
    """Some of the names with their places, of rows that show something; a narrow page leaves some out."""
    shown = [np.isfinite(side) for panel in panels for side in (panel.measured, panel.predicted) if side is not None]
    known = np.flatnonzero(np.any(shown, axis=0)) if shown else np.arange(len(names))
    places: list[int] = []
    for index in depth_ticks(len(names)):
        nearest = int(known[np.abs(known - index).argmin()])
        if not places or nearest - places[-1] > _APART * len(names) / _MOST_TICKS:
            places.append(nearest)
    shorts = [axis_name(names[index]) for index in places]
    every = 2 if max(map(len, shorts)) < _LONG else 3
    ticks = []
    for place, (index, name) in enumerate(zip(places, shorts, strict=True)):
        across = (index + 0.5) / len(names)
        roles = ["minor"] * (place % every > 0) + ["at-start"] * (across < 1 - _NEAR_THE_END)
        roles += ["at-end"] * (place > 0 and across > _NEAR_THE_END)
        ticks.append({"left": f"{100 * across:.2f}", "name": name, "role": " ".join(roles)})
    return ticks
