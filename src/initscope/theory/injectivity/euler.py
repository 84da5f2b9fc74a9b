r"""The Euler characteristic surrogate q(m, n) = E[χ(V ∩ C ∩ S)] of 1 - p(m, n), exact for every size.

Three forms of one number: `talk_sum` (as printed by Maillard et al. 2022), `face_count` (faces of the arrangement with
signs) and `euler_characteristic` (a Krawtchouk sum without cancellation near the threshold; the one to use).
Its threshold is provably not the true one: χ agrees with the indicator of "not empty" on convex cones only.
"""

from __future__ import annotations

import math
from fractions import Fraction

from initscope.errors import check_between, check_count
from initscope.theory.injectivity._estimate import Estimate
from initscope.theory.injectivity.bounds import binary_entropy, cells

__all__ = ["euler_characteristic", "euler_crossing", "euler_threshold", "face_count", "log_euler", "talk_sum"]


def euler_characteristic(m: int, n: int) -> Fraction:
    r"""Return the mean Euler characteristic of the directions with fewer than n active rows, as an exact rational.

    .. math:: q_{m,n} = 2^{1-m} \sum_{k=m-n+1,\;\text{step }2}^{m} \binom{m}{k}\,[z^{n-1}](1+z)^k(1-z)^{m-1-k}

    W Gaussian of shape m×n, m ≥ n. The coefficients are Krawtchouk polynomials and follow from their three-term
    recurrence, so that n = 2000 takes a second.

    >>> euler_characteristic(9, 3), euler_characteristic(5, 2)      # m(m-1)/2^{m-1} for n = 2
    (Fraction(275, 128), Fraction(5, 4))
    """
    n = check_count("n", n)
    m = check_count("m", m, least=n, hint="a layer with fewer rows than inputs is never injective")
    order, degree = m - 1, n - 1
    # x = m-1-k runs down to -1; K(-1) is a partial sum of binomials, K(0) a binomial, then the recurrence in x.
    before = cells(m + 1, n) // 2
    current = math.comb(order, degree)
    total = before if n % 2 else 0
    choose = m  # C(m, m-1-x) at x = 0
    for x in range(n - 1):
        if (n - 2 - x) % 2 == 0:
            total += choose * current
        before, current = current, ((order - 2 * degree) * current - x * before) // (order - x) if x < order else 0
        choose = choose * (m - 1 - x) // (x + 2)
    return Fraction(total, 2 ** (m - 1))


def face_count(m: int, n: int) -> Fraction:
    r"""The same number as an alternating count of faces; cancels badly in floating point, so integers throughout.

    Source: another form of the sum in [Maillard2022]_, 'Approach from integral geometry'.

    .. math:: q_{m,n} = \sum_{k<n} (-1)^{n-1-k} \binom{m}{k}\, c(m-k, n-k)\, 2^{-(m-k)} \sum_{j<n}\binom{m-k}{j}

    A face that lies on k hyperplanes has the remaining m - k rows at fair independent signs and belongs to the closed
    set when fewer than n of them are positive.

    >>> face_count(9, 3)
    Fraction(275, 128)
    """
    total = 0
    for k in range(n):
        few = cells(m - k + 1, n) // 2
        total += (-1) ** (n - 1 - k) * math.comb(m, k) * cells(m - k, n - k) * few * 2**k
    return Fraction(total, 2**m)


def talk_sum(m: int, n: int) -> Fraction:
    r"""Return the formula on the slide (Maillard et al. 2022), for n - 1 where the slide writes n.

    Source: [Maillard2022]_, 'Approach from integral geometry'.

    .. math:: q_{m,n+1} = \frac{(-1)^n}{2^{m-n-1}} \sum_{i=0}^{\lfloor n/2\rfloor}\sum_{l=0}^{n}
       \binom{m}{n-2i}\left(-\tfrac12\right)^l\binom{n-2i}{l-2i}\sum_{j=0}^{l}\binom{m-n+l}{j}

    >>> talk_sum(9, 3)
    Fraction(275, 128)
    """
    n -= 1
    total = 0
    for length in range(n + 1):
        head = cells(m - n + length + 1, length + 1) // 2
        inner = sum(math.comb(m, n - 2 * i) * math.comb(n - 2 * i, length - 2 * i) for i in range(length // 2 + 1))
        total += (-1) ** length * inner * head * 2 ** (n - length)
    return Fraction((-1) ** n * total, 2**n) / Fraction(2) ** (m - n - 1)


def log_euler(m: int, n: int) -> float:
    """Return the logarithm of q(m, n), finite where the rational itself under- or overflows a float; -inf if q ≤ 0."""
    q = euler_characteristic(m, n)
    if q <= 0:
        return -math.inf
    return _log_integer(q.numerator) - _log_integer(q.denominator)


def _log_integer(number: int) -> float:
    shift = max(0, number.bit_length() - 900)
    return math.log(number >> shift) + shift * math.log(2)


def euler_crossing(n: int, level: float = 0.5) -> float:
    """Return the expansivity at which q(m, n) falls through ``level``: log q interpolated linearly between whole m.

    Finite-n crossings approach `euler_threshold` from below.

    >>> round(euler_crossing(50), 3)
    7.972
    """
    n = check_count("n", n, least=2, hint="for n = 1, q = 2^(1-m)")
    target = math.log(check_between("level", level, 0.0, 1.0))
    # q oscillates for α below 4 + 2√2: come down from where it is tiny, in steps short of its last positive stretch.
    high, step = 20 * n, n // 8 + 1
    low = high - step
    while log_euler(low, n) <= target:
        low, high = low - step, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log_euler(middle, n) > target else (low, middle)
    top, bottom = log_euler(low, n), log_euler(high, n)
    return (low + (top - target) / (top - bottom)) / n


def euler_threshold() -> Estimate:
    r"""Return the expansivity at which q(αn, n) changes from growing to vanishing, by large deviations.

    Source: [Maillard2022]_, 'Approach from integral geometry', gives the number; the equation is ours.

    .. math:: \alpha H(1/\alpha) - \alpha\log 2 + (\alpha-1)\log(1+z) + \log(1-z) - \log z = 0,\qquad
       z = \frac{(\alpha-2) - \sqrt{\alpha^2-8\alpha+8}}{2(\alpha-1)}

    The saddle point z of the last coefficient is real for α > 4 + 2√2 (Paleka 2021, Clum 2022; the talk: 8.34).

    >>> round(euler_threshold().value, 4)
    8.3446
    """
    from scipy.optimize import brentq

    root = brentq(_rate, 4 + 2 * math.sqrt(2) + 1e-9, 20.0, xtol=1e-14, rtol=1e-14)
    return Estimate(float(root), 1e-12, "Euler characteristic, large deviations; a surrogate, not the true threshold")


def _rate(alpha: float) -> float:
    z = ((alpha - 2) - math.sqrt(alpha * alpha - 8 * alpha + 8)) / (2 * (alpha - 1))
    saddle = (alpha - 1) * math.log1p(z) + math.log1p(-z) - math.log(z)
    return alpha * binary_entropy(1 / alpha) - alpha * math.log(2) + saddle
