"""Continuous piecewise linear activations: hard truncation, hard tanh, ReLU6, soft shrinkage and their kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap
from initscope.theory._arrays import Array, erfc, namespace, safe_sqrt
from initscope.theory.activations._base import Activation

__all__ = ["PiecewiseLinear"]


_CHUNK = 1 << 10  # elements worked on at once: some hundred numbers for each stay near the caches


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Activation):
    r"""σ(x) = offset + slope·x + Σ jumps_i·max(x - kinks_i, 0).

    By Price's theorem the second derivative of the dual in kxy is :math:`E[\sigma''(X)\sigma''(Y)]`, a sum of bivariate
    normal densities at the kinks, so that with :math:`k_{xy} = \sqrt{k_{xx}k_{yy}}\sin\varphi_1`

    .. math:: \hat\sigma = E\sigma(X)\,E\sigma(Y) + k_{xy}\,E\sigma'(X)\,E\sigma'(Y)
              + \sum_{ij} \frac{c_ic_j}{2\pi} \int_0^{\varphi_1} (k_{xy} - \sqrt{k_{xx}k_{yy}}\sin\varphi)
              \exp\Big(-\frac{a_i^2 + b_j^2 - 2a_ib_j\sin\varphi}{2\cos^2\varphi}\Big) d\varphi,

    with :math:`a_i, b_j` the kinks in standard deviations of X and Y: one integral instead of two, to about 1e-13.
    """

    offset: float = 0.0
    slope: float = 0.0
    jumps: tuple[float, ...] = ()

    def _value(self, xp: Any, x: Array) -> Array:
        result = self.offset + self.slope * x
        for kink, jump in zip(self.kinks, self.jumps, strict=True):
            result = result + jump * xp.where(x > kink, x - kink, xp.zeros_like(x))
        return result

    def _derivative(self, xp: Any, x: Array) -> Array:
        result = xp.full_like(x, self.slope)
        for kink, jump in zip(self.kinks, self.jumps, strict=True):
            result = result + jump * xp.where(x > kink, xp.ones_like(x), xp.zeros_like(x))
        return result

    def _mean(self, xp: Any, kxx: Array) -> Array:
        s = safe_sqrt(xp, kxx)
        total = xp.full_like(s, self.offset)
        for kink, jump in zip(self.kinks, self.jumps, strict=True):
            a = _standard(xp, kink, s)
            total = total + jump * (s * _density(xp, a) - kink * _above(xp, a))
        return total

    def _mean_slope(self, xp: Any, kxx: Array) -> Array:
        s = safe_sqrt(xp, kxx)
        total = xp.full_like(s, self.slope)
        for kink, jump in zip(self.kinks, self.jumps, strict=True):
            total = total + jump * _above(xp, _standard(xp, kink, s))
        return total

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        """Piece by piece, ∫ (α + βx)² over each: all are positive, so that nothing cancels between them."""
        dtype, kxx = kxx.dtype, xp.astype(kxx, xp.float64)
        s = safe_sqrt(xp, kxx)
        far = xp.full_like(s, 40.0)
        edges = [-far, *(_standard(xp, kink, s) for kink in self.kinks), far]
        alpha, beta = self.offset, self.slope
        total = xp.zeros_like(s)
        for piece, (low, high) in enumerate(pairwise(edges)):
            if piece > 0:
                alpha, beta = alpha - self.jumps[piece - 1] * self.kinks[piece - 1], beta + self.jumps[piece - 1]
            ones, mean, square = _moments_between(xp, low, high)
            total = total + alpha * alpha * ones + 2 * alpha * beta * s * mean + beta * beta * kxx * square
        return xp.astype(total, dtype)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, bends = self._bends(xp, kxx, kyy, kxy, moment=1)
        mixed = self._mean(xp, kxx) * self._mean(xp, kyy)
        return mixed + kxy * self._mean_slope(xp, kxx) * self._mean_slope(xp, kyy) + product * bends

    def transform(self, kxx: Array, kyy: Array, d: Array) -> tuple[Array, Array, Array]:
        """As for every activation, in chunks: each element takes 129 nodes of memory."""
        xp, kxx, kyy, d = namespace(kxx, kyy, d)
        kxx, kyy, d = xp.broadcast_arrays(kxx, kyy, d)
        flat = [xp.reshape(array, (-1,)) for array in (kxx, kyy, d)]
        starts = range(0, max(1, flat[0].shape[0]), _CHUNK)
        parts = [super(PiecewiseLinear, self).transform(*(a[k : k + _CHUNK] for a in flat)) for k in starts]
        first, second, apart = (xp.reshape(xp.concat(list(each)), kxx.shape) for each in zip(*parts, strict=True))
        return first, second, apart

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        r"""From the dual at wide angles; at others by an integral from cosine 1, in which nothing cancels:

        .. math:: E(\sigma(s_xg) - \sigma(s_yg))^2 + 2 s_xs_y \int_{\cos\theta}^1 E[\sigma'(X)\sigma'(Y)]_r\,dr.
        """
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d)):
            return super()._distance(xp, kxx, kyy, d)
        dtype = xp.result_type(kxx, kyy, d)
        kxx, kyy, d = xp.broadcast_arrays(*(xp.astype(array, xp.float64) for array in (kxx, kyy, d)))
        product, h = half_gap(xp, kxx, kyy, d)
        wide = (h > 0.25) | (product == 0)
        result = xp.zeros_like(d)
        if bool(xp.any(wide)):
            x, y = kxx[wide], kyy[wide]
            total = self._second_moment(xp, x) + self._second_moment(xp, y)
            result[wide] = total - 2 * self._dual(xp, x, y, (x + y - d[wide]) / 2)
        if not bool(xp.all(wide)):
            near = ~wide
            result[near] = self._near(xp, kxx[near], kyy[near], product[near], xp.clip(h[near], 0.0, 1.0))
        return xp.astype(xp.where(result > 0, result, xp.zeros_like(result)), dtype)

    def _near(self, xp: Any, kxx: Array, kyy: Array, product: Array, h: Array) -> Array:
        """The squared distance from ``product`` of the deviations and ``h`` = sin²(θ/2), for small angles."""
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        _, bends = self._bends(xp, kxx, kyy, product * (1 - 2 * h), moment=0)
        slopes = self._mean_slope(xp, kxx) * self._mean_slope(xp, kyy) + bends
        node, weight = (xp.asarray(a, dtype=h.dtype, device=h.device) for a in _tanh_sinh())
        theta = angle_of_half_gap(xp, h)[..., None]
        angle = theta * node
        half, sine2 = xp.sin(angle / 2) ** 2, xp.sin(angle) ** 2
        safe = xp.where(sine2 > 0, sine2, xp.ones_like(sine2))
        tail = xp.zeros_like(h)
        for kink_x, jump_x in zip(self.kinks, self.jumps, strict=True):
            for kink_y, jump_y in zip(self.kinks, self.jumps, strict=True):
                a, b = _standard(xp, kink_x, sx)[..., None], _standard(xp, kink_y, sy)[..., None]
                bell = xp.exp(-((a - b) ** 2 / safe + a * b / (1 - half)) / 2)
                tail = tail + jump_x * jump_y * xp.sum(weight * half * bell, axis=-1)
        return self._radial(xp, sx, sy) + product * (4 * h * slopes + 2 * theta[..., 0] / math.pi * tail)

    def _radial(self, xp: Any, sx: Array, sy: Array) -> Array:
        """E (σ(s_x g) - σ(s_y g))² of one normal g: smooth between the kinks of both, by Gauss-Legendre nodes."""
        fixed = [xp.full_like(sx, edge) for edge in (-9.0, -6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0, 9.0)]
        kinks = [xp.clip(_standard(xp, kink, s), -9.0, 9.0) for s in (sx, sy) for kink in self.kinks]
        edges = xp.sort(xp.stack([*fixed, *kinks], axis=-1), axis=-1)
        node, weight = (xp.asarray(a, dtype=sx.dtype, device=sx.device) for a in _legendre())
        half = ((edges[..., 1:] - edges[..., :-1]) / 2)[..., None]
        g = edges[..., :-1][..., None] + half * (1 + node)
        apart = self._value(xp, sx[..., None, None] * g) - self._value(xp, sy[..., None, None] * g)
        return xp.sum(half * weight * _density(xp, g) * apart**2, axis=(-2, -1))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        _, bends = self._bends(xp, kxx, kyy, kxy, moment=0)
        return self._mean_slope(xp, kxx) * self._mean_slope(xp, kyy) + bends

    def _bends(self, xp: Any, kxx: Array, kyy: Array, kxy: Array, *, moment: int) -> tuple[Array, Array]:
        """∫ (sin φ1 - sin φ)^moment Σ densities dφ, the part of the dual that the kinks make."""
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        product = sx * sy
        positive = product > 0
        rho = xp.where(positive, kxy / xp.where(positive, product, xp.ones_like(product)), xp.zeros_like(product))
        inside = xp.abs(rho) < 1
        end = xp.where(inside, xp.asin(xp.where(inside, rho, xp.zeros_like(rho))), xp.sign(rho) * (math.pi / 2))[
            ..., None
        ]
        node, weight = (xp.asarray(a, dtype=rho.dtype, device=rho.device) for a in _tanh_sinh())
        # cos² φ from the distance to the end: near φ = ±π/2 the cosine itself has no digits left.
        remaining = xp.abs(end) * (1 - node)
        gap = math.pi / 2 - xp.abs(end) + remaining
        sine = xp.sign(end) * xp.cos(gap)
        cosine2 = xp.sin(gap) ** 2
        # ρ itself, not sin of the end: at ±1 the end has no gradient, and the rest of the derivative is 0 there.
        lever = (rho[..., None] - sine) if moment else xp.ones_like(sine)
        total = xp.zeros_like(product)
        safe = xp.where(cosine2 > 0, cosine2, xp.ones_like(cosine2))
        for kink_x, jump_x in zip(self.kinks, self.jumps, strict=True):
            for kink_y, jump_y in zip(self.kinks, self.jumps, strict=True):
                a, b = _standard(xp, kink_x, sx)[..., None], _standard(xp, kink_y, sy)[..., None]
                # a² + b² - 2ab sin φ = (a - b)² + 2ab(1 - sin φ); 1 - sin φ = cos² φ / (1 + sin φ).
                ratio = xp.where(
                    sine >= 0,
                    (a - b) ** 2 / safe + 2 * a * b / (1 + xp.abs(sine)),
                    (a + b) ** 2 / safe - 2 * a * b / (1 + xp.abs(sine)),
                )
                bell = xp.where(cosine2 > 0, xp.exp(-ratio / 2), xp.zeros_like(ratio))
                total = total + jump_x * jump_y * xp.sum(weight * lever * bell, axis=-1)
        return product, xp.where(positive, total * end[..., 0] / (2 * math.pi), xp.zeros_like(total))


@lru_cache(maxsize=1)
def _tanh_sinh(points: int = 129, reach: float = 3.6) -> tuple[np.ndarray, np.ndarray]:
    """Double-exponential nodes and weights on (0, 1), dense at both ends."""
    t = np.linspace(-reach, reach, points)
    s = np.pi / 2 * np.sinh(t)
    weight = (t[1] - t[0]) * np.pi / 4 * np.cosh(t) / np.cosh(s) ** 2
    return 1 / (1 + np.exp(-2 * s)), weight


@lru_cache(maxsize=1)
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    """Twelve Gauss-Legendre nodes and weights on (-1, 1)."""
    return np.polynomial.legendre.leggauss(12)


def _standard(xp: Any, kink: float, s: Array) -> Array:
    """The kink in standard deviations; ±40 stands for never or always reached when the variable is constant."""
    positive = s > 0
    far = xp.full_like(s, 40.0 if kink >= 0 else -40.0)
    return xp.where(positive, xp.clip(kink / xp.where(positive, s, xp.ones_like(s)), -40.0, 40.0), far)


def _density(xp: Any, a: Array) -> Array:
    return xp.exp(-a * a / 2) / math.sqrt(2 * math.pi)


def _above(xp: Any, a: Array) -> Array:
    return erfc(xp, a / math.sqrt(2)) / 2


def _moments_between(xp: Any, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Integrals of 1, x, x² against the normal density from ``low`` to ``high``.

    Between near ends, where the differences of the formulas have few digits, by 12 Gauss-Legendre nodes; below zero
    mirrored, so that tails keep theirs.
    """
    mirrored = high <= 0
    low, high = xp.where(mirrored, -high, low), xp.where(mirrored, -low, high)
    node, weight = (xp.asarray(a, dtype=low.dtype, device=low.device) for a in _legendre())
    half = xp.where(high - low < 1, (high - low) / 2, xp.zeros_like(low))[..., None]
    x = ((high + low) / 2)[..., None] + half * node
    share = half * weight * _density(xp, x)
    near = [xp.sum(share * x**power, axis=-1) for power in range(3)]
    above = [_above(xp, a) for a in (low, high)]
    bell = [_density(xp, a) for a in (low, high)]
    apart = [above[0] - above[1], bell[0] - bell[1], above[0] - above[1] + low * bell[0] - high * bell[1]]
    ones, mean, square = (xp.where(high - low < 1, a, b) for a, b in zip(near, apart, strict=True))
    return ones, xp.where(mirrored, -mean, mean), square
