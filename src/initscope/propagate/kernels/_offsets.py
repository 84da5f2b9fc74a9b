r"""Compiled loops for pooled ReLU stacks (numba, optional): all offsets of one image and thirty-two others in one call.

Maps of two positions at an offset are ``[rows, columns · lanes]``, padded columns and all. A layer sums along its rows,
then down its columns; each row is rectified while it is in the caches. Each loop writes one line, so that the compiler
can vectorize without checks for overlaps. With :math:`t = (1-|\rho|)/2` a line holds :math:`\pm\sqrt t`, its sign that
of :math:`\rho`, from which both duals follow (`_fused` has the formulas).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.propagate.kernels._fused import shifted_sums
from initscope.theory._box_loops import compile_loop

__all__ = ["LANES", "add_offsets"]

Floats = npt.NDArray[np.float32]
LANES = 32


@compile_loop
def _line(values: Floats, start: int, width: int, first: int, count: int, spare: Floats) -> Floats:
    """Return ``count`` columns from ``first`` on of a row of ``values`` that begins at position ``start``.

    Columns at an offset, copied to ``spare`` if they wrap around the end.
    """
    begin, size = (start + first) * LANES, count * LANES
    if first + count <= width:
        return values[begin : begin + size]
    line, whole = spare[:size], (width - first) * LANES
    line[:whole] = values[begin : begin + whole]
    line[whole:] = values[start * LANES : start * LANES + size - whole]
    return line


@compile_loop
def _multiply(k: Floats, x: Floats, y: Floats, fresh: bool) -> None:
    """Add the products of ``x`` and ``y`` to ``k``, or initialize it with them."""
    if fresh:
        for t in range(k.shape[0]):
            k[t] = x[t] * y[t]
    else:
        for t in range(k.shape[0]):
            k[t] += x[t] * y[t]


@compile_loop
def _add(total: Floats, line: Floats) -> None:
    for t in range(total.shape[0]):
        total[t] += line[t]


@compile_loop
def _roots(k: Floats, anchor: Floats, others: Floats, out: Floats) -> None:
    """Compute ±√t from covariances and inverse deviations of both sides; never 0, so that the sign is not lost."""
    half, unity, tiny = np.float32(0.5), np.float32(1), np.float32(1e-20)
    for t in range(out.shape[0]):
        rho = min(max(k[t] * (anchor[t] * others[t]), -unity), unity)
        root = math.sqrt(max(half - half * abs(rho), tiny))
        out[t] = root if rho > 0 else -root


@compile_loop
def _slopes(roots: Floats, coefficients: Any, target: Floats) -> None:
    """``target`` times E R'(X)R'(Y)."""
    a0, a1, a2, a3, a4, a5, a6, a7 = coefficients[8:]
    half, turn = np.float32(0.5), np.float32(1 / math.pi)
    for j in range(target.shape[0]):
        root = roots[j]
        t = root * root
        a = turn * abs(root) * (((((((a7 * t + a6) * t + a5) * t + a4) * t + a3) * t + a2) * t + a1) * t + a0)
        target[j] *= half - a if root > 0 else a


@compile_loop
def _duals(roots: Floats, anchor: Floats, others: Floats, coefficients: Any, out: Floats) -> None:
    """E R(X)R(Y), with the deviations on both sides."""
    q0, q1, q2, q3, q4, q5, q6, q7 = coefficients[:8]
    half, unity, two, nothing = np.float32(0.5), np.float32(1), np.float32(2), np.float32(0)
    for j in range(out.shape[0]):
        root = roots[j]
        t = root * root
        q = (((((((q7 * t + q6) * t + q5) * t + q4) * t + q3) * t + q2) * t + q1) * t + q0) * t * abs(root)
        out[j] = half * (anchor[j] * others[j]) * ((unity - two * t if root > 0 else nothing) + q)


@compile_loop
def _edges(row: Floats, before: int, width: int, wraps: bool) -> None:
    """Fill the padding of a row of ``width`` columns: zeros, or columns of the other end."""
    for j in range(row.shape[0] // LANES):
        if j < before or j >= before + width:
            target = row[j * LANES : (j + 1) * LANES]
            if wraps:
                column = before + (j - before) % width
                source = row[column * LANES : (column + 1) * LANES]
                for c in range(LANES):
                    target[c] = source[c]
            else:
                for c in range(LANES):
                    target[c] = 0


@compile_loop
def _across(source: Floats, axis: Any, out: Floats) -> None:
    """Sums along a padded row into ``out``; ``axis``: taps, dilation, stride."""
    taps, dilation, stride = axis[0], axis[1], axis[2]
    if stride == 1:
        shifted_sums(source, taps, dilation * LANES, out)
        return
    for j in range(out.shape[0] // LANES):
        shifted_sums(source[j * stride * LANES :], taps, dilation * LANES, out[j * LANES : (j + 1) * LANES])


@compile_loop
def _down(sums: Floats, i: int, axis: Any, height: int, wraps: bool, out: Floats) -> None:
    """Compute row ``i`` of the sums over ``height`` rows; a row of zeros after them represents all rows outside."""
    taps, dilation, size = axis[0], axis[1], out.shape[0]
    first = i * axis[2] - axis[3]
    if taps == 3:
        first_row = _inside(first, height, wraps) * size
        two = _inside(first + dilation, height, wraps) * size
        three = _inside(first + 2 * dilation, height, wraps) * size
        a, b, c = sums[first_row : first_row + size], sums[two : two + size], sums[three : three + size]
        for t in range(size):
            out[t] = a[t] + b[t] + c[t]
        return
    for t in range(size):
        out[t] = 0
    for tap in range(taps):
        start = _inside(first + tap * dilation, height, wraps) * size
        _add(out, sums[start : start + size])


@compile_loop
def _inside(row: int, height: int, wraps: bool) -> int:
    if wraps:
        return row % height
    return row if 0 <= row < height else height


@compile_loop
def _overlap(size: Any, down: int, across: int, wraps: bool) -> Any:
    """Return size, first rows and columns of both images, and numbers of rows and columns with partners at an offset.

    If filters wrap around the edges, every position has a partner.
    """
    height, width = size[0], size[1]
    if wraps:
        return (height, width), (0, 0), (down % height, across % width), (height, width)
    anchor, partner = (max(0, -down), max(0, -across)), (max(0, down), max(0, across))
    return (height, width), anchor, partner, (height - abs(down), width - abs(across))


@compile_loop
def _row(anchor: Floats, others: Floats, overlap: Any, i: int, lines: Floats) -> Any:
    """Return row ``i`` of values ``[positions · lanes]`` of both images, from the position that `_place` returns."""
    (height, width), (top, left), (upper, left_other), (_, count) = overlap
    x = _line(anchor, (top + i) * width, width, left, count, lines[0])
    return x, _line(others, (upper + i) % height * width, width, left_other, count, lines[1])


@compile_loop
def _padded(maps: Floats, i: int, count: int, columns: Any) -> Floats:
    """Return row ``i`` of maps that are padded as the filter wants it."""
    pitch = (columns[3] + count + columns[4]) * LANES
    return maps[i * pitch : (i + 1) * pitch]


@compile_loop
def _begin(anchor: Floats, others: Floats, overlap: Any, columns: Any, wraps: bool, scratch: Any) -> None:
    """Products of both images, ``[channels, positions · lanes]``, summed over channels, into the first maps."""
    maps, _, lines, _ = scratch
    rows, count = overlap[3]
    for i in range(rows):
        row = _padded(maps[0], i, count, columns)
        inner = row[columns[3] * LANES : (columns[3] + count) * LANES]
        for channel in range(anchor.shape[0]):
            x, y = _row(anchor[channel], others[channel], overlap, i, lines)
            _multiply(inner, x, y, channel == 0)
        _edges(row, columns[3], count, wraps)


@compile_loop
def _sum_rows(columns: Any, overlaps: Any, maps: Floats, sums: Floats) -> None:
    """Compute sums along the rows of the maps before a layer, with a row of zeros after them."""
    rows, count = overlaps[0][3]
    size = overlaps[1][3][1] * LANES
    for i in range(rows):
        _across(_padded(maps, i, count, columns), columns, sums[i * size : (i + 1) * size])
    sums[rows * size : (rows + 1) * size] = 0


@compile_loop
def _weighed(i: int, layer: Any, scale: Any, overlaps: Any, known: Any, scratch: Any) -> None:
    """Compute row ``i`` after the weights: covariances and tangents.

    ``known`` is the number of computed rows, wrapped or not.
    """
    _, sums, lines, _ = scratch
    kinds, tangent, wraps = known
    rows, size = overlaps[0][3][0], overlaps[1][3][1] * LANES
    k, theta = lines[2, :size], lines[3, :size]
    _down(sums[0], i, layer[0], rows, wraps, k)
    for t in range(size):
        k[t] = scale[0] * k[t] + scale[1]
    if kinds == 2:
        _down(sums[1], i, layer[0], rows, wraps, theta)
        for t in range(size):
            theta[t] = scale[0] * theta[t] + k[t]
    elif tangent:
        for t in range(size):
            theta[t] = k[t]


@compile_loop
def _rectify(i: int, start: int, anchor: Floats, others: Floats, overlap: Any, tangent: bool, scratch: Any) -> None:
    """Compute row ``i`` after the ReLU; deviations begin at ``start``, followed by their inverses."""
    lines, coefficients = scratch[2], scratch[3]
    (height, width), _, _, (_, count) = overlap
    size, end = count * LANES, start + height * width
    k, theta, root = lines[2, :size], lines[3, :size], lines[4, :size]
    x, y = _row(anchor[end * LANES :], others[end * LANES :], overlap, i, lines)
    _roots(k, x, y, root)
    if tangent:
        _slopes(root, coefficients, theta)
    x, y = _row(anchor[start * LANES :], others[start * LANES :], overlap, i, lines)
    _duals(root, x, y, coefficients, k)


@compile_loop
def _keep(line: Floats, i: int, overlap: Any, columns: Any, wraps: bool, maps: Floats) -> None:
    """A row for the next filter, padded as it wants it."""
    row, before = _padded(maps, i, overlap[3][1], columns), columns[3]
    inner = row[before * LANES : before * LANES + line.shape[0]]
    for t in range(line.shape[0]):
        inner[t] = line[t]
    _edges(row, before, overlap[3][1], wraps)


@compile_loop
def add_offsets(anchors: Any, others: Any, layers: Any, offsets: Any, options: Any, scratch: Any, out: Any) -> None:
    """Add to ``out`` [kinds, lanes], in float64, covariances and tangents of all positions at ``offsets`` [n, 2].

    ``anchors``, ``others``: images [channels, positions · lanes] and deviations before ReLUs [positions · lanes].
    ``layers``: for both axes of every filter taps, dilation, stride, padding before and after; sizes of all maps; where
    the deviations of a layer begin, -1 if it has no ReLU; gain and bias. ``options``: whether tangents are wanted, and
    filters wrap around the edges. ``scratch``: memory for maps, sums, lines, and the coefficients of the duals.
    """
    geometry, sizes, first_maps, scales = layers
    tangent, wraps = options
    depth, lines = geometry.shape[0], scratch[2]
    for n in range(offsets.shape[0]):
        down, across = offsets[n]
        for layer in range(depth):
            down, across = down * geometry[layer, 0, 2], across * geometry[layer, 1, 2]
        before = _overlap(sizes[0], down, across, wraps)
        _begin(anchors[0], others[0], before, geometry[0, 1], wraps, scratch)
        totals = lines[5:7]
        totals[:] = 0
        for layer in range(depth):
            down, across = down // geometry[layer, 0, 2], across // geometry[layer, 1, 2]
            after = _overlap(sizes[layer + 1], down, across, wraps)
            kinds = 2 if tangent and layer else 1
            for kind in range(kinds):
                _sum_rows(geometry[layer, 1], (before, after), scratch[0][kind], scratch[1][kind])
            for i in range(after[3][0]):
                _weighed(i, geometry[layer], scales[layer], (before, after), (kinds, tangent, wraps), scratch)
                if first_maps[layer] >= 0:
                    _rectify(i, first_maps[layer], anchors[1], others[1], after, tangent, scratch)
                for kind in range(out.shape[0]):
                    line = lines[2 + kind, : after[3][1] * LANES]
                    if layer == depth - 1:
                        _add(totals[kind, : line.shape[0]], line)
                    else:
                        _keep(line, i, after, geometry[layer + 1, 1], wraps, scratch[0][kind])
            before = after
        for kind in range(out.shape[0]):
            for t in range(after[3][1] * LANES):
                out[kind, t % LANES] += totals[kind, t]
