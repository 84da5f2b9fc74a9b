"""Kernel matrices of plain ReLU stacks by the compiled loops: one image against blocks of others, layer after layer.

Computed in float32, variances in float64. Compared with float64, entries differ by a few 1e-7 of the kernel's
magnitude, and those of the tangent kernel by up to 1e-4 for nearly equal images, where it has a kink; its diagonal is
accurate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope._utils.compiled import in_threads
from initscope.propagate.kernels import _fused
from initscope.propagate.kernels.pooled import OffsetRecursion
from initscope.propagate.kernels.relu_stack import Rectified, ReluStack, Step, Sums
from initscope.propagate.kernels.sides import Ends, Part, Side, meetings
from initscope.propagate.windows import FilterTaps
from initscope.theory._fused import threads

__all__ = ["stack_diagonal", "stack_kernel"]

Floats = npt.NDArray[Any]
_BLOCK = 1 << 16  # map entries of a block: its maps and their padded copies stay in the caches
_LANES = 16  # others that a block has at least


@dataclass(frozen=True)
class FilterBoxes:
    """Positions of a filter's taps in the format of the loops."""

    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    width: int
    taps: tuple[int, ...]
    spread: tuple[int, ...]
    stride: tuple[int, ...]
    out_size: tuple[int, ...]
    before: int | None
    """Padded columns before the first of the map's own, which follow each other; None if there is a stride."""

    @classmethod
    def of(cls, taps: FilterTaps, size: Sequence[int]) -> FilterBoxes:
        """For maps of ``size``."""
        rows, columns = (sites.numpy().astype(np.int64) for sites in taps.sites(tuple(size)))
        spread = tuple(d * (k - 1) + 1 for d, k in zip(taps.dilation, taps.kernel_size, strict=True))
        out = tuple(
            (len(sites) - reach) // step + 1
            for sites, reach, step in zip((rows, columns), spread, taps.stride, strict=True)
        )
        return cls(
            rows, columns, size[1], taps.kernel_size, taps.dilation, taps.stride, out, _before(taps, columns, size[1])
        )

    @property
    def padded(self) -> int:
        """Number of positions with padding."""
        return len(self.rows) * len(self.columns)


def _before(taps: FilterTaps, columns: npt.NDArray[np.int64], width: int) -> int | None:
    """First column of the unpadded map."""
    inner = np.arange(width)
    offsets = range(len(columns) - width + 1) if max(taps.stride) == 1 else ()
    return next((start for start in offsets if np.array_equal(columns[start : start + width], inner)), None)


def stack_kernel(stack: ReluStack, images: Tensor, others: Tensor | None, *, tangent: bool) -> tuple[Floats, ...]:
    """Return covariances of all pairs and the variances of both sides; of the tangent kernel if ``tangent``.

    ``images``, ``others``: ``[images, channels, height, width]`` or ``[images, features]``; None: the same.
    """
    means = _maps(stack, images, others, tangent) if stack.image_steps else _vectors(images, others, tangent)
    left, right = (Ends(stack.dense_steps, *moments, tangents=tangent) for moments in means.with_itself)
    _dense(stack.dense_steps, left, right, means.k, means.theta)
    result = means.k if means.theta is None else means.theta
    if others is None:
        np.fill_diagonal(result, left.value)
    return result, left.value, right.value


def stack_diagonal(stack: ReluStack, images: Tensor, *, tangent: bool) -> Floats:
    """Return the kernel of each image with itself for a pooled stack: ``[images]``."""
    side = Side(stack.image_steps, images, tangent=tangent)
    moments = (
        part / stack.mean.pooled**2 for part in OffsetRecursion.of(stack, side, tangent=tangent).with_itself(side)
    )
    return Ends(stack.dense_steps, *moments, tangents=tangent).value


@dataclass(frozen=True)
class _Means:
    """Over all positions of the last maps, or of vectors: covariances of all pairs, their tangents if wanted.

    ``with_itself``: variances and tangents of each image of both sides, in float64.
    """

    k: Floats
    theta: Floats | None
    with_itself: tuple[tuple[Tensor, Tensor], ...]


def _vectors(images: Tensor, others: Tensor | None, tangent: bool) -> _Means:
    """Before the first weights."""
    sides = [side.flatten(1) for side in (images, images if others is None else others)]
    k = sides[0].float().numpy() @ sides[1].float().numpy().T
    squares = [side.double().square().sum(dim=1) for side in sides]
    return _Means(
        k, np.zeros_like(k) if tangent else None, tuple((values, torch.zeros_like(values)) for values in squares)
    )


