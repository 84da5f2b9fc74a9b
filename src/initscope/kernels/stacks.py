"""Kernel matrices of plain ReLU stacks by the compiled loops: one image against blocks of others, layer after layer.

Computed in float32, variances in float64. Against float64 entries differ by a few 1e-7 of the kernel's size, those of
the tangent kernel by up to 1e-4 for images that are nearly equal, where it has a kink; its diagonal is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope._hall.compiled import in_threads
from initscope.kernels import _fused
from initscope.kernels.chain import Chain, Mean, Rectified, Step, Sums
from initscope.propagate.windows import FilterTaps
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

    @classmethod
    def of(cls, taps: FilterTaps, size: Sequence[int]) -> Boxes:
        """For maps of ``size``."""
        rows, columns = (sites.numpy().astype(np.int64) for sites in taps.sites(tuple(size)))
        spread = tuple(d * (k - 1) + 1 for d, k in zip(taps.dilation, taps.kernel_size, strict=True))
        out = tuple(
            (len(sites) - reach) // step + 1
            for sites, reach, step in zip((rows, columns), spread, taps.stride, strict=True)
        )
        return cls(rows, columns, size[1], taps.kernel_size, taps.dilation, taps.stride, out)

    @property
    def padded(self) -> int:
        """Positions with what is padded."""
        return len(self.rows) * len(self.columns)


class Side:
    """Images of one side: their variances along the chain, and themselves in blocks, others innermost."""

    def __init__(self, chain: Chain, images: Tensor) -> None:
        self.images = images.float().reshape(*images.shape[:2], -1).numpy()  # [images, channels, positions]
        self.variances, self.tangents = _diagonals(chain, images)

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def deviations(self) -> list[Floats]:
        """Before every step on maps: deviations and their inverses, ``[images, 2, positions]``; 0 stays 0."""
        roots = [variance.reshape(len(self), -1).sqrt() for variance in self.variances]
        return [torch.stack([root, torch.where(root > 0, 1 / root, 0)], dim=1).float().numpy() for root in roots]

    def blocks(self, lanes: int) -> list[_Block]:
        """The images by ``lanes``, the last block filled up with zeros."""
        count = -(-len(self) // lanes)
        images = _innermost(self.images, count, lanes)
        deviations = [_innermost(each, count, lanes) for each in self.deviations]
        return [_Block(images[b], [each[b] for each in deviations]) for b in range(count)]


@dataclass(frozen=True)
class _Anchor:
    """One image, ``[channels, positions]``, and its deviations before every step, ``[2, positions]``."""

    image: Floats
    deviations: list[Floats]

    @classmethod
    def of(cls, side: Side, index: int) -> _Anchor:
        """Image number ``index``."""
        return cls(side.images[index], [each[index] for each in side.deviations])


@dataclass(frozen=True)
class _Block:
    """Images ``[channels, positions, lanes]`` and their deviations before every step, ``[2, positions, lanes]``."""

    images: Floats
    deviations: list[Floats]


def _innermost(values: Floats, count: int, lanes: int) -> Floats:
    """``[images, …]`` as ``[count, …, lanes]``."""
    whole = np.zeros((count * lanes, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return np.ascontiguousarray(np.moveaxis(whole.reshape(count, lanes, *values.shape[1:]), 1, -1))


def _diagonals(chain: Chain, images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Covariances and tangents of each image with itself, before every step and behind the last one, in float64."""
    k = images.double().square().sum(dim=1)
    found = [(k, torch.zeros_like(k))]
    for step in chain.steps:
        k, tangent = found[-1]
        if isinstance(step, Mean):
            k, tangent = (maps.reshape(len(maps), -1).mean(dim=1) for maps in (k, tangent))
        elif isinstance(step, Rectified):
            k, tangent = k / 2, tangent / 2
        else:
            k, tangent = (step.gain * (maps if step.taps is None else step.taps.sum(maps)) for maps in (k, tangent))
            k = k + step.bias
            tangent = tangent + k
        found.append((k, tangent))
    return [k for k, _ in found], [tangent for _, tangent in found]


