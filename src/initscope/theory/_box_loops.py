"""Compiled box sums on the CPU (numba, optional): windows of any geometry on maps, by sums of shifted lines.

Same results as `_boxes.box_sum`, to rounding. Importing this module imports numba; see `_fast.fused_loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from initscope._utils.compiled import compiled
from initscope.theory._boxes import box_sum, output_size

__all__ = ["Boxes", "box_sum_into", "compile_loop", "scratch_for", "windows"]

Floats = npt.NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_MANY = 5  # taps from which on rows are summed in blocks
_STRIP = 1 << 14  # padded pixels of a strip of rows: its lines stay in the caches


def compile_loop(function: Function) -> Function:
    # reassoc lets sums vectorize, contract allows fused multiply-add; NaN and infinity keep their meaning.
    return compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


@compile_loop
def windows(line: Floats, spare: Floats, total: Floats, taps: int, spread: int) -> None:
    """Sums of ``taps`` entries of ``line``, ``spread`` apart, into the beginning of ``total``, which is as long.

    Windows double, and add one entry for each set binary digit of ``taps``: 1, 2, 5, 11.
    """
    digits = 0
    while taps >> (digits + 1):
        digits += 1
    shorter, width = line, 1
    if digits == 0:
        for j in range(line.shape[0]):
            total[j] = line[j]
    for digit in range(digits - 1, -1, -1):
        odd = (taps >> digit) & 1
        # Slices, not offsets: a signed offset is checked at every access, and the loop stays scalar.
        first, second = shorter[spread * odd :], shorter[spread * (odd + width) :]
        width = 2 * width + odd
        shorter = spare if digit % 2 else total
        sums = shorter[: line.shape[0] - spread * (width - 1)]
        if odd:
            for j in range(sums.shape[0]):
                sums[j] = line[j] + first[j] + second[j]
        else:
            for j in range(sums.shape[0]):
                sums[j] = first[j] + second[j]


@compile_loop
def _few_rows(image: Floats, rows: Any, line: Floats, taps: int, spread: int) -> None:
    """Into ``line`` the sum of every spread-th of the rows of ``image`` [H, W] that ``rows`` names, ``taps`` in all."""
    if taps == 3 and min(rows[0], rows[spread], rows[2 * spread]) >= 0:
        first, second, third = image[rows[0]], image[rows[spread]], image[rows[2 * spread]]
        for j in range(line.shape[0]):
            line[j] = first[j] + second[j] + third[j]
        return
    if rows[0] >= 0:
        pixels = image[rows[0]]
        for j in range(line.shape[0]):
            line[j] = pixels[j]
    else:
        line[:] = 0
    for tap in range(1, taps):
        if rows[spread * tap] >= 0:
            pixels = image[rows[spread * tap]]
            for j in range(line.shape[0]):
                line[j] += pixels[j]


@compile_loop
def _block_ends(image: Floats, rows: Any, ends: Floats, width: int, least: int) -> None:
    """Sums of the last rows that ``rows`` names (-1: zero): of one, of two, … of all but the first ``least``."""
    last = rows.shape[0] - 1
    _few_rows(image, rows[last:], ends[last * width : (last + 1) * width], 1, 1)
    for k in range(last - 1, least - 1, -1):
        above, below = ends[k * width : (k + 1) * width], ends[(k + 1) * width :]
        if rows[k] >= 0:
            pixels = image[rows[k]]
            for j in range(above.shape[0]):
                above[j] = pixels[j] + below[j]
        else:
            for j in range(above.shape[0]):
                above[j] = below[j]


@compile_loop
def _row_sums(image: Floats, rows: Any, into: Floats, boxes: Any, scratch: Any) -> None:
    """Compute sums over the taps of a column of filters: one line of ``into`` per output row, without the padding.

    A few taps are added one by one. For many taps, rows are grouped in blocks of that many rows: a window consists of
    the end of one block, summed backwards from its last row, and the beginning of the next. The cost does not depend on
    the number of taps, and nothing is subtracted, so small sums after large ones keep their digits.
    """
    (_, columns, before), all_taps, all_spread, all_stride = boxes
    taps, spread, stride, pitch, width = all_taps[0], all_spread[0], all_stride[0], columns.shape[0], image.shape[1]
    ends, begun = scratch[0], scratch[1][:width]
    block, reached = -1, 0
    for i in range((rows.shape[0] - 1 - spread * (taps - 1)) // stride + 1):
        first, target = i * stride, into[i * pitch + before : i * pitch + before + width]
        if taps < _MANY or spread > 1:
            _few_rows(image, rows[first:], target, taps, spread)
            continue
        if first // taps != block:
            block, reached = first // taps, (first // taps + 1) * taps
            begun[:] = 0
            _block_ends(image, rows[block * taps : reached], ends, width, first - block * taps)
        for index in range(reached, first + taps):
            if rows[index] >= 0:
                pixels = image[rows[index]]
                for j in range(begun.shape[0]):
                    begun[j] += pixels[j]
        reached = max(reached, first + taps)
        end = ends[(first - block * taps) * width :]
        for j in range(target.shape[0]):
            target[j] = end[j] + begun[j]


@compile_loop
def _pad(line: Floats, columns: Any, before: int, width: int) -> None:
    """Fill the padding of every row of ``width`` pixels in ``line`` as ``columns`` says (-1: zero)."""
    pitch = columns.shape[0]
    for i in range(line.shape[0] // pitch):
        row = line[i * pitch : (i + 1) * pitch]
        for j in range(before):
            row[j] = row[before + columns[j]] if columns[j] >= 0 else 0
        for j in range(before + width, pitch):
            row[j] = row[before + columns[j]] if columns[j] >= 0 else 0


@compile_loop
def _pick(line: Floats, out: Floats, stride: int, pitch: int, gain: Any, bias: Any) -> None:
    """Every stride-th window sum of each row of ``line``, times ``gain`` plus ``bias``, into ``out`` [h, w]."""
    for i in range(out.shape[0]):
        row, target = line[i * pitch :], out[i]
        if stride == 1:
            for j in range(target.shape[0]):
                target[j] = gain * row[j] + bias
        else:
            for j in range(target.shape[0]):
                target[j] = gain * row[j * stride] + bias


@compile_loop
def _is_three_by_three(image: Floats, out: Floats, boxes: Any) -> bool:
    """Return whether these are 3×3 taps around every pixel, of a map that is not a line."""
    (rows, columns, before), taps, spread, stride = boxes
    height, width = image.shape
    plain = min(height, width) > 1 and before == 1 and rows.shape[0] == height + 2 and columns.shape[0] == width + 2
    return bool(plain and min(taps) == max(taps) == 3 and max(spread) == 1 and max(stride) == 1 and rows[1] == 0)


@compile_loop
def _three_by_three(image: Floats, out: Floats, rows: Any, columns: Any, scale: Any, line: Floats) -> None:
    """Compute 3×3 sums without a padded copy: along the whole image first, then corrected at the borders."""
    height, width = image.shape
    gain, bias = scale
    pixels, sums = image.reshape(-1), out.reshape(-1)
    across = line[: pixels.shape[0]]
    inner, middle, last = across[1:-1], pixels[1:], pixels[2:]
    for j in range(inner.shape[0]):
        inner[j] = pixels[j] + middle[j] + last[j]
    left, right = columns[0], columns[width + 1]
    for i in range(height):
        row = image[i]
        across[i * width] = row[0] + row[1] + (row[left] if left >= 0 else 0)
        across[(i + 1) * width - 1] = row[width - 2] + row[width - 1] + (row[right] if right >= 0 else 0)
    inner, middle, last = sums[width:-width], across[width:], across[2 * width :]
    for j in range(inner.shape[0]):
        inner[j] = gain * (across[j] + middle[j] + last[j]) + bias
    for i, neighbor, outside in ((0, 1, rows[0]), (height - 1, height - 2, rows[height + 1])):
        target, center, near = out[i], across[i * width :], across[neighbor * width :]
        for j in range(width):
            target[j] = gain * (center[j] + near[j]) + bias
        if outside >= 0:
            far = across[outside * width :]
            for j in range(width):
                target[j] += gain * far[j]


@compile_loop
def _strip(boxes: Any, height: int) -> Any:
    """Output rows that are worked on together: their lines stay in the caches."""
    (_, columns, _), taps, _, stride = boxes
    return min(height, max(1, _STRIP // columns.shape[0], 4 * taps[0] // stride[0]))


@compile_loop
def box_sum_into(image: Floats, out: Floats, boxes: Any, scale: Any, scratch: Any) -> None:
    """gain · (window sums) + bias of ``image`` [H, W] into ``out`` [h, w]; ``scale`` holds gain and bias.

    ``boxes``: which row and column stands at every padded position (-1: zero), how many columns are padded before,
    taps, their distance, stride. Sums over the rows of a strip lie end to end in one line of ``room``, so that sums
    over columns are sums of shifted lines: windows that run over the end of a row are computed too, and never read.
    """
    (rows, columns, before), taps, spread, stride = boxes
    pitch, height = columns.shape[0], out.shape[0]
    first, second, third = scratch
    together = _strip(boxes, height)
    if together == height and _is_three_by_three(image, out, boxes):
        _three_by_three(image, out, rows, columns, scale, first)
        return
    for start in range(0, height, together):
        stop = min(start + together, height)
        read = rows[start * stride[0] : (stop - 1) * stride[0] + 1 + spread[0] * (taps[0] - 1)]
        line = first[: (stop - start) * pitch]
        _row_sums(image, read, line, boxes, (second, third))
        _pad(line, columns, before, image.shape[1])
        windows(line, second, third, taps[1], spread[1])
        _pick(third, out[start:stop], stride[1], pitch, scale[0], scale[1])


@compile_loop
def scratch_for(boxes: Any, image: Floats, out: Floats) -> Any:
    """Lines for `box_sum_into` ``out`` [..., h, w] from ``image`` [..., H, W]."""
    (_, columns, _), taps, _, _ = boxes
    size = max(_strip(boxes, out.shape[-2]) * columns.shape[0], taps[0] * image.shape[-1])
    return np.zeros(size, out.dtype), np.zeros(size, out.dtype), np.zeros(size, out.dtype)


@compile_loop
def _box_sums(images: Floats, out: Floats, boxes: Any, scale: Any) -> None:
    """`box_sum_into` of ``images`` [n, H, W]."""
    scratch = scratch_for(boxes, images, out)
    for index in range(images.shape[0]):
        box_sum_into(images[index], out[index], boxes, scale, scratch)


class Boxes:
    """Box sums of one geometry: `out_size`, and `into`, which applies them to a batch of images."""

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
        window: dict[str, Any] = {"kernel_size": (1,), "stride": (1,), "dilation": (1,), "padding_mode": padding_mode}
        self._rows, self._columns = (
            box_sum(np.arange(1, length + 1), padding=(pair,), **window) - 1 for length, pair in zip(size, padding)
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
