r"""Expectations of an activation over many elements, interpolated from a few that are integrated.

Images have hundreds of thousands of positions, and a quadrature in two dimensions for each takes minutes. The moments
are smooth functions of u = log kxx, v = log kyy and the angle θ, so Chebyshev grids of a few thousand nodes suffice.
The interpolated functions never vanish: second moments over the variance, and the two parts of the squared distance,

.. math:: E(\sigma(X)-\sigma(Y))^2 = (u-v)^2\,r(u,v) + (1-\cos\theta)\,a(u,v,\theta).

Space is divided into cells at fixed positions, each with a cached grid: all layers and networks share them. Orders rise
until random points of a cell agree with quadrature to a fifth of `TOLERANCE`, so that no point between them is off by
more than the whole; the elements of cells where they do not, and of those with few elements, are integrated one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from initscope.theory._arccos import angle_of_half_gap, half_gap
from initscope.theory._arrays import Array

__all__ = ["LARGE", "TOLERANCE", "interpolated_transform"]

LARGE = 20_000
"""Elements from which on interpolation is tried."""
TOLERANCE = 1e-7
"""Relative, of every element."""
_MARGIN = 0.2  # of the tolerance, at the points that are looked at
_SIDE, _ANGLE = 2.0, math.pi / 2  # of a cell, along log variances and angles
_WORTH = 1000  # elements of a cell for which a grid pays, if some layers share it
_LINE = 24  # nodes for second moments
# Nodes along log variances and along the angle, and the error from which on the next order is not worth trying.
_ORDERS = ((8, 12, 1e-4), (11, 16, 1e-6), (15, 24, 0.0))
_CHUNK = 1 << 22

Moment = Callable[[Any, Array], Array]
Distance = Callable[[Any, Array, Array, Array], Array]
Cell = tuple[int, int, int]


def interpolated_transform(
    xp: Any, second_moment: Moment, distance: Distance, kxx: Array, kyy: Array, d: Array
) -> tuple[Array, Array, Array]:
    """Return ``(E σ(X)², E σ(Y)², E (σ(X) - σ(Y))²)`` of equally shaped arrays to `TOLERANCE`."""
    shape, dtype = kxx.shape, kxx.dtype
    kxx, kyy, d = (xp.astype(xp.reshape(a, (-1,)), xp.float64) for a in (kxx, kyy, d))
    positive = (kxx > 0) & (kyy > 0)
    u, v = _logarithm(xp, kxx), _logarithm(xp, kyy)
    theta = angle_of_half_gap(xp, xp.clip(half_gap(xp, kxx, kyy, d)[1], 0.0, 1.0))
    apart = xp.zeros_like(d)
    rest = ~positive
    u, v = xp.where(u < v, u, v), xp.where(u < v, v, u)  # distances do not ask which of two is which: half the cells
    for cell, index in _cells(xp, u, v, theta, positive):
        grid = _grid(xp, distance, cell, _MARGIN * TOLERANCE, d.device) if index.shape[0] >= _WORTH else None
        if grid is None:
            rest[index] = True
        else:
            apart[index] = grid(u[index], v[index], theta[index])
    if bool(xp.any(rest)):
        apart[rest] = distance(xp, kxx[rest], kyy[rest], d[rest])
    moments = [_moment(xp, second_moment, k) for k in (kxx, kyy)]
    first, second, gap = (xp.astype(xp.reshape(values, shape), dtype) for values in (*moments, apart))
    return first, second, gap


def _cells(xp: Any, u: Array, v: Array, theta: Array, inside: Array) -> list[tuple[Cell, Array]]:
    """Return every cell that holds elements, with the numbers of these."""
    corners = [xp.astype(xp.floor(a / side), xp.int64) for a, side in ((u, _SIDE), (v, _SIDE), (theta, _ANGLE))]
    corners[2] = xp.clip(corners[2], 0, 1)
    # variances of float64 span less than 2^11 cells
    codes = xp.where(inside, ((corners[0] + 1024) * 2048 + corners[1] + 1024) * 2 + corners[2], -1)
    members = []
    for code in xp.unique_values(codes).tolist():
        if code >= 0:
            cell = code // 4096 - 1024, code // 2 % 2048 - 1024, code % 2
            members.append((cell, xp.nonzero(codes == code)[0]))
    return members


def _moment(xp: Any, second_moment: Moment, k: Array) -> Array:
    """Return second moments, cell by cell; directly for constants and if they are not smooth enough."""
    result, rest, w = xp.zeros_like(k), k <= 0, _logarithm(xp, k)
    cells = xp.astype(xp.floor(w / _SIDE), xp.int64)
    for cell in xp.unique_values(cells).tolist():
        index = (cells == cell) & (k > 0)
        line = _line(xp, second_moment, cell, _MARGIN * TOLERANCE, k.device)
        if line is None:
            rest = rest | index
        else:
            result[index] = k[index] * line(w[index])
    if bool(xp.any(rest)):
        result[rest] = second_moment(xp, k[rest])
    return result


def _logarithm(xp: Any, k: Array) -> Array:
    return xp.log(xp.where(k > 0, k, xp.ones_like(k)))


def _ends(index: int, side: float) -> tuple[float, float]:
    return index * side, (index + 1) * side


@lru_cache(maxsize=256)
def _line(xp: Any, second_moment: Moment, cell: int, tolerance: float, device: Any) -> _Line | None:
    """Return second moments over the variance in one cell, or None if they are not smooth enough."""
    line = _Line(_Axis(xp, *_ends(cell, _SIDE), _LINE, device), lambda w: second_moment(xp, xp.exp(w)) / xp.exp(w))
    points = _points(xp, (cell,), (_SIDE,), device)[0]
    truth = second_moment(xp, xp.exp(points)) / xp.exp(points)
    return line if _error(xp, line(points), truth) <= tolerance else None


@lru_cache(maxsize=256)
def _grid(xp: Any, distance: Distance, cell: Cell, tolerance: float, device: Any) -> _Parts | None:
    """Return squared distances in one cell, or None if they are not smooth enough."""
    u, v, theta = _points(xp, cell, (_SIDE, _SIDE, _ANGLE), device)
    kxx, kyy = xp.exp(u), xp.exp(v)
    d = (xp.sqrt(kxx) - xp.sqrt(kyy)) ** 2 + 4 * xp.sqrt(kxx * kyy) * xp.sin(theta / 2) ** 2
    truth = distance(xp, kxx, kyy, d)
    for nodes, angles, hopeless in _ORDERS:
        parts = _Parts(xp, distance, cell, nodes, angles, device)
        error = _error(xp, parts(u, v, theta), truth)
        if error <= tolerance:
            return parts
        if error > hopeless:
            return None
    return None


def _points(xp: Any, cell: tuple[int, ...], sides: tuple[float, ...], device: Any) -> list[Array]:
    """Return random points of a cell, more of them at its ends, where polynomials are inaccurate and angles small."""
    random = np.random.default_rng(0).random((len(cell), 128)) ** 2
    random[:, 1::3] = 1 - random[:, 1::3]
    return [
        xp.asarray((index + values) * side, dtype=xp.float64, device=device)
        for index, values, side in zip(cell, random, sides, strict=True)
    ]


def _error(xp: Any, got: Array, truth: Array) -> float:
    return float(xp.max(xp.abs(got - truth) / xp.where(truth > 0, truth, xp.ones_like(truth))))


class _Axis:
    """Return Chebyshev nodes on [low, high], and the polynomials that are 1 at one of them."""

    def __init__(self, xp: Any, low: float, high: float, count: int, device: Any) -> None:
        self._xp, self._low, self._width, self._count = xp, low, max(high - low, 1e-12), count
        t = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        self.nodes = xp.asarray(low + (t + 1) / 2 * self._width, dtype=xp.float64, device=device)
        # T_j at the nodes is orthogonal: its inverse is its transpose, scaled
        values = np.cos(np.arange(count)[:, None] * np.arccos(t))
        scale = np.where(np.arange(count) == 0, 1, 2)[:, None] / count
        self._matrix = xp.asarray(values * scale, dtype=xp.float64, device=device)

    def basis(self, points: Array) -> Array:
        """Return ``[points, nodes]``."""
        xp = self._xp
        t = xp.clip(2 * (points - self._low) / self._width - 1, -1.0, 1.0)
        columns = [xp.ones_like(t), t]
        while len(columns) < self._count:
            columns.append(2 * t * columns[-1] - columns[-2])
        return xp.stack(columns[: self._count], axis=-1) @ self._matrix


class _Line:
    """Return a function of one variable from its values at Chebyshev nodes."""

    def __init__(self, axis: _Axis, function: Callable[[Array], Array]) -> None:
        self._axis = axis
        self._values = function(axis.nodes)

    def __call__(self, points: Array) -> Array:
        return self._axis.basis(points) @ self._values


class _Parts:
    """The squared distance from its two parts on tensor grids."""

    def __init__(self, xp: Any, distance: Distance, cell: Cell, nodes: int, count: int, device: Any) -> None:
        self._xp = xp
        u, v, angles = (_ends(index, side) for index, side in zip(cell, (_SIDE, _SIDE, _ANGLE), strict=True))
        # one node more along v, so that u and v never coincide
        self._u, self._v = _Axis(xp, *u, nodes, device), _Axis(xp, *v, nodes + 1, device)
        self._theta = _Axis(xp, *angles, count, device)
        self._fill(distance, nodes, count)

    def _fill(self, distance: Distance, nodes: int, count: int) -> None:
        xp = self._xp
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
