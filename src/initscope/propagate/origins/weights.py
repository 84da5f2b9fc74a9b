"""The origin of sums with random weights: Linear layers and convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.initializers import WeightDistribution
from initscope.propagate.bases import Cross, Factor, Lookup, Wanted
from initscope.propagate.origins.elementwise import OfOne
from initscope.propagate.origins.positions import GatheredPositions, scattered
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, FilterTaps, Offset, at_both

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["WeightedSums", "regroup"]


def regroup(maps: Sequence[Tensor], sizes: tuple[int, ...], groups: int) -> list[Tensor]:
    """Averages of the blocks that each of ``groups`` groups of channels reads; equal blocks that tile groups stay."""
    blocks = len(sizes)
    if blocks == 1 or (groups % blocks == 0 and len(set(sizes)) == 1):
        return list(maps)
    width = sum(sizes) // groups
    shares = torch.tensor(
        [[count / width for count in counts] for counts in _overlaps(sizes, groups)], dtype=torch.float64
    )
    return [torch.einsum("gb,pb...->pg...", shares.to(values), values) for values in maps]


def _overlaps(sizes: tuple[int, ...], groups: int) -> list[list[int]]:
    """Return how many channels of each block each of ``groups`` equal groups of channels reads."""
    width = sum(sizes) // groups
    edges = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    return [
        [max(0, min(edges[b + 1], (g + 1) * width) - max(edges[b], g * width)) for b in range(len(sizes))]
        for g in range(groups)
    ]


@dataclass(frozen=True, eq=False)
class WeightedSums(OfOne):
    """Covariances between positions after weights: an average over the taps, at the offset times the stride."""

    drawn_as: WeightDistribution
    groups: int
    windows: FilterTaps | None
    scale: float
    means: tuple[Tensor, Tensor] | None

    @cached_property
    def _gathered(self) -> GatheredPositions | None:
        if self.windows is None:
            return None
        return GatheredPositions(self.before, self.windows.sites(self.before.positions))

    @property
    def gram_cost(self) -> int:  # type: ignore[override]
        """One for each tap."""
        return 1 + (0 if self.windows is None else int(self.windows.taps))

    def _inner(self, offset: Offset) -> Offset:
        if self.windows is None:
            return offset
        return tuple(s * d for s, d in zip(self.windows.stride, offset, strict=True))

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return the offset times the stride, if the padding allows it."""
        if offset is EVERY:
            return () if self._known_windows() else ((self.before, EVERY),)
        gathered = self._gathered
        return ((self.before, offset),) if gathered is None else gathered.sources(self._inner(offset))

    def _known_windows(self) -> bool:
        """Return whether filters read input values, of which no Gram matrix is needed."""
        return self.windows is not None and self.before.origin is not None and self.before.origin.grouped is not None

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """n v (⟨k⟩ - λ⟨m⟩⟨m⟩) + v_b at this offset."""
        cross = self._averages(offset, lookup)
        if self.means is not None:
            mx, my = self.means
            first, second = at_both(mx.double(), my.double(), offset)
            cross = cross - self.scale * self.drawn_as.strength * first * second
        return cross + self.drawn_as.bias_variance

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Changes before the layer are averaged, and the layer's own weights and biases add the covariances."""
        if self.drawn_as.strength > 0 or self.drawn_as.center:
            raise NotCovered("tied weights have no tangent kernel here")
        cross = self.cross(offset, values)
        cross[:2] = 0  # of two inputs: what one has by itself is not moved
        return self._averages(offset, tangents) + cross

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """Return the mean square weight of all channels, if nothing is added to it."""
        plain = self.windows is None and self.means is None and self.drawn_as.bias_variance == 0
        return (self.before, *(math.sqrt(self.scale),) * 2) if plain and len(self.before.sizes) == 1 else None

    def _averages(self, offset: Offset, lookup: Lookup) -> Cross:
        """n v ⟨k⟩ at this offset."""
        gathered, windows = self._gathered, self.windows
        if offset is EVERY and windows is not None:
            blocks = regroup([self._every(windows, lookup)[0]], self.before.sizes, self.groups)[0]
            return self.scale / windows.taps * blocks[None]
        if gathered is None or windows is None:
            inner, taps = lookup(self.before, offset), 1
        else:
            inner, taps = gathered.cross(self._inner(offset), lookup), windows.taps
        blocks = regroup([inner.flatten(0, 1)], self.before.sizes, self.groups)[0]
        sums = blocks if windows is None else windows.sum_padded(blocks)
        return self.scale / taps * sums.reshape(len(inner), -1, *sums.shape[1:])

    def _every(self, windows: FilterTaps, lookup: Lookup) -> Cross:
        """Return sums over the taps of whole matrices.

        For input values, products of the values that every tap reads.
        """
        total = torch.zeros((), dtype=torch.float64)
        sides = None if self.before.origin is None else self.before.origin.grouped
        if sides is not None:
            values = [side.double().flatten(3) for side in sides]
            for read in windows.positions_read(self.before.positions):
                both = torch.cat([side[..., read.clamp_min(0)] * (read >= 0) for side in values], dim=3)
                total = total + both.mT @ both / both.shape[2]
            return total[None]
        inner, count = lookup(self.before, EVERY), math.prod(self.before.positions)
        for read in windows.positions_read(self.before.positions):
            both = torch.cat([read.clamp_min(0), read.clamp_min(0) + count])
            inside = (read >= 0).to(inner).repeat(2)
            total = total + inner[..., both, :][..., both] * inside[:, None] * inside
        return total

    def batch_parent(self) -> MomentMaps | None:
        """Return the value before."""
        return self.before

    def batch_gram(self, before: Tensor) -> Tensor:
        """n v C + v_b."""
        if self.means is not None or self.groups > 1 or len(self.before.sizes) > 1:
            raise NotCovered("batch norm after zero-sum weights is sampled")
        return self.scale * before + self.drawn_as.bias_variance

    def layers(self, state: MomentMaps) -> tuple[MomentMaps, ...]:
        """Return the value itself."""
        return (state,)

    def weight_squares(self, gradients: Tensor, channels: Channels) -> Tensor | None:
        """The sum of products of the gradients, spread over the taps, with the Gram matrix before the weights."""
        return (self._spread(gradients, channels) * channels.gram(self.before)).sum(dim=(1, 2, 3))

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Times the variance of a weight, summed over the taps."""
        if self.drawn_as.strength > 0 or self.drawn_as.center:
            raise NotCovered("gradients of tied weights have no rule")
        return self.drawn_as.variance * self._spread(gradients, channels)

    def _spread(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Gradients before weights of variance 1: sums over the taps, and over the outputs that read each channel."""
        gradients, before = channels.mean(gradients), self.before
        outputs = gradients.shape[-3]
        counts = torch.tensor(_overlaps(before.sizes, outputs), dtype=gradients.dtype)
        if self.windows is not None:
            taps = self.windows.positions_read(before.positions)
            gradients = scattered(gradients, taps, math.prod(before.positions))
        return torch.einsum("ob,...opq->...bpq", counts, gradients) / (self.groups // outputs)
