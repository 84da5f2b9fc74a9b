"""Gaussian expectations of any activation, in one and two variables, to about 1e-11.

Smooth functions: the trapezoidal rule, whose error falls exponentially. Functions with kinks: Gauss-Legendre panels
split at the kinks, and graded where the inner integral of a pair bends. At large variances the bends of a smooth
function are narrow compared with the Gaussian and are treated as kinks. The number of nodes is doubled until it stops
mattering on a sample of the elements. Elements are processed in chunks, in float64 whatever the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from initscope.theory._arccos import half_gap, half_gap_of_covariance
from initscope.theory._arrays import Array, flattened, safe_sqrt

__all__ = ["WIDE", "expect", "expect_pair", "find_kinks", "normal_rule", "numerical_derivative"]

_REACH = 8.6  # Gaussian density 4e-17 there
_TOLERANCE = 2e-11
_CHUNK = 1 << 21  # evaluations held at once
_TRANSITIONS = (-8.0, -3.0, 0.0, 3.0, 8.0)
_BENDS = (-16.0, -4.0, 0.0, 4.0, 16.0)  # panels between them resolve what bends within a few units of 0
WIDE = 256.0  # variance beyond which the trapezoidal rule would need more nodes than these panels

Value = Callable[[Any, Array], Array]
Combine = Callable[[Array, Array], Array]


def expect(xp: Any, function: Callable[[Array], Array], variance: Array, kinks: Sequence[float] = ()) -> Array:
    """E[function(X)] for X ~ N(0, variance), elementwise in ``variance``."""
    kinks = _with_bends(xp, kinks, variance)

    def evaluate(level: int, variances: Array) -> Array:
        scale = safe_sqrt(xp, variances)[..., None]
        z, weight = _rule(xp, level, [_scaled_kink(xp, kink, scale) for kink in kinks], scale)
        return xp.sum(weight * function(scale * z), axis=-1)

    return _adaptive(xp, evaluate, lambda level: _nodes(level, len(kinks)), (variance,))


def expect_pair(
    xp: Any,
    value: Value,
    combine: Combine,
    kxx: Array,
    kyy: Array,
    d: Array,
    kinks: Sequence[float] = (),
    *,
    covariance: bool = False,
) -> Array:
    """E[combine(σ(X), σ(Y))] for X, Y jointly Gaussian with variances kxx, kyy and E(X-Y)² = d.

    With ``covariance`` the third number is kxy instead of d: accurate for variances that differ by many digits, for
    which d loses the digits of kxy; near cosine 1 the opposite holds.

    At cosine ±1 the second direction has length zero, and autograd would miss its curvature: if gradients are needed,
    the half gap is moved inside, by 1e-16 at 1 and by 1e-9 at -1.
    """
    # Nodes depend on the elements only where there are no kinks, and no gradients are asked for.
    smooth = not kinks and not any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d))
    pair = _Pair(xp, value, combine, _with_bends(xp, kinks, kxx, kyy), smooth, covariance)
    if not smooth:
        return _adaptive(xp, pair.evaluate, pair.nodes, (kxx, kyy, d))
    # By angle, so that elements of one chunk need the same nodes.
    dtype, shape, flat = flattened(xp, kxx, kyy, d)
    h = pair.half_gap(*flat)
    order = xp.argsort(h * (1 - h) * (flat[1] if pair.kinks else 1))
    values = _adaptive(xp, pair.evaluate, pair.nodes, tuple(a[order] for a in flat))
    return xp.astype(xp.reshape(values[xp.argsort(order)], shape), dtype)


@dataclass(frozen=True)
class _Pair:
    """Integrals of `expect_pair`: over X, and inside over Y given X, both split at the bends of σ."""

    xp: Any
    value: Value
    combine: Combine
    kinks: tuple[float, ...]
    smooth: bool
    """No kinks but smooth bends, and no gradients: nodes may depend on the elements."""
    covariance: bool

    def nodes(self, level: int) -> int:
        return _nodes(level, (1 + len(_TRANSITIONS)) * len(self.kinks)) * _nodes(level, len(self.kinks))

    def half_gap(self, kxx: Array, kyy: Array, third: Array) -> Array:
        return (half_gap_of_covariance if self.covariance else half_gap)(self.xp, kxx, kyy, third)[1]

    def evaluate(self, level: int, kxx: Array, kyy: Array, third: Array) -> Array:
        xp, kinks = self.xp, self.kinks
        h = self.half_gap(kxx, kyy, third)
        if getattr(h, "requires_grad", False):
            h = h + xp.where(h < 1e-16, xp.full_like(h, 1e-16), xp.zeros_like(h))
            h = h - xp.where(h > 1 - 1e-9, xp.full_like(h, 1e-9), xp.zeros_like(h))
        sx, sy, h = safe_sqrt(xp, kxx)[..., None], safe_sqrt(xp, kyy)[..., None], h[..., None]
        cosine, sine = 1 - 2 * h, 2 * safe_sqrt(xp, h) * safe_sqrt(xp, 1 - h)
        # Next to a smooth bend Y given X hardly varies: nothing to split there.
        smooth = self.smooth and float(xp.max(sy * sine)) <= 1
        # Given X = sx·z, Y ~ N(sy·cosine·z, (sy·sine)²): its mean of σ bends where cosine·z·sy passes a kink.
        outer_breaks = [_scaled_kink(xp, kink, sx) for kink in kinks]
        steep = xp.where(xp.abs(cosine) > 1e-3, cosine, xp.full_like(cosine, 1e-3))
        steps = (0.0,) if smooth else _TRANSITIONS
        outer_breaks += [(_scaled_kink(xp, kink, sy) + step * sine) / steep for kink in kinks for step in steps]
        z, weight = _rule(xp, level, outer_breaks, sx)
        inner = self._given(level, z, sx, sy, cosine, sine, () if smooth else kinks)
        return xp.sum(weight * inner, axis=-1)

    def _given(
        self, level: int, z: Array, sx: Array, sy: Array, cosine: Array, sine: Array, kinks: Sequence[float]
    ) -> Array:
        """E[combine(σ(X), σ(Y)) | X = sx·z] at every node z."""
        xp = self.xp
        first = self.value(xp, sx * z)
        sine_inner = sine[..., None]
        center = (cosine * z)[..., None]
        safe_sine = xp.where(sine_inner > 0, sine_inner, xp.ones_like(sine_inner))
        breaks = [(_scaled_kink(xp, kink, sy)[..., None] - center) / safe_sine for kink in kinks]
        if self.smooth and not breaks:  # as dense as the outer nodes, if they are fewer by the sine
            level = max(1, level + math.ceil(math.log2(max(float(xp.max(sine)), 1e-9))))
        u, weight = _rule(xp, level, breaks, center)
        second = self.value(xp, sy[..., None] * (center + sine_inner * u))
        return xp.sum(weight * self.combine(first[..., None], second), axis=-1)


def _with_bends(xp: Any, kinks: Sequence[float], *variances: Array) -> tuple[float, ...]:
    wide = any(bool(xp.any(variance > WIDE)) for variance in variances)
    return tuple(sorted({*kinks, *_BENDS})) if wide else tuple(kinks)


def _scaled_kink(xp: Any, kink: float, scale: Array) -> Array:
    """Return z at which scale·z meets the kink; far outside if the variable is the constant 0."""
    positive = scale > 0
    return xp.where(positive, kink / xp.where(positive, scale, xp.ones_like(scale)), xp.full_like(scale, _REACH))


def _nodes(level: int, breaks: int) -> int:
    panels = 2 * (1 << level) + breaks
    return panels * 16 if breaks else 24 * (1 << level) + 1


@lru_cache(maxsize=32)
def _trapezoid(level: int) -> tuple[np.ndarray, np.ndarray]:
    z = np.linspace(-_REACH, _REACH, _nodes(level, 0))
    return z, (z[1] - z[0]) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


def normal_rule(kinks: Sequence[float] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for a standard normal variable and functions as smooth as it, except at ``kinks``."""
    if not kinks:
        return _trapezoid(3)
    return _rule(np, 3, [np.array([kink]) for kink in kinks], np.zeros(1))


