"""Which positions are read together: `Sites` of units drawn jointly, `FilterTaps` of a filter, two at an offset.

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

from initscope.propagate import loops
from initscope.theory._boxes import box_sum, output_size
from initscope.theory._fast import as_numpy
from initscope.theory.images._windows import Windows

__all__ = ["EVERY", "FilterTaps", "Offset", "Sites", "at_both", "base", "filled", "partner"]

Offset = tuple[int, ...]


class _Every(tuple[int, ...]):
    """Stands for all offsets together."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


EVERY: Offset = _Every()
"""All pairs of positions at once: covariances at it are whole Gram matrices ``[1, pairs, blocks, 2P, 2P]``.

P is the number of positions, flattened; those of x come first, then those of y. What acts elementwise on covariances
at an offset acts elementwise on these.
"""


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
        """The sites of the layer below, whose window ``taps`` every site reads; the taps of one site are neighbors."""
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


@dataclass(frozen=True)
class FilterTaps(Windows):
    """Which input positions a filter reads of tensors: padding, then taps, stride and dilation along each axis."""

    @property
    def shifts(self) -> tuple[Offset, ...]:
        """Where the taps of output 0 are, from position 0 on."""
        return tuple(
            tuple(d * t - pad for d, t, (pad, _) in zip(self.dilation, tap, self.padding, strict=True))
            for tap in itertools.product(*map(range, self.kernel_size))
        )

    def out_size(self, positions: tuple[int, ...]) -> tuple[int, ...]:
        """How many outputs maps of ``positions`` have along each axis."""
        axes = zip(positions, self.kernel_size, self.stride, self.dilation, self.padding, strict=True)
        return tuple(output_size(*axis, self.padding_mode) for axis in axes)

    def sum(self, maps: Tensor) -> Tensor:
        """Sums over the taps, compiled where that is possible."""
        fused = loops.large_loops(maps) if len(self.kernel_size) == 2 else None
        options = self.options
        if fused is not None:
            return torch.from_numpy(fused.box_sums(as_numpy(maps), **options))
        return box_sum(maps, **options)  # type: ignore[no-any-return]

    def sites(self, positions: tuple[int, ...]) -> tuple[Tensor, ...]:
        """For each axis the input position that each padded position stands for, -1 for a zero."""
        window: dict[str, Any] = {
            "kernel_size": (1,),
            "stride": (1,),
            "dilation": (1,),
            "padding_mode": self.padding_mode,
        }
        return tuple(
            box_sum(torch.arange(1, size + 1), padding=(pad,), **window) - 1
            for size, pad in zip(positions, self.padding, strict=True)
        )

    def positions_read(self, positions: tuple[int, ...]) -> Iterator[Tensor]:
        """For each tap the flattened input position that every output reads by it, -1 for a zero."""
        lines = []
        for axis, sites in enumerate(self.sites(positions)):
            span = (self.kernel_size[axis] - 1) * self.dilation[axis]
            first_sites = torch.arange(0, len(sites) - span, self.stride[axis])
            lines.append([sites[first_sites + self.dilation[axis] * tap] for tap in range(self.kernel_size[axis])])
        for taps in itertools.product(*lines):
            index, inside = torch.zeros((), dtype=torch.long), torch.ones((), dtype=torch.bool)
            for line, size in zip(taps, positions, strict=True):
                index, inside = index[..., None] * size + line.clamp_min(0), inside[..., None] & (line >= 0)
            yield torch.where(inside, index, -1).flatten()

    def center(self, values: Tensor) -> Tensor:
        """What the center tap, number (k-1)//2 of each axis, reads of ``[samples, channels, …]``."""
        for axis, sites in enumerate(self.sites(tuple(values.shape[2:]))):
            first, last = ((self.kernel_size[axis] - 1) // 2 * self.dilation[axis], sites.shape[0])
            last -= (self.kernel_size[axis] - 1) * self.dilation[axis] - first
            chosen = sites[first : last : self.stride[axis]].to(values.device)
            read = values.index_select(axis + 2, chosen.clamp_min(0))
            inside = (chosen >= 0).reshape(-1, *(1,) * (values.dim() - axis - 3))
            values = torch.where(inside, read, torch.zeros((), dtype=read.dtype, device=read.device))
        return values

    def sum_padded(self, maps: Tensor) -> Tensor:
        """Sums over the taps of maps that are padded already."""
        inside = FilterTaps(self.kernel_size, self.stride, self.dilation, ((0, 0),) * len(self.kernel_size))
        return inside.sum(maps)


def base(maps: Tensor, offset: Offset) -> Tensor:
    """Entries at those positions p of the trailing axes for which p + offset exists."""
    assert offset is not EVERY
    index: Any = tuple(slice(max(0, -d), n - max(0, d)) for n, d in zip(maps.shape[maps.dim() - len(offset) :], offset))
    return maps[(..., *index)]


def partner(maps: Tensor, offset: Offset) -> Tensor:
    """Entries at p + offset, in the order of `base`."""
    return base(maps, tuple(-d for d in offset))


def filled(draws: Tensor, where: Tensor, number: float) -> Tensor:
    """Fresh samples with ``number`` at the sites ``where``: in place, unless gradients are taken by them."""
    return draws.masked_fill(where, number) if draws.requires_grad else draws.masked_fill_(where, number)


def at_both(x: Tensor, y: Tensor, offset: Offset) -> tuple[Tensor, Tensor]:
    """Values of the first and of the second factor of the four products, stacked like them.

    At `EVERY` of a column and of a row of the Gram matrix, ``[1, pairs, blocks, 2P, 1]`` and ``[…, 1, 2P]``.
    """
    if offset is EVERY:
        both = torch.cat([x.flatten(2), y.flatten(2)], dim=2) if x.dim() > 2 else torch.stack([x, y], dim=2)
        return both[None, ..., :, None], both[None, ..., None, :]
    xp, yp, xq, yq = base(x, offset), base(y, offset), partner(x, offset), partner(y, offset)
    return torch.stack([xp, yp, xp, yp]), torch.stack([xq, yq, yq, xq])
