"""Compiled loops for image pairs on the CPU (numba, optional): channel sums, box sums and the ReLU step.

Same results as `_boxes.box_sum` and the ReLU dual, to rounding; NumPy arrays in and out. Importing this module imports
numba; `_fast.fused_loops` decides when that pays. The loops run in plain threads over pairs, so they share torch's
thread count and need no threading layer.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from initscope._utils.compiled import in_threads
from initscope.theory._box_loops import Boxes, box_sum_into, compile_loop, scratch_for

__all__ = [
    *("Layer", "Stack"),
    *("box_sums", "pair_maps", "rectified", "relu_layer_sums", "relu_step", "threads", "totals", "weighted"),
]

Floats = npt.NDArray[Any]

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


_LOT = 1 << 14  # pixels that a thread takes at once: their maps stay in its caches


@compile_loop
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


@compile_loop
def _relu_step(kxx: Floats, kyy: Floats, gap: Floats, series: Any) -> None:
    """The ReLU step in place: kxx/2, kyy/2 and d/2 - √(kxx kyy) ψ(θ); flat arrays, ``series`` in their dtype."""
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, quarter, half, unity, nothing = series
    for j in range(gap.shape[0]):
        a, b, d = math.sqrt(kxx[j]), math.sqrt(kyy[j]), gap[j]
        product = a * b
        # sin²(θ/2), from 2ab(1 - cos θ) = d - (a - b)²
        square = quarter * (d - (a - b) * (a - b)) / (product if product > nothing else unity)
        square = min(max(square, nothing), unity)
        t = min(square, unity - square)
        low = (((c7 * t + c6) * t + c5) * t + c4) * t + c3
        low = ((low * t + c2) * t + c1) * t + c0
        high = (((c15 * t + c14) * t + c13) * t + c12) * t + c11
        high = ((high * t + c10) * t + c9) * t + c8
        t2 = t * t
        t4 = t2 * t2
        # beyond the right angle: ψ(θ) = -cos θ + ψ(π - θ)
        psi = t * math.sqrt(t) * (low + high * (t4 * t4)) + max(square + square - unity, nothing)
        gap[j] = half * d - product * psi
        kxx[j] *= half
        kyy[j] *= half


@compile_loop
def _relu_layer(maps: Floats, out: Floats, boxes: Any, scale: Any, series: Any, rectified: bool) -> None:
    """Compute box sums of maps [3, pairs, H, W] of kxx, kyy and d, and the ReLU, pair by pair, in the cache."""
    gain, bias, nothing = scale
    scratch = scratch_for(boxes, maps, out)
    for pair in range(maps.shape[1]):
        for which in range(3):
            box_sum_into(maps[which, pair], out[which, pair], boxes, (gain, bias if which < 2 else nothing), scratch)
        if rectified:
            kxx, kyy, gap = out[0, pair].reshape(-1), out[1, pair].reshape(-1), out[2, pair].reshape(-1)
            _relu_step(kxx, kyy, gap, series)


@compile_loop
def _totals(maps: Floats, totals: Floats) -> None:
    for index in range(maps.shape[0]):
        entries, total = maps[index], 0.0
        for j in range(entries.shape[0]):
            total += entries[j]
        totals[index] = total


@compile_loop
def _weigh(maps: Any, out: Any, totals: Any, boxes: Any, scale: Any) -> None:
    """Box sums of kxx, kyy and d [n, H, W] into three [n, h, w], and their totals into three [n], image by image."""
    gain, bias, nothing = scale
    scratch = scratch_for(boxes, maps[0], out[0])
    for index in range(maps[0].shape[0]):
        for which in range(3):
            after = out[which][index : index + 1]
            box_sum_into(maps[which][index], after[0], boxes, (gain, bias if which < 2 else nothing), scratch)
            _totals(after.reshape(1, -1), totals[which][index : index + 1])


@compile_loop
def _rectify(maps: Any, out: Any, totals: Any, series: Any) -> None:
    """The ReLU step of kxx, kyy and d [n, entries] into three more, and its totals into three [n], lot by lot."""
    count, entries = maps[0].shape
    step = max(1, _LOT // max(1, entries))
    for start in range(0, count, step):
        for which in range(3):
            before = maps[which][start : start + step].reshape(-1)
            after = out[which][start : start + step].reshape(-1)
            for j in range(after.shape[0]):
                after[j] = before[j]
        kxx, kyy, gap = out[0][start : start + step], out[1][start : start + step], out[2][start : start + step]
        _relu_step(kxx.reshape(-1), kyy.reshape(-1), gap.reshape(-1), series)
        for which in range(3):
            _totals(out[which][start : start + step], totals[which][start : start + step])


def _series(dtype: Any) -> tuple[Any, ...]:
    return tuple(dtype.type(value) for value in (*_PSI_SERIES, 0.25, 0.5, 1.0, 0.0))


def threads() -> int:
    """Return torch's thread count if torch is in use, otherwise the number of processors of this process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lots(share: slice, pixels: int) -> list[slice]:
    step = max(1, _LOT // pixels)
    return [slice(start, min(start + step, share.stop)) for start in range(share.start, share.stop, step)]


def pair_maps(x: Floats, y: Floats) -> Floats:
    """Return Σ_c x², Σ_c y², Σ_c (x-y)² of pairs [pairs, channels, …], as one array [3, pairs, …]."""
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


@cache
def _boxes(size: tuple[int, ...], **layer: Any) -> Boxes:
    return Boxes(size, **layer)


def weighted(kxx: Floats, kyy: Floats, gap: Floats, *, gain: float, bias: float, **layer: Any) -> tuple[Floats, Floats]:
    """gain · (box sums) of maps [..., H, W] of kxx, kyy and d, the first two plus ``bias``; keywords of `box_sum`.

    Returns them as ``[3, ..., h, w]``, and their float64 sums over positions, ``[3, ...]``, found while they are in the
    caches.
    """
    *leading, height, width = kxx.shape
    boxes = _boxes((height, width), **layer)
    images = [np.ascontiguousarray(maps).reshape(-1, height, width) for maps in (kxx, kyy, gap)]
    out, sums = np.empty((3, len(images[0]), *boxes.out_size), kxx.dtype), np.empty((3, len(images[0])))
    number = kxx.dtype.type
    scale = (number(gain), number(bias), number(0))

    def work(share: slice) -> None:
        _weigh(_part(images, share), _part(out, share), _part(sums, share), boxes.geometry, scale)

    in_threads(work, len(images[0]), threads())
    return out.reshape(3, *leading, *boxes.out_size), sums.reshape(3, *leading)


def _part(three: Any, share: slice) -> tuple[Any, ...]:
    """Return a share of each of three maps, which stays contiguous."""
    return tuple(values[share] for values in three)


def rectified(kxx: Floats, kyy: Floats, gap: Floats, axes: int) -> tuple[Floats, Floats]:
    """`relu_step` into new maps ``[3, ...]``, and float64 sums over all but their first ``axes`` axes, ``[3, …]``."""
    leading = kxx.shape[:axes]
    lines = [np.ascontiguousarray(maps).reshape(math.prod(leading), -1) for maps in (kxx, kyy, gap)]
    out, sums = np.empty((3, *lines[0].shape), kxx.dtype), np.empty((3, len(lines[0])))
    series = _series(kxx.dtype)

    def work(share: slice) -> None:
        _rectify(_part(lines, share), _part(out, share), _part(sums, share), series)

    in_threads(work, len(lines[0]), threads())
    return out.reshape(3, *kxx.shape), sums.reshape(3, *leading)


def box_sums(maps: Floats, **layer: Any) -> Floats:
    """Return `_boxes.box_sum` of maps [..., H, W] with the same keywords, compiled."""
    *leading, height, width = maps.shape
    boxes = _boxes((height, width), **layer)
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


class Layer(NamedTuple):
    """Weights, gain · (box sums) + bias, then a ReLU if ``rectified``; ``windows``: keywords of `_boxes.box_sum`."""

    windows: Mapping[str, Any]
    gain: float = 1.0
    bias: float = 0.0
    rectified: bool = True


class Stack:
    """Consecutive layers on maps of ``size``: made once for many calls of `sums`."""

    def __init__(self, size: Sequence[int], layers: Sequence[Layer]) -> None:
        self.size, self._layers = tuple(size), list(layers)
        self._boxes: list[Boxes] = []
        for layer in layers:
            before = self._boxes[-1].out_size if self._boxes else size
            self._boxes.append(Boxes(before, **layer.windows))
        self.out_size = tuple(self._boxes[-1].out_size) if layers else self.size

    def sums(self, x: Floats, y: Floats) -> Floats:
        """float64 sums over the last positions [3, pairs] of kxx, kyy and d, of pairs [pairs, channels, H, W].

        In addition to the result it holds the maps of one lot and layer in each thread.
        """
        pairs, channels = x.shape[:2]
        pixels, sums, series = math.prod(self.size), np.empty((3, pairs)), _series(x.dtype)

        def work(share: slice) -> None:
            for part in _lots(share, pixels):
                u, v = (np.ascontiguousarray(images[part]).reshape(-1, channels, pixels) for images in (x, y))
                maps = np.empty((3, len(u), pixels), x.dtype)
                _channel_sums(u, v, maps[0], maps[1], maps[2])
                maps = self._through(maps.reshape(3, len(u), *self.size), series)
                totals = np.empty(3 * len(u))
                _totals(maps.reshape(3 * len(u), -1), totals)
                sums[:, part] = totals.reshape(3, -1)

        in_threads(work, pairs, threads())
        return sums

    def _through(self, maps: Floats, series: tuple[Any, ...]) -> Floats:
        """Return maps [3, pairs, H, W] after all layers."""
        number = maps.dtype.type
        for layer, boxes in zip(self._layers, self._boxes, strict=True):
            before, maps = maps, np.empty((*maps.shape[:2], *boxes.out_size), maps.dtype)
            scale = (number(layer.gain), number(layer.bias), number(0))
            _relu_layer(before, maps, boxes.geometry, scale, series, layer.rectified)
        return maps


def relu_layer_sums(x: Floats, y: Floats, **layer: Any) -> Floats:
    """One random ReLU layer with weights of variance 1 on pairs [pairs, channels, H, W]; keywords of `_boxes.box_sum`.

    Returns float64 sums over positions [3, pairs]: E‖R(F∗x)‖², E‖R(F∗y)‖², E‖R(F∗x) - R(F∗y)‖² for one filter.
    """
    return Stack(x.shape[2:], [Layer(layer)]).sums(x, y)
