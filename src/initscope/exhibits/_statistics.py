"""What the exhibits share: means over draws, straight lines, shares and rank correlations, with their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from initscope.results import Result

__all__ = ["Line", "Share", "fit_line", "mean_and_error", "rank_correlation", "share"]


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


@dataclass(frozen=True)
class Share(Result):
    """A share or a correlation with its 95 % interval; NaN where nothing was counted."""

    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Standard error that a normal law with this interval would have."""
        return (self.high - self.low) / 3.92


def share(part: int, whole: int) -> Share:
    """A share of independent cases with the interval of Clopper and Pearson (1934).

    >>> share(9, 10)
    Share(value=0.9, low=0.554984, high=0.997471)
    """
    from scipy.stats import binomtest

    if not whole:
        return Share(np.nan, np.nan, np.nan)
    low, high = binomtest(part, whole).proportion_ci(method="exact")
    return Share(part / whole, round(float(low), 6), round(float(high), 6))


def rank_correlation(x: ArrayLike, y: ArrayLike) -> Share:
    """Spearman's correlation; the interval is Fisher's, with the variance 1.06/(n - 3) of Fieller et al. (1957)."""
    from scipy.stats import spearmanr

    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    value = float(spearmanr(x, y).statistic)
    width = 1.96 * np.sqrt(1.06 / max(len(x) - 3, 1))
    centre = np.arctanh(np.clip(value, -0.999999, 0.999999))
    return Share(value, float(np.tanh(centre - width)), float(np.tanh(centre + width)))
