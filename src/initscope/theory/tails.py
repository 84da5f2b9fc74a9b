r"""Tails: Orlicz norms of variables and samples, and Bernstein's inequality, from which the filter counts follow.

Definition 3 and theorem 6 of [Nachum2022]_, with constants; what `initscope.theory.concentration` makes of them is
derived in the docs (plan).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from initscope.errors import InputError, check_between, check_count

__all__ = ["bernstein_bound", "orlicz_norm"]

BERNSTEIN_RATE = 0.25
"""The absolute constant c of Bernstein's inequality."""
_FARTHEST = 300
"""Doublings of the scale of a variable up to which its tail is followed: if it still grows there, no mean exists."""


def orlicz_norm(variable: Any, *, power: float = 2.0, psi: Callable[[np.ndarray], np.ndarray] | None = None) -> float:
    r"""Orlicz norm of a random variable or of a sample.

    .. math:: \|X\|_\psi = \inf\{t > 0 : E\,\psi(|X|/t) \le 1\}, \qquad \psi_p(x) = e^{x^p} - 1

    [Nachum2022]_ definition 3: X is sub-Gaussian if the norm with p = 2 is finite, sub-exponential if that with p = 1
    is.

    Parameters
    ----------
    variable
        A variable of ``scipy.stats`` (frozen, continuous or discrete), or numbers: then the norm is that of their
        empirical distribution. It is exact for that distribution and comes out too small for the true distribution; no
        standard error is given because none exists in the case of interest (of a Gaussian, :math:`e^{2X^2/t^2}` has no
        mean at the norm).
    power
        p ≥ 1 of ψ_p.
    psi
        Another convex function with ψ(0) = 0 that grows to infinity, in place of ψ_p; for samples only.

    Returns
    -------
    float
        The norm, infinite if there is none.

    >>> from scipy import stats
    >>> round(orlicz_norm(stats.norm()) ** 2, 9), round(orlicz_norm(stats.expon(), power=1), 9)      # 8/3 and 2
    (2.666666667, 2.0)
    >>> round(orlicz_norm([-1.0, 1.0]), 9)                                                        # 1/√ln 2
    1.201122409
    """
    if not power >= 1:
        raise InputError(f"power = {power} must be at least 1: ψ is convex")
    if hasattr(variable, "dist") or hasattr(variable, "cdf"):
        if psi is not None:
            raise InputError("psi is for samples; variables of scipy.stats have power=")
        mean, scale = _of_variable(variable, power)
    else:
        mean, scale = _of_sample(variable, power, psi)
    if scale == 0:
        return 0.0
    low, high = scale / 2, scale
    while mean(low) <= 1:
        low /= 2
    while mean(high) > 1:
        high *= 2
        if high > scale * 2.0**60:
            return math.inf
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if mean(middle) > 1 else (low, middle)
    return high


def _of_sample(
    sample: Any, power: float, psi: Callable[[np.ndarray], np.ndarray] | None
) -> tuple[Callable[[float], float], float]:
    """Return t ↦ mean of ψ(|x|/t), and the scale of the values."""
    sizes = np.abs(np.asarray(sample, dtype=np.float64)).ravel()
    if sizes.size == 0 or not np.isfinite(sizes).all():
        raise InputError(f"sample holds {sizes.size} numbers; give at least one, and only finite ones")

    def mean(t: float) -> float:
        with np.errstate(over="ignore"):
            return float((np.expm1((sizes / t) ** power) if psi is None else psi(sizes / t)).mean())

    return mean, float(sizes.max())


def _of_variable(variable: Any, power: float) -> tuple[Callable[[float], float], float]:
    """Return t ↦ E[exp((|X|/t)^p) - 1], and the median of |X| or a substitute."""
    scale = max(abs(float(variable.ppf(share))) for share in (0.25, 0.75))
    scale = scale if scale > 0 else max(abs(float(end)) for end in variable.ppf([1e-6, 1 - 1e-6]))
    discrete = hasattr(variable.dist, "pmf") if hasattr(variable, "dist") else False
    ends = [float(end) for end in variable.support()]
    if discrete:
        first, last = (float(variable.ppf(share)) for share in (1e-300, 1 - 1e-16))
        points = np.arange(max(ends[0], first), min(ends[1], last + 60 * scale + 60) + 1)
        log_weights = variable.logpmf(points)
    else:
        points, log_spacing = _quadrature_points(ends, scale)
        log_weights = variable.logpdf(points) + log_spacing

    def mean(t: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            logs = log_weights + (np.abs(points) / t) ** power
            logs = np.where(log_weights == -np.inf, -np.inf, logs)
            # A tail that is not negligible at the last point is one that grows: the mean is infinite.
            grows = any(
                math.isinf(end) and logs[index] > -40.0 for end, index in ((ends[0], 0), (ends[1], len(logs) - 1))
            )
            return math.inf if grows else float(np.exp(logs).sum() - np.exp(log_weights).sum())

    return mean, scale


def _quadrature_points(ends: list[float], scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre points on panels that widen away from 0, to the ends of the support, and their log weights."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    far = 2.0 ** np.concatenate([np.linspace(5.4, 20, 60), np.arange(21, _FARTHEST)])
    steps = scale * np.concatenate([2.0 ** np.arange(-40, -3), np.arange(0.125, 40, 0.125), far])
    edges = np.unique(np.clip(np.concatenate([-steps[::-1], [0.0], steps]), ends[0], ends[1]))
    edges = np.unique(np.concatenate([edges, [end for end in ends if math.isfinite(end)]]))
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (1 + nodes)
    return points.ravel(), np.log(half * weights).ravel()


def bernstein_bound(deviation: float, count: int, norm: float, *, rate: float = BERNSTEIN_RATE) -> float:
    r"""Bernstein's inequality: the probability of a large mean of independent centered sub-exponential variables.

    .. math:: P\Bigl(\Bigl|\frac1N\sum X_i\Bigr| \ge t\Bigr)
              \le 2\exp\Bigl(-c N\min\Bigl\{\frac{t^2}{K^2}, \frac tK\Bigr\}\Bigr), \qquad K = \max_i\|X_i\|_{\psi_1}

    [Nachum2022]_ theorem 6, which leaves c open. c = 1/4 holds: :math:`\sum_{p\ge1}E|X|^p/(p!\,K^p) \le 1` gives
    :math:`E e^{\lambda X} \le e^{\lambda^2K^2}` for \|λ\|K ≤ 1, and the best such λ the exponent
    min{t²/4K², t/2K}. K is `orlicz_norm` with ``power=1``. A bound, which may exceed 1.

    Parameters
    ----------
    deviation
        t > 0.
    count
        N, the number of variables.
    norm
        K > 0.
    rate
        c.

    >>> round(bernstein_bound(0.5, 400, 2.0), 6)      # 2 exp(-400/64)
    0.003861
    """
    count = check_count("count", count)
    ratio = check_between("deviation", deviation, 0.0, math.inf) / check_between("norm", norm, 0.0, math.inf)
    return 2 * math.exp(-check_between("rate", rate, 0.0, math.inf) * count * min(ratio**2, ratio))
