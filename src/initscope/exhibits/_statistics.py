"""What the exhibits share: means over draws and straight lines, with their standard errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Line", "fit_line", "mean_and_error"]


def mean_and_error(draws: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the last axis, and its standard error (NaN for a single draw).

    >>> mean_and_error([[1.0, 3.0], [2.0, 2.0]])
    (array([2., 2.]), array([1., 0.]))
    """
    draws = np.asarray(draws, dtype=np.float64)
    count = draws.shape[-1]
    if count == 1:
        return draws[..., 0], np.full(draws.shape[:-1], np.nan)
    return draws.mean(axis=-1), draws.std(axis=-1, ddof=1) / np.sqrt(count)


@dataclass(frozen=True)
class Line:
    """A straight line ``intercept + slope · x``; ``explained`` is the share of the variance that it accounts for."""

    slope: float
    slope_error: float
    intercept: float
    explained: float


def fit_line(x: ArrayLike, y: ArrayLike, errors: ArrayLike) -> Line:
    """Least squares through points with independent standard errors.

    The slope's error is the larger of what these give and of what the scatter about the line gives: a law that is not
    quite straight has a slope less certain than its points.
    """
    x, y, errors = (np.asarray(values, dtype=np.float64) for values in (x, y, errors))
    offsets = x - x.mean()
    shares = offsets / (offsets**2).sum()
    slope = float(shares @ y)
    residuals = y - y.mean() - slope * offsets
    freedom = max(len(x) - 2, 1)  # through two points the line is exact: residuals are 0
    return Line(
        slope=slope,
        slope_error=float(
            np.sqrt(max((shares**2 * errors**2).sum(), (residuals**2).sum() / freedom * (shares**2).sum()))
        ),
        intercept=float(y.mean() - slope * x.mean()),
        explained=float(1 - residuals.var() / y.var()),
    )
