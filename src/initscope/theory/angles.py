r"""Effect of one wide dense layer on the angle of a pair, and the limit of many layers.

`relu_cosine` is the map of a He-initialized ReLU layer, `cosine_map` that of any activation; `fixed_points`,
`slope_at_one`, `critical_gain` and `collapse_depth` describe deep stacks. Angles are in radians, :math:`\rho =
\cos\theta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result
from initscope.theory._arccos import psi_of_half_gap
from initscope.theory._arrays import Array, cosines, namespace
from initscope.theory.activations import Activation, activation

__all__ = [
    "FixedPoint", "collapse_depth", "cosine_map", "critical_gain", "depth_scale", "fixed_points", "psi", "relu_angle",
    "relu_cosine", "relu_cosine_gap", "slope_at_one", "squared_distance", "variance_map", "zero_sum_relu_cosine",
]  # fmt: skip

ActivationLike = str | Activation | Callable[[Array], Array]


def psi(theta: Array) -> Array:
    r"""Contraction term of a ReLU layer, :math:`\psi(\theta) = (\sin\theta - \theta\cos\theta)/\pi`.

    Grows from 0 at θ = 0 like θ³/(3π) to 1 at π. [Giryes2016]_ theorem 4.

    >>> float(psi(math.pi))
    1.0
    """
    xp, theta = _angles(theta)
    return psi_of_half_gap(xp, xp.sin(theta / 2) ** 2)


def relu_cosine(rho: Array) -> Array:
    r"""Return the cosine after one wide random ReLU layer.

    .. math:: \hat R(\rho) = \frac{\sqrt{1-\rho^2} + (\pi - \arccos\rho)\,\rho}{\pi} = \rho + \psi(\theta)

    It is the ratio of expectations over i.i.d. zero-mean Gaussian weights, for any width; the cosine itself
    concentrates around it as the width grows. Near 1 use `relu_cosine_gap`, which preserves the digits of ``1 -
    result``. [ChoSaul2009]_ eq. 6, [Nachum2022]_ eq. 2; the concentration of output angles is in [Giryes2016]_ and
    [Bronstein2016]_. [ChoSaul2009]_ eq. 6, [Nachum2022]_ eq. 2; the concentration of output angles in [Giryes2016]_ and
    [Bronstein2016]_.

    >>> round(float(relu_cosine(0.0)), 6)      # 1/pi
    0.31831
    """
    xp, rho = cosines(rho)
    return psi_of_half_gap(xp, (1 + rho) / 2)  # ρ + ψ at 1 - ρ, by reflection: nothing cancels near -1


def relu_cosine_gap(gap: Array) -> Array:
    r"""Return the map of `relu_cosine` in the variable ``gap = 1 - rho``: :math:`1 - \hat R(1 - gap)`.

    The relative error is below 1e-12 for gaps from 1e-14 to 2, for which ρ itself has no digits left.

    >>> float(relu_cosine_gap(2.0))      # opposite inputs become orthogonal
    1.0
    """
    xp, gap = namespace(gap)
    if not bool(xp.all((gap >= -1e-6) & (gap <= 2 + 1e-6))):
        raise InputError("a gap 1 - cosine lies in [0, 2] and is not NaN; pass 1 - rho, not rho or an angle")
    return gap - psi_of_half_gap(xp, gap / 2)


def relu_angle(theta: Array) -> Array:
    """Return the angle after one wide random ReLU layer; θ - θ²/(3π) for small θ, π/2 at π."""
    xp, theta = _angles(theta)
    s = xp.sin(theta / 2)
    h = s**2
    share = psi_of_half_gap(xp, h) / (2 * xp.where(h > 0, h, xp.ones_like(h)))  # of h that the layer takes
    return 2 * xp.asin(s * xp.sqrt(1 - share))  # no root of h, whose derivative at 0 is infinite


def zero_sum_relu_cosine(rho: Array, strength: float = 1.0) -> Array:
    r"""Return the cosine before the next ReLU when its incoming weights are conditioned to sum to zero.

    .. math:: \frac{\hat R(\rho) - \lambda/\pi}{1 - \lambda/\pi}, \qquad \lambda = \text{strength}

    λ = 1 has slope 1.467 at ρ = 1 (unstable) and .733 at ρ = 0 (stable), so angles grow to 90°; λ = 0 is `relu_cosine`;
    values in between determine the angle to which deep layers converge. The opening that [Nachum2022]_ section 4.2
    reports.

    >>> float(zero_sum_relu_cosine(0.0))
    0.0
    """
    strength = _strength(strength)
    return (relu_cosine(rho) - strength / math.pi) / (1 - strength / math.pi)


def squared_distance(norm_u: Array, norm_v: Array, theta: Array) -> Array:
    r"""Return the expected squared distance after a ReLU layer with entries N(0, 1/m).

    .. math:: E\|R(Au)-R(Av)\|^2 = \tfrac12\|u-v\|^2 - \|u\|\|v\|\,\psi(\theta)

    [Bronstein2016]_ prints a plus before the last term; minus is right: for u = -v of unit norm both sides are 1.

    >>> float(squared_distance(1.0, 1.0, math.pi))
    1.0
    """
    xp, norm_u, norm_v, theta = namespace(norm_u, norm_v, theta)
    _angles(theta)
    between = (norm_u - norm_v) ** 2 + 4 * norm_u * norm_v * xp.sin(theta / 2) ** 2
    return between / 2 - norm_u * norm_v * psi_of_half_gap(xp, xp.sin(theta / 2) ** 2)


def variance_map(
    sigma: ActivationLike, variance: Array, *, weight_variance: float, bias_variance: float = 0.0
) -> Array:
    r"""Pre-activation variance one layer on: :math:`\sigma_w^2\,E[\sigma(X)^2] + \sigma_b^2`, X of ``variance``.

    ``weight_variance`` is the variance of a weight times the fan-in (2 for He).
    """
    return weight_variance * activation(sigma).second_moment(variance) + bias_variance


def cosine_map(
    sigma: ActivationLike,
    rho: Array,
    *,
    variance: float = 1.0,
    weight_variance: float | None = None,
    bias_variance: float = 0.0,
    strength: float = 0.0,
) -> Array:
    r"""Return the next layer's pre-activation cosine, for inputs of equal pre-activation ``variance`` k and cosine ρ.

    .. math:: \frac{\sigma_w^2(\hat\sigma(k, k, \rho k) - \lambda\,m^2) + \sigma_b^2}
                   {\sigma_w^2(\hat\sigma(k, k, k) - \lambda\,m^2) + \sigma_b^2},\qquad m = E\,\sigma(X)

    λ = ``strength`` of zero-sum weights. Without bias the weight variance cancels; with one it defaults to the
    square of the activation's gain. For homogeneous activations without bias the variance does not matter.

    >>> round(float(cosine_map("relu", 0.0) * math.pi), 12)
    1.0
    """
    _, rho = cosines(rho)
    return 1 - _gap_map(sigma, 1 - rho, variance, weight_variance, bias_variance, strength)


def _gap_map(
    sigma: ActivationLike,
    gap: Array,
    variance: float = 1.0,
    weight_variance: float | None = None,
    bias_variance: float = 0.0,
    strength: float = 0.0,
) -> Array:
    """Return `cosine_map` in the variable 1 - ρ, which keeps its digits near 0."""
    sigma = activation(sigma)
    xp, gap = namespace(gap)
    k = xp.full_like(gap, check_between("variance", variance, 0.0, math.inf))
    scale = sigma.gain**2 if weight_variance is None else weight_variance
    after = scale * (sigma.second_moment(k) - _strength(strength) * sigma.mean(k) ** 2) + bias_variance
    return scale * sigma.distance(k, k, 2 * k * gap) / (2 * after)


@dataclass(frozen=True)
class FixedPoint(Result):
    """A cosine that a layer leaves as it is; stable if nearby cosines move towards it."""

    cosine: float
    slope: float
    stable: bool


def fixed_points(sigma: ActivationLike, **layer: Any) -> tuple[FixedPoint, ...]:
    """Fixed points of `cosine_map` in [-1, 1], ascending; ``layer`` as there.

    Source: [Poole2016]_; partial zero sums go beyond it.

    A slope of exactly 1 at cosine 1 (ReLU) counts as stable: the approach is algebraic, θ ≈ 3π/depth. Angles below 1e-4
    are not searched. For a map that preserves every cosine (identity), only the ends are listed.

    >>> [(f"{abs(p.cosine):.6f}", p.stable) for p in fixed_points("relu", strength=1.0)]
    [('0.000000', True), ('1.000000', False)]
    """
    from scipy.optimize import brentq  # a third of a second, which most users of this package do not need

    def change(theta: float) -> float:
        """Return the share of the gap 1 - ρ by which a layer shrinks it."""
        gap = 2 * math.sin(theta / 2) ** 2
        return 1 - float(_gap_map(sigma, gap, **layer)) / gap

    grid = np.concatenate([np.linspace(math.pi, 0.02, 180), np.geomspace(0.02, 1e-4, 30)[1:]])
    values = np.array([change(theta) for theta in grid])
    values[np.abs(values) < 1e-10] = 0
    roots = list(grid[values == 0]) if (values != 0).any() else [math.pi]
    for left, right, low, high in zip(grid, grid[1:], values, values[1:], strict=False):
        if low * high < 0:
            roots.append(brentq(change, left, right, xtol=1e-15))
    points = [FixedPoint(math.cos(root), *_local_slope(sigma, root, layer)) for root in sorted(roots, reverse=True)]
    slope = slope_at_one(sigma, **layer)
    return (*points, FixedPoint(1.0, slope, slope <= 1 + 1e-12))


def _local_slope(sigma: ActivationLike, theta: float, layer: dict[str, Any]) -> tuple[float, bool]:
    if theta > math.pi - 1e-9 and activation(sigma).jumps:
        return math.inf, False  # an odd jump: 1 + ρ becomes a multiple of its own root, as 1 - ρ does at 1
    gap = 2 * math.sin(theta / 2) ** 2
    low, high = gap - min(1e-4, gap / 2), min(2.0, gap + min(1e-4, gap / 2))
    slope = float(_gap_map(sigma, high, **layer) - _gap_map(sigma, low, **layer)) / (high - low)
    return slope, abs(slope) < 1


def slope_at_one(
    sigma: ActivationLike,
    *,
    variance: float = 1.0,
    weight_variance: float | None = None,
    bias_variance: float = 0.0,
    strength: float = 0.0,
) -> float:
    r"""Slope χ of `cosine_map` at ρ = 1: below 1 nearby inputs merge, above 1 they part.

    Source: [Poole2016]_, under the name χ₁.

    .. math:: \chi = \frac{\sigma_w^2\,k\,E[\sigma'(X)^2]}{\sigma_w^2(E[\sigma(X)^2] - \lambda m^2) + \sigma_b^2}

    It is infinite if σ jumps (sign, step): 1 - ρ then becomes a multiple of its square root.

    >>> round(slope_at_one("relu"), 12)
    1.0
    """
    sigma = activation(sigma)
    k = check_between("variance", variance, 0.0, math.inf)
    scale = sigma.gain**2 if weight_variance is None else weight_variance
    after = scale * (sigma.second_moment(k) - _strength(strength) * sigma.mean(k) ** 2) + bias_variance
    return math.inf if sigma.jumps else float(scale * k * sigma.derivative_dual(k, k, k) / after)


def depth_scale(sigma: ActivationLike, **layer: Any) -> float:
    """Layers in which a small gap 1 - ρ changes by a factor e: 1/|log χ|, infinite at the edge of chaos (ReLU).

    Source: [Schoenholz2017]_.

    It is 0 if χ is 0 or infinite: one layer decides.
    """
    chi = slope_at_one(sigma, **layer)
    if chi in (0, math.inf):
        return 0.0
    return math.inf if abs(chi - 1) < 1e-12 else 1 / abs(math.log(chi))


def critical_gain(sigma: ActivationLike, *, bias_variance: float = 0.0) -> float:
    r"""Gain (square root of fan-in times weight variance) at the edge of chaos: χ = 1 at the variance's fixed point.

    With the fixed point k as the unknown, :math:`\sigma_w^2 = (k - \sigma_b^2)/E[\sigma^2]` and :math:`\chi =
    (k-\sigma_b^2)E[\sigma'^2]/E[\sigma^2]`. Homogeneous activations without bias have χ = 1 at the gain that keeps the
    variance. When σ(0) = 0 and there is no bias, k = 0 solves it: the gain is one over the root mean square of σ' on
    either side of 0. Activations whose variance grows without bound at that gain (GELU, SiLU, Mish: small signals grow)
    and activations with jumps are refused. [Schoenholz2017]_, [Poole2016]_. [Schoenholz2017]_, [Poole2016]_.

    >>> round(critical_gain("relu") ** 2, 12), round(critical_gain("tanh"), 9)
    (2.0, 1.0)
    """
    sigma = activation(sigma)
    if not 0 <= bias_variance < math.inf:
        raise InputError(f"bias_variance = {bias_variance} must be finite and not negative")
    if sigma.jumps:
        raise InputError(f"{sigma.name} jumps: nearby inputs part at every gain, there is no edge of chaos")
    if bias_variance == 0 and sigma.homogeneous:
        return sigma.gain
    k, gain = _critical_variance(sigma, bias_variance)
    growth = [
        math.log(gain**2 * float(sigma.second_moment(variance)) + bias_variance)
        for variance in (k / _NEARBY, k * _NEARBY)
    ]
    if growth[1] - growth[0] > 2 * math.log(_NEARBY) + 1e-9:
        raise InputError(
            f"{sigma.name} with bias_variance = {bias_variance:g} reaches χ = 1 at the gain {gain:.4g}, where a "
            f"variance above {k:.3g} grows without end; normalize the layers instead"
        )
    return gain


_NEARBY = 1.05


def _critical_variance(sigma: Activation, bias_variance: float) -> tuple[float, float]:
    """Return the fixed point of the variance at which χ = 1 (a tiny one for 0), and the gain for it."""
    if bias_variance == 0 and float(sigma(0.0)) == 0:
        slope = math.hypot(float(sigma.derivative(-1e-9)), float(sigma.derivative(1e-9))) / math.sqrt(2)
        if slope > 0:
            return 1e-4, 1 / slope

    from scipy.optimize import brentq

    def excess(log_k: float) -> float:
        k = math.exp(log_k)
        ratio = float(sigma.derivative_dual(k, k, k)) / float(sigma.second_moment(k))
        return (k - bias_variance) * ratio - 1

    grid = np.linspace(math.log(bias_variance + 1e-4), math.log(1e3 * (1 + bias_variance)), 24)
    values = [excess(point) for point in grid]
    for left, right, low, high in zip(grid, grid[1:], values, values[1:], strict=False):
        if low < 0 <= high:
            k = math.exp(float(brentq(excess, left, right, xtol=1e-10)))
            return k, math.sqrt((k - bias_variance) / float(sigma.second_moment(k)))
    raise InputError(
        f"{sigma.name} with bias_variance = {bias_variance:g} has no edge of chaos: nearby inputs merge at every gain; "
        "lower the bias variance or use an activation with σ(0) = 0"
    )


def collapse_depth(theta: float, *, ratio: float = 0.5, strength: float = 0.0, limit: int = 100_000) -> int | None:
    """Dense He ReLU layers until an angle ``theta`` has shrunk to ``ratio`` times itself; None if not within ``limit``.

    Beyond the sources.

    For small angles about 3π(1/ratio - 1)/θ layers, so 1e-5 takes a million;
    ``strength`` of zero-sum weights as in `zero_sum_relu_cosine`.

    >>> collapse_depth(math.pi / 2)      # 90°, 71.4°, 60.4°, 52.8°, 47.1°, 42.6°
    5
    """
    theta = check_between("theta", theta, 0.0, math.pi, ends="high", hint="an angle in radians")
    ratio = check_between("ratio", ratio, 0.0, 1.0)
    h, keep = math.sin(theta / 2) ** 2, 1 - _strength(strength) / math.pi
    for depth in range(1, check_count("limit", limit) + 1):
        h = (h - float(psi_of_half_gap(np, np.asarray(h))) / 2) / keep
        if 2 * math.asin(min(1.0, math.sqrt(h))) <= ratio * theta:
            return depth
    return None


def _angles(theta: Array) -> tuple[Any, Array]:
    xp, theta = namespace(theta)
    if not bool(xp.all((theta >= -1e-6) & (theta <= math.pi + 1e-6))):
        raise InputError("an angle between two inputs lies in [0, π] and is not NaN; give it in radians")
    return xp, theta


def _strength(strength: float) -> float:
    if not 0 <= strength <= 1:
        raise InputError(f"strength = {strength} must lie in [0, 1]: 0 is plain He, 1 removes the mean completely")
    return strength
