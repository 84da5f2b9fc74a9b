"""Pictures of results: plain matplotlib, no pyplot, so that nothing global is touched.

The colours are constants because the page exchanges them for CSS variables (`initscope.pages.svg`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.geometry import covered_rows, mean_over_pairs
from initscope.results import label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.geometry import Comparison, Floats, Prediction, Row

__all__ = ["GREY", "MEASURED", "PREDICTED", "THIRD", "angle_figure", "new_axes", "norm_figure", "pairs_figure"]

PREDICTED = "#2563c9"
MEASURED = "#c2410c"
THIRD = "#0f766e"
GREY = "#8a8f98"
_MOST_TICKS = 9
_BAND = (10, 90)  # percentiles over pairs


def new_axes(width: float = 5.8, height: float = 3.6) -> Axes:
    """Axes of a figure of their own, drawn lightly: two spines and a faint grid."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=GREY, alpha=0.25, linewidth=0.7)
    ax.set_axisbelow(True)
    return ax


def angle_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Mean angle after each layer with the middle 80 % of the pairs; measured means with two standard errors."""
    ax = new_axes() if ax is None else ax
    predicted, measured = comparison.prediction, comparison.measurement
    if predicted is not None:
        _band(ax, predicted.angle, PREDICTED)
        ax.plot(mean_over_pairs(predicted.angle), color=PREDICTED, label="predicted")
        _spread_of_a_draw(ax, predicted)
    if measured is not None:
        if predicted is None:
            _band(ax, measured.angle, MEASURED)
        _points(ax, mean_over_pairs(measured.angle), measured.mean_angle_se, range(len(measured.rows)))
    ax.set_ylabel("angle between pairs (degrees)")
    ax.set_ylim(bottom=0)
    _finish_depth(ax, comparison.rows)
    return ax


def _spread_of_a_draw(ax: Axes, predicted: Prediction) -> None:
    """Dashed lines two standard deviations of one draw around the mean angle, where the widths tell (dense stacks)."""
    if predicted.cosine_sd is None or not (predicted.cosine_sd[1:] > 0).any():
        return
    angle = predicted.angle
    sine = np.sin(np.radians(angle))
    spread = mean_over_pairs(np.degrees(predicted.cosine_sd / np.where(sine > 0, sine, np.nan)))
    for sign, label in ((1, "± 2 sd of one draw"), (-1, None)):
        ax.plot(mean_over_pairs(angle) + 2 * sign * spread, color=PREDICTED, linestyle="--", linewidth=0.9, label=label)


def norm_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Size per unit relative to the input's (``rms_ratio``), measured with two standard errors.

    Drawn behind activations, where the size returns to what it was; between them weights scale it up and down.
    Logarithmic if it changes twentyfold.
    """
    ax = new_axes() if ax is None else ax
    predicted, measured = comparison.prediction, comparison.measurement
    shown = [0, *_behind_activations(comparison.rows, range(1, len(comparison.rows)))]
    drawn, highest = [], 0.0
    if predicted is not None:
        drawn.append(mean_over_pairs(predicted.rms_ratio)[shown])
        ax.plot(shown, drawn[-1], color=PREDICTED, label="predicted")
    if measured is not None:
        drawn.append(mean_over_pairs(measured.rms_ratio)[shown])
        relative = measured.mean_norm_ratio_se / mean_over_pairs(measured.norm_ratio)
        errors = relative[shown] * drawn[-1]
        _points(ax, drawn[-1], errors, shown)
        highest = float(np.nanmax(drawn[-1] + 2 * np.nan_to_num(errors), initial=0.0))
    values = np.concatenate(drawn)
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.ones(1)
    if values.min() > 0 and values.max() > 20 * values.min():
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.1 * max(highest, values.max()))
    ax.set_ylabel("size per unit, relative to the input's")
    _finish_depth(ax, comparison.rows)
    return ax


def pairs_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Cosine of every pair after the first, the middle and the last activation: measured against predicted.

    Where only one of the two is there, it is drawn against the cosine of the inputs.
    """
    ax = new_axes(height=4.4) if ax is None else ax
    predicted, measured = comparison.prediction, comparison.measurement
    shown: Any = measured if measured is not None else predicted
    start = covered_rows(shown.cosine)[:1] or [0]
    against = (
        predicted.cosine if predicted is not None and measured is not None else shown.cosine[start * len(shown.rows)]
    )
    chosen = _first_middle_last(comparison.rows, against + shown.cosine)
    for row, color, marker in zip(chosen, (PREDICTED, THIRD, MEASURED), "os^", strict=False):
        label = f"after {label_text(comparison.rows[row].layer)}"
        ax.plot(against[row], shown.cosine[row], marker, color=color, markersize=4.5, alpha=0.75, label=label)
    points = np.concatenate([against[chosen], shown.cosine[chosen]], axis=None) if chosen else np.array([0.0, 1.0])
    low, high = max(-1.0, np.nanmin(points) - 0.03), min(1.0, np.nanmax(points) + 0.03)
    ax.plot([low, high], [low, high], color=GREY, linewidth=1.2, linestyle="--", zorder=1)
    both = predicted is not None and measured is not None
    ax.set_xlabel("predicted cosine" if both else "cosine of the inputs")
    ax.set_ylabel(f"{'measured' if measured is not None else 'predicted'} cosine")
    if chosen:
        ax.legend(frameon=False)
    return ax


def _band(ax: Axes, values: Floats, color: str) -> None:
    known = [row[np.isfinite(row)] for row in values]
    low, high = np.array([np.percentile(row, _BAND) if len(row) else (np.nan, np.nan) for row in known]).T
    ax.fill_between(np.arange(len(values)), low, high, color=color, alpha=0.15, linewidth=0, label="80 % of the pairs")


def _points(ax: Axes, values: Floats, errors: Floats, places: Sequence[int]) -> None:
    ax.errorbar(
        places,
        values,
        yerr=2 * np.nan_to_num(errors),
        fmt="o",
        color=MEASURED,
        markersize=4,
        elinewidth=1.2,
        label="measured, ± 2 standard errors" if np.isfinite(errors[1:]).any() else "measured",
    )


def _finish_depth(ax: Axes, rows: Sequence[Row]) -> None:
    """Name some of the layers below the axis: at most nine, counted back from the last, in even steps."""
    last = len(rows) - 1
    step = -(-last // (_MOST_TICKS - 1)) or 1
    step += step % 2 if step > 1 else 0
    ticks = list(range(last, -1, -step))
    names = [rows[tick].layer for tick in ticks]
    names = [name if len(name) <= 14 else f"…{name[-13:]}" for name in names]
    crowded = sum(len(name) + 1 for name in names) > 52
    names = [label_text(name) for name in names]
    ax.set_xticks(ticks, names, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    ax.legend(frameon=False, loc="best")


def _first_middle_last(rows: Sequence[Row], values: Floats) -> list[int]:
    covered = [row for row in covered_rows(values) if row > 0]
    behind = _behind_activations(rows, covered)
    return sorted({behind[0], behind[(len(behind) - 1) // 2], behind[-1]}) if behind else []


def _behind_activations(rows: Sequence[Row], places: Sequence[int]) -> list[int]:
    """Those of ``places`` where something else than weights or a rearrangement acts; all of them if there are none."""
    passing = ("weights", "movement", "bookkeeping")
    return [place for place in places if rows[place].role not in passing] or list(places)
