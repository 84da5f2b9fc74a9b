"""Mean angles and RMS ratios of a `Comparison` after every layer, with standard errors, for panels and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from initscope.geometry import Comparison, Floats, Measurement, mean_over_pairs

__all__ = ["Quantity", "angles", "error_over_pairs", "sizes"]


@dataclass(frozen=True)
class Quantity:
    """Means over pairs ``[rows]``: measured with standard errors, predicted with the standard deviation of one draw.

    ``error_is`` names what the standard errors average over; it is empty without errors.
    """

    measured: Floats
    error: Floats | None = None
    predicted: Floats | None = None
    spread: Floats | None = None
    error_is: str = ""

    def at(self, rows: Sequence[int]) -> Quantity:
        """Return a copy with NaN at all other rows."""
        hidden = np.ones(len(self.measured), dtype=bool)
        hidden[list(rows)] = False

        def shown(side: Floats | None) -> Floats | None:
            return None if side is None else np.where(hidden, np.nan, side)

        measured = np.where(hidden, np.nan, self.measured)
        return replace(
            self,
            measured=measured,
            error=shown(self.error),
            predicted=shown(self.predicted),
            spread=shown(self.spread),
        )


def error_over_pairs(values: Floats) -> Floats:
    """Return the standard error of the mean over pairs, ``[rows]``; NaN with fewer than two values."""
    known = np.isfinite(values)
    counts = known.sum(axis=1)
    deviations = np.where(known, values - mean_over_pairs(values)[:, None], 0.0)
    squares = (deviations**2).sum(axis=1)
    few = np.full(len(values), np.nan)
    return np.asarray(np.sqrt(np.divide(squares, counts * np.maximum(counts - 1, 1), out=few, where=counts > 1)))


def angles(comparison: Comparison) -> Quantity:
    """Return mean angles in degrees."""
    predicted, measured = comparison.prediction, comparison.measurement
    per_pair = None if predicted is None else predicted.angle_sd
    spread = None if per_pair is None else mean_over_pairs(per_pair)
    expected = None if predicted is None else mean_over_pairs(predicted.angle)
    if measured is None:
        return Quantity(np.full(len(comparison.rows), np.nan), None, expected, spread)
    error = measured.mean_angle_se if measured.draws else error_over_pairs(measured.angle)
    return _with_error(mean_over_pairs(measured.angle), error, expected, spread, measured)


def sizes(comparison: Comparison) -> Quantity:
    """Return mean RMS ratios: root mean square of the units divided by that of the input."""
    predicted, measured = comparison.prediction, comparison.measurement
    expected = None if predicted is None else mean_over_pairs(predicted.rms_ratio)
    if measured is None:
        return Quantity(np.full(len(comparison.rows), np.nan), None, expected)
    mean = mean_over_pairs(measured.rms_ratio)
    if measured.draws:
        length = mean_over_pairs(measured.norm_ratio)
        error = measured.mean_norm_ratio_se * np.divide(mean, length, out=np.full(len(mean), np.nan), where=length > 0)
    else:
        error = error_over_pairs(measured.rms_ratio)
    return _with_error(mean, error, expected, None, measured)


def _with_error(
    mean: Floats, error: Floats, expected: Floats | None, spread: Floats | None, measured: Measurement
) -> Quantity:
    if not np.isfinite(error[1:]).any():
        return Quantity(mean, None, expected, spread)
    over = "over draws of the weights" if measured.draws else "over the pairs"
    return Quantity(mean, error, expected, spread, over)