@lru_cache(maxsize=1)
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(16)


def _rule(xp: Any, level: int, breaks: list[Array], like: Array) -> tuple[Array, Array]:
    """Return nodes and standard Gaussian weights on the last axis: trapezoidal without breaks, panels with them."""
    device = like.device
    if not breaks:
        z, weight = _trapezoid(level)
        return xp.asarray(z, dtype=xp.float64, device=device), xp.asarray(weight, dtype=xp.float64, device=device)
    grid = xp.asarray(np.linspace(-_REACH, _REACH, 2 * 2**level + 1), dtype=xp.float64, device=device)
    clipped = [xp.clip(b, -_REACH, _REACH) for b in breaks]
    shape = np.broadcast_shapes(*(tuple(b.shape) for b in clipped))
    columns = [xp.broadcast_to(grid, (*shape[:-1], grid.shape[0]))]
    columns += [xp.broadcast_to(b, shape) for b in clipped]
    edges = xp.sort(xp.concat(columns, axis=-1), axis=-1)
    half = (edges[..., 1:] - edges[..., :-1])[..., None] / 2
    middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    node, weight = (xp.asarray(a, dtype=xp.float64, device=device) for a in _legendre())
    z = middle + half * node
    density = xp.exp(-z * z / 2) * (half * weight / np.sqrt(2 * np.pi))
    flat = (*shape[:-1], -1)
    return xp.reshape(z, flat), xp.reshape(density, flat)


