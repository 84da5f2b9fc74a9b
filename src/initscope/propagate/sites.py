"""Positions whose units are drawn together: one window, or two at an offset; what each output reads of a layer below.

Output p reads the positions stride·p + shift, for every shift. What reads a layer that itself reads windows of the
layer below it is again of this form, so that a network's windows compose.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from initscope.propagate.offsets import Offset

__all__ = ["Sites"]


@dataclass(frozen=True)
class Sites:
    """``size`` outputs along each axis; ``shifts`` are the positions that each reads, from ``stride`` times its own."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    shifts: tuple[Offset, ...]

    @classmethod
    def aligned(cls, positions: tuple[int, ...]) -> Sites:
        """Every position by itself."""
        return cls(positions, (1,) * len(positions), ((0,) * len(positions),))

    @classmethod
    def apart(cls, positions: tuple[int, ...], offset: Offset) -> Sites:
        """p and p + offset, wherever both exist; p first."""
        start = tuple(max(0, -d) for d in offset)
        other = tuple(s + d for s, d in zip(start, offset, strict=True))
        size = tuple(n - abs(d) for n, d in zip(positions, offset, strict=True))
        return cls(size, (1,) * len(positions), (start, other))

    def through(self, stride: tuple[int, ...], taps: tuple[Offset, ...]) -> Sites:
        """The sites of the layer below, whose window ``taps`` every site reads; the taps of one site are neighbours."""
        shifts = tuple(
            tuple(s * a + t for s, a, t in zip(stride, shift, tap, strict=True))
            for shift, tap in itertools.product(self.shifts, taps)
        )
        return Sites(self.size, tuple(a * b for a, b in zip(self.stride, stride, strict=True)), shifts)

    def couples(self) -> Iterator[tuple[int, int, Offset]]:
        """Every two shifts by their numbers, with their difference."""
        for (i, a), (j, b) in itertools.combinations(enumerate(self.shifts), 2):
            yield i, j, tuple(q - p for p, q in zip(a, b, strict=True))

    def take(self, maps: Tensor) -> Tensor:
        """What is read of ``[..., *positions]``: ``[..., shifts, *size]``, 0 outside."""
        axes = len(self.size)
        leading = maps.shape[: maps.dim() - axes]
        taken = maps.new_zeros((*leading, len(self.shifts), *self.size))
        for index in range(len(self.shifts)):
            write, read = self.window(index, (0,) * axes, tuple(maps.shape[len(leading) :]))
            taken.select(len(leading), index)[write] = maps[read]
        return taken

    def inside(self, positions: tuple[int, ...]) -> Tensor:
        """Which sites exist: ``[shifts, *size]``."""
        return self.take(torch.ones(positions)) > 0

    def window(self, index: int, offset: Offset, sizes: tuple[int, ...]) -> tuple[Any, Any]:
        """Of one shift: the outputs for which its site and the one at ``offset`` from it exist, and where these are.

        The second are indices into maps of covariances at ``offset``, of ``sizes``, which begin at the first position
        that has such a partner.
        """
        write, read = [], []
        for length, count, stride, shift, d in zip(
            sizes, self.size, self.stride, self.shifts[index], offset, strict=True
        ):
            start = shift - max(0, -d)
            first = max(0, -(start // stride))
            last = max(first, min(count, (length - 1 - start) // stride + 1))
            write.append(slice(first, last))
            read.append(slice(start + stride * first, start + stride * last, stride) if last > first else slice(0, 0))
        return (..., *write), (..., *read)
