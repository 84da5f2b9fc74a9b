"""Kernel matrices of plain ReLU stacks by the compiled loops: one image against blocks of others, layer after layer.

Computed in float32, variances in float64. Against float64 entries differ by a few 1e-7 of the kernel's size, those of
the tangent kernel by up to 1e-4 for images that are nearly equal, where it has a kink; its diagonal is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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


class Side:
    """Images of one side, themselves in blocks, others innermost, and what is known of each of them alone.

    ``deviations``: before the ReLUs, by their place in the chain, deviations and their inverses, ``[images, 2,
    positions]``, 0 where 0. ``variance`` and ``tangent``: at the end. ``sizes``: heights and widths before every step.
    """

    def __init__(self, chain: Chain, images: Tensor, *, tangent: bool) -> None:
        self.images = images.float().reshape(*images.shape[:2], -1).numpy()  # [images, channels, positions]
        self.sizes, self.deviations, self.variance, self.tangent = _diagonals(chain, images, tangent)

    def __len__(self) -> int:
        return len(self.images)

    def blocks(self, lanes: int) -> list[_Block]:
        """The images by ``lanes``, the last block filled up with zeros."""
        count = -(-len(self) // lanes)
        images = _innermost(self.images, count, lanes)
        deviations = {step: _innermost(each, count, lanes) for step, each in self.deviations.items()}
        return [_Block(images[b], {step: each[b] for step, each in deviations.items()}) for b in range(count)]


@dataclass(frozen=True)
class _Anchor:
    """One image, ``[channels, positions]``, and its deviations before the ReLUs, ``[2, positions]``."""

    image: Floats
    deviations: dict[int, Floats]

    @classmethod
    def of(cls, side: Side, index: int) -> _Anchor:
        """Image number ``index``."""
        return cls(side.images[index], {step: each[index] for step, each in side.deviations.items()})


@dataclass(frozen=True)
class _Block:
    """Images ``[channels, positions, lanes]`` and their deviations before the ReLUs, ``[2, positions, lanes]``."""

    images: Floats
    deviations: dict[int, Floats]


def _innermost(values: Floats, count: int, lanes: int) -> Floats:
    """``[images, …]`` as ``[count, …, lanes]``."""
    whole = np.zeros((count * lanes, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return np.ascontiguousarray(np.moveaxis(whole.reshape(count, lanes, *values.shape[1:]), 1, -1))


def _diagonals(
    chain: Chain, images: Tensor, tangents: bool
) -> tuple[list[tuple[int, ...]], dict[int, Floats], Tensor, Tensor]:
    """Each image with itself, in float64: sizes and deviations before the steps, variance and tangent at the end.

    Without ``tangents`` the tangent stays 0.
    """
    k = images.double().square().sum(dim=1)
    tangent = torch.zeros_like(k)
    sizes: list[tuple[int, ...]] = []
    deviations: dict[int, Floats] = {}
    for place, step in enumerate(chain.steps):
        sizes.append(tuple(k.shape[1:]))
        if isinstance(step, Mean):
            k, tangent = (maps.reshape(len(maps), -1).mean(dim=1) for maps in (k, tangent))
        elif isinstance(step, Rectified):
            root = k.reshape(len(k), -1).sqrt()
            deviations[place] = torch.stack([root, torch.where(root > 0, 1 / root, 0)], dim=1).float().numpy()
            k, tangent = k / 2, tangent / 2
        else:
            sums = step.taps.sum if step.taps is not None else torch.clone
            k = step.gain * sums(k) + step.bias
            tangent = step.gain * sums(tangent) + k if tangents else torch.zeros_like(k)
    return sizes, deviations, k, tangent


def stack_kernel(chain: Chain, images: Tensor, others: Tensor | None, *, tangent: bool) -> tuple[Floats, ...]:
    """Covariances of all pairs and the variances of both sides; of the tangent kernel if ``tangent``. float32 inside.

    ``images``, ``others``: ``[images, channels, height, width]`` or ``[images, features]``; None: the same.
    """
    left = Side(chain, images, tangent=tangent)
    right = left if others is None else Side(chain, others, tangent=tangent)
    k = np.zeros((len(left), len(right)), np.float32)
    theta = np.zeros_like(k) if tangent else None
    if images.dim() == 2:
        k[:] = images.float().numpy() @ right.images[:, :, 0].T
    else:
        _on_maps(chain, left, right, k, theta)
    _dense(chain, left, right, k, theta)
    ends = [side.tangent if tangent else side.variance for side in (left, right)]
    result = k if theta is None else theta
    if others is None:
        np.fill_diagonal(result, ends[0].numpy())
    return (result, *(end.numpy() for end in ends))


def _on_maps(chain: Chain, left: Side, right: Side, k: Floats, theta: Floats | None) -> None:
    """The steps on maps; both matrices get the means over positions. Of a symmetric one half is computed."""
    boxes = [
        Boxes.of(step.taps, size) if isinstance(step, Sums) and step.taps is not None else None
        for step, size in zip(chain.image_steps, left.sizes)
    ]
    largest = max([math.prod(size) for size in left.sizes] + [box.padded for box in boxes if box is not None])
    lanes = _LANES * max(1, _BLOCK // largest // _LANES)
    blocks, symmetric = right.blocks(lanes), right is left
    # Block by block: what is known of a block stays in the caches while all images meet it.
    tasks = [
        (i, b) for b in range(len(blocks)) for i in range(min(len(left), (b + 1) * lanes) if symmetric else len(left))
    ]

    def work(share: slice) -> None:
        scratch, means = _fused.Scratch(largest * lanes), np.empty(lanes)
        for i, b in tasks[share]:
            found = _through(chain.image_steps, boxes, _Anchor.of(left, i), blocks[b], scratch, theta is not None)
            columns = slice(b * lanes, min(len(right), (b + 1) * lanes))
            for matrix, maps in zip((k, theta), found):
                if matrix is not None and maps is not None:
                    _fused.position_means(maps, means)
                    matrix[i, columns] = means[: columns.stop - columns.start]

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
    for place, (step, box) in enumerate(zip(steps, boxes, strict=True)):
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
