"""Shared by reproductions: means over draws, line fits, proportions and rank correlations, with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from initscope.reproductions.protocol import Number
from initscope.results import Result

__all__ = ["Line", "Share", "extrapolate", "fit_line", "jackknife", "mean_and_error", "rank_correlation", "share"]


Group = TypeVar("Group")


def mean_and_error(draws: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over the last axis and its standard error (NaN for a single draw).

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
    """A line ``intercept + slope · x``; ``explained`` is the fraction of the variance that it explains."""

    slope: float
    slope_error: float
    intercept: float
    explained: float


def fit_line(x: ArrayLike, y: ArrayLike, errors: ArrayLike) -> Line:
    """Fit a line by least squares to points with independent standard errors.

    The error of the slope is the larger of two estimates: from the standard errors, and from the residuals. The second
    one accounts for data that do not lie exactly on a line.
    """
    x, y, errors = (np.asarray(values, dtype=np.float64) for values in (x, y, errors))
    offsets = x - x.mean()
    shares = offsets / (offsets**2).sum()
    slope = float(shares @ y)
    residuals = y - y.mean() - slope * offsets
    freedom = max(len(x) - 2, 1)  # with two points the residuals are 0
    return Line(
        slope=slope,
        slope_error=float(
            np.sqrt(max((shares**2 * errors**2).sum(), (residuals**2).sum() / freedom * (shares**2).sum()))
        ),
        intercept=float(y.mean() - slope * x.mean()),
        explained=float(1 - residuals.var() / y.var()),
    )


def extrapolate(sizes: ArrayLike, means: ArrayLike, errors: ArrayLike, *, power: float = 2 / 3) -> Number:
    """Return the limit of means that approach it like a multiple of ``sizes ** -power``, by weighted least squares.

    The error is that of independent standard errors, enlarged if the residuals are larger than these.

    >>> extrapolate([8, 27, 64], [1.25, 1 + 1 / 9, 1.0625], [0.1, 0.1, 0.1]).value
    1.0
    """
    sizes, means, errors = (np.asarray(values, dtype=np.float64) for values in (sizes, means, errors))
    design = np.column_stack([np.ones_like(sizes), sizes**-power]) / errors[:, None]
    covariance = np.linalg.inv(design.T @ design)
    solution = covariance @ design.T @ (means / errors)
    residuals = means / errors - design @ solution
    scale = max(1.0, float(residuals @ residuals) / max(1, len(sizes) - 2))
    return Number(round(float(solution[0]), 12), float(np.sqrt(scale * covariance[0, 0])))


@dataclass(frozen=True)
class Share(Result):
    """A proportion or a correlation with its 95 % interval; NaN without cases."""

    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Standard error of a normal distribution with this interval."""
        return (self.high - self.low) / 3.92


def share(part: int, whole: int) -> Share:
    """Return a proportion of independent cases with the interval of Clopper and Pearson (1934).

    >>> share(9, 10)
    Share(value=0.9, low=0.554984, high=0.997471)
    """
    from scipy.stats import binomtest

    if not whole:
        return Share(np.nan, np.nan, np.nan)
    low, high = binomtest(part, whole).proportion_ci(method="exact")
    return Share(part / whole, round(float(low), 6), round(float(high), 6))


def rank_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's rank correlation; 0 if all values of a side are equal.

    >>> rank_correlation([1, 2, 3, 4], [1, 3, 2, 40]), rank_correlation([1, 1], [2, 3])
    (0.8, 0.0)
    """
    from scipy.stats import rankdata

    first, second = (rankdata(np.asarray(side, dtype=np.float64)) for side in (x, y))
    if min(first.std(), second.std()) == 0:
        return 0.0
    return round(float(np.corrcoef(first, second)[0, 1]), 12)


def jackknife(statistic: Callable[[list[Group]], float], groups: Sequence[Group]) -> Share:
    """Return a statistic of independent groups of cases, with the interval of its delete-one jackknife error.

    Tukey (1958). Cases of one group may depend on each other. The interval is clipped to [-1, 1].

    >>> jackknife(lambda groups: float(np.mean(groups)), [0.0, 0.2, 0.4])  # of a mean: the usual standard error, 0.115
    Share(value=0.2, low=-0.026321, high=0.426321)
    """
    count = len(groups)
    value = statistic(list(groups))
    if count < 2:
        return Share(value, np.nan, np.nan)
    without = np.array([statistic([*groups[:index], *groups[index + 1 :]]) for index in range(count)])
    error = float(np.sqrt((count - 1) * np.mean((without - without.mean()) ** 2)))
    low, high = max(-1.0, value - 1.96 * error), min(1.0, value + 1.96 * error)
    return Share(round(value, 6), round(low, 6), round(high, 6))
