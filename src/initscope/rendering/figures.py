"""Figures of results with matplotlib, without pyplot, so that no global state changes.

Colors are constants because `initscope.rendering.svg` replaces them by CSS variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.palette import GRAY, PALETTE
from initscope.geometry import covered_rows, mean_over_pairs
from initscope.rendering.depth import axis_limits, axis_name, depth_ticks
from initscope.results import label_text, make_axes, make_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.geometry import Comparison, Floats, Prediction, Row
    from initscope.rendering.depth import Panel

__all__ = [
    "BAD",
    "GRAY",
    "MEASURED",
    "PREDICTED",
    "SMALL",
    "THIRD",
    "angle_figure",
    "new_axes",
    "pairs_figure",
    "panels_figure",
    "rows_after_activations",
]

PREDICTED, MEASURED, THIRD = PALETTE[:3]
BAD = "#a3125f"
SMALL = (4.8, 3.2)
"""Size in inches of figures that stand side by side on a page. Larger figures would be scaled down with their text."""
_MOST_TICKS = 9
_BAND = (10, 90)  # percentiles over pairs


def new_axes(width: float = 5.8, height: float = 3.6) -> Axes:
    """Return the axes of a new figure of this size in inches."""
    return make_axes(None, (width, height))


def angle_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Plot the mean angle after each layer, with the middle 80 % of the pairs and two standard errors."""
    ax = new_axes() if ax is None else ax
    predicted, measured = comparison.prediction, comparison.measurement
    if predicted is not None:
        _band(ax, predicted.angle, PREDICTED)
        shift = predicted.angle_shift
        limit = "predicted" if shift is None else "limit of wide layers"
        ax.plot(mean_over_pairs(predicted.angle), color=PREDICTED, linewidth=1.5 if shift is None else 0.6, label=limit)
        if shift is not None:
            ax.plot(mean_over_pairs(predicted.angle + shift), color=PREDICTED, label="predicted at these widths")
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
    """Add dashed lines two standard deviations of one draw around the mean angle, if the prediction has them."""
    spread, shift = predicted.angle_sd, predicted.angle_shift
    if spread is None:
        return
    center = mean_over_pairs(predicted.angle if shift is None else predicted.angle + shift)
    for sign, label in ((1, "± 2 sd of one draw"), (-1, None)):
        ax.plot(
            center + 2 * sign * mean_over_pairs(spread), color=PREDICTED, linestyle="--", linewidth=0.9, label=label
        )


def panels_figure(panels: Sequence[Panel], titles: Sequence[str], marked: Sequence[frozenset[int]]) -> Axes:
    """Plot panels against depth, one above the other with a shared axis of layers; return the first axes.

    Healthy ranges are shaded. ``marked`` holds for each panel the rows that are beyond a threshold.
    """
    shown = [(panel, rows) for panel, rows in zip(panels, marked, strict=True) if len(panel.known)]
    axes = make_grid(len(shown), 1, (7.2, 1.25 * len(shown) + 0.7), sharex=True)[:, 0]
    for ax, (panel, rows) in zip(axes, shown, strict=True):
        _panel(ax, panel, sorted(rows))
    first, ax, figure = axes[0], axes[-1], axes[0].figure
    ticks = depth_ticks(len(titles))
    ax.set_xticks(ticks, [label_text(axis_name(titles[tick])) for tick in ticks])
    entries = [ax.get_legend_handles_labels() for ax in figure.axes]
    legend = {label: handle for handles, labels in entries for handle, label in zip(handles, labels, strict=True)}
    figure.legend(legend.values(), legend.keys(), frameon=False, loc="outside upper left", ncols=len(legend))
    figure.align_ylabels()
    return first  # type: ignore[no-any-return]


def _panel(ax: Axes, panel: Panel, marked: Sequence[int]) -> None:
    low, high, logarithmic = axis_limits(panel)
    band = (low if panel.low is None else panel.low, high if panel.high is None else panel.high)
    if panel.low is not None or panel.high is not None:
        ax.axhspan(max(low, band[0]), min(high, band[1]), color=THIRD, alpha=0.1, linewidth=0, label="healthy")
    rows = np.arange(len(panel.measured))
    ax.set_yscale("log" if logarithmic else "linear")
    ax.set_ylim(low, high)
    heights = np.clip(panel.measured, low, None) if logarithmic else panel.measured  # zeros are drawn on the axis
    errors = None if panel.error is None else 2 * np.nan_to_num(panel.error)
    ax.errorbar(rows, heights, yerr=errors, fmt="o", color=MEASURED, markersize=3, elinewidth=1, label="measured")
    if marked:
        ax.plot(rows[marked], heights[marked], "s", color=BAD, markersize=4.5, zorder=3, label="out of bounds")
    if panel.predicted is not None:
        known = np.isfinite(panel.predicted)
        ax.plot(rows[known], panel.predicted[known], color=PREDICTED, label="predicted")
    ax.set_ylabel(panel.name)


def pairs_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Plot the cosine of every pair after the first, the middle and the last activation, measured against predicted.

    With only one of the two, the horizontal axis is the cosine of the inputs.
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
        title = label_text(comparison.rows[row].title)
        label = title if " after layer " in title else f"after {title}"
        ax.plot(against[row], shown.cosine[row], marker, color=color, markersize=4.5, alpha=0.75, label=label)
    points = np.concatenate([against[chosen], shown.cosine[chosen]], axis=None) if chosen else np.array([0.0, 1.0])
    low, high = max(-1.0, np.nanmin(points) - 0.03), min(1.0, np.nanmax(points) + 0.03)
    ax.plot([low, high], [low, high], color=GRAY, linewidth=1.2, linestyle="--", zorder=1)
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


def _points(ax: Axes, values: Floats, errors: Floats, rows: Sequence[int]) -> None:
    ax.errorbar(
        rows,
        values,
        yerr=2 * np.nan_to_num(errors),
        fmt="o",
        color=MEASURED,
        markersize=4,
        elinewidth=1.2,
        label="measured, ± 2 standard errors" if np.isfinite(errors[1:]).any() else "measured",
    )


def _finish_depth(ax: Axes, rows: Sequence[Row]) -> None:
    """Label at most nine layers on the axis, in equal steps back from the last layer."""
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
    after = rows_after_activations(rows, covered)
    return sorted({after[0], after[(len(after) - 1) // 2], after[-1]}) if after else []


def rows_after_activations(rows: Sequence[Row], candidates: Sequence[int]) -> list[int]:
    """Return the rows of ``candidates`` that are neither weights nor rearrangements; all of them if there are none."""
    passing = ("weights", "movement", "bookkeeping")
    return [row for row in candidates if rows[row].role not in passing] or list(candidates)
