"""A ramp with an exponential below it: ELU, CELU and SELU."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap, half_gap_of_covariance, psi_of_half_gap
from initscope.theory._arrays import Array, erfcx, flattened, in_chunks, safe_sqrt
from initscope.theory.activations._base import Activation

__all__ = ["Elu"]

_MODERATE = 16.0
"""Largest variance for which `_FEW` nodes do."""
_FEW, _MANY = (64, 3.0), (160, 3.2)
"""Number of nodes, and how far out they reach."""
_FAR = 1e3
"""Deviations beyond which the second moment of the exponential is its first term."""


@dataclass(frozen=True, eq=False)
class Elu(Activation):
    r"""σ(x) = ``scale``·e(x/``unit``) with e(x) = x above 0 and ``left``·(exp(x) - 1) below.

    With standard units, :math:`p = s_xs_y`, γ = ``left``, the covariance :math:`t = p\cos\varphi` and
    :math:`F(s) = E\,e^{sg}1_{g<0} = \frac12\operatorname{erfcx}(s/\sqrt2)`, Price's theorem gives linear differential
    equations in t for the three products that :math:`E\,\sigma'(X)\sigma'(Y)` is made of. Solved from cosine 1,

    .. math:: 2\pi\,E\,\sigma'\sigma' = \pi - \theta + \gamma\int_0^\theta\kappa\,d\varphi
              + \gamma^2\Big(2\pi F(s_x+s_y)\,e^{-p(1-\cos\theta)}
              + \int_0^\theta e^{-p(\cos\varphi-\cos\theta)}(1-\kappa)\,d\varphi\Big),

    .. math:: \kappa = \sum_{s=s_x,s_y} 1-\sqrt\pi z\operatorname{erfcx}(z), \qquad z = s\sin\varphi/\sqrt2:

    one integral, to about 1e-11. Squared distances are :math:`2\int E\,\sigma'\sigma'\,dt` down to the covariance, in
    which nothing cancels, plus the value at cosine 1.
    """

    scale: float = 1.0
    unit: float = 1.0
    left: float = 1.0

    @property
    def integrated(self) -> bool:
        """True, though they are integrated in one dimension."""
        return True

    def _value(self, xp: Any, x: Array) -> Array:
        below = self.left * xp.expm1(xp.where(x < 0, x / self.unit, xp.zeros_like(x)))
        return xp.where(x > 0, self.scale / self.unit * x, self.scale * below)

    def _derivative(self, xp: Any, x: Array) -> Array:
        below = self.left * xp.exp(xp.where(x < 0, x / self.unit, xp.zeros_like(x)))
        return self.scale / self.unit * xp.where(x > 0, xp.ones_like(x), below)

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        if getattr(kxx, "requires_grad", False):
            return super()._second_moment(xp, kxx)
        dtype, kxx = kxx.dtype, xp.astype(kxx, xp.float64)
        s = safe_sqrt(xp, kxx) / self.unit
        return xp.astype(kxx * (self.scale / self.unit) ** 2 / 2 + self._stretched(xp, s, xp.zeros_like(s)), dtype)

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d)):
            return super()._distance(xp, kxx, kyy, d)
        return self._elementwise(xp, self._apart, kxx, kyy, d)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, kxy)):
            return super()._dual(xp, kxx, kyy, kxy)
        return self._elementwise(xp, self._product, kxx, kyy, kxy)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, kxy)):
            return super()._derivative_dual(xp, kxx, kyy, kxy)
        return self._elementwise(xp, self._slopes, kxx, kyy, kxy)

    def _elementwise(self, xp: Any, function: Callable[..., Array], *arrays: Array) -> Array:
        """Return a function of variances and covariance, or distance, in units of the exponential."""
        dtype, shape, flat = flattened(xp, *arrays)
        values = in_chunks(xp, partial(function, xp), *(array / self.unit**2 for array in flat))
        return xp.astype(xp.reshape(values, shape), dtype)

    def _apart(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        product, h = half_gap(xp, kxx, kyy, d)
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        ramps = d / 2 - product * psi_of_half_gap(xp, h)
        return self.scale**2 * (ramps + 2 * self._turned(xp, sx, sy, h)) + self._stretched(xp, sx, sy)

    def _product(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        ramps = kxy / 2 + product * psi_of_half_gap(xp, h) / 2
        # at cosine 1, in differences to what a deviation of 0 gives
        tails = (_tail(xp, sx + sy) - _tail(xp, sx)) - (_tail(xp, sy) - 0.5)
        return self.scale**2 * (ramps + self.left**2 * tails - self._turned(xp, sx, sy, h))

    def _slopes(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        theta, fall, kappa, weight = _way(xp, sx, sy, h)
        both = xp.exp(-2 * product * h) * _tail(xp, sx + sy)
        both = both + theta * xp.sum(weight * xp.exp(-fall) * (1 - kappa), axis=-1) / (2 * math.pi)
        single = theta * xp.sum(weight * kappa, axis=-1) / (2 * math.pi)
        inside = (math.pi - theta) / (2 * math.pi) + self.left * single + self.left**2 * both
        # Where a variable is constantly 0 its slope is that at 0, from the left.
        means = [xp.where(s > 0, 0.5 + self.left * _tail(xp, s), xp.full_like(s, self.left)) for s in (sx, sy)]
        return (self.scale / self.unit) ** 2 * xp.where(product > 0, inside, means[0] * means[1])

    def _turned(self, xp: Any, sx: Array, sy: Array, h: Array) -> Array:
        """Return the part of the exponential in the integral of E σ'σ' from the covariance to that of cosine 1."""
        theta, fall, kappa, weight = _way(xp, sx, sy, h)
        single = theta * xp.sum(weight * kappa * fall, axis=-1) / (2 * math.pi)
        both = theta * xp.sum(weight * xp.expm1(-fall) * (kappa - 1), axis=-1) / (2 * math.pi)
        both = both - _tail(xp, sx + sy) * xp.expm1(-2 * sx * sy * h)
        return self.left * single + self.left**2 * both

    def _stretched(self, xp: Any, sx: Array, sy: Array) -> Array:
        """Return the share of the exponential in E(σ(X) - σ(Y))² at cosine 1: a second difference of F."""
        total, between = sx + sy, xp.abs(sx - sy)
        node, weight = (xp.asarray(a, dtype=sx.dtype, device=sx.device) for a in _legendre())
        above, below = (_second_moment(xp, total[..., None] + side * between[..., None] * node) for side in (1, -1))
        near = between**2 * xp.sum(weight * (1 - node) * (above + below), axis=-1)
        far = _tail(xp, 2 * sx) + _tail(xp, 2 * sy) - 2 * _tail(xp, total)
        apart = xp.where((total > 4) & (between > 0.3 * total), far, near)
        return (self.scale * self.left) ** 2 * apart


def _way(xp: Any, sx: Array, sy: Array, h: Array) -> tuple[Array, Array, Array, Array]:
    """Return the angle θ; at nodes from 0 to it p(cos φ - cos θ) and κ; the nodes' weights, of sum 1."""
    theta = angle_of_half_gap(xp, h)
    many = bool(xp.any((sx > math.sqrt(_MODERATE)) | (sy > math.sqrt(_MODERATE))))
    node, rest, weight = (xp.asarray(a, dtype=sx.dtype, device=sx.device) for a in _nodes(*(_MANY if many else _FEW)))
    angle = theta[..., None]
    fall = 2 * (sx * sy)[..., None] * xp.sin(angle * rest / 2) * xp.sin(angle * (1 + node) / 2)
    sine = xp.sin(angle * node) / math.sqrt(2)
    kappa = xp.full_like(sine, 2.0)
    for s in (sx, sy):
        z = s[..., None] * sine
        kappa = kappa - math.sqrt(math.pi) * z * erfcx(xp, z)
    return theta, fall, kappa, weight


def _tail(xp: Any, s: Array) -> Array:
    """F(s)."""
    return erfcx(xp, s / math.sqrt(2)) / 2


def _second_moment(xp: Any, s: Array) -> Array:
    """E g² exp(sg) of negative g, the second derivative of F."""
    near = xp.where(s < _FAR, s, xp.zeros_like(s))
    far = xp.where(s < _FAR, xp.ones_like(s), s)
    close = (1 + near * near) * _tail(xp, near) - near / math.sqrt(2 * math.pi)
    return xp.where(s < _FAR, close, math.sqrt(2 / math.pi) / far**3)


@lru_cache(maxsize=2)
def _nodes(count: int, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes on (0, 1), 1 minus the nodes, and weights: dense at both ends on a logarithmic scale (tanh-sinh)."""
    t, step = np.linspace(-reach, reach, count, retstep=True)
    odds = np.exp(math.pi * np.sinh(t))
    node, rest = odds / (1 + odds), 1 / (1 + odds)
    return node, rest, step * math.pi * np.cosh(t) * node * rest


@lru_cache(maxsize=1)
def _legendre(points: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on (0, 1)."""
    node, weight = np.polynomial.legendre.leggauss(points)
    return (1 + node) / 2, weight / 2
