r"""Exact distribution of one layer: :math:`\|R(Wu)\|^2/\|u\|^2 = \frac{2}{m}\chi^2_B`, :math:`B \sim` Binomial(m, 1/2).

Rows of W are i.i.d. and isotropic, so the pre-activations are i.i.d. N(0, 2‖u‖²/m); signs and magnitudes of a Gaussian
are independent, so B units survive and contribute B squared Gaussians (proposition 1 of [ArpitBengio2019]_). The same
holds for a mask of any keep probability p (lemma 4) with 1/(pm) for 2/m. Beyond the paper, which has bounds only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from initscope.errors import check_between, check_count, check_probability
from initscope.theory._search import log_excess, smallest

__all__ = [
    "active_units",
    "norm_ratio_cdf",
    "norm_ratio_tail",
    "relu_norm_eps",
    "relu_norm_exact_width",
    "relu_norm_failure",
    "squared_norm_mean",
]

_MANY = 10_000
"""Active units from which on `_contour` takes over: SciPy's incomplete gamma functions fail at shapes of millions."""
_DEVIATIONS = 40.0
"""Binomial terms farther than this many standard deviations from the mean weigh less than the smallest double."""


def active_units(width: int, *, keep: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    r"""Proposition 1: numbers of active units and their probabilities, Binomial(width, keep).

    Source: [ArpitBengio2019]_ proposition 1 (one half); any share as in its lemma 4.

    Built from the ratio of neighboring terms and normalized, which keeps 13 digits at any width (log-gamma would lose
    them).

    >>> counts, probabilities = active_units(2)
    >>> [(int(count), float(probability)) for count, probability in zip(counts, probabilities)]
    [(0, 0.25), (1, 0.5), (2, 0.25)]
    """
    check_count("width", width)
    check_between("keep", keep, 0.0, 1.0, ends="high")
    if keep == 1.0:
        return np.array([width]), np.array([1.0])
    reach = _DEVIATIONS * math.sqrt(width * keep * (1 - keep)) + _DEVIATIONS
    center = math.floor((width + 1) * keep)
    counts = np.arange(max(0, math.floor(center - reach)), min(width, math.ceil(center + reach)) + 1)
    start = center - counts[0]
    odds = keep / (1 - keep)
    up = np.cumprod((width - counts[start:-1]) / (counts[start:-1] + 1.0) * odds)
    down = np.cumprod((counts[start:0:-1] / (width - counts[start:0:-1] + 1.0)) / odds)
    weights = np.concatenate([down[::-1], [1.0], up])
    return counts, weights / weights.sum()


def squared_norm_mean(width: int, *, keep: float = 0.5, variance: float | None = None) -> float:
    r"""Return the mean of :math:`\|z\odot Wu\|^2/\|u\|^2`, z i.i.d. Bernoulli(p), W of ``width`` rows: m p Var w.

    [ArpitBengio2019]_ lemmas 1 (ReLU, p = 1/2) and 4 (any p = ``keep``). ``variance`` of a weight defaults to theirs,
    1/(pm), at which squared norms are kept: the mean is 1 at every width.

    >>> squared_norm_mean(100, keep=0.25), squared_norm_mean(100, variance=1 / 100)
    (1.0, 0.5)
    """
    check_count("width", width)
    check_between("keep", keep, 0.0, 1.0, ends="high", hint="the probability that a unit is kept; 0.5 for ReLU")
    entry = 1 / (keep * width) if variance is None else check_between("variance", variance, 0.0, math.inf)
    return width * keep * entry


def norm_ratio_cdf(ratio: float, width: int, *, keep: float = 0.5) -> float:
    r"""Probability that :math:`\|v\|^2/\|u\|^2 \le` ``ratio`` after one layer, the atom :math:`(1-p)^m` at 0 included.

    .. math:: F(t) = (1-p)^m + \sum_{k\ge1} \binom mk p^k (1-p)^{m-k}\, P(\chi^2_k \le p m t)

    >>> round(norm_ratio_cdf(0.0, 3), 6)        # all three units off
    0.125
    """
    if ratio < 0:
        return 0.0
    if width * keep > _MANY and ratio > 0:
        below, probability = _contour(ratio, width, keep)
        return probability if below else 1 - probability
    from scipy.special import gammainc

    return _mixture(lambda shape, x: np.where(shape > 0, gammainc(np.maximum(shape, 0.5), x), 1.0), ratio, width, keep)


def norm_ratio_tail(ratio: float, width: int, *, keep: float = 0.5) -> float:
    r"""Probability that :math:`\|v\|^2/\|u\|^2 >` ``ratio``: the complement of `norm_ratio_cdf` with its own digits."""
    if ratio < 0:
        return 1.0
    if width * keep > _MANY and ratio > 0:
        below, probability = _contour(ratio, width, keep)
        return 1 - probability if below else probability
    from scipy.special import gammaincc

    return _mixture(lambda shape, x: np.where(shape > 0, gammaincc(np.maximum(shape, 0.5), x), 0.0), ratio, width, keep)


def _contour(ratio: float, width: int, keep: float) -> tuple[bool, float]:
    r"""Return whether ``ratio`` is below 1, and the probability of the smaller side of it, at many units.

    The sum of m independent :math:`z g^2` has the cumulant function :math:`K(s) = m\log(1-p+p(1-2s)^{-1/2})`, and

    .. math:: P(S > x) = \frac1{2\pi}\int \frac{e^{K(s+iy)-(s+iy)x}}{s+iy}\,dy,\qquad s > 0

    (minus that is P(S ≤ x) for s < 0). Through the saddle point, kept away from the pole at 0, the integrand is nearly
    a Gaussian, and the trapezoidal rule has all digits, at a cost that does not depend on the width.
    """
    below = ratio < 1
    ratio = min(max(ratio, 1e-6), 1e6)  # beyond, the probability is far below the smallest double
    # The saddle point in v = (1 - 2s)^(-1/2): v³ = t (1 - p + p v), from above, where Newton's method cannot overshoot.
    v = max(1.0, ratio)
    for _ in range(200):
        before, v = v, v - (v**3 - ratio * (1 - keep + keep * v)) / (3 * v**2 - ratio * keep)
        if v >= before:
            break
    mean = 1 - keep + keep * v
    deviation = math.sqrt(width * (3 * keep * v**5 / mean - (keep * v**3 / mean) ** 2))
    saddle = (1 - v**-2) / 2
    saddle = min(saddle, -1 / deviation) if below else max(saddle, 1 / deviation)
    s = saddle + 1j * np.arange(0.0, 12.0, 0.125) / deviation
    # K(s) - s p m t without its leading p m s, which cancels: w = p ((1 - 2s)^(-1/2) - 1), w - p s, log(1 + w) - w.
    root = np.sqrt(1 - 2 * s)
    w = keep * 2 * s / (root * (1 + root))
    beyond = keep * 2 * s * s * (2 + root) / (root * (1 + root) ** 2)
    exponent = width * (keep * s * (1 - ratio) + beyond + _log1p_minus(w))
    values = (np.exp(exponent) / s).real
    total = 0.125 / deviation * (2 * values.sum() - values[0]) / (2 * math.pi)
    return below, max(0.0, float(-total if below else total))


def _log1p_minus(w: np.ndarray) -> np.ndarray:
    """log(1 + w) - w of complex numbers, by its series where they nearly cancel."""
    series = np.zeros_like(w)
    for power in range(18, 1, -1):
        series = w * series + (-1) ** (power + 1) / power
    result: np.ndarray = np.where(np.abs(w) < 0.1, w * w * series, np.log(1 + w) - w)
    return result


def _mixture(tail: Callable[[Any, float], Any], ratio: float, width: int, keep: float) -> float:
    """Average of ``tail(k/2, p m t/2)`` over the number k of active units."""
    counts, weights = active_units(width, keep=keep)
    return float(np.sum(weights * tail(counts / 2, keep * width * ratio / 2)))


def relu_norm_failure(width: int, eps: float) -> float:
    r"""Return the exact probability that one ReLU layer distorts a squared norm by more than ``eps``.

    Beyond the sources; compare [ArpitBengio2019]_.

    .. math:: P\bigl(|\|R(Wu)\|^2 - \|u\|^2| > \varepsilon\|u\|^2\bigr) = F(1-\varepsilon) + 1 - F(1+\varepsilon)

    for any one fixed input u, W i.i.d. N(0, 2/width) (He fan-out), F the distribution of `norm_ratio_cdf`. Relative
    error about 1e-12.

    >>> relu_norm_failure(1919, 0.1) <= 0.05 < relu_norm_failure(1918, 0.1)
    True
    """
    check_between("eps", eps, 0.0, 1.0)
    return norm_ratio_cdf(1 - eps, width) + norm_ratio_tail(1 + eps, width)


def relu_norm_exact_width(eps: float, delta: float, *, samples: int = 1) -> int:
    """Smallest width of one ReLU layer whose exact failure, times ``samples`` by the union bound, is at most ``delta``.

    Beyond the sources; compare [ArpitBengio2019]_.

    >>> relu_norm_exact_width(0.1, 0.05)
    1919
    """
    check_probability("delta", delta)
    check_count("samples", samples)
    return smallest(lambda width: log_excess(relu_norm_failure(width, eps), delta / samples))


def relu_norm_eps(width: int, delta: float) -> float:
    r"""Return the smallest ``eps`` whose exact failure at this width is ``delta``: the (1-δ)-quantile of
    :math:`|\|v\|^2/\|u\|^2 - 1|`.

    >>> round(relu_norm_failure(1000, relu_norm_eps(1000, 0.05)), 12)
    0.05
    """
    check_probability("delta", delta)
    check_count("width", width)
    from scipy.optimize import brentq

    def excess(eps: float) -> float:
        return norm_ratio_cdf(1 - eps, width) + norm_ratio_tail(1 + eps, width) - delta

    # Beyond eps = 1 only the upper tail is left; a quantile there means the layer is hopelessly narrow.
    top = 1.0
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-14, rtol=1e-13))
