"""How far the cosine after a ReLU layer of finite width strays from its limit."""

from __future__ import annotations

import math

from initscope.errors import check_count
from initscope.theory._arccos import angle_of_half_gap
from initscope.theory._arrays import Array, cosines, safe_sqrt

__all__ = ["relu_cosine_sd"]

_NEAR_ZERO = (
    2.0,
    -56 / (15 * math.pi),
    -4 / 3 + 2 / (3 * math.pi**2),
    908 / (315 * math.pi),
    2 / 5 - 16 / (15 * math.pi**2),
    -884 / (945 * math.pi),
)
"""Taylor coefficients of s² in θ from θ⁴ on."""

_NEAR_PI = (
    8 / (15 * math.pi),
    1 / (3 * math.pi**2),
    -32 / (315 * math.pi),
    -3 / (5 * math.pi**2),
    8 / (945 * math.pi),
    313 / (1575 * math.pi**2),
)
"""Taylor coefficients of s² in π - θ from the fifth power on."""

_SQUARED_ANGLE = (4.0, 4 / 3, 32 / 45, 16 / 35, 512 / 1575)
"""Taylor coefficients of θ² in sin²(θ/2) from the first power on."""


def relu_cosine_sd(rho: Array, width: int, *, before: Array = 0.0) -> Array:
    r"""Standard deviation of the cosine of two inputs after one dense ReLU layer of this width.

    .. math:: \mathrm{sd} = \frac{s}{\sqrt m}, \qquad s^2 = 4J - 8\bar\rho T + \bar\rho^2 (3 + 2J)

    with :math:`\bar\rho = \hat R(\rho)` and, for standard Gaussians X, Y of correlation ρ = cos θ,

    .. math:: J = E[R(X)^2 R(Y)^2] = \frac{3\sin\theta\cos\theta + (\pi-\theta)(1+2\cos^2\theta)}{2\pi}, \qquad
              T = E[R(X)^3 R(Y)] = \frac4\pi\Bigl\{\cos\theta\Bigl[\tfrac38(\pi-\theta) + \tfrac14\sin2\theta -
              \tfrac1{32}\sin4\theta\Bigr] + \tfrac14\sin^5\theta\Bigr\} .

    Delta method for a ratio of means over i.i.d. units: first order in 1/width, any scale of the weights. Near ρ = 1 it
    is √2 θ²/√m. In a stack the deviation ``before`` the layer is passed on with the slope of `relu_cosine`,

    .. math:: \mathrm{sd}_l^2 = \Bigl(\frac{\pi-\theta}{\pi}\,\mathrm{sd}_{l-1}\Bigr)^2 + \frac{s^2(\rho)}{m}.

    Beyond the sources; the map whose slope this is, [ChoSaul2009]_ eq. 6.

    >>> round(float(relu_cosine_sd(math.cos(1.0), 400)), 5)
    0.03466
    """
    check_count("width", width)
    xp, given = cosines(rho)
    rho = xp.clip(xp.astype(given, xp.float64), -1.0, 1.0)  # in float32 the sum below would keep few digits
    h = (1 - rho) / 2
    theta, rest = angle_of_half_gap(xp, h), angle_of_half_gap(xp, 1 - h)
    sine = safe_sqrt(xp, (1 - rho) * (1 + rho))
    mean = (sine + rest * rho) / math.pi
    j = (3 * sine * rho + rest * (1 + 2 * rho**2)) / (2 * math.pi)
    t = (4 / math.pi) * (rho * (3 * rest / 8 + xp.sin(2 * theta) / 4 - xp.sin(4 * theta) / 32) + sine**5 / 4)
    deviation = safe_sqrt(xp, 4 * j - 8 * mean * t + mean**2 * (3 + 2 * j))
    # The sum cancels to θ⁴ and to (π - θ)⁵; at 0.05 the series agree with it to eight digits or more.
    near_one = h * _series(_SQUARED_ANGLE, h) * safe_sqrt(xp, _series(_NEAR_ZERO, theta))
    near_minus_one = rest**2 * safe_sqrt(xp, rest * _series(_NEAR_PI, rest))
    deviation = xp.where(theta < 0.05, near_one, xp.where(rest < 0.05, near_minus_one, deviation))
    own = xp.astype(deviation, given.dtype) / math.sqrt(width)
    if isinstance(before, float) and before == 0:
        return own
    return xp.sqrt((xp.astype(rest, given.dtype) / math.pi * before) ** 2 + own**2)


def _series(coefficients: tuple[float, ...], x: Array) -> Array:
    total = 0 * x
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total