def stack_kernel(chain: Chain, images: Tensor, others: Tensor | None, *, tangent: bool) -> tuple[Floats, ...]:
    """Covariances of all pairs and the variances of both sides; of the tangent kernel if ``tangent``. float32 inside.

    ``images``, ``others``: ``[images, channels, height, width]`` or ``[images, features]``; None: the same.
    """
    left = Side(chain, images)
    right = left if others is None else Side(chain, others)
    k = np.zeros((len(left), len(right)), np.float32)
    theta = np.zeros_like(k) if tangent else None
    if images.dim() == 2:
        k[:] = images.float().numpy() @ right.images[:, :, 0].T
    else:
        _on_maps(chain, left, right, k, theta)
    _dense(chain, left, right, k, theta)
    ends = [side.tangents[-1] if tangent else side.variances[-1] for side in (left, right)]
    result = k if theta is None else theta
    if others is None:
        np.fill_diagonal(result, ends[0].numpy())
    return (result, *(end.numpy() for end in ends))


def _on_maps(chain: Chain, left: Side, right: Side, k: Floats, theta: Floats | None) -> None:
    """The steps on maps; both matrices get the means over positions. Of a symmetric one half is computed."""
    sizes, boxes = [tuple(left.variances[0].shape[1:])], []
    for step in chain.image_steps:
        boxes.append(Boxes.of(step.taps, sizes[-1]) if isinstance(step, Sums) and step.taps is not None else None)
        sizes.append(sizes[-1] if boxes[-1] is None else boxes[-1].out_size)
    largest = max([math.prod(size) for size in sizes] + [box.padded for box in boxes if box is not None])
    lanes = _LANES * max(1, _BLOCK // largest // _LANES)
    blocks, symmetric = right.blocks(lanes), right is left
    tasks = [(i, b) for i in range(len(left)) for b in range(i // lanes if symmetric else 0, len(blocks))]

    def work(share: slice) -> None:
        scratch = _fused.Scratch(largest * lanes)
        for i, b in tasks[share]:
            found = _through(chain.image_steps, boxes, _Anchor.of(left, i), blocks[b], scratch, theta is not None)
            columns = slice(b * lanes, min(len(right), (b + 1) * lanes))
            for matrix, maps in zip((k, theta), found):
                if matrix is not None and maps is not None:
                    matrix[i, columns] = maps.mean(axis=0, dtype=np.float64)[: columns.stop - columns.start]

    in_threads(work, len(tasks), threads())
    if symmetric:
        lower = np.tril_indices(len(left), -1)
        for matrix in (k, theta):
            if matrix is not None:
                matrix[lower] = matrix.T[lower]


def _through(
    steps: Sequence[Step],
    boxes: Sequence[Boxes | None],
    anchor: _Anchor,
    block: _Block,
    scratch: _fused.Scratch,
    tangent: bool,
) -> tuple[Floats, Floats | None]:
    """Covariances, and tangents if wanted, of an image and a block of others: ``[positions, lanes]``."""
    k = np.empty(block.images.shape[1:], np.float32)
    _fused.products(anchor.image, block.images, k)
    theta: Floats | None = None
    for step, box, own, (others, inverse) in zip(steps, boxes, anchor.deviations, block.deviations):
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
            if theta is not None:
                _fused.rectify_tangent(k, theta, own, inverse, _fused.coefficients())
            _fused.rectify(k, own, others, inverse, _fused.coefficients())
    return k, theta


def _dense(chain: Chain, left: Side, right: Side, k: Floats, theta: Floats | None) -> None:
    """The steps on vectors, in place, row by row."""
    first = len(chain.image_steps) + 1

    def work(share: slice) -> None:
        for i in range(share.start, share.stop):
            row, moved = k[i : i + 1], None if theta is None else theta[i : i + 1]
            for index, step in enumerate(chain.dense_steps, first):
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
        for index, step in enumerate(chain.dense_steps, first)
        if isinstance(step, Rectified)
    }
    in_threads(work, len(k), threads())
