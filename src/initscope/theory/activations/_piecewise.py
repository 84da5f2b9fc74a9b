"""Piecewise polynomials of degree two at most: hard swish, ReLU6, hard tanh, soft and hard shrinkage and their kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import polynomial as powers

from initscope.theory._arccos import angle_of_half_gap, half_gap
from initscope.theory._arrays import Array, erfc, in_chunks, safe_sqrt
from initscope.theory.activations._base import Activation
from initscope.theory.activations._polynomials import horner

__all__ = ["Piecewise"]


_ORDERS = range(3)  # σ, σ' and σ'' may jump

Pieces = Sequence[Sequence[float]]


@dataclass(frozen=True, eq=False)
class Piecewise(Activation):
    r"""A polynomial between any two kinks: ``pieces`` from left to right, each by rising powers.

    By Price's theorem the derivatives of the dual in kxy are :math:`E[\sigma^{(m)}(X)\sigma^{(m)}(Y)]`. If
    :math:`\sigma^{(m)}` jumps by :math:`c_{mi}` at the kink i, the next derivative has a part with delta functions,

    .. math:: \delta_m(k) = \sum_{ij} c_{mi}c_{mj}\,p(i,j)
              + \sum_i c_{mi}\,p(i)\,\big(E[\sigma^{(m+1)}(Y)\,|\,X = i] + E[\sigma^{(m+1)}(X)\,|\,Y = i]\big),

    where p are the normal densities at the kinks; the third derivative consists of this part only. So with
    :math:`e_m(k)` the expectations without deltas

    .. math:: \hat\sigma(k) = \sum_{m=0}^2 \Big( \frac{(k-k_0)^m}{m!} e_m(k_0)
              + \int_{k_0}^k \frac{(k-t)^m}{m!}\,\delta_m(t)\,dt \Big):

    This needs one integral instead of two, with an error of about 1e-10. The dual uses :math:`k_0 = 0`; distances at
    small angles, for which duals have lost their digits, use the difference to cosine 1, with :math:`k_0` the
    covariance.
    """

    pieces: tuple[tuple[float, ...], ...] = ((0.0, 1.0),)

    @cached_property
    def _derivatives(self) -> list[Pieces]:
        """The pieces of σ, σ', σ'' and of the third derivative, which is 0."""
        return [[powers.polyder(piece, order).tolist() for piece in self.pieces] for order in range(4)]

    @cached_property
    def _jumps(self) -> list[tuple[float, ...]]:
        """Jumps of σ, σ' and σ'' at each kink."""
        sides = zip(self.kinks, pairwise(self.pieces), strict=True)
        return [tuple(_jump(left, right, kink, order) for order in _ORDERS) for kink, (left, right) in sides]

    def _value(self, xp: Any, x: Array) -> Array:
        return self._evaluate(xp, self.pieces, x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return self._evaluate(xp, self._derivatives[1], x)

    def _evaluate(self, xp: Any, pieces: Pieces, x: Array) -> Array:
        """Return other polynomials on the same pieces; at a kink, the left one holds."""
        result = horner(xp, pieces[0], x)
        for kink, piece in zip(self.kinks, pieces[1:], strict=True):
            result = xp.where(x > kink, horner(xp, piece, x), result)
        return result

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return self._expect(xp, self.pieces, kxx)

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        return self._expect(xp, [powers.polymul(piece, piece).tolist() for piece in self.pieces], kxx)

    def _expect(self, xp: Any, pieces: Pieces, kxx: Array) -> Array:
        """The expectation of other polynomials on the same pieces, piece by piece: squares do not cancel then."""
        dtype, kxx = kxx.dtype, xp.astype(kxx, xp.float64)
        s = safe_sqrt(xp, kxx)
        far = xp.full_like(s, 40.0)
        edges = [-far, *(_standard(xp, kink, s) for kink in self.kinks), far]
        total = xp.zeros_like(s)
        for (low, high), piece in zip(pairwise(edges), pieces, strict=True):
            if any(piece):
                for power, moment in enumerate(_moments_between(xp, low, high, len(piece))):
                    total = total + piece[power] * s**power * moment
        return xp.astype(total, dtype)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return in_chunks(xp, partial(self._from_independence, xp, order=0), kxx, kyy, kxy)

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return in_chunks(xp, partial(self._from_independence, xp, order=1), kxx, kyy, kxy)

    def _from_independence(self, xp: Any, kxx: Array, kyy: Array, kxy: Array, *, order: int) -> Array:
        """E[σ^(order)(X) σ^(order)(Y)] by the expansion from covariance 0, where all expectations are products."""
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        product = sx * sy
        positive = product > 0
        rho = xp.where(positive, kxy / xp.where(positive, product, xp.ones_like(product)), xp.zeros_like(product))
        inside = xp.abs(rho) < 1
        end = xp.where(inside, xp.asin(xp.where(inside, rho, xp.zeros_like(rho))), xp.sign(rho) * (math.pi / 2))
        node, weight = (xp.asarray(a, dtype=rho.dtype, device=rho.device) for a in _graded())
        # The angle from cosine ±1: near there the cosine itself has no digits left.
        angle = (math.pi / 2 - xp.abs(end))[..., None] + xp.abs(end)[..., None] * node
        # ρ itself, not sin of the end: at ±1 the end has no gradient, and the rest of the derivative is 0 there.
        side = xp.sign(end)[..., None]
        lever = rho[..., None] - side * xp.cos(angle)
        deltas = end * xp.sum(weight * self._deltas(xp, sx, sy, angle, side, lever, order), axis=-1)
        total = xp.where(positive, deltas, xp.zeros_like(deltas))
        for m in _ORDERS[order:]:
            means = self._expect(xp, self._derivatives[m], kxx) * self._expect(xp, self._derivatives[m], kyy)
            total = total + kxy ** (m - order) / math.factorial(m - order) * means
        return total

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d)):
            return super()._distance(xp, kxx, kyy, d)
        double = (xp.astype(array, xp.float64) for array in (kxx, kyy, d))
        return xp.astype(in_chunks(xp, partial(self._apart, xp), *double), xp.result_type(kxx, kyy, d))

    def _apart(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        """Return distances from the dual at wide angles.

        At others from its increase up to cosine 1, where nothing cancels.
        """
        product, h = half_gap(xp, kxx, kyy, d)
        wide = (h > 0.25) | (product == 0)
        result = xp.zeros_like(d)
        if bool(xp.any(wide)):
            x, y = kxx[wide], kyy[wide]
            total = self._second_moment(xp, x) + self._second_moment(xp, y)
            result[wide] = total - 2 * self._from_independence(xp, x, y, (x + y - d[wide]) / 2, order=0)
        if not bool(xp.all(wide)):
            near = ~wide
            result[near] = self._near(xp, kxx[near], kyy[near], xp.clip(h[near], 0.0, 1.0))
        return xp.where(result > 0, result, xp.zeros_like(result))

    def _near(self, xp: Any, kxx: Array, kyy: Array, h: Array) -> Array:
        """Return the squared distance from ``h`` = sin²(θ/2) at small angles."""
        sx, sy = safe_sqrt(xp, kxx), safe_sqrt(xp, kyy)
        product, theta = sx * sy, angle_of_half_gap(xp, h)
        node, weight = (xp.asarray(a, dtype=h.dtype, device=h.device) for a in _graded())
        angle = theta[..., None] * node
        deltas = self._deltas(xp, sx, sy, angle, 1.0, 2 * xp.sin(angle / 2) ** 2, 0)
        rise = theta * xp.sum(weight * deltas, axis=-1)
        for m in _ORDERS[1:]:
            if any(map(any, self._derivatives[m])):
                expected = self._from_independence(xp, kxx, kyy, product * (1 - 2 * h), order=m)
                rise = rise + (2 * h * product) ** m / math.factorial(m) * expected
        return self._radial(xp, sx, sy) + 2 * rise

    def _radial(self, xp: Any, sx: Array, sy: Array) -> Array:
        """Return E (σ(s_x g) - σ(s_y g))² of a normal g, by Gauss-Legendre nodes between the kinks of both."""
        fixed = [xp.full_like(sx, edge) for edge in (-9.0, -6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0, 9.0)]
        kinks = [xp.clip(_standard(xp, kink, s), -9.0, 9.0) for s in (sx, sy) for kink in self.kinks]
        edges = xp.sort(xp.stack([*fixed, *kinks], axis=-1), axis=-1)
        node, weight = (xp.asarray(a, dtype=sx.dtype, device=sx.device) for a in _legendre())
        half = ((edges[..., 1:] - edges[..., :-1]) / 2)[..., None]
        g = edges[..., :-1][..., None] + half * (1 + node)
        apart = self._value(xp, sx[..., None, None] * g) - self._value(xp, sy[..., None, None] * g)
        return xp.sum(half * weight * _density(xp, g) * apart**2, axis=(-2, -1))

    def _deltas(
        self, xp: Any, sx: Array, sy: Array, angle: Array, side: Array | float, lever: Array, order: int
    ) -> Array:
        """Σ (k - t)^n/n! δ_m(t) dt/d angle with n = m - order ≥ 0, at t = √(kxx kyy)·side·cos(angle).

        ``lever`` is (k - t)/√(kxx kyy).
        """
        sx, sy = sx[..., None], sy[..., None]
        lever = sx * sy * lever
        taylor = [lever ** (m - order) / math.factorial(m - order) for m in _ORDERS[order:]]
        crossed = self._one_delta(xp, sx, sy, angle, side, taylor) + self._one_delta(xp, sy, sx, angle, side, taylor)
        return crossed + self._two_deltas(xp, sx, sy, angle, side, taylor)

    def _two_deltas(
        self, xp: Any, sx: Array, sy: Array, angle: Array, side: Array | float, taylor: list[Array]
    ) -> Array:
        """Return both variables at a kink: bivariate normal densities."""
        sine = _sine(xp, angle)
        steep, flat = 1 / (2 * sine**2), side / (2 * xp.cos(angle / 2) ** 2)
        shares, exponents = [], []
        for kink_x, jumps_x in zip(self.kinks, self._jumps, strict=True):
            for kink_y, jumps_y in zip(self.kinks, self._jumps, strict=True):
                a, b = _standard(xp, kink_x, sx), _standard(xp, kink_y, sy)
                # a² + b² - 2ab cos = (a ∓ b)² ± 2ab (1 ∓ cos), over 2 sin²
                exponents.append((a - side * b) ** 2 * steep + a * b * flat)
                products = [x * y for x, y in zip(jumps_x, jumps_y, strict=True)][-len(taylor) :]
                shares.append(sum((p * t for p, t in zip(products, taylor, strict=True) if p), xp.zeros_like(sine)))
        if not shares:
            return xp.zeros_like(sine)
        # By differences to the largest bell: where variances are huge all are alike, and jumps may sum to 0.
        least = reduce(xp.minimum, exponents)
        total = sum(shares, xp.zeros_like(sine))
        for share, exponent in zip(shares, exponents, strict=True):
            total = total + share * xp.expm1(least - exponent)
        return xp.exp(-least) * total / (2 * math.pi)

    def _one_delta(
        self, xp: Any, sx: Array, sy: Array, angle: Array, side: Array | float, taylor: list[Array]
    ) -> Array:
        """Return the term with X at a kink, times the expected derivative of Y given that."""
        sine = _sine(xp, angle)
        total = xp.zeros_like(sine)
        for kink, jumps in zip(self.kinks, self._jumps, strict=True):
            a = _standard(xp, kink, sx)
            for m, jump, power in zip(_ORDERS[-len(taylor) :], jumps[-len(taylor) :], taylor, strict=True):
                if jump and any(map(any, self._derivatives[m + 1])):
                    given = self._given(xp, m + 1, sy, a * side * xp.cos(angle), sine)
                    total = total + jump * sy * _density(xp, a) * power * sine * given
        return total

    def _given(self, xp: Any, order: int, s: Array, center: Array, spread: Array) -> Array:
        """E σ^(order), 1 or 2, of a normal variable with mean s·center and deviation s·spread."""
        total = horner(xp, self._derivatives[order][0], s * center)
        for kink, jumps in zip(self.kinks, self._jumps, strict=True):
            t = (_standard(xp, kink, s) - center) / spread
            above = _above(xp, t)
            total = total + jumps[order] * above
            if order == 1 and jumps[2]:
                total = total + jumps[2] * (s * spread * _density(xp, t) + (s * center - kink) * above)
        return total


def _jump(left: Sequence[float], right: Sequence[float], kink: float, order: int) -> float:
    """Return the jump of a derivative between two pieces; differences by rounding are 0."""
    low, high = (float(powers.polyval(kink, powers.polyder(piece, order))) for piece in (left, right))
    scale = max(float(powers.polyval(abs(kink), np.abs(powers.polyder(piece, order)))) for piece in (left, right))
    return 0.0 if abs(high - low) <= 1e-14 * scale else high - low


@lru_cache(maxsize=1)
def _graded(points: int = 80, depth: float = 24.0) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights on (0, 1), dense at 0 on a logarithmic scale, for bells that rise anywhere."""
    t, weight = _legendre(points)
    # x = -log node with steps ∝ 1/(depth - x): what is x deep counts by exp(-x) only
    root = np.sqrt((1 - t) / 2)
    node = np.exp(-depth * (1 - root))
    return node, weight * node * depth / (4 * root)


@lru_cache(maxsize=2)
def _legendre(points: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on (-1, 1)."""
    return np.polynomial.legendre.leggauss(points)


def _sine(xp: Any, angle: Array) -> Array:
    """Return the sine, bounded away from 0 so that one can divide by its square."""
    return xp.clip(xp.sin(angle), float(xp.finfo(angle.dtype).smallest_normal) ** 0.25, 1.0)


def _standard(xp: Any, kink: float, s: Array) -> Array:
    """Return the kink in standard deviations; ±40 means never or always reached if the variable is constant."""
    positive = s > 0
    far = xp.full_like(s, 40.0 if kink >= 0 else -40.0)
    return xp.where(positive, xp.clip(kink / xp.where(positive, s, xp.ones_like(s)), -40.0, 40.0), far)


def _density(xp: Any, a: Array) -> Array:
    return xp.exp(-a * a / 2) / math.sqrt(2 * math.pi)


def _above(xp: Any, a: Array) -> Array:
    return erfc(xp, a / math.sqrt(2)) / 2


def _moments_between(xp: Any, low: Array, high: Array, count: int) -> list[Array]:
    """Return integrals of 1, x, x², … (``count`` of them) against the normal density from ``low`` to ``high``.

    Between close ends, where the differences of the formulas have few digits, 12 Gauss-Legendre nodes are used; below
    zero the interval is mirrored, so that tails keep their digits.
    """
    mirrored = high <= 0
    low, high = xp.where(mirrored, -high, low), xp.where(mirrored, -low, high)
    node, weight = (xp.asarray(a, dtype=low.dtype, device=low.device) for a in _legendre())
    close = high - low < 1
    half = xp.where(close, (high - low) / 2, xp.zeros_like(low))[..., None]
    x = ((high + low) / 2)[..., None] + half * node
    share = half * weight * _density(xp, x)
    bell_low, bell_high = _density(xp, low), _density(xp, high)
    apart = [_above(xp, low) - _above(xp, high), bell_low - bell_high]
    for power in range(2, count):
        ends = low ** (power - 1) * bell_low - high ** (power - 1) * bell_high
        apart.append((power - 1) * apart[power - 2] + ends)
    moments = []
    for power in range(count):
        moment = xp.where(close, xp.sum(share * x**power, axis=-1), apart[power])
        moments.append(xp.where(mirrored, -moment, moment) if power % 2 else moment)
    return moments