def _adaptive(
    xp: Any, evaluate: Callable[..., Array], count: Callable[[int], int], inputs: tuple[Array, ...], levels: int = 5
) -> Array:
    """Evaluate elementwise, in chunks, at the first level that agrees with the next one on a sample."""
    dtype, shape, flat = flattened(xp, *inputs)
    size = flat[0].shape[0]
    if size == 0:
        return xp.astype(xp.reshape(flat[0], shape), dtype)
    largest = [int(xp.argmax(a)) for a in flat]
    sample = [xp.concat([a[:: max(1, size // 24)], *(xp.reshape(a[at], (1,)) for at in largest)]) for a in flat]

    def whole(level: int, elements: list[Array]) -> Array:
        pieces = _chunks(elements[0].shape[0], count(level))
        return xp.concat([evaluate(level, *(a[start:stop] for a in elements)) for start, stop in pieces])

    level = 1
    before = whole(level, sample)
    while level < levels and count(level + 1) * sample[0].shape[0] <= 64 * _CHUNK:
        after = whole(level + 1, sample)
        size_of_it = xp.abs(after) + 1e-3 * xp.max(xp.abs(after))
        if bool(xp.all(xp.abs(after - before) <= _TOLERANCE * size_of_it)):
            break
        level, before = level + 1, after
    return xp.astype(xp.reshape(whole(level, flat), shape), dtype)


def _chunks(size: int, per_element: int) -> Iterator[tuple[int, int]]:
    step = max(1, _CHUNK // per_element)
    return ((start, min(start + step, size)) for start in range(0, size, step))


def numerical_derivative(
    xp: Any, function: Callable[[Array], Array], x: Array, kinks: Sequence[float] = (), step: float = 1e-3
) -> Array:
    """Five-point derivative that never looks across a kink; at a kink the derivative from the left."""
    forward = xp.zeros_like(x) > 0
    backward = xp.zeros_like(x) > 0
    for kink in kinks:
        forward = forward | ((x > kink) & (x - kink < 2 * step))
        backward = backward | ((x <= kink) & (kink - x < 2 * step))
    direction = xp.where(backward, -xp.ones_like(x), xp.ones_like(x))
    central = (function(x - 2 * step) - 8 * function(x - step) + 8 * function(x + step) - function(x + 2 * step)) / (
        12 * step
    )
    if not kinks:
        return central
    sided = [function(x + direction * (i * step)) for i in range(5)]
    one_sided = (
        direction * (-25 * sided[0] + 48 * sided[1] - 36 * sided[2] + 16 * sided[3] - 3 * sided[4]) / (12 * step)
    )
    return xp.where(forward | backward, one_sided, central)


def find_kinks(function: Callable[[Any], Any], reach: float = 8.0, points: int = 3201) -> tuple[float, ...]:
    """Return points in [-reach, reach] where the function or its slope jumps, by bisection of the most bent intervals.

    A smooth function's second difference shrinks fourfold when the step is halved, a kink's only twofold, a jump's
    not at all.
    """
    x = np.linspace(-reach, reach, points)
    step = x[1] - x[0]
    bend = np.abs(_second_difference(function, x, step))
    scale = max(1.0, float(np.abs(np.asarray(function(x), dtype=float)).max()))
    most = np.argsort(bend)[::-1][:64]
    most = most[bend[most] >= 1e-12 * scale]
    center, width = x[most], step
    for _ in range(20):  # all at once: a function written by hand costs as much for many points as for one
        width /= 2
        candidates = center[:, None] + width * np.array([-1.0, 0.0, 1.0])
        bends = np.abs(_second_difference(function, candidates.ravel(), width)).reshape(candidates.shape)
        center = np.take_along_axis(candidates, bends.argmax(axis=1)[:, None], axis=1)[:, 0]
    kept = np.abs(_second_difference(function, center, width))
    # After 20 halvings a smooth bend has shrunk by 4^-20, a kink by 2^-20 only.
    sharp = (kept > bend[most] * 2.0**-20 * 0.05) & (kept > 64 * np.finfo(float).eps * scale)
    kinks: list[float] = []
    for index, position in zip(most[sharp], center[sharp], strict=True):
        if not any(abs(x[index] - kink) <= 2 * step for kink in kinks):
            kinks.append(round(float(position), 5))
    return tuple(sorted(kinks))


def _second_difference(function: Callable[[Any], Any], x: np.ndarray, step: float) -> np.ndarray:
    return np.asarray(function(x + step) - 2 * function(x) + function(x - step), dtype=float)
