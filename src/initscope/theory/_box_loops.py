"""Compiled box sums on the CPU (numba, optional): windows of any geometry on maps, by sums of shifted lines.

Same results as `_boxes.box_sum`, to rounding. Importing this module imports numba; see `_fast.fused_loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from initscope._hall.compiled import compiled
from initscope.theory._boxes import box_sum, output_size

__all__ = ["Boxes", "box_sum_into", "compile_loop", "room_for", "windows"]

Floats = npt.NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_STRIP = 1 << 14  # padded pixels of a strip of rows: its lines stay in the caches


def compile_loop(function: Function) -> Function:
    # reassoc lets sums vectorise, contract allows fused multiply-add; NaN and infinity keep their meaning.
    return compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


@compile_loop
def windows(line: Floats, spare: Floats, total: Floats, taps: int, spread: int) -> None:
    """Sums of ``taps`` entries of ``line``, ``spread`` apart, into the beginning of ``total``, which is as long.

    Windows double, and take one entry more where the binary digits of ``taps`` say so: 1, 2, 5, 11.
    """
    digits = 0
    while taps >> (digits + 1):
        digits += 1
    shorter, width = line, 1
    if digits == 0:
        for j in range(line.shape[0]):
            total[j] = line[j]
    for digit in range(digits - 1, -1, -1):
        one = (taps >> digit) & 1
        # Slices, not offsets: a signed offset is checked at every access, and the loop stays scalar.
        first, second = shorter[spread * one :], shorter[spread * (one + width) :]
        width = 2 * width + one
        shorter = spare if digit % 2 else total
        sums = shorter[: line.shape[0] - spread * (width - 1)]
        if one:
            for j in range(sums.shape[0]):
                sums[j] = line[j] + first[j] + second[j]
        else:
            for j in range(sums.shape[0]):
                sums[j] = first[j] + second[j]


@compile_loop
def _pad(image: Floats, rows: Any, columns: Any, before: int, line: Floats) -> None:
    """The rows of ``image`` [H, W] that ``rows`` names, padded as ``columns`` says (-1: zero), into ``line``."""
    width, pitch = image.shape[1], columns.shape[0]
    for i in range(rows.shape[0]):
        row = line[i * pitch : (i + 1) * pitch]
        if rows[i] < 0:
            row[:] = 0
            continue
        pixels, middle = image[rows[i]], row[before : before + width]
        for j in range(width):
            middle[j] = pixels[j]
        for j in range(before):
            row[j] = pixels[columns[j]] if columns[j] >= 0 else 0
        for j in range(before + width, pitch):
            row[j] = pixels[columns[j]] if columns[j] >= 0 else 0


@compile_loop
def _pick(line: Floats, out: Floats, stride: Any, pitch: int, gain: Any, bias: Any) -> None:
    """Every stride-th window sum of ``line``, times ``gain`` plus ``bias``, into ``out`` [h, w]."""
    for i in range(out.shape[0]):
        row, target = line[i * stride[0] * pitch :], out[i]
        if stride[1] == 1:
            for j in range(target.shape[0]):
                target[j] = gain * row[j] + bias
        else:
            for j in range(target.shape[0]):
                target[j] = gain * row[j * stride[1]] + bias


@compile_loop
def _is_three_by_three(image: Floats, out: Floats, boxes: Any) -> bool:
    """Whether these are 3×3 taps around every pixel, of a map that is not a line."""
    (rows, columns, before), taps, spread, stride = boxes
    height, width = image.shape
    own = min(height, width) > 1 and before == 1 and rows.shape[0] == height + 2 and columns.shape[0] == width + 2
    return bool(own and min(taps) == max(taps) == 3 and max(spread) == 1 and max(stride) == 1 and rows[1] == 0)


@compile_loop
def _three_by_three(image: Floats, out: Floats, rows: Any, columns: Any, scale: Any, line: Floats) -> None:
    """3×3 sums without a padded copy: along the whole image at once, then what stands at its borders is put right."""
    height, width = image.shape
    gain, bias = scale
    pixels, sums = image.reshape(-1), out.reshape(-1)
    across = line[: pixels.shape[0]]
    inner, one, two = across[1:-1], pixels[1:], pixels[2:]
    for j in range(inner.shape[0]):
        inner[j] = pixels[j] + one[j] + two[j]
    left, right = columns[0], columns[width + 1]
    for i in range(height):
        row = image[i]
        across[i * width] = row[0] + row[1] + (row[left] if left >= 0 else 0)
        across[(i + 1) * width - 1] = row[width - 2] + row[width - 1] + (row[right] if right >= 0 else 0)
    inner, one, two = sums[width:-width], across[width:], across[2 * width :]
    for j in range(inner.shape[0]):
        inner[j] = gain * (across[j] + one[j] + two[j]) + bias
    for i, beside, outside in ((0, 1, rows[0]), (height - 1, height - 2, rows[height + 1])):
        target, own, near = out[i], across[i * width :], across[beside * width :]
        for j in range(width):
            target[j] = gain * (own[j] + near[j]) + bias
        if outside >= 0:
            far = across[outside * width :]
            for j in range(width):
                target[j] += gain * far[j]


@compile_loop
def _strip(boxes: Any, height: int) -> tuple[int, int]:
    """Output rows that are worked on together, and the padded pixels that these read: they stay in the caches."""
    (_, columns, _), taps, spread, stride = boxes
    reach, pitch = spread[0] * (taps[0] - 1), columns.shape[0]
    rows = min(height, max(1, (_STRIP // pitch - reach) // stride[0], 4 * reach // stride[0]))
    return rows, ((rows - 1) * stride[0] + 1 + reach) * pitch


@compile_loop
def box_sum_into(image: Floats, out: Floats, boxes: Any, scale: Any, room: Any) -> None:
    """gain · (window sums) + bias of ``image`` [H, W] into ``out`` [h, w]; ``scale`` holds gain and bias.

    ``boxes``: which row and column stands at every padded place (-1: zero), how many columns are padded before, taps,
    their distance, stride. The padded rows of a strip lie end to end in one line of ``room``, so that both directions
    are sums of shifted lines: windows that run over the end of a row are computed too, and never read.
    """
    (rows, columns, before), taps, spread, stride = boxes
    pitch, height = columns.shape[0], out.shape[0]
    first, second, third = room
    together, _ = _strip(boxes, height)
    if together == height and _is_three_by_three(image, out, boxes):
        _three_by_three(image, out, rows, columns, scale, first)
        return
    for start in range(0, height, together):
        stop = min(start + together, height)
        lines = (stop - start - 1) * stride[0] + 1 + spread[0] * (taps[0] - 1)
        _pad(image, rows[start * stride[0] : start * stride[0] + lines], columns, before, first)
        windows(first[: lines * pitch], second, third, taps[1], spread[1])
        windows(third[: lines * pitch - spread[1] * (taps[1] - 1)], second, first, taps[0], pitch * spread[0])
        _pick(first, out[start:stop], stride, pitch, scale[0], scale[1])


@compile_loop
def room_for(boxes: Any, out: Floats) -> Any:
    """Lines for `box_sum_into` ``out`` [..., h, w]."""
    size = _strip(boxes, out.shape[-2])[1]
    return np.zeros(size, out.dtype), np.zeros(size, out.dtype), np.zeros(size, out.dtype)


@compile_loop
def _box_sums(images: Floats, out: Floats, boxes: Any, scale: Any) -> None:
    """`box_sum_into` of ``images`` [n, H, W]."""
    room = room_for(boxes, out)
    for index in range(images.shape[0]):
        box_sum_into(images[index], out[index], boxes, scale, room)


class Boxes:
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

    @property
    def geometry(self) -> tuple[Any, ...]:
        """As the loops read it."""
        return (self._rows, self._columns, self._before), self._taps, self._spread, self._stride

    def into(self, images: Floats, out: Floats) -> None:
        """Box sums of ``images`` [n, H, W] into ``out`` [n, …], in the calling thread."""
        number = out.dtype.type
        _box_sums(images, out, self.geometry, (number(1), number(0)))
