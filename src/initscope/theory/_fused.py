"""Compiled loops for image pairs on the CPU (numba, optional): channel sums, box sums and the ReLU step.

Same results as `_boxes.box_sum` and the ReLU dual, to rounding; NumPy arrays in and out. Importing this module imports
numba; `_fast.fused_loops` decides when that pays. The loops run in plain threads over pairs, so they share torch's
thread count and need no threading layer.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from initscope._hall.compiled import compiled, in_threads
from initscope.theory._boxes import box_sum, output_size

__all__ = ["box_sums", "pair_maps", "relu_layer_sums", "relu_step", "threads", "totals", "windows"]

Floats = npt.NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])

# ψ(θ) = s³ Q(s²), s = sin(θ/2), cos θ ≥ 0. Q has the series (1/π) Σ_{n≥1} 16 n C(2n,n) 4⁻ⁿ / ((2n-1)²(2n+1)) t^{n-1},
# all terms positive; this is its interpolation at the 16 Chebyshev nodes of [0, ½], relative error 4e-16.
_PSI_SERIES = (
    0.848826363156775,
    0.08488263631584625,
    0.02728370450147959,
    0.012631346593627777,
    0.007033296009197657,
    0.004383718741458937,
    0.0029268103505085677,
    0.0022713829130034113,
    0.00035213844985853025,
    0.006924057664361022,
    -0.019027922551796462,
    0.0506792686652379,
    -0.08737054045589697,
    0.10470311412717803,
    -0.07483486712595767,
    0.02607786141792591,
)


_LOT = 1 << 16  # pixels that a thread takes at once: their maps stay in its caches


def _compile(function: Function) -> Function:
    # reassoc lets sums vectorise, contract allows fused multiply-add; NaN and infinity keep their meaning.
    return compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


@_compile
def _channel_sums(x: Floats, y: Floats, kxx_maps: Floats, kyy_maps: Floats, gap_maps: Floats) -> None:
    """Write Σ_c x², Σ_c y², Σ_c (x-y)² of pairs [pairs, channels, pixels] into three maps [pairs, pixels]."""
    for pair in range(x.shape[0]):
        kxx, kyy, gap = kxx_maps[pair], kyy_maps[pair], gap_maps[pair]
        for channel in range(x.shape[1]):
            u, v = x[pair, channel], y[pair, channel]
            if channel == 0:
                for j in range(u.shape[0]):
                    kxx[j] = u[j] * u[j]
                    kyy[j] = v[j] * v[j]
                    gap[j] = (u[j] - v[j]) * (u[j] - v[j])
            else:
                for j in range(u.shape[0]):
                    kxx[j] += u[j] * u[j]
                    kyy[j] += v[j] * v[j]
                    gap[j] += (u[j] - v[j]) * (u[j] - v[j])


@_compile
def _relu_step(kxx: Floats, kyy: Floats, gap: Floats, series: Any) -> None:
    """The ReLU step in place: kxx/2, kyy/2 and d/2 - √(kxx kyy) ψ(θ); flat arrays, ``series`` in their dtype."""
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, quarter, half, one, nothing = series
    for j in range(gap.shape[0]):
        a, b, d = math.sqrt(kxx[j]), math.sqrt(kyy[j]), gap[j]
        product = a * b
        # sin²(θ/2), from 2ab(1 - cos θ) = d - (a - b)²
        square = quarter * (d - (a - b) * (a - b)) / (product if product > nothing else one)
        square = min(max(square, nothing), one)
        t = min(square, one - square)
        low = (((c7 * t + c6) * t + c5) * t + c4) * t + c3
        low = ((low * t + c2) * t + c1) * t + c0
        high = (((c15 * t + c14) * t + c13) * t + c12) * t + c11
        high = ((high * t + c10) * t + c9) * t + c8
        t2 = t * t
        t4 = t2 * t2
        # beyond the right angle: ψ(θ) = -cos θ + ψ(π - θ)
        psi = t * math.sqrt(t) * (low + high * (t4 * t4)) + max(square + square - one, nothing)
        gap[j] = half * d - product * psi
        kxx[j] *= half
        kyy[j] *= half


@_compile
def windows(line: Floats, spare: Floats, total: Floats, taps: int, spread: int) -> None:
    """Sums of ``taps`` entries of ``line``, ``spread`` apart, into ``total`` by doubling (see `_boxes`)."""
    width, covered = 1, 0
    while True:
        if taps & width:
            run = line[spread * covered :]  # sliced, not indexed with an offset: numba then vectorises
            if covered == 0:
                for j in range(total.shape[0]):
                    total[j] = run[j]
            else:
                for j in range(total.shape[0]):
                    total[j] += run[j]
            covered += width
        if covered == taps:
            return
        shifted = line[spread * width :]
        for j in range(shifted.shape[0]):
            spare[j] = line[j] + shifted[j]
        line, spare = spare, line
        width *= 2


@_compile
def _sum_rows(image_rows: Floats, sums: Floats, columns: Any, before: int, taps: int, spread: int) -> None:
    """Horizontal window sums of each row of ``image_rows`` [n, W] into the flat ``sums`` [n · pitch].

    ``columns`` maps padded to image columns (-1: zero). A batch of padded rows lies end to end in one line that fits
    the first-level cache; windows that run over the end of a row are computed too, and never read.
    """
    count, width = image_rows.shape
    pitch, overhang = columns.shape[0], spread * taps
    batch = max(1, 2048 // pitch)
    line = np.zeros(batch * pitch + overhang, sums.dtype)
    spare = np.zeros(batch * pitch + overhang, sums.dtype)
    for start in range(0, count, batch):
        stop = min(start + batch, count)
        for i in range(start, stop):
            pixels, row = image_rows[i], line[(i - start) * pitch :]
            for j in range(before):
                row[j] = pixels[columns[j]] if columns[j] >= 0 else 0
            for j in range(before + width, pitch):
                row[j] = pixels[columns[j]] if columns[j] >= 0 else 0
            middle = row[before:]
            for j in range(width):
                middle[j] = pixels[j]
        reach = (stop - start) * pitch + overhang
        windows(line[:reach], spare[:reach], sums[start * pitch : stop * pitch], taps, spread)


@_compile
def _sum_columns(sums: Floats, out: Floats, rows: Any, taps: int, spread: int, stride: Any) -> None:
    """Vertical window sums of ``sums`` [n, H, pitch] into ``out`` [n, …]; ``rows`` as ``columns`` above.

    After van Herk: a window is the tail of one block of rows plus the head of the next, so the cost does not depend on
    its height and nothing is subtracted. Each residue class of rows modulo the dilation has its own blocks.
    """
    count, width = rows.shape[0] - spread * (taps - 1), (out.shape[2] - 1) * stride[1] + 1
    tails = np.empty((taps, width), sums.dtype)
    head, zeros = np.empty(width, sums.dtype), np.zeros(width, sums.dtype)
    for index in range(sums.shape[0]):
        image = sums[index]
        for first in range(min(spread, count)):
            for start in range(first, count, spread * taps):
                longer = zeros
                for k in range(taps - 1, -1, -1):
                    source = rows[start + spread * k]
                    row = image[source] if source >= 0 else zeros
                    shorter, longer = longer, tails[k]
                    for j in range(width):
                        longer[j] = shorter[j] + row[j]
                head[:] = 0
                for k in range(min(taps, (count - start + spread - 1) // spread)):
                    position = start + spread * k
                    source = rows[position + spread * (taps - 1)]
                    if k > 0 and source >= 0:
                        row = image[source]
                        for j in range(width):
                            head[j] += row[j]
                    if position % stride[0] == 0:
                        tail, target = tails[k], out[index, position // stride[0]]
                        if stride[1] == 1:
                            for j in range(width):
                                target[j] = tail[j] + head[j]
                        else:
                            for j in range(target.shape[0]):
                                target[j] = tail[j * stride[1]] + head[j * stride[1]]


@_compile
def _totals(maps: Floats, totals: Floats) -> None:
    for index in range(maps.shape[0]):
        entries, total = maps[index], 0.0
        for j in range(entries.shape[0]):
            total += entries[j]
        totals[index] = total


def _series(dtype: Any) -> tuple[Any, ...]:
    return tuple(dtype.type(value) for value in (*_PSI_SERIES, 0.25, 0.5, 1.0, 0.0))


def threads() -> int:
    """Torch's thread count where torch is in use, else the processors this process may run on."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lots(share: slice, pixels: int) -> list[slice]:
    step = max(1, _LOT // pixels)
    return [slice(start, min(start + step, share.stop)) for start in range(share.start, share.stop, step)]


class _Boxes:
    """Box sums of one geometry: `out_size`, and `into` that runs them on a lot of images."""

    def __init__(
        self,
        size: Sequence[int],
        *,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
        padding: Sequence[tuple[int, int]],
        padding_mode: str = "zeros",
    ) -> None:
        axes = zip(size, kernel_size, stride, dilation, padding)
        self.out_size = [output_size(*axis, padding_mode) for axis in axes]
        # A kernel of one tap only pads: positions counted from 1, so that padded zeros end up as -1.
        one: dict[str, Any] = {"kernel_size": (1,), "stride": (1,), "dilation": (1,), "padding_mode": padding_mode}
        self._rows, self._columns = (
            box_sum(np.arange(1, length + 1), padding=(pair,), **one) - 1 for length, pair in zip(size, padding)
        )
        self._before = int(padding[1][0])
        self._taps, self._stride, self._spread = (tuple(map(int, axis)) for axis in (kernel_size, stride, dilation))

    def into(self, images: Floats, out: Floats) -> None:
        """Box sums of ``images`` [n, H, W] into ``out`` [n, …], in the calling thread."""
        count, height, width = images.shape
        pitch = len(self._columns)
        sums = np.empty(count * height * pitch, images.dtype)
        _sum_rows(images.reshape(-1, width), sums, self._columns, self._before, self._taps[1], self._spread[1])
        _sum_columns(sums.reshape(count, height, pitch), out, self._rows, self._taps[0], self._spread[0], self._stride)


def pair_maps(x: Floats, y: Floats) -> Floats:
    """Σ_c x², Σ_c y², Σ_c (x-y)² of pairs [pairs, channels, …], as one array [3, pairs, …]."""
    pairs, channels, *size = x.shape
    u, v = (np.ascontiguousarray(images).reshape(pairs, channels, -1) for images in (x, y))
    maps = np.empty((3, pairs, math.prod(size)), x.dtype)

    def work(share: slice) -> None:
        _channel_sums(u[share], v[share], maps[0, share], maps[1, share], maps[2, share])

    in_threads(work, pairs, threads())
    return maps.reshape(3, pairs, *size)


def relu_step(kxx: Floats, kyy: Floats, gap: Floats) -> None:
    """Replace maps kxx, kyy and d = kxx + kyy - 2 kxy by those after a ReLU, in place (C-contiguous, one shape).

    .. math:: k_{xx}/2, \\quad k_{yy}/2, \\quad d/2 - \\sqrt{k_{xx} k_{yy}}\\, \\psi(\\theta)
    """
    if not all(maps.flags.c_contiguous for maps in (kxx, kyy, gap)):
        raise ValueError("relu_step works in place: pass C-contiguous maps")
    kxx, kyy, gap = (maps.reshape(-1) for maps in (kxx, kyy, gap))
    series = _series(gap.dtype)

    def work(share: slice) -> None:
        part = slice(share.start * _LOT, share.stop * _LOT)
        _relu_step(kxx[part], kyy[part], gap[part], series)

    in_threads(work, -(-gap.size // _LOT), threads())


def box_sums(maps: Floats, **layer: Any) -> Floats:
    """`_boxes.box_sum` of maps [..., H, W] with the same keywords, compiled."""
    *leading, height, width = maps.shape
    boxes = _Boxes((height, width), **layer)
    images = np.ascontiguousarray(maps).reshape(-1, height, width)
    out = np.empty((len(images), *boxes.out_size), maps.dtype)

    def work(share: slice) -> None:
        for part in _lots(share, height * width):
            boxes.into(images[part], out[part])

    in_threads(work, len(images), threads())
    return out.reshape(*leading, *boxes.out_size)


def totals(maps: Floats) -> Floats:
    """float64 sums over the last axis of C-contiguous maps [..., entries]."""
    flat = maps.reshape(-1, maps.shape[-1])
    sums = np.empty(len(flat))

    def work(share: slice) -> None:
        _totals(flat[share], sums[share])

    in_threads(work, len(flat), threads())
    return sums.reshape(maps.shape[:-1])


def relu_layer_sums(x: Floats, y: Floats, **layer: Any) -> Floats:
    """One random ReLU layer with weights of variance 1 on pairs [pairs, channels, H, W]; keywords of `_boxes.box_sum`.

    Returns float64 sums over positions [3, pairs]: E‖R(F∗x)‖², E‖R(F∗y)‖², E‖R(F∗x) - R(F∗y)‖² for one filter.
    Beside the result it holds nine maps of one lot in each thread.
    """
    pairs, channels, *size = x.shape
    boxes = _Boxes(size, **layer)
    pixels, positions = math.prod(size), math.prod(boxes.out_size)
    series, sums = _series(x.dtype), np.empty((3, pairs))

    def work(share: slice) -> None:
        for part in _lots(share, pixels):
            u, v = (np.ascontiguousarray(images[part]).reshape(-1, channels, pixels) for images in (x, y))
            maps = np.empty((3, len(u), pixels), x.dtype)
            sizes = np.empty((3 * len(u), positions), x.dtype)
            _channel_sums(u, v, maps[0], maps[1], maps[2])
            boxes.into(maps.reshape(-1, *size), sizes.reshape(-1, *boxes.out_size))
            kxx, kyy, gap = sizes.reshape(3, -1)
            _relu_step(kxx, kyy, gap, series)
            totals = np.empty(3 * len(u))
            _totals(sizes, totals)
            sums[:, part] = totals.reshape(3, -1)

    in_threads(work, pairs, threads())
    return sums
