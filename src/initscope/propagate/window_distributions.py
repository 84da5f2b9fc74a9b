"""Distributions of functions of windows: the mean, the largest; random filters are in `rules.weights`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.propagate.bases import Draws, Field, Pair, Shares
from initscope.propagate.distributions import UnitsOfOne
from initscope.propagate.origins.positions import box_sums
from initscope.propagate.windows import Offset, Sites, filled

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["WindowMaximum", "WindowMean", "WindowUnits"]


@dataclass(frozen=True, eq=False)
class WindowUnits(UnitsOfOne, ABC):
    """A function of the window of units that each position reads: their largest, their mean, a random filter of them.

    ``taps`` are where the window of position 0 begins and ends, in the value before; windows move by ``stride``.
    """

    stride: tuple[int, ...]
    taps: tuple[Offset, ...]

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """The function of samples of whole windows."""
        below = sites.through(self.stride, self.taps)
        shape = (len(sites.shifts), len(self.taps))
        inside = below.inside(self.before.positions).to(self.before.kxx.device).reshape(*shape, *sites.size)
        x, y = (side.reshape(*side.shape[:3], *shape, *sites.size) for side in self.windows(below, draws))
        return self.reduce(x, y, inside, draws)

    def windows(self, below: Sites, draws: Draws) -> Pair:
        """Samples of the units that are read."""
        return self.before.draw(below, draws)

    @abstractmethod
    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The function, over axis 4 of ``[count, pairs, blocks, shifts, taps, *size]``; ``inside`` from axis 3 on."""

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Those of the windows."""
        return self.before.fields(sites.through(self.stride, self.taps))

    def positions_read(self, positions: tuple[int, ...]) -> Tensor:
        """The flattened position that each tap reads for every one of ``positions``, ``[taps, P]``; -1: none."""
        rows = []
        for tap in self.taps:
            flat, inside = torch.zeros((), dtype=torch.long), torch.ones((), dtype=torch.bool)
            for size, count, stride, shift in zip(self.before.positions, positions, self.stride, tap, strict=True):
                line = torch.arange(count) * stride + shift
                flat = flat[..., None] * size + line.clamp(0, size - 1)
                inside = inside[..., None] & (line >= 0) & (line < size)
            rows.append(torch.where(inside, flat, -1).flatten())
        return torch.stack(rows)


class WindowMean(WindowUnits):
    """The mean of a window."""

    def means(self, state: MomentMaps) -> Pair:
        """Means of the means."""
        kernel = tuple(1 + last for last in self.taps[-1])
        x, y = (box_sums(mean, kernel, self.stride) / len(self.taps) for mean in self.before.means())
        return x, y

    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The mean of samples."""
        return x.mean(dim=4), y.mean(dim=4)

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Means of channels."""
        return channels.values(self.before)[..., self.positions_read(state.positions).clamp_min(0)].mean(dim=-2)

    def parents(self) -> tuple[MomentMaps, ...]:
        """The value before."""
        return (self.before,)

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """To all positions of a window."""
        read, count = self.positions_read(state.positions), math.prod(self.before.positions)
        mean = torch.zeros(read.shape[1], count, dtype=torch.float64).scatter_(1, read.T, 1 / len(read))
        return [(self.before, mean.mT @ gradients @ mean)]


class WindowMaximum(WindowUnits):
    """The largest of a window, padding left out."""

    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The largest of samples."""
        if not bool(inside.all()):
            x, y = (filled(side, ~inside, -math.inf) for side in (x, y))
        # Of one tap after the other: samples lie innermost in memory, and `amax` would read across them.
        return reduce(torch.maximum, x.unbind(4)), reduce(torch.maximum, y.unbind(4))

    def _read(self, state: MomentMaps, channels: Channels) -> tuple[Tensor, Tensor]:
        """Channels in every window, and their positions; -∞ where there is none."""
        values, read = channels.values(self.before), self.positions_read(state.positions)
        return values[..., read.clamp_min(0)].masked_fill(read < 0, -math.inf), read

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """The largest of channels."""
        return self._read(state, channels)[0].amax(dim=-2)

    def parents(self) -> tuple[MomentMaps, ...]:
        """The value before."""
        return (self.before,)

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """To the position that is the largest of its window."""
        (values, read), count = self._read(state, channels), math.prod(self.before.positions)
        largest = read.T.gather(1, values.argmax(dim=-2).reshape(-1, read.shape[1]).T).T.reshape(
            *values.shape[:3], read.shape[1]
        )
        pair = (largest[..., :, None] * count + largest[..., None, :]).flatten(3)
        total = torch.zeros((*pair.shape[:3], count * count), dtype=torch.float64)
        total.scatter_add_(3, pair, gradients.expand(*pair.shape[:3], *gradients.shape[-2:]).flatten(3))
        return [(self.before, total.reshape(*pair.shape[:3], count, count))]
