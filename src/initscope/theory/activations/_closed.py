"""Activations whose expectations have closed forms; the source of each stands with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap, half_gap_of_covariance, psi_of_half_gap
from initscope.theory._arrays import Array, erf, safe_sqrt
from initscope.theory._quadrature import normal_rule
from initscope.theory.activations._base import Activation

__all__ = ["ClosedForm", "Erf", "Exponential", "GaussianBump", "Gelu", "RandomSlopes", "Sign", "TwoSlopes", "Wave"]


_CANCELS = 1e-7
"""Squared distances below this share of the second moments are not taken from their difference."""

_RADIUS = tuple(zip(*(rule.tolist() for rule in np.polynomial.legendre.leggauss(3)), strict=True))
"""Nodes and weights on (-1, 1)."""


class ClosedForm(Activation):
    r"""Closed forms state the dual; squared distances and second moments follow from it unless overridden.

    Near cosine 1, and at small variances where σ(0) ≠ 0, the difference of second moments and dual cancels. There a
    smooth σ has, by Price's theorem along the angle and by Gauss-Legendre nodes along the radius, with
    :math:`p = s_xs_y`, h the half gap and g a standard normal variable,

    .. math:: E(\sigma(X)-\sigma(Y))^2 = 4p\int_0^h E[\sigma'\sigma'](p(1-2t))\,dt
              + \int_{s_x}^{s_y}\!\!\int_{s_x}^{s_y} E[g^2\sigma'(ag)\sigma'(bg)]\,da\,db

    to a relative 1e-7 or better, at any angle however small. Where σ is even, -Y serves as well as Y: it is taken at
    wide angles, so that cosine -1 is as good as 1.
    """

    @property
    def even(self) -> bool:
        """Whether σ(-x) = σ(x)."""
        return False

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        double = xp.astype(kxx, xp.float64)  # squares of large variances are beyond float32
        return xp.astype(self._dual(xp, double, double, double), kxx.dtype)

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        dtype = xp.result_type(kxx, kyy, d)
        kxx, kyy, d = xp.broadcast_arrays(*(xp.astype(array, xp.float64) for array in (kxx, kyy, d)))
        if self.even:
            d = _acute(xp, kxx, kyy, d)
        size = self._second_moment(xp, kxx) + self._second_moment(xp, kyy)
        apart = size - 2 * self._dual(xp, kxx, kyy, (kxx + kyy - d) / 2)
        near = apart < _CANCELS * size
        if bool(xp.any(near)):
            apart = xp.where(near, self._near(xp, kxx, kyy, d), apart)
        return xp.astype(apart, dtype)

    def _near(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        """The squared distance where it is small compared with the second moments."""
        product, h = half_gap(xp, kxx, kyy, d)
        rise = xp.zeros_like(h)
        for node, weight in _graded():
            rise = rise + weight * self._derivative_dual(xp, kxx, kyy, product * (1 - 2 * node * h))
        total = safe_sqrt(xp, kxx) + safe_sqrt(xp, kyy)
        between = (kxx - kyy) / xp.where(total > 0, total, xp.ones_like(total))  # s_x - s_y
        scales = [(total + node * between) / 2 for node, _ in _RADIUS]
        stretch = xp.zeros_like(h)
        for a, (_, first) in zip(scales, _RADIUS, strict=True):
            for b, (_, second) in zip(scales, _RADIUS, strict=True):
                stretch = stretch + first * second / 4 * self._stretch(xp, a, b)
        return 4 * product * h * rise + between**2 * stretch

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        """E[g² σ'(ag) σ'(bg)], g standard normal: how fast σ moves as its argument is scaled; integrated by default."""
        g, weight = (xp.asarray(values, dtype=xp.float64, device=a.device) for values in normal_rule())
        slopes = self._derivative(xp, a[..., None] * g) * self._derivative(xp, b[..., None] * g)
        return xp.sum(weight * g * g * slopes, axis=-1)


@dataclass(frozen=True, eq=False)
class TwoSlopes(ClosedForm):
    r"""Linear on each side of 0: σ(x) = a x + b|x|. Identity, ReLU, leaky ReLU and the absolute value.

    .. math:: \hat\sigma = (a^2+b^2)\,k_{xy} + 2b^2\sqrt{k_{xx}k_{yy}}\;\psi(\theta), \qquad
              E(\sigma(X)-\sigma(Y))^2 = (a^2+b^2)\,d - 4b^2\sqrt{k_{xx}k_{yy}}\;\psi(\theta),

    because :math:`E[X|Y|] = 0` and :math:`E|XY| = k_{xy} + 2\sqrt{k_{xx}k_{yy}}\,\psi`. For ReLU (a = b = 1/2) this is
    [ChoSaul2009]_ eq. 6. Gradients are exact at cosine ±1 and at variance 0.
    """

    a: float = 0.5
    b: float = 0.5
    at_zero: float = 0.0
    """Slope at 0, PyTorch's convention."""

    def _value(self, xp: Any, x: Array) -> Array:
        above, below = self.a + self.b, self.a - self.b
        if getattr(x, "requires_grad", False):  # the slope at 0 is then PyTorch's
            return xp.where(x > 0, above * x, below * x)
        zero = xp.asarray(0, dtype=x.dtype, device=x.device)
        rectified = above * xp.maximum(x, zero)  # three times as fast as ``where``
        return rectified + below * xp.minimum(x, zero) if below else rectified

    def _derivative(self, xp: Any, x: Array) -> Array:
        sides = xp.where(x > 0, xp.full_like(x, self.a + self.b), xp.full_like(x, self.a - self.b))
        return xp.where(x == 0, xp.full_like(x, self.at_zero), sides)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        return (self.a**2 + self.b**2) * kxy + 2 * self.b**2 * product * psi_of_half_gap(xp, h)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        inside = self.a**2 + self.b**2 * (1 - 2 * angle_of_half_gap(xp, h) / math.pi)
        # Where a variable is constantly 0 its slope is that at 0; the mean slope of the other is a.
        both = (kxx <= 0) & (kyy <= 0)
        edge = xp.where(both, xp.full_like(h, self.at_zero**2), xp.full_like(h, self.at_zero * self.a))
        return xp.where(product > 0, inside, edge)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return self.b * math.sqrt(2 / math.pi) * safe_sqrt(xp, kxx)

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        return (self.a**2 + self.b**2) * kxx

    @property
    def even(self) -> bool:
        """Whether both slopes are opposite: the absolute value."""
        return self.a == 0

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        if self.even:
            d = _acute(xp, kxx, kyy, d)
        product, h = half_gap(xp, kxx, kyy, d)
        return (self.a**2 + self.b**2) * d - 4 * self.b**2 * product * psi_of_half_gap(xp, h)


