r"""Class geometry: effect of random weights on distances and angles, limit of training, intervals of medians.

`relu_distance_ratio` and `relu_angle_ratio` are the baselines for the ratios of a trained network;
`simplex_cosine` and `variability_collapse` say how far training has gone; `bootstrap_median` gives every median its
interval.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

from initscope.errors import InputError, check_count, check_probability
from initscope.theory._arrays import Array, namespace
from initscope.theory.angles import relu_angle, squared_distance

__all__ = [
    "Interval",
    "bootstrap_median",
    "relu_angle_ratio",
    "relu_distance_ratio",
    "simplex_cosine",
    "variability_collapse",
]


class Interval(NamedTuple):
    """A median and the interval of its bootstrap."""

    median: float
    low: float
    high: float


def bootstrap_median(values: Any, *, level: float = 0.95) -> Interval:
    r"""Return the median and its percentile-bootstrap interval, exactly: as from infinitely many resamples.

    A resample of n values has ``x_(k)`` or less as its m-th smallest value with the probability that at least m of n
    draws fall among the k smallest,

    .. math:: P(x^*_{(m)} \le x_{(k)}) = P(\mathrm{Bin}(n, k/n) \ge m), \qquad m = \lceil n/2 \rceil,

    so no random numbers are needed [Efron1979]_. NaN is left out. For even n the lower of the two middle values of a
    resample is taken, whose interval is wider by at most one order statistic.

    Values are independent, or rows ``[n, members]`` of values that belong together, as two distances from one anchor:
    then whole rows are resampled. The number of resampled values up to :math:`x_{(k)}` has mean k and variance
    :math:`\sum_i c_i^2 - k^2/n` with :math:`c_i` of them in row i, and is taken for Gaussian.

    >>> bootstrap_median([3.0, 1.0, 2.0])
    Interval(median=2.0, low=1.0, high=3.0)
    """
    table = np.atleast_2d(np.asarray(values, dtype=np.float64).T).T
    together = int(np.sum(~np.isnan(table).all(axis=1)))
    ranks = np.broadcast_to(np.arange(1, table.shape[1] + 1), table.shape)  # within each row, once it is sorted
    table = np.sort(table, axis=1)
    order = np.argsort(table, axis=None, kind="stable")
    order = order[: np.count_nonzero(~np.isnan(table))]
    rows, ranks = table.reshape(-1)[order], ranks.reshape(-1)[order]
    tail = (1 - check_probability("level", level, hint="a confidence, for example 0.95")) / 2
    if not len(rows):
        return Interval(np.nan, np.nan, np.nan)
    count = len(rows)
    middle = -(-count // 2)
    below = np.arange(1, count + 1)
    if table.shape[1] == 1:
        reached = binom.sf(middle - 1, count, below / count)
    else:
        squares = np.cumsum(2 * ranks - 1)  # the c-th value of a row adds c² - (c - 1)²
        deviation = np.sqrt(np.maximum(squares - below**2 / together, 1e-12))
        reached = norm.sf((middle - 0.5 - below) / deviation)
    low, high = np.searchsorted(reached, (tail, 1 - tail))
    return Interval(float(np.median(rows)), float(rows[low]), float(rows[min(high, count - 1)]))


def relu_angle_ratio(theta: Array, layers: int = 1) -> Array:
    r"""Return angle after ``layers`` wide random ReLU layers over the angle θ before: the map `relu_angle`, repeated.

    Below 1 for every θ in (0, π] and nearest to 1 for small angles: .99, .96, .79, .50 at 5, 20, 90, 180° after one
    layer; NaN at θ = 0, where nothing is left to compare (the limit is 1). [Giryes2016]_ theorem 4; the histograms of
    ∠(f(u), f(v))/∠(u, v) in [Bronstein2016]_.

    >>> round(float(relu_angle_ratio(np.pi)), 12)
    0.5
    """
    xp, theta = namespace(theta)
    angle = theta
    for _ in range(check_count("layers", layers, least=0)):
        angle = relu_angle(angle)
    return angle / xp.where(theta > 0, theta, xp.full_like(theta, float("nan")))


def relu_distance_ratio(norm_u: Array, norm_v: Array, theta: Array) -> Array:
    r"""Return the distance after one wide ReLU layer over the distance before, for entries N(0, 2/m), which keep norms.

    .. math:: \frac{\|R(Au)-R(Av)\|}{\|u-v\|} \to
              \sqrt{1 - \frac{2\,\|u\|\|v\|\,\psi(\theta)}{\|u-v\|^2}}

    Near 1 for small angles and 1/√2 for opposite inputs of one norm; NaN for equal ones. `squared_distance`,
    which is the concentration of distances in [Bronstein2016]_ with its sign corrected.

    >>> round(float(relu_distance_ratio(1.0, 1.0, np.pi)) ** 2, 12)
    0.5
    """
    xp, norm_u, norm_v, theta = namespace(norm_u, norm_v, theta)
    before = (norm_u - norm_v) ** 2 + 4 * norm_u * norm_v * xp.sin(theta / 2) ** 2
    after = 2 * squared_distance(norm_u, norm_v, theta)
    return xp.sqrt(after / xp.where(before > 0, before, xp.full_like(before, float("nan"))))


def simplex_cosine(classes: int) -> float:
    r"""Return the cosine between centered class means that are as far apart as possible: -1/(C-1).

    This is the limit of neural collapse: C vectors of one length with one angle between any two. [Papyan2020]_
    [Papyan2020]_

    >>> simplex_cosine(2)
    -1.0
    """
    return -1.0 / (check_count("classes", classes, least=2) - 1)


def variability_collapse(rows: NDArray[Any], classes: NDArray[Any]) -> float:
    r"""Return the variation within classes relative to that between them, :math:`\mathrm{tr}(\Sigma_W\Sigma_B^+)/C`.

    0 means collapsed.

    :math:`\Sigma_W` is the covariance of the rows around their class means, :math:`\Sigma_B` that of the class means
    around their mean (all classes weigh the same), ⁺ the pseudo-inverse. With M the centered means as columns,
    :math:`\Sigma_B^+ = C\,M^{+\top}M^+`: no matrix of the size of the features squared is formed. [Papyan2020]_

    >>> points = np.array([[0.0, 1.0], [0.0, -1.0], [4.0, 1.0], [4.0, -1.0]])
    >>> variability_collapse(points, np.array([0, 0, 1, 1]))      # varies across the line between the means only
    0.0
    """
    labels, number = np.unique(classes, return_inverse=True)
    if len(labels) < 2:
        raise InputError(f"{len(labels)} class: variation between classes needs at least two")
    rows = np.asarray(rows, dtype=np.float64)
    means = np.stack([rows[number == index].mean(axis=0) for index in range(len(labels))])
    centered = means - means.mean(axis=0)
    inverse = np.linalg.pinv(centered.T, rcond=1e-10)
    within = 0.0
    for index in range(len(labels)):
        part = rows[number == index] - means[index]
        within += float(((part @ inverse.T) ** 2).sum(axis=1).mean()) / len(labels)
    return within
