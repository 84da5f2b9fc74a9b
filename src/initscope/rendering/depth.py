"""Plots of quantities against depth: panels with a shared axis of layers, as SVG that stretches with the page.

The SVG holds lines and dots, and its width is the width of the page. Names and ticks are HTML next to it, so that
stretching does not change the size of text. The plots need no script; the script of the page reads `Panel.to_dict`.
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

__all__ = ["Panel", "axis_limits", "axis_name", "depth_ticks", "drawn_panels", "panel_curves", "rounded"]

_WIDTH, _HEIGHT = 1000.0, 100.0  # in the coordinates of the SVG
_MOST_TICKS = 8
_TWENTYFOLD = 20.0
_DIGITS = 6
_NEAR_THE_END = 0.96
"""Fraction of the width after which a centered name would cross the edge; the same holds at the left edge."""
_APART = 0.8
"""Smallest distance between names, as a fraction of an equal step."""
_SHORT = 13
"""Maximum number of characters of a name on the axis."""
_LONG = 10
"""Names of this length do not fit on a phone at every second tick."""


def rounded(values: Floats) -> list[float | None]:
    """Return values for JSON: six significant digits, None where there is no number."""
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in plain(values)]


@dataclass(frozen=True)
class Panel:
    """A quantity after every layer, for a plot.

    Attributes
    ----------
    name, title, says : str
        Name of the quantity, its short description, and how to read the plot.
    measured, error, predicted : array ``[rows]``
        Measured means, their standard errors, and predictions; NaN if a value is missing.
    low, high : float or None
        Bounds of the healthy range; None if it is unbounded.
    least, most : float or None
        Ends of the axis; None chooses them from the values.
    logarithmic : bool or None
        Whether the axis is logarithmic; None: if the largest value is over 20 times the smallest.
    rounding : float
        Measured values below this are rounding errors.
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
        """Finite values, measured and predicted."""
        values = np.concatenate([self.measured, np.array([]) if self.predicted is None else self.predicted])
        return np.asarray(values[np.isfinite(values)])

    @property
    def highest_bar(self) -> float:
        """Upper end of the highest error bar; 0 without error bars."""
        ends = self.measured + 2 * self.error if self.error is not None else np.array([])
        return float(max(ends[np.isfinite(ends)], default=0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the script of the page reads."""
        sides = {"measured": self.measured, "error": self.error, "predicted": self.predicted}
        known = {name: rounded(values) for name, values in sides.items() if values is not None}
        return {"name": self.name, "low": self.low, "high": self.high, "rounding": self.rounding} | known


@dataclass(frozen=True)
class _Scale:
    """Map from values to vertical coordinates of the SVG, 0 at the top."""

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
        """Return three or four round numbers."""
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
    positive = values[values > panel.rounding]
    logarithmic = panel.logarithmic
    if logarithmic is None:
        logarithmic = bool(len(positive)) and positive.max() > _TWENTYFOLD * positive.min()
    if logarithmic and len(positive):
        low, high = positive.min() / 1.6, positive.max() * 1.6
        for edge in (panel.low, panel.high):  # a threshold near the values is shown
            if edge is not None and low / 100 < edge < 100 * high:
                low, high = min(low, edge / 2), max(high, edge * 2)
        return _Scale(max(float(low), 1e-300), min(float(high), 1e300), logarithmic=True)
    low = min(0.0, values.min()) if panel.least is None else panel.least
    high = 1.08 * max(values.max(), panel.highest_bar, 1e-12) if panel.most is None else panel.most
    return _Scale(float(low), float(high), logarithmic=False)


def axis_limits(panel: Panel) -> tuple[float, float, bool]:
    """Return the lower and the upper end of the axis of a panel, and whether it is logarithmic."""
    scale = _scale(panel)
    return scale.low, scale.high, scale.logarithmic


def drawn_panels(panels: Sequence[Panel], names: Sequence[str], bad: Sequence[frozenset[int]] = ()) -> dict[str, Any]:
    """Return the context of the template ``depth.html``: a plot for each panel with values, and the ticks of the axis.

    ``names`` are the names of the layers; ``bad`` holds for each panel the rows to mark.
    """
    shown = [(panel, bad[index] if bad else frozenset()) for index, panel in enumerate(panels) if len(panel.known)]
    return {
        "panels": [_drawn(panel, marked) for panel, marked in shown],
        "axis": _axis(names, [panel for panel, _ in shown]),
        "data": [panel.to_dict() for panel, _ in shown],
        "rows": len(names),
    }


def _positions(count: int) -> list[float]:
    return [_WIDTH * (index + 0.5) / count for index in range(count)]


def _frame(panel: Panel, scale: _Scale) -> dict[str, Any]:
    """Return the healthy range and the ticks."""
    top = 0.0 if panel.high is None else scale.height(panel.high)
    bottom = _HEIGHT if panel.low is None else scale.height(panel.low)
    return {
        "healthy": (f"{top:.1f}", f"{bottom - top:.1f}"),
        "has_band": panel.low is not None or panel.high is not None,
        "ticks": [(f"{scale.height(tick):.1f}", _tick(tick)) for tick in scale.ticks()],
    }


def panel_curves(panel: Panel, series: Sequence[Floats]) -> dict[str, Any]:
    """Return paths of several series on the axis of ``panel``, its healthy range and its ticks."""
    scale = _scale(panel)
    return {"paths": [_line(values, _positions(len(values)), scale) for values in series]} | _frame(panel, scale)


def _drawn(panel: Panel, marked: frozenset[int]) -> dict[str, Any]:
    scale = _scale(panel)
    count = len(panel.measured)
    positions = _positions(count)
    good = [index for index in range(count) if np.isfinite(panel.measured[index]) and index not in marked]
    return {
        "name": panel.name,
        "title": panel.title,
        "says": panel.says,
        "line": "" if panel.predicted is None else _line(panel.predicted, positions, scale),
        "bars": "" if panel.error is None else _bars(panel, positions, scale),
        "dots": _dots(panel.measured, good, positions, scale),
        "marked": _dots(panel.measured, sorted(marked), positions, scale),
    } | _frame(panel, scale)


def _tick(value: float) -> str:
    """Return a short text such as 1e-12, 0.01, 20 or 1000."""
    if value and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return f"{value:g}"


def _line(values: Floats, positions: Sequence[float], scale: _Scale) -> str:
    """Return the path through the rows with values; rows without a value are skipped."""
    known = [index for index, value in enumerate(values) if np.isfinite(value)]
    points = [f"{positions[index]:.1f} {scale.height(values[index]):.2f}" for index in known]
    return "M" + "L".join(points) if points else ""


def _bars(panel: Panel, positions: Sequence[float], scale: _Scale) -> str:
    """Return the path of error bars, two standard errors up and down."""
    assert panel.error is not None
    parts = []
    for index, (value, error) in enumerate(zip(panel.measured, panel.error, strict=True)):
        if np.isfinite(value) and np.isfinite(error) and error > 0:
            high, low = scale.height(value + 2 * error), scale.height(value - 2 * error)
            if low - high > 0.5:
                parts.append(f"M{positions[index]:.1f} {high:.1f}V{low:.1f}")
    return "".join(parts)


def _dots(values: Floats, rows: Sequence[int], positions: Sequence[float], scale: _Scale) -> str:
    """Return a path of strokes of length zero: with round caps they are dots that stay round when the SVG stretches."""
    known = [index for index in rows if np.isfinite(values[index])]
    return "".join(f"M{positions[index]:.1f} {scale.height(values[index]):.2f}h0" for index in known)


def depth_ticks(rows: int) -> list[int]:
    """Return the rows to label on the axis, in equal steps from the first row."""
    return list(range(0, rows, max(1, -(-(rows - 1) // (_MOST_TICKS - 1)))))


def axis_name(title: str) -> str:
    """Return a short name without the kind of layer: of a long path the numbered block, otherwise its end.

    >>> axis_name("encoder.blocks.3.attention.query (Linear)"), axis_name("attention.output.dense")
    ('blocks.3…', '…output.dense')
    >>> axis_name("layer 11 (Linear)"), axis_name("ReLU after layer 11")
    ('layer 11', 'ReLU')
    """
    name = re.sub(r" (after|before) layer \d+$", "", title.partition(" (")[0])
    if len(name) <= _SHORT:
        return name
    block = re.search(r"(?:^|\.)([^.]+\.\d+)\.(?!.*\.\d+\.)", name)
    return f"{block[1]}…" if block and len(block[1]) < _SHORT else f"…{name[1 - _SHORT :]}"


def _axis(names: Sequence[str], panels: Sequence[Panel]) -> list[dict[str, str]]:
    """Return the ticks: names and positions of some rows that have values; narrow pages hide the minor ticks."""
    shown = [np.isfinite(side) for panel in panels for side in (panel.measured, panel.predicted) if side is not None]
    known = np.flatnonzero(np.any(shown, axis=0)) if shown else np.arange(len(names))
    rows: list[int] = []
    for index in depth_ticks(len(names)):
        nearest = int(known[np.abs(known - index).argmin()])
        if not rows or nearest - rows[-1] > _APART * len(names) / _MOST_TICKS:
            rows.append(nearest)
    shorts = [axis_name(names[index]) for index in rows]
    every = 2 if max(map(len, shorts)) < _LONG else 3
    ticks = []
    for number, (index, name) in enumerate(zip(rows, shorts, strict=True)):
        across = (index + 0.5) / len(names)
        roles = ["minor"] * (number % every > 0) + ["at-start"] * (across < 1 - _NEAR_THE_END)
        roles += ["at-end"] * (number > 0 and across > _NEAR_THE_END)
        ticks.append({"left": f"{100 * across:.2f}", "name": name, "role": " ".join(roles)})
    return ticks
