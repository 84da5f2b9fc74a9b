r"""How stable the inverse of a random ReLU layer is at least: rigorous bounds on A, at every size and in the limit.

A is the least singular value of the active rows over all cells of x ↦ ReLU(Wx), W of shape m×n with independent
standard normal entries. The lower Lipschitz constant κ of the layer satisfies A/2 ≤ κ ≤ A.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.theory.injectivity.bounds import binary_entropy, cells
from initscope.theory.injectivity.gordon import gordon_bound
from initscope.theory.injectivity.replica import rs_energy, rs_threshold

__all__ = ["frame_failure_bound", "frame_limit", "guaranteed_frame", "small_singular_value_bound"]

Floats = npt.NDArray[np.float64]


def small_singular_value_bound(rows: npt.ArrayLike, n: int, value: float) -> Floats:
    r"""Upper bound on P[σ_min(G) < value] for Gaussian matrices G of these numbers of rows and n columns.

    .. math:: P \le \frac{2^{(k-n-1)/2}\,\Gamma(\frac{k+1}2)}{\Gamma(\frac n2)\,\Gamma(k-n+1)}
       \int_0^{v^2} \lambda^{(k-n-1)/2} e^{-\lambda/2}\, d\lambda, \qquad
       P \le e^{-(\sqrt k-\sqrt n-v)^2/2}\ \text{ for } v \le \sqrt k-\sqrt n

    The smaller one, and 1 for fewer than n rows. The first one is exact for n = 1 and as v → 0 [ChenDongarra2005]_, the
    second one is Gaussian concentration [DavidsonSzarek2001]_.

    >>> round(float(small_singular_value_bound(2, 1, 1.0)), 6)  # the norm of two normal values: 1 - exp(-1/2)
    0.393469
    """
    return np.exp(_log_small_singular_value_bound(np.asarray(rows), n, value))


def _log_small_singular_value_bound(rows: npt.NDArray[np.generic], n: int, value: float) -> Floats:
    from scipy.special import gammainc, gammaln

    k = rows.astype(np.float64)
    n, value = check_count("n", n), check_between("value", value, 0.0, math.inf, ends="low")
    if value == 0:
        return np.where(k < n, 0.0, -np.inf)
    half, x = np.maximum(k - n + 1, 1.0) / 2, value**2 / 2
    logs = (2 * half - 1) * math.log(2) + gammaln((k + 1) / 2) - gammaln(n / 2) - gammaln(2 * half) + gammaln(half)
    part = gammainc(half, x)
    with np.errstate(divide="ignore", invalid="ignore"):  # where it underflows: its series, bounded by a geometric one
        series = half * math.log(x) - x - gammaln(half + 1) - np.log1p(-x / (half + 1))
        logs += np.where(part > 1e-280, np.log(part), series)
    distance = np.maximum(np.sqrt(k) - math.sqrt(n) - value, 0.0)
    return np.asarray(np.where(k < n, 0.0, np.minimum(np.minimum(logs, -(distance**2) / 2), 0.0)))


def frame_failure_bound(m: int, n: int, frame: float, *, active: int = 0) -> float:
    r"""Upper bound on P[A < frame] for a Gaussian ReLU layer, rigorous at every size and for every k = ``active``.

    .. math:: P[A < a] \le P_k + \frac{c(m,n)}{2^m} \sum_{j\ge k} \binom mj\, P[\sigma_{\min}(G_{j\times n}) < a]

    :math:`P_k` is the `gordon_bound` of the event that some x has fewer than k active rows, :math:`P_0 = 0`, and
    c(m, n) is the number of cells. Each set of rows is the active set of a cell with probability
    :math:`c(m,n)/2^m`, *independently* of its singular values: these do not change with the signs of the rows. So a
    term of the sum is the expected number of cells with j active rows and :math:`\sigma_{\min} < a`. Beyond the
    sources; a question of the outlook of [Maillard2022]_.

    Parameters
    ----------
    m, n : int
        Rows and columns of W.
    frame : float
        The value a.
    active : int
        The number k. 0 is best for small layers.

    Returns
    -------
    float
        The bound, at most 1. At frame 0 it bounds the probability that the layer is not injective.

    >>> frame_failure_bound(100, 5, 1.0) < 0.01 < frame_failure_bound(100, 5, 4.0)
    True
    """
    m, n, active = check_count("m", m), check_count("n", n), check_count("active", active, least=0, most=m)
    few = gordon_bound(m, n, active=active) if active else 0.0
    return min(1.0, few + _expected_cells(m, n, frame, active))


def _expected_cells(m: int, n: int, frame: float, active: int) -> float:
    """Bound on the expected number of cells with σ_min < ``frame`` and at least ``active`` active rows; at most e·m."""
    from scipy.special import gammaln

    j = np.arange(active, m + 1)
    logs = gammaln(m + 1) - gammaln(j + 1) - gammaln(m - j + 1) + math.log(cells(m, n)) - m * math.log(2)
    logs += _log_small_singular_value_bound(j, n, frame)
    return float(np.exp(np.minimum(logs, 1.0)).sum())


def guaranteed_frame(m: int, n: int, delta: float) -> float:
    """Return the largest a, up to 1e-6 of it, for which `frame_failure_bound` is at most δ; 0 if there is none.

    With probability at least 1 - δ the inverse of the layer has a Lipschitz constant of at most 2/a. Two numbers of
    active rows are tried: 0, and the largest one that Gordon's comparison guarantees with probability 1 - δ/2. Beyond
    the sources [Maillard2022]_.

    Parameters
    ----------
    m, n : int
        Rows and columns of W.
    delta : float
        Allowed probability of failure.

    Returns
    -------
    float
        The lower bound on A.

    >>> round(guaranteed_frame(100, 5, 0.01) / math.sqrt(5), 2)
    0.8
    """
    m, n, delta = check_count("m", m), check_count("n", n), check_probability("delta", delta)
    fewest, above = 0, m + 1
    while above - fewest > 1:  # Gordon's bound rises with the number of active rows
        middle = (fewest + above) // 2
        fewest, above = (fewest, middle) if gordon_bound(m, n, active=middle) > delta / 2 else (middle, above)
    spent = gordon_bound(m, n, active=fewest) if fewest else 0.0
    return max(_largest_frame(m, n, 0, delta), _largest_frame(m, n, fewest, delta - spent))


def _largest_frame(m: int, n: int, active: int, delta: float) -> float:
    """Return the largest a at which `_expected_cells` is at most ``delta``."""
    low, high = math.log(1e-12), math.log(math.sqrt(m))
    if _expected_cells(m, n, math.exp(low), active) > delta:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if _expected_cells(m, n, math.exp(middle), active) > delta else (middle, high)
    return math.exp(low)


def frame_limit(alpha: float) -> float:
    r"""Return a(α) with P[A ≥ b√n] → 1 for all b < a as n → ∞ with m = αn, positive above the RS threshold.

    .. math:: \alpha H(1/\alpha) - \alpha\log 2
       + \sup_{\kappa\ge e_{RS}(\alpha)} \{\alpha H(\kappa/\alpha) + R(\kappa, a)\} = 0

    R is the exponential rate of `small_singular_value_bound` with κn rows. By Gordon's comparison every cell has
    :math:`e_{RS}(\alpha)\,n - o(n)` active rows or more. The inverse of a large layer is therefore Lipschitz with the
    constant :math:`2/(b\sqrt n)`, for every α > 7.647694935. At b = a the bound does not tend to 0. The supremum is
    taken over 20,000 values of κ, so a is up to 1e-8 of its value too large. Beyond the sources [Maillard2022]_.

    >>> frame_limit(7.6), round(frame_limit(20.0), 3)
    (0.0, 0.666)
    """
    from scipy.optimize import brentq

    alpha = check_between("alpha", alpha, 1.0, 1e6)
    if alpha <= rs_threshold().value:
        return 0.0
    kappa = np.linspace(rs_energy(alpha), alpha, 20_001)[:-1]
    share = kappa / alpha
    entropy = alpha * (-share * np.log(share) - (1 - share) * np.log1p(-share))
    entropy += alpha * binary_entropy(1 / alpha) - alpha * math.log(2)

    def exponent(log_a: float) -> float:
        return float(np.max(entropy + _rate(kappa, log_a)))

    low = -700.0
    if exponent(low) > 0:
        raise InputError(f"alpha = {alpha} is so close to the threshold that a(α) is below the smallest float")
    return math.exp(brentq(exponent, low, math.log(math.sqrt(alpha)), xtol=1e-12))


def _rate(kappa: Floats, log_a: float) -> Floats:
    """log(`small_singular_value_bound`)/n in the limit, for κn rows and the value a√n; at most 0."""
    extra, a = kappa - 1, math.exp(log_a)
    small = 0.5 * extra * (math.log(2) + np.minimum(2 * log_a, np.log(extra)))  # where the integrand is largest
    small -= np.minimum(a * a, extra) / 2 + extra * np.log(extra) - extra
    small += 0.5 * (kappa * np.log(kappa / 2) - kappa) + 0.5 * (math.log(2) + 1)
    concentration = -(np.maximum(np.sqrt(kappa) - 1 - a, 0.0) ** 2) / 2
    return np.asarray(np.minimum(np.minimum(small, concentration), 0.0))
