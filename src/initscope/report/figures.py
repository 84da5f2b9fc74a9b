"""Pictures of results: plain matplotlib, no pyplot, so that nothing global is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.report.geometry import Comparison

__all__ = ["angle_figure", "new_axes"]


def new_axes(width: float = 7.0, height: float = 4.0) -> Axes:
    """Axes of a figure of their own."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def angle_figure(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Mean angle after each layer: predicted as a line, measured as points with two standard errors."""
    ax = new_axes() if ax is None else ax
    if comparison.prediction is not None:
        ax.plot(comparison.prediction.angle.mean(axis=1), label="predicted")
    if comparison.measurement is not None:
        angle = comparison.measurement.angle.mean(axis=1)
        slope = np.sin(np.radians(angle))
        error = np.degrees(comparison.measurement.mean_cosine_se / np.where(slope > 0, slope, np.nan))
        ax.errorbar(np.arange(len(angle)), angle, yerr=2 * np.nan_to_num(error), fmt="o", label="measured")
    ax.set_xlabel("layer")
    ax.set_ylabel("mean angle of pairs (degrees)")
    ax.set_ylim(bottom=0)
    ax.legend()
    return ax
