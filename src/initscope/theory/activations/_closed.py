"""Activations whose expectations have closed forms; the source of each stands with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap, half_gap_of_covariance, psi_of_half_gap
from initscope.theory._arrays import Array, erf, safe_sqrt
from initscope.theory._quadrature import expect
from initscope.theory.activations._base import Activation

__all__ = ["Erf", "Exponential", "GaussianBump", "Gelu", "Polynomial", "RandomSlopes", "Sign", "TwoSlopes", "Wave"]
__all__ += ["horner"]


_CANCELS = 1e-7
"""Squared distances below this share of the second moments are not taken from their difference."""


class _Closed(Activation):
    r"""Closed forms state the dual; squared distances and second moments follow from it unless overridden.

    Near cosine 1 the difference of second moments and dual cancels. There a smooth σ has, by Price's theorem along the
    angle and to second order along the radius, with :math:`p = s_xs_y` and h the half gap,

    .. math:: E(\sigma(X)-\sigma(Y))^2 = 4p\int_0^h E[\sigma'\sigma'](p(1-2t))\,dt
              + \Big(\frac{s_x-s_y}{s}\Big)^2 E[(Z\sigma'(Z))^2], \qquad s = \tfrac12(s_x+s_y),\ Z \sim N(0, s^2)

    to a relative 1e-7 or better where it is used, at any angle however small.
    """

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        return self._dual(xp, kxx, kxx, kxx)

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        dtype = xp.result_type(kxx, kyy, d)
        kxx, kyy, d = xp.broadcast_arrays(*(xp.astype(array, xp.float64) for array in (kxx, kyy, d)))
        size = self._second_moment(xp, kxx) + self._second_moment(xp, kyy)
        apart = size - 2 * self._dual(xp, kxx, kyy, (kxx + kyy - d) / 2)
        near = (apart < _CANCELS * size) & (kxx > 0) & (kyy > 0) & (d < (kxx + kyy) / 4)
        if bool(xp.any(near)):
            apart = xp.where(near, self._near(xp, kxx, kyy, d), apart)
        return xp.astype(apart, dtype)

    def _near(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        """The squared distance at small angles and nearly equal variances."""
        product, h = half_gap(xp, kxx, kyy, d)
        rise = xp.zeros_like(h)
        for node, weight in _graded():
            rise = rise + weight * self._derivative_dual(xp, kxx, kyy, product * (1 - 2 * node * h))
        middle = (kxx + kyy + 2 * product) / 4  # ((s_x + s_y)/2)²
        ratio = (kxx - kyy) / xp.where(middle > 0, 2 * middle, xp.ones_like(middle))  # (s_x - s_y)/s
        return 4 * product * h * rise + ratio**2 * self._stretch(xp, middle)

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        """E[(Xσ'(X))²]: how fast σ(X) moves as X is scaled."""
        return expect(xp, lambda x: (x * self._derivative(xp, x)) ** 2, kxx, self.kinks)


@dataclass(frozen=True, eq=False)
class TwoSlopes(_Closed):
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
        return xp.where(x > 0, (self.a + self.b) * x, (self.a - self.b) * x)

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

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        product, h = half_gap(xp, kxx, kyy, d)
        return (self.a**2 + self.b**2) * d - 4 * self.b**2 * product * psi_of_half_gap(xp, h)


@dataclass(frozen=True, eq=False)
class RandomSlopes(TwoSlopes):
    r"""`TwoSlopes` whose slope below 0 is drawn anew for every unit and input, with variance v ([Xu2015]_).

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
class Sign(_Closed):
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
class Erf(_Closed):
    r"""Error function: :math:`\hat\sigma = \frac2\pi\arcsin(2k_{xy}/\sqrt{(1+2k_{xx})(1+2k_{yy})})` [Williams1997]_."""

    def _value(self, xp: Any, x: Array) -> Array:
        return erf(xp, x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return 2 / math.sqrt(math.pi) * xp.exp(-x * x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 2 / math.pi * xp.asin(2 * kxy / xp.sqrt((1 + 2 * kxx) * (1 + 2 * kyy)))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 4 / math.pi / xp.sqrt((1 + 2 * kxx) * (1 + 2 * kyy) - 4 * kxy**2)

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        return 4 / math.pi * kxx * (1 + 4 * kxx) ** -1.5

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.zeros_like(kxx)


@dataclass(frozen=True, eq=False)
class Gelu(_Closed):
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
    def _both_positive(xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        """E[Φ(X)Φ(Y)]."""
        return 0.25 + xp.asin(kxy / xp.sqrt((1 + kxx) * (1 + kyy))) / (2 * math.pi)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        delta = (1 + kxx) * (1 + kyy) - kxy**2
        tail = kxx * (kyy * (1 + kxx) - kxy**2) / (1 + kxx) + kxy**2 / (1 + kyy)
        return kxy * self._both_positive(xp, kxx, kyy, kxy) + tail / (2 * math.pi * xp.sqrt(delta))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        delta = (1 + kxx) * (1 + kyy) - kxy**2
        tail = kxy * (1 / (1 + kxx) + 1 / (1 + kyy) + 1 / delta) / (2 * math.pi * xp.sqrt(delta))
        return self._both_positive(xp, kxx, kyy, kxy) + tail

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        # E[X²Φ²] + 2 E[X³Φφ] + E[X⁴φ²], each by Gaussian integration by parts
        bells = [kxx**m * (1 + 2 * kxx) ** (-m - 0.5) / (2 * math.pi) for m in range(3)]  # E[X^2m φ²] / (2m - 1)!!
        first = kxx / (1 + kxx) * bells[0]  # E[XΦφ]
        third = kxx / (1 + kxx) * (2 * first + bells[1])
        return kxx * (self._both_positive(xp, kxx, kxx, kxx) + 2 * first) + 2 * third + 3 * bells[2]

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return kxx / xp.sqrt(2 * math.pi * (1 + kxx))


@dataclass(frozen=True, eq=False)
class Wave(_Closed):
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

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        turned = kxx * (1 - 4 * kxx) * xp.exp(-2 * kxx)
        return (kxx - turned) / 2 if self.even else (kxx + turned) / 2

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.exp(-kxx / 2) if self.even else xp.zeros_like(kxx)


@dataclass(frozen=True, eq=False)
class Exponential(_Closed):
    r"""exp(x): :math:`\hat\sigma = e^{(k_{xx}+k_{yy}+2k_{xy})/2}`."""

    def _value(self, xp: Any, x: Array) -> Array:
        return xp.exp(x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return xp.exp(x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return xp.exp((kxx + kyy) / 2 + kxy)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._dual(xp, kxx, kyy, kxy)

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        return kxx * (1 + 4 * kxx) * xp.exp(2 * kxx)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return xp.exp(kxx / 2)


@dataclass(frozen=True, eq=False)
class GaussianBump(_Closed):
    r"""exp(-x²): :math:`\hat\sigma = ((1+2k_{xx})(1+2k_{yy}) - 4k_{xy}^2)^{-1/2}`."""

    def _value(self, xp: Any, x: Array) -> Array:
        return xp.exp(-x * x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return -2 * x * xp.exp(-x * x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 1 / xp.sqrt((1 + 2 * kxx) * (1 + 2 * kyy) - 4 * kxy**2)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return 4 * kxy * ((1 + 2 * kxx) * (1 + 2 * kyy) - 4 * kxy**2) ** -1.5

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        return 12 * kxx**2 * (1 + 4 * kxx) ** -2.5

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return 1 / xp.sqrt(1 + 2 * kxx)


@dataclass(frozen=True, eq=False)
class Polynomial(_Closed):
    r"""A polynomial, ``coefficients`` by rising power (monomials, Hermite polynomials), by Isserlis' theorem:

    .. math:: E[X^iY^j] = \sum_t \tbinom it\tbinom jt\, t!\,(i-t-1)!!\,(j-t-1)!!\;
              k_{xy}^t\, k_{xx}^{(i-t)/2}\, k_{yy}^{(j-t)/2}.
    """

    coefficients: tuple[float, ...] = (0.0, 1.0)

    def _value(self, xp: Any, x: Array) -> Array:
        return horner(xp, self.coefficients, x)

    @property
    def _prime(self) -> Polynomial:
        slopes = tuple(power * c for power, c in enumerate(self.coefficients) if power) or (0.0,)
        return Polynomial(f"{self.name}'", method="closed form", coefficients=slopes)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return self._prime._value(xp, x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        total = xp.zeros_like(kxx + kyy + kxy)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(self.coefficients):
                if a * b == 0 or (i - j) % 2:
                    continue
                for t in range(i % 2, min(i, j) + 1, 2):
                    ways = math.comb(i, t) * math.comb(j, t) * math.factorial(t) * _pairings(i - t) * _pairings(j - t)
                    total = total + a * b * ways * kxy**t * kxx ** ((i - t) // 2) * kyy ** ((j - t) // 2)
        return total

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._prime._dual(xp, kxx, kyy, kxy)

    def _stretch(self, xp: Any, kxx: Array) -> Array:
        times = tuple(power * c for power, c in enumerate(self.coefficients))
        return Polynomial(self.name, method="closed form", coefficients=times)._second_moment(xp, kxx)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        total = xp.zeros_like(kxx)
        for power, coefficient in enumerate(self.coefficients[::2]):
            total = total + coefficient * _pairings(2 * power) * kxx**power
        return total


@lru_cache(maxsize=1)
def _graded(points: int = 10) -> list[tuple[float, float]]:
    """Nodes and weights on (0, 1), denser at 0: t², t by Gauss-Legendre."""
    t, weight = np.polynomial.legendre.leggauss(points)
    t = (t + 1) / 2
    return list(zip((t * t).tolist(), (weight * t).tolist(), strict=True))


def horner(xp: Any, coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, by rising power, at x."""
    result = xp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _pairings(count: int) -> int:
    """(count - 1)!!: the number of ways to pair an even number of things."""
    return math.prod(range(1, count, 2))
