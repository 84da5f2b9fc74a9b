"""Kernel matrices of ReLU stacks that average all positions of their last map: offset by offset, by compiled loops.

Two positions of a map at an offset read, through filters, two positions at the offset times the stride. So all pairs of
positions of the last map correspond to its offsets. Each offset is a walk through the layers on those parts of both
images that have partners, or, if filters wrap around the edges, on one image and the rolled other one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope._utils.compiled import in_threads
from initscope.propagate.kernels._fused import coefficients
from initscope.propagate.kernels._offsets import LANES, add_offsets
from initscope.propagate.kernels.relu_stack import ReluStack, Sums
from initscope.propagate.kernels.sides import Side, innermost, meetings
from initscope.theory._fused import threads

__all__ = ["OffsetRecursion"]

Floats = npt.NDArray[Any]
Block = tuple[Floats, Floats]


def _flat(side: Side) -> tuple[Floats, Floats]:
    """Return images ``[images, channels, positions]``; before all ReLUs their deviations, each with its inverses."""
    none = np.zeros((len(side), 0), np.float32)
    deviations = np.concatenate([none, *(maps.reshape(len(side), -1) for maps in side.deviations.values())], axis=1)
    return side.images.reshape(*side.images.shape[:2], -1), deviations


def _blocks(side: Side) -> list[Block]:
    """Return images in blocks of lanes, which are innermost; the last block is padded with zeros."""
    return list(zip(*(innermost(values, LANES) for values in _flat(side)), strict=True))


@dataclass(frozen=True)
class OffsetRecursion:
    """Filters and ReLUs in the format of the loops, and the offsets of the last map.

    Results are sums over all pairs of positions.
    """

    layers: tuple[Floats, ...]
    offsets: Floats
    tangent: bool
    wraps: bool

    @classmethod
    def of(cls, stack: ReluStack, side: Side, *, tangent: bool) -> OffsetRecursion:
        """Build the stack for images of the size of ``side``'s."""
        filters = [(index, step) for index, step in enumerate(stack.image_steps) if isinstance(step, Sums)]
        sizes = np.array([*(side.sizes[index] for index, _ in filters), side.sizes[-1]], np.int64)
        geometry, first_maps, held = [], [], 0
        for (index, step), size in zip(filters, sizes[1:], strict=True):
            taps = step.taps
            assert taps is not None
            axes = zip(taps.kernel_size, taps.dilation, taps.stride, taps.padding, strict=True)
            geometry.append([(count, dilation, stride, *padding) for count, dilation, stride, padding in axes])
            rectified = index + 1 in side.deviations
            first_maps.append(held if rectified else -1)
            held += 2 * math.prod(size) * rectified
        scales = np.array([(step.gain, step.bias) for _, step in filters], np.float32)
        layers = (np.array(geometry, np.int64), sizes, np.array(first_maps, np.int64), scales)
        wraps = stack.mean.wraps
        offsets = itertools.product(*(range(0 if wraps else 1 - n, n) for n in side.sizes[-1]))
        return cls(layers, np.array(list(offsets), np.int64), tangent, wraps)

    def pairs(self, left: Side, right: Side, *, alike: bool) -> list[Floats]:
        """Return covariances, and tangents if wanted, of all pairs: ``[images, blocks, lanes]``."""
        blocks, flat = _blocks(right), _flat(left)
        tasks = meetings(len(left), len(blocks), LANES, alike=alike)
        totals = np.zeros((1 + self.tangent, len(left), len(blocks), LANES))

        def compute(share: slice) -> None:
            scratch = self._scratch()
            for i, b in tasks[share]:
                images, deviations = (np.repeat(values[i, ..., None], LANES, axis=-1) for values in flat)
                totals[:, i, b] = self._sums((images, deviations), blocks[b], self.offsets, scratch)

        in_threads(compute, len(tasks), threads())
        return list(totals)

    def with_itself(self, side: Side) -> tuple[Tensor, Tensor]:
        """Return the kernel of each image with itself, ``[images]``.

        At offset 0, where tangents have a kink, from float64.
        """
        scratch, apart = self._scratch(), self.offsets[self.offsets.any(axis=1)]
        sums = np.concatenate([self._sums(block, block, apart, scratch) for block in _blocks(side)], axis=1)
        totals = [side.variance.sum(dim=1), side.tangent.sum(dim=1)]
        for total, row in zip(totals, sums, strict=False):
            total += torch.from_numpy(row[: len(side)])
        return totals[0], totals[1]

    def _scratch(self) -> tuple[Any, ...]:
        """Return memory for a walk, and the coefficients of the duals."""
        geometry, sizes, *_ = self.layers
        padded = sizes[:-1] + geometry[:, :, 3:].sum(axis=2)
        widest = int(max(padded[:, 1].max(), sizes[-1, 1]))
        maps, sums = (np.zeros((2, (int(sizes[:, 0].max()) + 1) * widest * LANES), np.float32) for _ in range(2))
        return maps, sums, np.zeros((7, widest * LANES), np.float32), coefficients()

    def _sums(self, anchor: Block, others: Block, offsets: Floats, scratch: tuple[Any, ...]) -> Floats:
        """Return ``[kinds, lanes]``."""
        out = np.zeros((1 + self.tangent, LANES))
        anchor, others = (
            (values.reshape(len(values), -1), deviations.reshape(-1)) for values, deviations in (anchor, others)
        )
        add_offsets(anchor, others, self.layers, offsets, (self.tangent, self.wraps), scratch, out)
        return out