def _maps(stack: ReluStack, images: Tensor, others: Tensor | None, tangent: bool) -> _Means:
    """Return the values after the steps on maps; for a symmetric matrix, one half is computed."""
    left = Side(stack.image_steps, images, tangent=tangent)
    right = left if others is None else Side(stack.image_steps, others, tangent=tangent)
    positions, alike = math.prod(left.sizes[-1]), others is None
    count = positions**2 if stack.mean.pooled else positions
    if stack.mean.pooled:
        walk = OffsetRecursion.of(stack, left, tangent=tangent)
        sums, squares = (
            walk.pairs(left, right, alike=alike),
            [walk.with_itself(side) for side in (left, right)[: 2 - alike]],
        )
    else:
        sums = _pairs(stack, left, right, tangent=tangent, alike=alike)
        squares = [(side.variance.sum(dim=1), side.tangent.sum(dim=1)) for side in (left, right)]
    matrices = [(part.reshape(len(left), -1)[:, : len(right)] / count).astype(np.float32) for part in sums]
    if alike:
        lower = np.tril_indices(len(left), -1)
        for matrix in matrices:
            matrix[lower] = matrix.T[lower]
    means = [(variance / count, tangents / count) for variance, tangents in squares]
    return _Means(matrices[0], matrices[1] if tangent else None, (means[0], means[-1]))


def _pairs(stack: ReluStack, left: Side, right: Side, *, tangent: bool, alike: bool) -> list[Floats]:
    """Return sums over positions, ``[images, blocks, lanes]``: covariances, and tangents if wanted."""
    lanes = _LANES * max(1, _BLOCK // max(map(math.prod, left.sizes)) // _LANES)
    blocks = right.blocks(lanes)
    totals = [np.zeros((len(left), len(blocks), lanes), np.float32) for _ in range(2 if tangent else 1)]
    boxes = [
        FilterBoxes.of(step.taps, size) if isinstance(step, Sums) and step.taps is not None else None
        for step, size in zip(stack.image_steps, left.sizes)
    ]
    tasks = meetings(len(left), len(blocks), lanes, alike=alike)
    compute = partial(_add, totals, list(zip(stack.image_steps, boxes)), left, blocks, tasks)
    in_threads(compute, len(tasks), threads())
    return totals


def _add(
    totals: Sequence[Floats], steps: Any, left: Side, blocks: Sequence[Part], tasks: Sequence[Any], share: slice
) -> None:
    """A share of the tasks: an image and a block."""
    images, lanes = left.single(), totals[0].shape[-1]
    largest = max([*map(math.prod, left.sizes), *(box.padded for _, box in steps if box is not None)])
    scratch, sums = _fused.Scratch(largest * lanes), np.empty(lanes)
    for i, b in tasks[share]:
        for total, maps in zip(totals, _through(steps, images[i], blocks[b], scratch, tangent=len(totals) > 1)):
            assert maps is not None
            _fused.position_sums(maps, sums)
            total[i, b] = sums


def _through(
    steps: Any, anchor: Part, block: Part, scratch: _fused.Scratch, *, tangent: bool
) -> tuple[Floats, Floats | None]:
    """Return covariances, and tangents if wanted, of an image and a block of others: ``[positions, lanes]``."""
    k = np.empty(block.images.shape[1:], np.float32)
    _fused.products(anchor.images, block.images, k)
    theta: Floats | None = None
    for index, (step, box) in enumerate(steps):
        if isinstance(step, Sums):
            assert box is not None
            before, k = k, np.empty((math.prod(box.out_size), block.images.shape[2]), np.float32)
            _fused.box_sums(before, k, box, step.gain, step.bias, scratch)
            if tangent:
                moved = np.zeros_like(k)
                if theta is not None:
                    _fused.box_sums(theta, moved, box, step.gain, 0.0, scratch)
                theta = moved + k
        else:
            _rectify(k, theta, anchor.deviations[index], block.deviations[index])
    return k, theta


def _rectify(k: Floats, theta: Floats | None, anchor: Floats, others: Floats) -> None:
    """A ReLU, in place; the deviations of the others come with their inverses."""
    deviations, inverse = others
    if theta is not None:  # first: the slopes want the covariances before the ReLU
        _fused.rectify_tangent(k, theta, anchor, inverse, _fused.coefficients())
    _fused.rectify(k, anchor, deviations, inverse, _fused.coefficients())


def _dense(steps: Sequence[Step], left: Ends, right: Ends, k: Floats, theta: Floats | None) -> None:
    """The steps on vectors, in place, row by row."""
    columns = {
        index: np.ascontiguousarray(right.deviations[index].transpose(1, 2, 0))
        for index, step in enumerate(steps)
        if isinstance(step, Rectified)
    }

    def through(i: int, row: Floats, tangents: Floats | None) -> None:
        for index, step in enumerate(steps):
            if isinstance(step, Rectified):
                _rectify(row, tangents, left.deviations[index][i], columns[index])
                continue
            row *= step.gain
            row += step.bias
            if tangents is not None:
                tangents *= step.gain
                tangents += row

    def compute(share: slice) -> None:
        for i in range(share.start, share.stop):
            through(i, k[i : i + 1], None if theta is None else theta[i : i + 1])

    in_threads(compute, len(k), threads())
