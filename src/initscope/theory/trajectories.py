r"""What a random ReLU network without biases does to curves and small volumes: lengths, bends and turning angles.

Weights are independent Gaussian with mean 0, of variance 2/width (He, fan-out) unless another ``gain`` is given. All
formulas are exact at every width. They rest on one fact: the signs of the rows of W are independent of their lines. So
of m units a number B ~ Binomial(m, 1/2) is active, independently of the squares of all products with other vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.theory._arrays import Array, namespace
from initscope.theory.angles import relu_cosine
from initscope.theory.norms import active_units, log_norm_moment

__all__ = [
    "angular_length_factor", "expected_breakpoints", "length_factor", "mean_turning_angle", "scale_reach",
    "turning_angle_tail", "volume_moment",
]  # fmt: skip


def length_factor(widths: Sequence[int]) -> float:
    r"""Return the expected length of the image of a curve over the length of the curve, after layers of these widths.

    .. math:: E\frac{|f(\gamma)|}{|\gamma|} = \prod_l E\sqrt{\tfrac2{m_l}\chi^2_{B_l}},\qquad
       B_l \sim \mathrm{Bin}(m_l, \tfrac12)

    The squared length of a tangent vector is multiplied by :math:`\frac2m\chi^2_B` in each layer, independently of the
    layers before, like the squared norm of an input. Each factor is about 1 - 5/(8m): width preserves lengths,
    depth shrinks them slowly [HaninJeongRolnick2022]_. An answer to the outlook of [Maillard2022]_, 'Geometry of the
    image of the network?'.

    Valid for continuous curves of finite length in any input space, whether or not the layers are injective.

    Parameters
    ----------
    widths : sequence of int
        Units of each layer.

    Returns
    -------
    float
        The expected ratio, below 1.

    >>> round(length_factor([10]), 4), round(length_factor([100] * 10), 4)
    (0.9356, 0.9391)
    """
    return math.exp(log_norm_moment(list(widths), 0.5))


def volume_moment(widths: Sequence[int], dimension: int, *, power: float = 1.0) -> float:
    r"""Return the mean of a power of the factor by which a network scales the volume of a small ball.

    .. math:: E\,|J|^s = \prod_l \Big(\frac2{m_l}\Big)^{ns/2} E\Big[1_{B_l\ge n}\prod_{i<n} (\chi^2_{B_l-i})^{s/2}\Big]

    The n-volume is multiplied by :math:`\sqrt{\det J^TJ}`, n = ``dimension``, where J is the Jacobian at the center of
    the ball. It is 0 if fewer than n units of a layer are active. The determinant of a Wishart matrix is a product of
    independent χ² [Bartlett1933]_. For n = 1 and s = 1 this is `length_factor`.

    Valid for a ball that no unit divides, in an n-dimensional subspace of the inputs.

    Parameters
    ----------
    widths : sequence of int
        Units of each layer.
    dimension : int
        Dimension n of the ball.
    power : float
        The power s, positive. 1 is the mean, 2 is the mean square.

    Returns
    -------
    float
        The moment.

    >>> round(volume_moment([10], 1), 4), round(volume_moment([50, 50], 2, power=2), 4)
    (0.9356, 0.9604)
    """
    from scipy.special import gammaln

    n, power = check_count("dimension", dimension), check_between("power", power, 0.0, 100.0, ends="high")
    total = 0.0
    for width in widths:
        active, chances = active_units(width)
        enough = active >= n
        if not enough.any():
            return 0.0
        halves = (active[enough, None] - np.arange(n)) / 2
        logs = (gammaln(halves + power / 2) - gammaln(halves)).sum(axis=1) + n * power / 2 * math.log(4 / width)
        top = logs.max()
        total += top + math.log(float(chances[enough] @ np.exp(logs - top)))
    return math.exp(total)


def angular_length_factor(widths: Sequence[int]) -> float:
    r"""Return the expected angular length of the image of a curve over that of the curve.

    .. math:: E\frac{\angle(f(\gamma))}{\angle(\gamma)} = \prod_l \big(1 - (m_l+1)\,2^{-m_l}\big)

    The angular length is the length of the curve projected on the unit sphere. The squared angular speed is
    multiplied by :math:`\chi^2_{B-1}/\chi^2_B` with independent χ². The mean of the root of this ratio is exactly 1
    for B ≥ 2. So random ReLU layers contract distances on the sphere, but not lengths of curves. Beyond the sources
    [Maillard2022]_.

    Valid for curves that avoid 0.

    >>> angular_length_factor([3]), angular_length_factor([64] * 50)
    (0.5, 1.0)
    """
    return math.prod(1 - (check_count("width", width) + 1) * 2.0**-width for width in widths)


def expected_breakpoints(widths: Sequence[int], angle: float) -> float:
    r"""Return the expected number of points of a curve at which a unit changes sign.

    .. math:: E N = \frac{\varphi}{\pi} \sum_l m_l \prod_{k<l} \big(1 - (m_k+1)\,2^{-m_k}\big)

    φ is the ``angle`` that the curve covers as seen from 0: that of its ends for a segment, 2π for a circle around
    0. A hyperplane of a random direction meets a curve on the sphere of length φ in φ/π points on average
    (Crofton). So a segment has 1 + E N linear pieces, linear in the number of units, as for networks with biases
    [HaninRolnick2019]_. `initscope.theory.regions` counts the most that are possible, which is exponential in the
    depth.

    Parameters
    ----------
    widths : sequence of int
        Units of each layer.
    angle : float
        Angular length of the curve in radians.

    Returns
    -------
    float
        The expected number.

    >>> round(expected_breakpoints([20, 20, 20], math.pi / 2), 4)
    29.9994
    """
    angle = check_between("angle", angle, 0.0, math.inf, ends="low")
    return angle / math.pi * sum(width * angular_length_factor(widths[:layer]) for layer, width in enumerate(widths))


def turning_angle_tail(turn: Array, width: int) -> Array:
    r"""Return the probability that the image of a circle turns by more than an angle where a unit changes sign.

    .. math:: P[\tau > t] = \cos(t/2)^{2(m-1)},\qquad 0 \le t < \pi/2

    For the image after one layer of m units of a circle around 0, or of any curve at right angles to its position. At
    the bend the tangent gains or loses one coordinate. Its square is :math:`\chi^2_2` by the formula of Kac and Rice,
    and :math:`\tan^2\tau = \chi^2_2/\chi^2_B` with B ~ Bin(m - 1, 1/2). The mean over B of :math:`(\cos t)^B` is the
    formula. If no other unit is active (B = 0), the curve ends at 0 and the angle counts as π/2. Beyond the sources
    [Maillard2022]_.

    >>> round(float(turning_angle_tail(0.1, 100)), 4)
    0.7807
    """
    xp, turn = namespace(turn)
    check_count("width", width)
    return xp.where(turn < math.pi / 2, xp.cos(turn / 2) ** (2 * (width - 1)), 0.0 * turn)


def mean_turning_angle(width: int) -> float:
    r"""Return the mean of the angle of `turning_angle_tail`.

    .. math:: E\tau = \int_0^{\pi/2} \cos(t/2)^{2(m-1)}\,dt \approx \sqrt{\pi/m}

    The image of a circle has 2m bends on average, which turn by about :math:`2\sqrt{\pi m}` in total. So the total
    curvature of the image grows with the width without bound, and the limit is a curve without curvature, see
    `scale_reach`. [Maillard2022]_

    >>> round(mean_turning_angle(1), 6), round(100 * mean_turning_angle(10_000), 3)
    (1.570796, 1.773)
    """
    from scipy.integrate import quad

    check_count("width", width)
    narrow = min(math.pi / 2, 12 / math.sqrt(width))
    value = quad(lambda t: math.cos(t / 2) ** (2 * (width - 1)), 0.0, narrow, epsabs=1e-13)[0]
    return float(value + quad(lambda t: math.cos(t / 2) ** (2 * (width - 1)), narrow, math.pi / 2, epsabs=1e-13)[0])


def scale_reach(angle: float, depth: int) -> float:
    r"""Return the reach of the image of a circle that pairs of points at an angle show, for infinitely wide layers.

    .. math:: r(\theta) = \frac{|p-q|^2}{2\,\mathrm{dist}(q-p, T_p)}
       = \frac{1-k(\theta)}{\sqrt{2-2k(\theta)-k'(\theta)^2}}

    k is the cosine of the images of two inputs at angle θ after ``depth`` layers
    (`initscope.theory.angles.relu_cosine`, repeated), for a circle of radius 1. The reach is the infimum over all θ
    (Federer 1959). It is 1 for the circle itself (depth 0). After one layer
    :math:`r(\theta) \approx \sqrt{3\pi\theta}/4`: the reach of the image is 0, as for every curve with bends. r(θ) says
    how far this is visible at the scale θ. Beyond the sources [Maillard2022]_.

    Parameters
    ----------
    angle : float
        Angle θ between two inputs, from 0.001 to π.
    depth : int
        Number of layers.

    Returns
    -------
    float
        The radius r(θ).

    >>> scale_reach(1.0, 0), round(scale_reach(1e-3, 1) / math.sqrt(3e-3 * math.pi), 3)
    (1.0, 0.25)
    """
    angle = check_between("angle", angle, 0.0, math.pi, ends="high")
    depth = check_count("depth", depth, least=0)
    if depth == 0:
        return 1.0
    if angle < 1e-3:
        raise InputError(f"angle = {angle:g} is below 0.001, where differences of cosines lose their digits")
    cosine, slope = math.cos(angle), -math.sin(angle)
    for _ in range(depth):
        slope *= 1 - math.acos(max(-1.0, min(1.0, cosine))) / math.pi  # the derivative of relu_cosine
        cosine = float(relu_cosine(cosine))
    return (1 - cosine) / math.sqrt(2 - 2 * cosine - slope**2)
