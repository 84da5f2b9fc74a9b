"""Rigorous bounds on the injectivity of a Gaussian ReLU layer x ↦ ReLU(Wx), W of shape m×n, α = m/n.

Cover's count of the cells of a random arrangement bounds p(m, n) from above, a union over orthants from below.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from initscope.errors import InputError, check_count
from initscope.theory.injectivity._estimate import Estimate

__all__ = [
    "binary_entropy",
    "cells",
    "cover_probability_bound",
    "cover_threshold",
    "deep_expansivity",
    "union_failure_bound",
    "union_threshold",
]


def binary_entropy(p: float) -> float:
    r"""Entropy of a coin in nats.

    .. math:: H(p) = -p\log p - (1-p)\log(1-p)
    """
    return -p * math.log(p) - (1 - p) * math.log1p(-p) if 0 < p < 1 else 0.0


@cache
def cells(m: int, n: int) -> int:
    r"""Return cells of m hyperplanes through the origin of R^n in general position.

    .. math:: c(m, n) = 2\sum_{j<n}\binom{m-1}{j}

    Cover (1965), also the number of orthants of R^m that a generic n-dimensional subspace meets.

    >>> cells(3, 2)      # three lines cut the plane in six
    6
    """
    term, total = 1, 0
    for j in range(min(n, m)):
        total += term
        term = term * (m - 1 - j) // (j + 1)
    return 2 * total


def cover_threshold() -> Estimate:
    r"""Below α = 3 a random layer is almost surely not injective once n is large.

    Source: [Cover1965]_, in 'First bounds' of [Maillard2022]_.

    A ray v orthogonal to n - 1 rows and its opposite -v share the other m - n + 1 rows: if these are fewer than 2n, one
    of the two has fewer than n active rows. In general position the statement is not asymptotic: m < 3n - 1 is never
    injective. (The talk derives the threshold from Cover's count of cells.)
    """
    return Estimate(3.0, 0.0, "Cover 1965; exact")


def cover_probability_bound(m: int, n: int) -> float:
    r"""Return an upper bound on p(m, n) from one ray pair through n - 1 rows.

    Source: beyond the sources; its limit is that of [Cover1965]_ in [Maillard2022]_.

    For the remaining m - n + 1 rows, a fixed vertex v of the arrangement has independent fair signs; injectivity needs
    at least n positive ones for v and for -v:

    .. math:: p_{m,n} \le P[n \le B \le m - 2n + 1],\quad B \sim \mathrm{Bin}(m-n+1, \tfrac12)

    >>> cover_probability_bound(7, 3)      # 7 < 3n - 1
    0.0
    >>> cover_probability_bound(8, 3)      # B = 3 out of 6
    0.3125
    """
    m, n = check_count("m", m), check_count("n", n)
    free = m - n + 1
    if free < 2 * n:
        return 0.0
    return float(Fraction(sum(math.comb(free, j) for j in range(n, free - n + 1)), 2**free))


def union_failure_bound(m: int, n: int) -> float:
    r"""Return the upper bound on 1 - p(m, n), rigorous at every size: a union over orthants.

    Source: 'First bounds' of [Maillard2022]_ and [Paleka2021]_, at every size.

    A layer that is not injective has a point with at most n - 1 positive products, so that its range meets one of the
    orthants with n - 1 positive signs; each is met with probability c(m, n)/2^m:

    .. math:: 1 - p_{m,n} \le \binom{m}{n-1}\, 2^{1-m} \sum_{j<n}\binom{m-1}{j}

    >>> union_failure_bound(8, 1)          # n = 1: the bound is the exact value, all weights of one sign
    0.0078125
    """
    m, n = check_count("m", m), check_count("n", n)
    if m < n:
        return 1.0
    return float(min(Fraction(1), Fraction(math.comb(m, n - 1) * cells(m, n), 2**m)))


def union_threshold() -> Estimate:
    r"""Above this α a Gaussian layer is injective with probability tending to 1 (rigorous).

    .. math:: \alpha\,(2H(1/\alpha) - \log 2) = 0

    The exponential rate of `union_failure_bound` ([Paleka2021]_; [Maillard2022]_ quotes 9.09).

    >>> round(union_threshold().value, 4)
    9.0886
    """
    from scipy.optimize import brentq

    root = brentq(lambda alpha: 2 * binary_entropy(1 / alpha) - math.log(2), 3.0, 20.0, xtol=1e-14, rtol=1e-14)
    return Estimate(float(root), 1e-12, "union over orthants; rigorous upper bound, closed equation")


def deep_expansivity(depth: int) -> float:
    r"""Return expansivity that suffices for a deep net of Gaussian layers of equal width, depth L large [Paleka2021]_.

    .. math:: \alpha \ge 2 L \log L

    Each width is α times the input dimension. The statement is asymptotic in L and does not apply to L = 1, 2.

    >>> round(deep_expansivity(10), 3)
    46.052
    """
    depth = check_count("depth", depth)
    if depth < 3:
        raise InputError(
            f"depth = {depth} must be at least 3: α ≥ 2 L log L is asymptotic in L; use the layer thresholds"
        )
    return 2 * depth * math.log(depth)
