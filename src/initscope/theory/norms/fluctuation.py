"""How far the cosine after a ReLU layer of finite width strays from its limit."""

from __future__ import annotations

import math

from initscope.errors import check_count
from initscope.theory._arrays import Array, namespace, safe_sqrt

__all__ = ["relu_cosine_sd"]

_SMALL_ANGLE = (
    2.0,
    -56 / (15 * math.pi),
    -4 / 3 + 2 / (3 * math.pi**2),
    908 / (315 * math.pi),
    2 / 5 - 16 / (15 * math.pi**2),
    -884 / (945 * math.pi),
)
"""Taylor coefficients of s² from θ⁴ on."""


def relu_cosine_sd(rho: Array, width: int) -> Array:
    r"""Standard deviation of the cosine of two inputs after one dense ReLU layer of this width.

    .. math:: \mathrm{sd} = \frac{s}{\sqrt m}, \qquad s^2 = 4J - 8\bar\rho T + \bar\rho^2 (3 + 2J)

    with :math:`\bar\rho = \hat R(\rho)` and, for standard Gaussians X, Y of correlation ρ = cos θ,

    .. math:: J = E[R(X)^2 R(Y)^2] = \frac{3\sin\theta\cos\theta + (\pi-\theta)(1+2\cos^2\theta)}{2\pi}, \qquad
              T = E[R(X)^3 R(Y)] = \frac4\pi\Bigl\{\cos\theta\Bigl[\tfrac38(\pi-\theta) + \tfrac14\sin2\theta -
              \tfrac1{32}\sin4\theta\Bigr] + \tfrac14\sin^5\theta\Bigr\} .

    Delta method for a ratio of means over i.i.d. units: first order in 1/width, any scale of the weights. Near ρ = 1 it
    is √2 θ²/√m. Beyond the sources.

    >>> round(float(relu_cosine_sd(math.cos(1.0), 400)), 5)
    0.03466
    """
    check_count("width", width)
    xp, rho = namespace(rho)
    cosine = xp.clip(rho, -1.0, 1.0)
    sine = safe_sqrt(xp, (1 - cosine) * (1 + cosine))
    theta = xp.atan2(sine, cosine)
    mean = (sine + (math.pi - theta) * cosine) / math.pi
    j = (3 * sine * cosine + (math.pi - theta) * (1 + 2 * cosine**2)) / (2 * math.pi)
    t = (4 / math.pi) * (
        cosine * (3 * (math.pi - theta) / 8 + xp.sin(2 * theta) / 4 - xp.sin(4 * theta) / 32) + sine**5 / 4
    )
    variance = 4 * j - 8 * mean * t + mean**2 * (3 + 2 * j)
    series = xp.zeros_like(theta)
    for coefficient in reversed(_SMALL_ANGLE):
        series = series * theta + coefficient
    # The closed form cancels to θ⁴; at 0.05 both branches agree to ten digits.
    variance = xp.where(theta < 0.05, series * theta**4, variance)
    return safe_sqrt(xp, variance) / math.sqrt(width)
