r"""The function on which all ReLU formulas are based, in a variable that preserves its digits.

With :math:`h = (1-\rho)/2 = \sin^2(\theta/2)`, the *half gap* of a cosine,

.. math:: \psi = \frac{\sin\theta - \theta\cos\theta}{\pi} = h^{3/2} Q(h), \qquad \psi'(h) = \frac{2\theta}{\pi}.

For small h the series of Q is used, because the closed formula cancels; for h > 1/2 the reflection :math:`\psi(h) = 2h
- 1 + \psi(1-h)`. Values and gradients are accurate on the closed interval [0, 1].
"""

from __future__ import annotations

import math
from typing import Any

from initscope.theory._arrays import Array, safe_sqrt

__all__ = ["angle_of_half_gap", "half_gap", "half_gap_of_covariance", "psi_of_half_gap"]

_SERIES_BELOW = 1 / 16


def _series(terms: int) -> list[float]:
    """Return the coefficients of pi·Q: those of 2s·sqrt(1-s²) - 2(1-2s²)asin(s), divided by s³, in powers of s²."""
    root = [1.0]
    arcsine = [1.0]
    for n in range(1, terms + 2):
        root.append(root[-1] * (2 * n - 3) / (2 * n))
        arcsine.append(math.comb(2 * n, n) / (4**n * (2 * n + 1)))
    return [2 * root[n] - 2 * arcsine[n] + 4 * arcsine[n - 1] for n in range(1, terms + 1)]


_COEFFICIENTS = [coefficient / math.pi for coefficient in _series(12)]


def half_gap(xp: Any, kxx: Array, kyy: Array, d: Array) -> tuple[Array, Array]:
    """Return (√kxx√kyy, h) from two variances and the squared distance d = kxx + kyy - 2kxy.

    h is 0 where a variance is 0. It may leave [0, 1] by rounding; the functions below accept that. The rounding error
    of d is divided by the product: for deviations with ratio c, h loses the digits of c.
    """
    sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
    product = sx * sy
    positive = product > 0
    # sx - sy without the rounding of the roots, which near variances have in common
    between = (kxx - kyy) / xp.where(positive, sx + sy, xp.ones_like(product))
    h = (d - between**2) / (4 * xp.where(positive, product, xp.ones_like(product)))
    return product, xp.where(positive, h, xp.zeros_like(h))


def half_gap_of_covariance(xp: Any, kxx: Array, kyy: Array, kxy: Array) -> tuple[Array, Array]:
    """Return `half_gap` from the covariance: exactly 0 for equal variables, and accurate for any ratio of variances."""
    product, near = half_gap(xp, kxx, kyy, (kxx - kxy) + (kyy - kxy))
    unlike = (product > 0) & ((kxx > 16 * kyy) | (kyy > 16 * kxx))
    far = (1 - kxy / xp.where(unlike, product, xp.ones_like(product))) / 2
    return product, xp.where(unlike, far, near)


def psi_of_half_gap(xp: Any, h: Array) -> Array:
    """ψ as a function of h = (1 - cosine)/2."""
    far = h > 0.5
    t = xp.where(far, 1 - h, h)
    near = t < _SERIES_BELOW
    small = xp.where(near, t, xp.zeros_like(t))
    polynomial = _COEFFICIENTS[-1] * xp.ones_like(small)
    for coefficient in _COEFFICIENTS[-2::-1]:
        polynomial = polynomial * small + coefficient
    series = small * safe_sqrt(xp, small) * polynomial
    middle = xp.where(near, xp.full_like(t, 0.25), t)
    sine = xp.sqrt(middle)
    closed = (2 * xp.sqrt(middle * (1 - middle)) - 2 * (1 - 2 * middle) * xp.asin(sine)) / math.pi
    psi = xp.where(near, series, closed)
    return xp.where(far, 2 * h - 1 + psi, psi)


def angle_of_half_gap(xp: Any, h: Array) -> Array:
    """θ = 2 asin √h, accurate at both ends; outside (0, 1) the nearer end, with gradient 0."""
    return 2 * xp.atan2(safe_sqrt(xp, h), safe_sqrt(xp, 1 - h))
