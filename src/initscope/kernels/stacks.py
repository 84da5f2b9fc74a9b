"""Kernel matrices of plain ReLU stacks by the compiled loops: one image against blocks of others, layer after layer.

Two positions of a map at an offset read, through filters, two positions at the offset times the stride. So a network
that averages the positions of its last map goes through the loops once for every offset there, on those parts of both
images that have partners, or on one of them rolled where filters wrap around the edges. The filters, padding and all,
are the same at every offset. Other networks have offset 0 alone.

Computed in float32, variances in float64. Against float64 entries differ by a few 1e-7 of the kernel's size, those of
the tangent kernel by up to 1e-4 for images that are nearly equal, where it has a kink; its diagonal has none of that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope._hall.compiled import in_threads
from initscope.kernels import _fused
from initscope.kernels.chain import Chain, Rectified, Step, Sums
from initscope.kernels.sides import Ends, Part, Side
from initscope.propagate.windows import FilterTaps, Offset
from initscope.theory._fused import threads

__all__ = ["stack_kernel"]

Floats = npt.NDArray[Any]
_BLOCK = 1 << 16  # map entries of a block: its maps and their padded copies stay in the caches
_LANES = 16  # others that a block has at least


@dataclass(frozen=True)
class Boxes:
    """Where the taps of a filter are, as the loops read it."""

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
    def of(cls, taps: FilterTaps, size: Sequence[int]) -> Boxes:
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
        """Positions with what is padded."""
        return len(self.rows) * len(self.columns)


def _before(taps: FilterTaps, columns: npt.NDArray[np.int64], width: int) -> int | None:
    """Where the map's own columns begin."""
    own = np.arange(width)
    places = range(len(columns) - width + 1) if max(taps.stride) == 1 else ()
    return next((place for place in places if np.array_equal(columns[place : place + width], own)), None)


def stack_kernel(chain: Chain, images: Tensor, others: Tensor | None, *, tangent: bool) -> tuple[Floats, ...]:
    """Covariances of all pairs and the variances of both sides; of the tangent kernel if ``tangent``. float32 inside.

    ``images``, ``others``: ``[images, channels, height, width]`` or ``[images, features]``; None: the same.
    """
    means = _maps(chain, images, others, tangent) if chain.image_steps else _vectors(images, others, tangent)
    left, right = (Ends(chain.dense_steps, *own, tangents=tangent) for own in means.own)
    _dense(chain.dense_steps, left, right, means.k, means.theta)
    result = means.k if means.theta is None else means.theta
    if others is None:
        np.fill_diagonal(result, left.value)
    return result, left.value, right.value


@dataclass(frozen=True)
class _Means:
    """Over all positions of the last maps, or of vectors: covariances of all pairs, their tangents if wanted.

    ``own``: variances and tangents of each image of both sides, in float64.
    """

    k: Floats
    theta: Floats | None
    own: tuple[tuple[Tensor, Tensor], ...]


def _vectors(images: Tensor, others: Tensor | None, tangent: bool) -> _Means:
    """Before the first weights."""
    sides = [side.flatten(1) for side in (images, images if others is None else others)]
    k = sides[0].float().numpy() @ sides[1].float().numpy().T
    squares = [side.double().square().sum(dim=1) for side in sides]
    return _Means(k, np.zeros_like(k) if tangent else None, tuple((each, torch.zeros_like(each)) for each in squares))


