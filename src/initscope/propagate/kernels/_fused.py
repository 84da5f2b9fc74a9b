r"""Compiled loops for kernel matrices of ReLU stacks (numba, optional): one image against a block of others at once.

Maps are ``[positions, others]``, with the others innermost, so every loop runs over adjacent memory, and a block is so
small that its maps stay in the caches. With :math:`t = (1-|\rho|)/2` the ReLU of two units is

.. math:: E\,R(X)R(Y) = \tfrac12\sqrt{k_{xx}k_{yy}}\,(\max(\rho, 0) + t^{3/2}Q(t)), \qquad
   E\,R'(X)R'(Y) = \tfrac12 - \arccos(\rho)/2\pi,\quad \arccos|\rho| = 2\sqrt t\,A(t),

Polynomials on [0, ½] compute Q and A with an error below that of float32.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.theory._box_loops import compile_loop, windows

__all__ = [
    "Scratch", "box_sums", "coefficients", "position_sums", "products", "rectify", "rectify_tangent",
    "shifted_sums",
]  # fmt: skip

Floats = npt.NDArray[np.float32]
_DEGREE = 7
_SMALL = 5  # taps up to which adding them one by one is faster than doubling


@cache
def coefficients() -> tuple[Any, ...]:
    """Return the coefficients of Q, then those of A, lowest power first, in float32."""
    nodes = 0.25 * (1 + np.cos(np.pi * (np.arange(64) + 0.5) / 64))  # Chebyshev's of [0, ½]
    root = np.sqrt(nodes)
    angle = 2 * np.arcsin(root)
    psi = (np.sin(angle) - angle * np.cos(angle)) / np.pi
    result: list[Any] = []
    for values in (psi / root**3, angle / (2 * root)):
        fit = np.polynomial.Chebyshev.fit(nodes, values, _DEGREE, domain=[0, 0.5])
        result += [np.float32(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef]
    return tuple(result)


@compile_loop
def products(image: Floats, others: Floats, out: Floats) -> None:
    """Σ_c of ``image`` [channels, positions] times ``others`` [channels, positions, n] into ``out`` [positions, n]."""
    for channel in range(image.shape[0]):
        for p in range(image.shape[1]):
            value, row, target = image[channel, p], others[channel, p], out[p]
            if channel == 0:
                for j in range(row.shape[0]):
                    target[j] = value * row[j]
            else:
                for j in range(row.shape[0]):
                    target[j] += value * row[j]


@compile_loop
def rectify(k: Floats, anchor: Floats, others: Floats, inverse: Floats, coefficients: Any) -> None:
    """The ReLU's dual, in place on covariances ``k`` [positions, n].

    ``anchor`` [2, positions] and ``others``, ``inverse`` [positions, n]: deviations of the units and their inverses.
    """
    q0, q1, q2, q3, q4, q5, q6, q7 = coefficients[:8]
    half, unity, nothing = np.float32(0.5), np.float32(1), np.float32(0)
    for p in range(k.shape[0]):
        sd, inv, row, sds, invs = anchor[0, p], anchor[1, p], k[p], others[p], inverse[p]
        for j in range(row.shape[0]):
            rho = min(max(row[j] * (inv * invs[j]), -unity), unity)
            t = half - half * abs(rho)
            q = (((((((q7 * t + q6) * t + q5) * t + q4) * t + q3) * t + q2) * t + q1) * t + q0) * t * math.sqrt(t)
            row[j] = half * (sd * sds[j]) * (max(rho, nothing) + q)


@compile_loop
def rectify_tangent(k: Floats, tangent: Floats, anchor: Floats, inverse: Floats, coefficients: Any) -> None:
    """``tangent`` times E R'(X)R'(Y), in place; ``k`` are the covariances before the ReLU."""
    a0, a1, a2, a3, a4, a5, a6, a7 = coefficients[8:]
    half, unity, turn = np.float32(0.5), np.float32(1), np.float32(1 / math.pi)
    for p in range(k.shape[0]):
        inv, row, target, invs = anchor[1, p], k[p], tangent[p], inverse[p]
        for j in range(row.shape[0]):
            rho = min(max(row[j] * (inv * invs[j]), -unity), unity)
            t = half - half * abs(rho)
            a = turn * math.sqrt(t) * (((((((a7 * t + a6) * t + a5) * t + a4) * t + a3) * t + a2) * t + a1) * t + a0)
            target[j] *= half - a if rho > 0 else a


class Scratch:
    """Return three lines of memory for box sums, reused by one thread between calls."""

    def __init__(self, size: int) -> None:
        self.lines = [np.zeros(size, np.float32) for _ in range(3)]


@compile_loop
def _pad(maps: Floats, rows: Any, columns: Any, width: int, line: Floats) -> None:
    """Pad ``maps`` [height · width, n] with zeros and copies, as ``rows`` and ``columns`` say (-1: zero)."""
    n = maps.shape[1]
    for i in range(rows.shape[0]):
        for j in range(columns.shape[0]):
            start = (i * columns.shape[0] + j) * n
            target = line[start : start + n]
            if rows[i] < 0 or columns[j] < 0:
                for c in range(n):
                    target[c] = 0
            else:
                source = maps[rows[i] * width + columns[j]]
                for c in range(n):
                    target[c] = source[c]


@compile_loop
def _pick(line: Floats, out: Floats, size: Any, stride: Any, pitch: int, gain: Any, bias: Any) -> None:
    """Every stride-th window sum, times ``gain`` plus ``bias``, into ``out`` [positions, n]."""
    n = out.shape[1]
    for i in range(size[0]):
        for j in range(size[1]):
            start = (i * stride[0] * pitch + j * stride[1]) * n
            source, target = line[start : start + n], out[i * size[1] + j]
            for c in range(n):
                target[c] = gain * source[c] + bias


@compile_loop
def shifted_sums(row: Floats, taps: int, shift: int, out: Floats) -> None:
    """Sums of ``taps`` entries of ``row``, ``shift`` apart, into ``out``."""
    size = out.shape[0]
    # Views, not offsets: a signed offset is checked at every access, and the loop stays scalar.
    first = row[:size]
    if taps == 3:
        second, third = row[shift : shift + size], row[2 * shift : 2 * shift + size]
        for t in range(size):
            out[t] = first[t] + second[t] + third[t]
        return
    for t in range(size):
        out[t] = first[t]
    for tap in range(1, taps):
        later = row[tap * shift : tap * shift + size]
        for t in range(size):
            out[t] += later[t]


@compile_loop
def _sum_across(maps: Floats, edges: Any, taps: int, shift: int, row: Floats, out: Floats) -> None:
    """Sums of ``taps`` entries, ``shift`` apart, along the rows of ``maps`` [height, width · n] into ``out``.

    ``edges``: padded columns before, the columns that stand there (-1: zero) and n; ``row``: memory for a padded row.
    """
    before, columns, n = edges
    width = maps.shape[1] // n
    for i in range(maps.shape[0]):
        source, target = maps[i], out[i]
        inner = row[before * n : (before + width) * n]
        for t in range(inner.shape[0]):
            inner[t] = source[t]
        for j in range(columns.shape[0]):
            if j < before or j >= before + width:
                part, column = row[j * n : (j + 1) * n], columns[j]
                for c in range(n):
                    part[c] = source[column * n + c] if column >= 0 else np.float32(0)
        shifted_sums(row, taps, shift, target)


@compile_loop
def _sum_down(line: Floats, rows: Any, taps: int, dilation: int, scale: Any, out: Floats) -> None:
    """gain · (sums of ``taps`` rows of ``line``) + bias into ``out`` [outputs, size]; ``scale``: gain and bias."""
    gain, bias = scale
    size = out.shape[1]
    for i in range(out.shape[0]):
        target = out[i]
        if taps == 3 and min(rows[i], rows[i + dilation], rows[i + 2 * dilation]) >= 0:
            first, second, third = line[rows[i]], line[rows[i + dilation]], line[rows[i + 2 * dilation]]
            for t in range(size):
                target[t] = gain * (first[t] + second[t] + third[t]) + bias
            continue
        for t in range(size):
            target[t] = bias
        for tap in range(taps):
            if rows[i + tap * dilation] >= 0:
                source = line[rows[i + tap * dilation]]
                for t in range(size):
                    target[t] += gain * source[t]


@compile_loop
def position_sums(maps: Floats, out: Any) -> None:
    """Sums of maps ``[positions, n]`` over positions, in float64."""
    for c in range(maps.shape[1]):
        out[c] = 0.0
    for p in range(maps.shape[0]):
        row = maps[p]
        for c in range(row.shape[0]):
            out[c] += row[c]


def box_sums(maps: Floats, out: Floats, boxes: Any, gain: float, bias: float, scratch: Scratch) -> None:
    """gain · (sums over the windows of ``boxes``) + bias, of maps ``[positions, n]`` into ``out``.

    Small filters of stride 1 tap by tap, along whole rows in memory; others by doubling.
    """
    if boxes.before is not None and max(boxes.taps) <= _SMALL:
        n, (down, across) = maps.shape[1], boxes.out_size
        rows = maps.reshape(-1, boxes.width * n)
        line = scratch.lines[0][: len(rows) * across * n].reshape(len(rows), across * n)
        edges = (boxes.before, boxes.columns, n)
        _sum_across(rows, edges, boxes.taps[1], boxes.spread[1] * n, scratch.lines[1], line)
        scale = (np.float32(gain), np.float32(bias))
        _sum_down(line, boxes.rows, boxes.taps[0], boxes.spread[0], scale, out.reshape(down, across * n))
        return
    n, pitch = maps.shape[1], len(boxes.columns)
    first, second, third = scratch.lines
    whole = len(boxes.rows) * pitch * n
    _pad(maps, boxes.rows, boxes.columns, boxes.width, first)
    taps, spread = boxes.taps, boxes.spread
    across = whole - n * spread[1] * (taps[1] - 1)
    windows(first[:whole], second, third, taps[1], n * spread[1])
    windows(third[:across], second, first, taps[0], n * pitch * spread[0])
    _pick(first, out, boxes.out_size, boxes.stride, pitch, np.float32(gain), np.float32(bias))