@dataclass(frozen=True, eq=False)
class RandomSlopes(TwoSlopes):
    r"""`TwoSlopes` whose slope below 0 is drawn for every unit and input, with variance v ([Xu2015]_).

    .. math:: E\,\sigma(X)^2 = (a^2+b^2+\tfrac v2)\,k_{xx}, \qquad
              E(\sigma(X)-\sigma(Y))^2 = (a^2+b^2)\,d - 4b^2\sqrt{k_{xx}k_{yy}}\,\psi + \tfrac v2(k_{xx}+k_{yy})

    Two inputs have slopes of their own, so the dual is that of the mean slope, and equal inputs come apart.
    """

    slope_variance: float = 0.0

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        return super()._second_moment(xp, kxx) + self.slope_variance / 2 * kxx

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        return super()._distance(xp, kxx, kyy, d) + self.slope_variance / 2 * (kxx + kyy)


@dataclass(frozen=True, eq=False)
class Sign(ClosedForm):
    r"""σ(x) = shift + scale·sign(x), with σ(0) = ``at_zero``: sign and step.

    .. math:: E[\mathrm{sign} X\,\mathrm{sign} Y] = 1 - \frac{2\theta}{\pi}.

    The derivative is 0, as PyTorch has it. The dual itself has a slope, infinite at cosine ±1, and the squared distance
    is :math:`4\,\mathrm{scale}^2\,\theta/\pi`. [Bronstein2016]_ (sign embedding), [ChoSaul2009]_ order 0.
    """

    shift: float = 0.0
    scale: float = 1.0
    at_zero: float = 0.0

    def _value(self, xp: Any, x: Array) -> Array:
        side = xp.where(x > 0, xp.full_like(x, self.shift + self.scale), xp.full_like(x, self.shift - self.scale))
        return xp.where(x == 0, xp.full_like(x, self.at_zero), side)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return xp.zeros_like(x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        inside = self.shift**2 + self.scale**2 * (1 - 2 * angle_of_half_gap(xp, h) / math.pi)
        return xp.where(product > 0, inside, self._mean(xp, kxx) * self._mean(xp, kyy))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return xp.zeros_like(kxx + kyy + kxy)

    def _dual_slope(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        product, h = half_gap_of_covariance(xp, kxx, kyy, kxy)
        sine = 2 * product * safe_sqrt(xp, h) * safe_sqrt(xp, 1 - h)
        inside = sine > 0
        slope = 2 * self.scale**2 / math.pi / xp.where(inside, sine, xp.ones_like(sine))
        return xp.where(inside, slope, xp.full_like(slope, math.inf))

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        product, h = half_gap(xp, kxx, kyy, d)
        apart = self._second_moment(xp, kxx) + self._second_moment(xp, kyy)
        apart = apart - 2 * self._mean(xp, kxx) * self._mean(xp, kyy)  # of a constant and a variable
        return xp.where(product > 0, 4 * self.scale**2 / math.pi * angle_of_half_gap(xp, h), apart)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.where(kxx > 0, xp.full_like(kxx, self.shift), xp.full_like(kxx, self.at_zero))

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        full = xp.full_like(kxx, self.shift**2 + self.scale**2)
        return xp.where(kxx > 0, full, xp.full_like(kxx, self.at_zero**2))


@dataclass(frozen=True, eq=False)
class Erf(ClosedForm):
    r"""Error function: :math:`\hat\sigma = \frac2\pi\arcsin(2k_{xy}/\sqrt{(1+2k_{xx})(1+2k_{yy})})` [Williams1997]_."""

    def _value(self, xp: Any, x: Array) -> Array:
        return erf(xp, x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return 2 / math.sqrt(math.pi) * xp.exp(-x * x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 2 / math.pi * xp.atan2(2 * kxy, xp.sqrt(_determinant(xp, 2 * kxx, 2 * kyy, 2 * kxy)))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 4 / math.pi / xp.sqrt(_determinant(xp, 2 * kxx, 2 * kyy, 2 * kxy))

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        return 4 / math.pi * (1 + 2 * (a * a + b * b)) ** -1.5

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.zeros_like(kxx)


@dataclass(frozen=True, eq=False)
class Gelu(ClosedForm):
    r"""Exact GELU, xΦ(x). With Δ = (1+kxx)(1+kyy) - kxy², by Gaussian integration by parts:

    .. math:: \hat\sigma = k_{xy}\Big(\tfrac14 + \tfrac1{2\pi}\arcsin\tfrac{k_{xy}}{\sqrt{(1+k_{xx})(1+k_{yy})}}\Big)
       + \frac{1}{2\pi\sqrt\Delta}
       \Big(\frac{k_{xx}(k_{yy}(1+k_{xx}) - k_{xy}^2)}{1+k_{xx}} + \frac{k_{xy}^2}{1+k_{yy}}\Big).
    """

    def _value(self, xp: Any, x: Array) -> Array:
        return x * (1 + erf(xp, x / math.sqrt(2))) / 2

    def _derivative(self, xp: Any, x: Array) -> Array:
        return (1 + erf(xp, x / math.sqrt(2))) / 2 + x * xp.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    @staticmethod
    def _both_positive(xp: Any, kxy: Array, delta: Array) -> Array:
        """E[Φ(X)Φ(Y)]; the arcsine above as an angle whose cosine is known, too."""
        return 0.25 + xp.atan2(kxy, xp.sqrt(delta)) / (2 * math.pi)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        delta = _determinant(xp, kxx, kyy, kxy)
        tail = kxx * (kyy + _minor(xp, kxx, kyy, kxy)) / (1 + kxx) + kxy**2 / (1 + kyy)
        return kxy * self._both_positive(xp, kxy, delta) + tail / (2 * math.pi * xp.sqrt(delta))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        delta = _determinant(xp, kxx, kyy, kxy)
        tail = kxy * (1 / (1 + kxx) + 1 / (1 + kyy) + 1 / delta) / (2 * math.pi * xp.sqrt(delta))
        return self._both_positive(xp, kxy, delta) + tail

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        # E[g²ΦΦ] + E[g³(aφΦ + bΦφ)] + ab E[g⁴φφ], each by Gaussian integration by parts
        wide = 1 + a * a + b * b
        both = self._both_positive(xp, a * b, wide)
        bells = [wide ** (-m - 0.5) / (2 * math.pi) for m in range(3)]  # E[g^2m φ(ag)φ(bg)] / (2m - 1)!!
        total = both + 3 * a * b * bells[2]
        for slope, bell in ((a, b), (b, a)):
            first = slope * bells[0] / (1 + bell * bell)  # E[g Φ(slope g) φ(bell g)]
            third = (2 * first + slope * bells[1]) / (1 + bell * bell)
            total = total + bell * (first + third)
        return total

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return kxx / xp.sqrt(2 * math.pi * (1 + kxx))


@dataclass(frozen=True, eq=False)
class Wave(ClosedForm):
    r"""sin (``even=False``) or cos: :math:`\hat\sigma = \frac12(e^{-d/2} \mp e^{-(k_{xx}+k_{yy}+2k_{xy})/2})`."""

    even: bool = False

    def _value(self, xp: Any, x: Array) -> Array:
        return xp.cos(x) if self.even else xp.sin(x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return -xp.sin(x) if self.even else xp.cos(x)

    def _combine(self, xp: Any, kxx: Array, kyy: Array, kxy: Array, even: bool) -> Array:
        negative = kxy < 0
        size = xp.where(negative, -kxy, kxy)
        near = xp.exp(-(kxx + kyy - 2 * size) / 2) / 2
        if even:
            return near * (1 + xp.exp(-2 * size))
        # small variances: the two exponentials are both about 1
        odd = -near * xp.expm1(-2 * size)
        return xp.where(negative, -odd, odd)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._combine(xp, kxx, kyy, kxy, self.even)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._combine(xp, kxx, kyy, kxy, not self.even)

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        # E[g² cos(cg)] = (1 - c²) exp(-c²/2), less 1, so that what cos takes from 1 keeps its digits
        narrow, wide = (xp.expm1(-c * c / 2) - c * c * xp.exp(-c * c / 2) for c in (a - b, a + b))
        return (narrow - wide) / 2 if self.even else 1 + (narrow + wide) / 2

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.exp(-kxx / 2) if self.even else xp.zeros_like(kxx)


@dataclass(frozen=True, eq=False)
class Exponential(ClosedForm):
    r"""exp(x): :math:`\hat\sigma = e^{(k_{xx}+k_{yy}+2k_{xy})/2}`."""

    def _value(self, xp: Any, x: Array) -> Array:
        return xp.exp(x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return xp.exp(x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return xp.exp((kxx + kyy) / 2 + kxy)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._dual(xp, kxx, kyy, kxy)

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        square = (a + b) ** 2
        return (1 + square) * xp.exp(square / 2)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.exp(kxx / 2)


@dataclass(frozen=True, eq=False)
class GaussianBump(ClosedForm):
    r"""exp(-x²): :math:`\hat\sigma = ((1+2k_{xx})(1+2k_{yy}) - 4k_{xy}^2)^{-1/2}`."""

    def _value(self, xp: Any, x: Array) -> Array:
        return xp.exp(-x * x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return -2 * x * xp.exp(-x * x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 1 / xp.sqrt(_determinant(xp, 2 * kxx, 2 * kyy, 2 * kxy))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 4 * kxy * _determinant(xp, 2 * kxx, 2 * kyy, 2 * kxy) ** -1.5

    @property
    def even(self) -> bool:
        """It is."""
        return True

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        return 12 * a * b * (1 + 2 * (a * a + b * b)) ** -2.5

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return 1 / xp.sqrt(1 + 2 * kxx)


def _minor(xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
    """kxx kyy - kxy², exactly 0 at cosine ±1 of like variables, and never below."""
    size = xp.abs(kxy)
    minor = size * ((kxx - size) + (kyy - size)) + (kxx - size) * (kyy - size)
    return xp.where(minor < 0, xp.zeros_like(minor), minor)


def _determinant(xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
    """(1 + kxx)(1 + kyy) - kxy², whose products of large variances cancel at cosine ±1."""
    return 1 + kxx + kyy + _minor(xp, kxx, kyy, kxy)


def _acute(xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
    """E(X+Y)² in place of d = E(X-Y)² where it is the smaller one, with all digits that d has."""
    opposite = (2 * kxx - d / 2) + (2 * kyy - d / 2)
    return xp.where(opposite < d, opposite, d)


@lru_cache(maxsize=1)
def _graded(points: int = 10) -> list[tuple[float, float]]:
    """Nodes and weights on (0, 1), denser at 0: t², t by Gauss-Legendre."""
    t, weight = np.polynomial.legendre.leggauss(points)
    t = (t + 1) / 2
    return list(zip((t * t).tolist(), (weight * t).tolist(), strict=True))
