r"""Squared distances after activations that soon are straight lines, at variances where the bend between is narrow.

SiLU is 0 far left and x far right; at variances of thousands a quadrature in two dimensions spends its nodes on a bend
that few values meet. So σ = s + r with the two half-lines s, whose expectations are closed forms, and a rest r that
vanishes outside of some tens:

.. math:: E(\sigma(X)-\sigma(Y))^2 = E(s(X)-s(Y))^2 + 2E(s(X)-s(Y))(r(X)-r(Y)) + E(r(X)-r(Y))^2.

The middle term needs one dimension, as :math:`E[s(Y)\mid X]` is a closed form; the last one a fixed grid where r lives.
Where :math:`cxy` is small over that grid, with c the coefficient in the exponent of the density, the product
:math:`E\,r(X)r(Y)` needs one dimension too: :math:`e^{cxy}=\sum_n (cxy)^n/n!` makes it a sum over moments of r. Where
densities hardly change over the grid at all, three moments are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap, psi_of_half_gap
from initscope.theory._arrays import Array, erf, flattened
from initscope.theory._quadrature import WIDE

__all__ = ["HalfLines", "distance_in_parts"]

_SPREAD = 1.0
"""Variance of each variable given the other from which on the grid resolves the densities, to 2e-11."""
_FLAT = 1e4
"""The same from which on :math:`e^{-q/2}` is :math:`1-q/2` where r lives: distances keep eleven digits."""
_TERMS = 48
"""Of the series in cxy, which is used where its last terms are below `_LAST` of the least distance."""
_LAST = 1e-12
_PANELS = (0.0, 1.5, 4.0, 9.0, 18.0, 42.0)
_ORDER = 10
_CHUNK = 1 << 17  # entries worked on at once: they stay in the cache

Value = Callable[[Any, Array], Array]
Distance = Callable[[Array, Array, Array], Array]


@dataclass(frozen=True)
class HalfLines:
    """``left_slope·x + left`` on the left, ``right_slope·x + right`` on the right, exponentially near."""

    left_slope: float = 0.0
    left: float = 0.0
    right_slope: float = 0.0
    right: float = 0.0

    @property
    def parts(self) -> tuple[float, float, float, float]:
        """a, b, c, e of a·x + b·|x| + c + e·sign(x)."""
        a, b = (self.right_slope + self.left_slope) / 2, (self.right_slope - self.left_slope) / 2
        return a, b, (self.right + self.left) / 2, (self.right - self.left) / 2

    def value(self, xp: Any, x: Array) -> Array:
        """s(x)."""
        a, b, c, e = self.parts
        return a * x + b * xp.abs(x) + c + e * xp.sign(x)

    def mean(self, xp: Any, center: Array, deviation: Array) -> Array:
        """E s(Y) for Y ~ N(center, deviation²)."""
        a, b, c, e = self.parts
        z = center / deviation
        inside = erf(xp, z / math.sqrt(2))
        bent = deviation * math.sqrt(2 / math.pi) * xp.exp(-z * z / 2) + center * inside
        return a * center + b * bent + c + e * inside

    def distance(self, xp: Any, sx: Array, sy: Array, h: Array) -> Array:
        """E(s(X) - s(Y))² for deviations sx, sy and the half gap h of their cosine."""
        a, b, _, e = self.parts
        # E|X||Y| = 2sxsy(ψ(h) + cosine/2): the absolute values differ by what both have, less what ψ adds.
        gap = 4 * sx * sy * h
        lines = (a * a + b * b) * ((sx - sy) ** 2 + gap) - 4 * b * b * sx * sy * psi_of_half_gap(xp, h)
        steps = 4 * e * e * angle_of_half_gap(xp, h) / math.pi
        return lines + steps + 4 * a * e * math.sqrt(2 / math.pi) * (sx + sy) * h


def distance_in_parts(
    xp: Any, value: Value, lines: HalfLines | None, integrate: Distance, kxx: Array, kyy: Array, d: Array
) -> Array:
    """E(σ(X) - σ(Y))²: by half-lines where variances are large, else integrated, those of large variances apart.

    One element of large variance would take all others to the fine panels that it needs.
    """
    if not bool(xp.any((kxx > _SPREAD) | (kyy > _SPREAD))):
        return integrate(kxx, kyy, d)
    dtype, shape, flat = flattened(xp, kxx, kyy, d)
    large = (flat[0] > WIDE) | (flat[1] > WIDE)
    beyond = _resolved(xp, *flat) & (lines is not None)
    apart = xp.zeros_like(flat[2])
    for part in (large & ~beyond, ~large & ~beyond):
        if bool(xp.any(part)):
            apart[part] = integrate(*(a[part] for a in flat))
    if lines is not None and bool(xp.any(beyond)):
        apart[beyond] = _by_half_lines(xp, value, lines, *(a[beyond] for a in flat))
    return xp.astype(xp.reshape(apart, shape), dtype)


def _resolved(xp: Any, kxx: Array, kyy: Array, d: Array, spread: float = _SPREAD) -> Array:
    """Where each variable, given the other, has at least this variance."""
    _, h = half_gap(xp, kxx, kyy, d)
    sine = 4 * h * (1 - h)  # squared
    return (kxx * sine > spread) & (kyy * sine > spread)


def _by_half_lines(xp: Any, value: Value, lines: HalfLines, kxx: Array, kyy: Array, d: Array) -> Array:
    _, h = half_gap(xp, kxx, kyy, d)
    x, width = (xp.asarray(a, dtype=xp.float64, device=kxx.device) for a in _grid())
    rest = width * (value(xp, x) - lines.value(xp, x))
    pairs = xp.sqrt(kxx), xp.sqrt(kyy), 1 - 2 * h, 2 * xp.sqrt(h * (1 - h))
    product = xp.zeros_like(d)
    flat = _resolved(xp, kxx, kyy, d, _FLAT)
    product[flat] = _by_three_moments(xp, x, rest, *(a[flat] for a in pairs))
    index = xp.nonzero(~flat)[0]
    if index.shape[0]:
        product[index], last = _chunked(xp, partial(_by_moments, xp, x, rest), index, pairs, len(x))
        steep = index[last > _LAST * xp.minimum(kxx, kyy)[index] * pairs[3][index] ** 2]
        if steep.shape[0]:
            product[steep] = _chunked(xp, partial(_on_grid, xp, x, rest), steep, pairs, len(x) ** 2)[0]
    every = xp.nonzero(d == d)[0]
    between = _chunked(xp, partial(_between, xp, lines, x, rest, rest / width), every, pairs, len(x))[0]
    return lines.distance(xp, pairs[0], pairs[1], h) + between - 2 * product


def _chunked(
    xp: Any, function: Callable[..., Array], index: Array, pairs: tuple[Array, ...], entries: int
) -> tuple[Array, Array]:
    """The function for the pairs of ``index``, few at a time: each needs ``entries`` numbers."""
    step = max(1, _CHUNK // entries)
    firsts = range(0, index.shape[0], step)
    parts = [function(*(a[index[start : start + step]] for a in pairs)) for start in firsts]
    return xp.concat([part[0] for part in parts]), xp.concat([part[-1] for part in parts])


def _density(xp: Any, x: Array, deviation: Array) -> Array:
    scaled = x / deviation
    return xp.exp(scaled * scaled * -0.5) * (1 / (math.sqrt(2 * math.pi) * deviation))


def _between(
    xp: Any, lines: HalfLines, x: Array, rest: Array, heights: Array, sx: Array, sy: Array, cosine: Array, sine: Array
) -> tuple[Array, ...]:
    """2E(s(X) - s(Y))(r(X) - r(Y)), E r(X)² and E r(Y)²."""
    total = xp.zeros_like(cosine)
    for first, second in ((sx, sy), (sy, sx)):
        lower, upper = first[:, None], second[:, None]
        meeting = lines.mean(xp, cosine[:, None] * upper / lower * x, upper * sine[:, None])
        integrand = rest * (2 * (lines.value(xp, x) - meeting) + heights)
        total = total + xp.sum(_density(xp, x, lower) * integrand, axis=-1)
    return (total,)


def _by_three_moments(xp: Any, x: Array, rest: Array, sx: Array, sy: Array, cosine: Array, sine: Array) -> Array:
    """E r(X)r(Y) where the exponent of the density is small over the grid."""
    m0, m1, m2 = (xp.sum(rest * x**power) for power in range(3))
    turned = (m0 * m2 * (1 / (sx * sx) + 1 / (sy * sy)) - 2 * cosine * m1 * m1 / (sx * sy)) / (2 * sine * sine)
    return (m0 * m0 - turned) / (2 * math.pi * sx * sy * sine)


def _by_moments(
    xp: Any, x: Array, rest: Array, sx: Array, sy: Array, cosine: Array, sine: Array
) -> tuple[Array, Array]:
    """E r(X)r(Y) by the series in cxy, and the size of its last terms."""
    orders = range(_TERMS)
    powers = xp.stack([rest * x**n / math.sqrt(math.factorial(n)) for n in orders], axis=-1)
    scaled = [x / (size * sine)[:, None] for size in (sx, sy)]
    first, second = (xp.exp(a * a * -0.5) @ powers for a in scaled)
    c = cosine / (sx * sy * sine * sine)
    terms = first * second * c[:, None] ** xp.asarray(list(orders), dtype=xp.float64, device=c.device)
    peak = 1 / (2 * math.pi * sx * sy * sine)
    return peak * xp.sum(terms, axis=-1), peak * xp.sum(xp.abs(terms[:, -2:]), axis=-1)


def _on_grid(xp: Any, x: Array, rest: Array, sx: Array, sy: Array, cosine: Array, sine: Array) -> tuple[Array, ...]:
    """E r(X)r(Y) in two dimensions: the density of Y given X on the grid."""
    spread = (sy * sine)[:, None, None]
    offset = x - (cosine * sy / sx)[:, None, None] * x[:, None]
    inner = _density(xp, offset, spread) @ rest
    return (xp.sum(_density(xp, x, sx[:, None]) * rest * inner, axis=-1),)


@lru_cache(maxsize=1)
def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and widths on both sides of 0, where s bends; finer near it."""
    node, weight = np.polynomial.legendre.leggauss(_ORDER)
    ends = np.array(_PANELS)
    half = np.diff(ends)[:, None] / 2
    right = (ends[:-1, None] + half * (1 + node)).ravel()
    widths = (half * weight).ravel()
    return np.concatenate([-right[::-1], right]), np.concatenate([widths[::-1], widths])
