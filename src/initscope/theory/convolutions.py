"""A convolution as a matrix: block Toeplitz, block circulant with cyclic padding. For small sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_count
from initscope.theory._boxes import box_sum
from initscope.theory.images._windows import Padding, Windows

__all__ = ["block_toeplitz"]

LARGEST = 1 << 25
"""Entries of the largest matrix that is made: a quarter of a gigabyte."""


def block_toeplitz(
    kernel: npt.ArrayLike,
    size: Sequence[int],
    *,
    padding: Padding = "circular",
    padding_mode: str = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> npt.NDArray[np.float64]:
    r"""Return the matrix A of a convolution: ``A @ x.ravel()`` is the output of the layer on ``x``, unrolled.

    A convolutional layer is a dense layer whose matrix repeats its weights. At stride 1 its blocks are Toeplitz (equal
    along diagonals) and so is their arrangement; with cyclic padding both are circulant. [Bronstein2016]_ reads a
    convolutional layer so.

    Parameters
    ----------
    kernel
        ``[out, in, …]`` as in ``torch.nn.Conv2d``, with one, two or three axes of taps.
    size
        Positions of the input along each of these axes.
    padding, padding_mode, stride, dilation
        As in `initscope.theory.images.expected_inner`: "circular" by default, which is the paper's cyclic convolution.

    >>> taps = np.array([[[1, 2, 3]]])
    >>> block_toeplitz(taps, [4]).astype(int).tolist()      # weights before, at and after the position
    [[2, 3, 0, 1], [1, 2, 3, 0], [0, 1, 2, 3], [3, 0, 1, 2]]
    """
    weights = np.asarray(kernel, dtype=np.float64)
    sides = tuple(check_count("size", side) for side in size)
    if weights.ndim != len(sides) + 2 or not 1 <= len(sides) <= 3:
        raise InputError(
            f"a kernel of shape {weights.shape} must be [out, in, taps …] with one axis of taps for each of the "
            f"{len(sides)} of size = {sides}"
        )
    taps = weights.shape[2:]
    windows = Windows.read(sides, taps, padding=padding, padding_mode=padding_mode, stride=stride, dilation=dilation)
    # The numbers of the pixels, from 1 on, padded as the layer pads: 0 is outside.
    ones = (1,) * len(sides)
    numbers = np.arange(1.0, math.prod(sides) + 1).reshape(sides)
    padded = box_sum(
        numbers,
        kernel_size=ones,
        stride=ones,
        dilation=ones,
        padding=windows.padding,
        padding_mode=windows.padding_mode,
    )
    reads = np.stack([_seen_by(windows, padded, tap) for tap in np.ndindex(*taps)])
    outputs, inputs, rows, columns = *weights.shape[:2], reads.shape[1], math.prod(sides)
    if outputs * rows * inputs * columns > LARGEST:
        raise InputError(
            f"the matrix would be {outputs * rows} × {inputs * columns}, more than {LARGEST:,} entries; "
            "use smaller images"
        )
    matrix = np.zeros((rows, columns, outputs, inputs))
    for seen, values in zip(reads, weights.reshape(outputs, inputs, -1).transpose(2, 0, 1), strict=True):
        inside = np.flatnonzero(seen)
        matrix[inside, seen[inside] - 1] += values  # a position reads one pixel a tap: no index comes twice
    return matrix.transpose(2, 0, 3, 1).reshape(outputs * rows, inputs * columns)


def _seen_by(windows: Windows, padded: npt.NDArray[np.float64], tap: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the number of the pixel that this tap reads at each position."""
    spans = [spread * (taps - 1) for taps, spread in zip(windows.kernel_size, windows.dilation, strict=True)]
    axes = zip(tap, windows.dilation, padded.shape, spans, windows.stride, strict=True)
    cut = tuple(slice(k * spread, length - span + k * spread, step) for k, spread, length, span, step in axes)
    return padded[cut].ravel().astype(np.int64)
