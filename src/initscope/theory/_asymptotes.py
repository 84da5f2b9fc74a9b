r"""Squared distances after asymptotically linear activations, at variances for which the bend is narrow.

SiLU approaches 0 on the left and x on the right; at variances of thousands, a quadrature in two dimensions spends its
nodes on a bend that few values reach. So σ = s + r, where s consists of two half-lines with closed-form expectations,
and the rest r vanishes outside of an interval of width about 100:

.. math:: E(\sigma(X)-\sigma(Y))^2 = E(s(X)-s(Y))^2 + 2E(s(X)-s(Y))(r(X)-r(Y)) + E(r(X)-r(Y))^2.

The middle term needs one dimension, because :math:`E[s(Y)\mid X]` is a closed form; the last term needs a fixed grid on
the interval of r. If densities hardly change over that grid, its product :math:`E\,r(X)r(Y)` is computed from the
moments of r instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
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
_PANELS = (0.0, 1.5, 4.0, 9.0, 18.0, 42.0)
_ORDER = 10
_CHUNK = 1 << 21

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
    """Return E(σ(X) - σ(Y))², by half-lines if variances are large, otherwise integrated.

    Large variances are separated.

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
    """Return whether each variable, given the other, has at least this variance."""
    _, h = half_gap(xp, kxx, kyy, d)
    sine = 4 * h * (1 - h)  # squared
    return (kxx * sine > spread) & (kyy * sine > spread)


def _by_half_lines(xp: Any, value: Value, lines: HalfLines, kxx: Array, kyy: Array, d: Array) -> Array:
    apart, nodes = xp.zeros_like(d), len(_grid()[0])
    flat = _resolved(xp, kxx, kyy, d, _FLAT)
    for index, per_element in ((xp.nonzero(flat)[0], nodes), (xp.nonzero(~flat)[0], nodes**2)):
        step = max(1, _CHUNK // per_element)
        for start in range(0, index.shape[0], step):
            some = index[start : start + step]
            parts = (a[some] for a in (kxx, kyy, d))
            apart[some] = _chunk(xp, value, lines, *parts, flat=per_element == nodes)
    return apart


def _density(xp: Any, x: Array, deviation: Array) -> Array:
    return xp.exp(-((x / deviation) ** 2) / 2) / (math.sqrt(2 * math.pi) * deviation)


def _chunk(xp: Any, value: Value, lines: HalfLines, kxx: Array, kyy: Array, d: Array, *, flat: bool) -> Array:
    _, h = half_gap(xp, kxx, kyy, d)
    sx, sy = xp.sqrt(kxx), xp.sqrt(kyy)
    x, width = (xp.asarray(a, dtype=xp.float64, device=kxx.device) for a in _grid())
    rest = value(xp, x) - lines.value(xp, x)
    cosine, sine = 1 - 2 * h, 2 * xp.sqrt(h * (1 - h))
    between = xp.zeros_like(h)
    densities = []
    for first, second in ((sx, sy), (sy, sx)):
        lower, upper, turn = first[:, None], second[:, None], sine[:, None]
        density = width * _density(xp, x, lower)
        meeting = lines.mean(xp, cosine[:, None] * upper / lower * x, upper * turn)
        # 2 E(s(X) - s(Y)) r(X), and E r(X)²
        between = between + xp.sum(density * rest * (2 * (lines.value(xp, x) - meeting) + rest), axis=-1)
        densities.append(density)
    if flat:
        m0, m1, m2 = (xp.sum(width * rest * x**power) for power in range(3))
        turned = (m0 * m2 * (1 / kxx + 1 / kyy) - 2 * cosine * m1 * m1 / (sx * sy)) / (2 * sine * sine)
        both = (m0 * m0 - turned) / (2 * math.pi * sx * sy * sine)
        return lines.distance(xp, sx, sy, h) + between - 2 * both
    # E r(X) r(Y): the density of Y given X on the grid
    spread = (sy * sine)[:, None, None]
    offset = x - (cosine * sy / sx)[:, None, None] * x[:, None]
    both = xp.sum(densities[0] * rest * (_density(xp, offset, spread) @ (width * rest)), axis=-1)
    return lines.distance(xp, sx, sy, h) + between - 2 * both


@lru_cache(maxsize=1)
def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and widths on both sides of 0, at which s bends; finer close to it."""
    node, weight = np.polynomial.legendre.leggauss(_ORDER)
    ends = np.array(_PANELS)
    half = np.diff(ends)[:, None] / 2
    right = (ends[:-1, None] + half * (1 + node)).ravel()
    widths = (half * weight).ravel()
    return np.concatenate([-right[::-1], right]), np.concatenate([widths[::-1], widths])