def _maps(chain: Chain, images: Tensor, others: Tensor | None, tangent: bool) -> _Means:
    """Behind the steps on maps; of a symmetric matrix one half is computed."""
    left = Side(chain.image_steps, images, tangent=tangent)
    right = left if others is None else Side(chain.image_steps, others, tangent=tangent)
    lanes = _LANES * max(1, _BLOCK // max(map(math.prod, left.sizes)) // _LANES)
    blocks = right.blocks(lanes)
    # Block by block: what is known of a block stays in the caches while all images meet it.
    tasks = [
        (i, b, b)
        for b in range(len(blocks))
        for i in range(min(len(left), (b + 1) * lanes) if others is None else len(left))
    ]
    offsets, count = _offsets(chain, left.sizes[-1])
    sums = _sums(chain, left, blocks, offsets, tasks, tangent)
    matrices = [(each.reshape(len(left), -1)[:, : len(right)] / count).astype(np.float32) for each in sums]
    if others is None:
        lower = np.tril_indices(len(left), -1)
        for matrix in matrices:
            matrix[lower] = matrix.T[lower]
    own = [_own(chain, side, tangent) for side in ((left,) if others is None else (left, right))]
    return _Means(matrices[0], matrices[1] if tangent else None, (own[0], own[-1]))


def _own(chain: Chain, side: Side, tangent: bool) -> tuple[Tensor, Tensor]:
    """Of each image with itself; at offset 0 in float64."""
    offsets, count = _offsets(chain, side.sizes[-1])
    sums = [side.variance.sum(dim=1), side.tangent.sum(dim=1)]
    others = [each for each in offsets if any(each[-1])]
    if others:
        each = np.arange(len(side))
        tasks = [(i, i // _LANES, 0) for i in range(len(side))]
        for total, apart in zip(sums, _sums(chain, side, side.blocks(_LANES), others, tasks, tangent)):
            total += torch.from_numpy(apart[each, 0, each % _LANES])
    return sums[0] / count, sums[1] / count


def _offsets(chain: Chain, size: tuple[int, ...]) -> tuple[list[list[Offset]], int]:
    """Offsets at which two positions of the last map, of ``size``, count, and how many positions or pairs that makes.

    Each of them before every step and, last, behind all.
    """
    if not chain.mean.pooled:
        return [[(0, 0)] * (len(chain.image_steps) + 1)], math.prod(size)
    found = []
    for last in itertools.product(*(range(0 if chain.mean.wraps else 1 - n, n) for n in size)):
        offsets: list[Offset] = [last]
        for step in reversed(chain.image_steps):
            stride = step.taps.stride if isinstance(step, Sums) and step.taps is not None else (1, 1)
            offsets.insert(0, tuple(d * by for d, by in zip(offsets[0], stride, strict=True)))
        found.append(offsets)
    return found, math.prod(size) ** 2


def _sums(
    chain: Chain,
    left: Side,
    blocks: Sequence[Part],
    offsets: Sequence[Sequence[Offset]],
    tasks: Sequence[tuple[int, int, int]],
    tangent: bool,
) -> list[Floats]:
    """Sums over positions and offsets: ``[images, columns, lanes]``, and of tangents if wanted.

    ``tasks``: an image, a block, and the column where their sums stand.
    """
    lanes, columns = blocks[0].images.shape[-1], max(column for *_, column in tasks) + 1
    dtype = np.float64 if len(offsets) > 1 else np.float32
    totals = [np.zeros((len(left), columns, lanes), dtype) for _ in range(2 if tangent else 1)]
    single, wraps = left.single(), chain.mean.wraps
    for there in offsets:
        back = [tuple(-d for d in each) for each in there]
        none = [(0, 0)] * len(there)
        images = [part.cut(none if wraps else there) for part in single]
        others = [part.rolled(there) if wraps else part.cut(back) for part in blocks]
        apart = _Apart.of(chain.image_steps, left.sizes, none if wraps else there)
        in_threads(partial(_add, totals, apart, images, others, tasks), len(tasks), threads())
    return totals


@dataclass(frozen=True)
class _Apart:
    """The steps on maps of two positions at an offset: where the filters' taps are, how large the largest map is."""

    steps: Sequence[Step]
    boxes: Sequence[Boxes | None]
    largest: int

    @classmethod
    def of(cls, steps: Sequence[Step], sizes: Sequence[tuple[int, ...]], cut: Sequence[Offset]) -> _Apart:
        """For maps of ``sizes`` before every step and behind all, less what is cut off there."""
        left = [tuple(n - abs(d) for n, d in zip(*pair, strict=True)) for pair in zip(sizes, cut, strict=True)]
        boxes = [
            Boxes.of(step.taps, size) if isinstance(step, Sums) and step.taps is not None else None
            for step, size in zip(steps, left)
        ]
        return cls(steps, boxes, max([*map(math.prod, left), *(box.padded for box in boxes if box is not None)]))


def _add(
    totals: Sequence[Floats], apart: _Apart, images: Sequence[Part], others: Sequence[Part], tasks: Any, share: slice
) -> None:
    """A share of the tasks."""
    lanes = totals[0].shape[-1]
    scratch, found = _fused.Scratch(apart.largest * lanes), np.empty(lanes)
    for i, b, column in tasks[share]:
        for total, maps in zip(totals, _through(apart, images[i], others[b], scratch, tangent=len(totals) > 1)):
            _fused.position_sums(maps, found)
            total[i, column] += found


def _through(
    apart: _Apart, anchor: Part, block: Part, scratch: _fused.Scratch, *, tangent: bool
) -> tuple[Floats, Floats | None]:
    """Covariances, and tangents if wanted, of an image and a block of others: ``[positions, lanes]``."""
    k = np.empty(block.images.shape[1:], np.float32)
    _fused.products(anchor.images, block.images, k)
    theta: Floats | None = None
    for place, (step, box) in enumerate(zip(apart.steps, apart.boxes, strict=True)):
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
            own, (others, inverse) = anchor.deviations[place], block.deviations[place]
            if theta is not None:
                _fused.rectify_tangent(k, theta, own, inverse, _fused.coefficients())
            _fused.rectify(k, own, others, inverse, _fused.coefficients())
    return k, theta


def _dense(steps: Sequence[Step], left: Ends, right: Ends, k: Floats, theta: Floats | None) -> None:
    """The steps on vectors, in place, row by row."""

    def work(share: slice) -> None:
        for i in range(share.start, share.stop):
            row, moved = k[i : i + 1], None if theta is None else theta[i : i + 1]
            for index, step in enumerate(steps):
                if isinstance(step, Sums):
                    row *= step.gain
                    row += step.bias
                    if moved is not None:
                        moved *= step.gain
                        moved += row
                    continue
                own, (others, inverse) = left.deviations[index][i], columns[index]
                if moved is not None:
                    _fused.rectify_tangent(row, moved, own, inverse, _fused.coefficients())
                _fused.rectify(row, own, others, inverse, _fused.coefficients())

    columns = {
        index: np.ascontiguousarray(right.deviations[index].transpose(1, 2, 0))
        for index, step in enumerate(steps)
        if isinstance(step, Rectified)
    }
    in_threads(work, len(k), threads())
