r"""Expectations of an activation over many elements, interpolated from a few that are integrated.

Images have hundreds of thousands of positions, and a quadrature in two dimensions for each takes minutes. The moments
are smooth functions of u = log kxx, v = log kyy and the angle θ, so Chebyshev grids of some thousand nodes do. What is
interpolated never vanishes: second moments over the variance, and the two parts of the squared distance,

.. math:: E(\sigma(X)-\sigma(Y))^2 = (u-v)^2\,r(u,v) + (1-\cos\theta)\,a(u,v,\theta).

Orders rise until a random sample agrees with quadrature to `TOLERANCE`; if they do not, None says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap
from initscope.theory._arrays import Array

__all__ = ["LARGE", "TOLERANCE", "interpolated_transform"]

LARGE = 20_000
"""Elements from which on interpolation is tried."""
TOLERANCE = 1e-7
# Nodes along log variances and along the angle, and the error from which on the next order is not worth trying.
_ORDERS = ((7, 10, 1e-2), (11, 16, 1e-4), (15, 24, 1e-5), (21, 32, 0.0))
_WIDEST = math.log(1e7)  # of variances that share one grid
_CHUNK = 1 << 22

Moment = Callable[[Any, Array], Array]
Distance = Callable[[Any, Array, Array, Array], Array]


def interpolated_transform(
    xp: Any, second_moment: Moment, distance: Distance, kxx: Array, kyy: Array, d: Array
) -> tuple[Array, Array, Array] | None:
    """``(E σ(X)², E σ(Y)², E (σ(X) - σ(Y))²)`` of equally shaped arrays to `TOLERANCE`, or None if that fails."""
    shape, dtype = kxx.shape, kxx.dtype
    kxx, kyy, d = (xp.astype(xp.reshape(a, (-1,)), xp.float64) for a in (kxx, kyy, d))
    top = xp.maximum(xp.max(kxx), xp.max(kyy))
    usual = xp.minimum(kxx, kyy) > top * math.exp(-_WIDEST)
    rest = xp.nonzero(~usual)[0]
    if int(rest.shape[0]) > LARGE or not bool(xp.isfinite(top)) or not bool(xp.any(usual)):
        return None
    inside = xp.nonzero(usual)[0]
    found = _inside(xp, second_moment, distance, *(a[inside] for a in (kxx, kyy, d)))
    if found is None:
        return None
    # black patches and other exceptions are integrated one by one
    kx, ky, dd = (a[rest] for a in (kxx, kyy, d))
    direct = (second_moment(xp, kx), second_moment(xp, ky), distance(xp, kx, ky, dd)) if rest.shape[0] else found
    results = []
    for values, exceptions in zip(found, direct, strict=True):
        full = xp.zeros_like(kxx)
        full[inside] = values
        if rest.shape[0]:
            full[rest] = exceptions
        results.append(xp.astype(xp.reshape(full, shape), dtype))
    return results[0], results[1], results[2]


def _inside(
    xp: Any, second_moment: Moment, distance: Distance, kxx: Array, kyy: Array, d: Array
) -> tuple[Array, Array, Array] | None:
    u, v = xp.log(kxx), xp.log(kyy)
    theta = angle_of_half_gap(xp, xp.clip(half_gap(xp, kxx, kyy, d)[1], 0.0, 1.0))
    low, high = float(xp.minimum(xp.min(u), xp.min(v))) - 1e-9, float(xp.maximum(xp.max(u), xp.max(v))) + 1e-9
    least, most = float(xp.min(theta)), float(xp.max(theta)) + 1e-9
    sample = xp.asarray(np.random.default_rng(0).integers(0, kxx.shape[0], 64), device=kxx.device)
    truth = (
        second_moment(xp, kxx[sample]),
        second_moment(xp, kyy[sample]),
        distance(xp, *(a[sample] for a in (kxx, kyy, d))),
    )
    moment = _Line(xp, lambda w: second_moment(xp, xp.exp(w)) / xp.exp(w), low, high, 40, like=u)
    for nodes, angles, hopeless in _ORDERS:
        if 3 * nodes * (nodes + 1) * angles > kxx.shape[0]:
            return None
        parts = _Parts(xp, distance, (low, high), (least, most), nodes, angles, like=u)

        def evaluate(index: Any, parts: _Parts = parts) -> tuple[Array, Array, Array]:
            return (
                kxx[index] * moment(u[index]), kyy[index] * moment(v[index]), parts(u[index], v[index], theta[index]),
            )  # fmt: skip

        pairs = zip(evaluate(sample), truth, strict=True)
        error = max(
            float(xp.max(xp.abs(got - true) / xp.where(true > 0, true, xp.ones_like(true)))) for got, true in pairs
        )
        if error <= TOLERANCE:
            return evaluate(slice(None))
        if error > hopeless:
            return None
    return None


class _Axis:
    """Chebyshev nodes on [low, high], and the polynomials that are 1 at one of them."""

    def __init__(self, xp: Any, low: float, high: float, count: int, like: Array) -> None:
        self._xp, self._low, self._width, self._count = xp, low, max(high - low, 1e-12), count
        t = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        self.nodes = xp.asarray(low + (t + 1) / 2 * self._width, dtype=xp.float64, device=like.device)
        # T_j at the nodes is orthogonal: its inverse is its transpose, scaled
        values = np.cos(np.arange(count)[:, None] * np.arccos(t))
        scale = np.where(np.arange(count) == 0, 1, 2)[:, None] / count
        self._matrix = xp.asarray(values * scale, dtype=xp.float64, device=like.device)

    def basis(self, points: Array) -> Array:
        """``[points, nodes]``."""
        xp = self._xp
        t = xp.clip(2 * (points - self._low) / self._width - 1, -1.0, 1.0)
        columns = [xp.ones_like(t), t]
        while len(columns) < self._count:
            columns.append(2 * t * columns[-1] - columns[-2])
        return xp.stack(columns[: self._count], axis=-1) @ self._matrix


class _Line:
    """A function of one variable from its values at Chebyshev nodes."""

    def __init__(
        self, xp: Any, function: Callable[[Array], Array], low: float, high: float, count: int, like: Array
    ) -> None:
        self._axis = _Axis(xp, low, high, count, like)
        self._values = function(self._axis.nodes)

    def __call__(self, points: Array) -> Array:
        return self._axis.basis(points) @ self._values


class _Parts:
    """The squared distance from its two parts on tensor grids."""

    def __init__(
        self,
        xp: Any,
        distance: Distance,
        logs: Sequence[float],
        angles: Sequence[float],
        nodes: int,
        count: int,
        like: Array,
    ) -> None:
        self._xp = xp
        # one node more along v, so that u and v never coincide
        self._u, self._v = (_Axis(xp, logs[0], logs[1], n, like) for n in (nodes, nodes + 1))
        self._theta = _Axis(xp, angles[0], angles[1], count, like)
        u, v = self._u.nodes[:, None], self._v.nodes[None, :]
        kxx, kyy = (xp.broadcast_to(xp.exp(w), (nodes, nodes + 1)) for w in (u, v))
        radial = distance(xp, kxx, kyy, (xp.sqrt(kxx) - xp.sqrt(kyy)) ** 2)
        self._radial = radial / (u - v) ** 2
        gap = 2 * xp.sin(self._theta.nodes / 2) ** 2  # 1 - cos θ
        shape = (nodes, nodes + 1, count)
        kxx, kyy = (xp.broadcast_to(k[..., None], shape) for k in (kxx, kyy))
        d = (xp.sqrt(kxx) - xp.sqrt(kyy)) ** 2 + 2 * xp.sqrt(kxx * kyy) * gap
        angular = (distance(xp, kxx, kyy, d) - radial[..., None]) / gap
        self._angular = xp.reshape(angular, (nodes * (nodes + 1), count))

    def __call__(self, u: Array, v: Array, theta: Array) -> Array:
        xp, parts = self._xp, []
        step = max(1, _CHUNK // self._angular.shape[0])
        for start in range(0, u.shape[0], step):
            part = slice(start, start + step)
            bu, bv = self._u.basis(u[part]), self._v.basis(v[part])
            outer = xp.reshape(bu[:, :, None] * bv[:, None, :], (bu.shape[0], -1))
            along = xp.sum((outer @ self._angular) * self._theta.basis(theta[part]), axis=-1)
            radial = xp.sum((bu @ self._radial) * bv, axis=-1)
            parts.append((u[part] - v[part]) ** 2 * radial + 2 * xp.sin(theta[part] / 2) ** 2 * along)
        return xp.concat(parts)
