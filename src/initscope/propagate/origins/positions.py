"""Origins of ops that move, join, select or average positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.propagate.bases import Cross, Factor, Lookup, Origin, Shares, Wanted
from initscope.propagate.origins.elementwise import OfOne
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, FilterTaps, Offset, base, partner

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = [
    "AveragedWindows", "FlattenedPositions", "GatheredPositions", "JoinedPositions", "PermutedPositions",
    "SelectedBlocks", "box_sums", "scattered",
]  # fmt: skip

Ways = dict[int, tuple[Tensor, Tensor]]
_NO_OFFSETS = "it averages positions whose covariances are not known"


def scattered(gradients: Tensor, taps: Iterable[Tensor], count: int) -> Tensor:
    """Apply the transpose of reading positions: entries are added where each tap read them; -1 is dropped."""
    total = gradients.new_zeros((*gradients.shape[:-2], count, count))
    for read in taps:
        inside = (read >= 0).nonzero()[:, 0]
        where, part = read[inside], gradients[..., inside, :][..., inside]
        if len(torch.unique(where)) < len(where):  # copies, as a padding makes them: their gradients add up
            part = part.new_zeros((*part.shape[:-1], count)).index_add_(-1, where, part)
            total.index_add_(-2, where, part)
        else:
            total[..., where[:, None], where] += part
    return total


@dataclass(frozen=True, eq=False)
class JoinedPositions(Origin):
    """Origin of concatenated positions of uncorrelated values: covariances between them are zero."""

    parts: tuple[MomentMaps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return all positions of every part."""
        return ((part, EVERY) for part in self.parts)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return blocks on the diagonal, for x, for y and between them."""
        if offset is not EVERY:
            raise NotCovered(_NO_OFFSETS)
        grams = [lookup(part, EVERY) for part in self.parts]
        sizes = [gram.shape[-1] // 2 for gram in grams]
        count = sum(sizes)
        whole = grams[0].new_zeros((*grams[0].shape[:-2], 2 * count, 2 * count))
        start = 0
        for gram, size in zip(grams, sizes, strict=True):
            index = torch.cat([torch.arange(start, start + size), torch.arange(count + start, count + start + size)])
            whole[..., index[:, None], index] = gram
            start += size
        return whole

    def parents(self) -> tuple[MomentMaps, ...]:
        """Return all parts."""
        return self.parts

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Return for every part its positions."""
        sizes = [math.prod(part.positions) for part in self.parts]
        blocks = zip(*(torch.split(rows, sizes, -1) for rows in torch.split(gradients, sizes, -2)), strict=True)
        return [(part, column[index]) for index, (part, column) in enumerate(zip(self.parts, blocks, strict=True))]


@dataclass(frozen=True, eq=False)
class PermutedPositions(OfOne):
    """Origin of positions in another order or shape, such as patches that become tokens; known only as a whole."""

    where: Tensor
    knows_offsets = False

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return all positions."""
        if offset is not EVERY:
            raise NotCovered(_NO_OFFSETS)
        return ((self.before, EVERY),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return rows and columns at their new positions, 0 for a zero."""
        index, count = self.where.flatten(), math.prod(self.before.positions)
        both = torch.cat([index.clamp_min(0), index.clamp_min(0) + count])
        inside = (index >= 0).double().repeat(2)
        return lookup(self.before, EVERY)[..., both, :][..., both] * inside[:, None] * inside

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """To where they were read."""
        return scattered(gradients, [self.where.flatten()], math.prod(self.before.positions))


@dataclass(frozen=True, eq=False)
class SelectedBlocks(OfOne):
    """Origin of some of the blocks of channels."""

    blocks: tuple[int, ...]

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the covariances of these blocks."""
        return lookup(self.before, offset)[:, :, list(self.blocks)]

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """Return one block that contains all of them."""
        return (self.before, 1.0, 1.0) if len(self.before.sizes) == len(self.blocks) == 1 else None

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Return the gradients at these blocks."""
        shape = list(gradients.shape)
        shape[-3] = len(self.before.sizes)
        return gradients.new_zeros(shape).index_add_(gradients.dim() - 3, torch.tensor(self.blocks), gradients)


@dataclass(frozen=True, eq=False)
class FlattenedPositions(OfOne):
    """Origin of positions that have become blocks of channels (``keys``, -1 for a zero): no other position is left."""

    keys: Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return every position with itself."""
        if offset is EVERY:
            return ()
        return ((self.before, (0,) * len(self.before.positions)),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return its covariances, block by block."""
        if offset is EVERY:
            raise NotCovered("no positions are left")
        inner = lookup(*next(iter(self.sources(offset)))).flatten(2)
        return torch.where(self.keys < 0, 0, inner[:, :, self.keys.clamp_min(0)])

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Positions that have become channels have independent weights: covariances between them are not needed."""
        before, count = self.before, math.prod(self.before.positions)
        inside = self.keys >= 0
        keys = self.keys[inside].flatten()
        flat = gradients[..., 0, 0][..., inside.flatten()] if inside.numel() > 1 else gradients[..., 0, 0]
        whole = flat.new_zeros((*flat.shape[:-1], len(before.sizes) * count))
        whole[..., keys] = flat
        return torch.diag_embed(whole.reshape(*flat.shape[:-1], len(before.sizes), count))


@dataclass(frozen=True, eq=False)
class GatheredPositions(OfOne):
    """Origin of units read from other positions; output p reads ``sites[a][p]`` on axis a, -1 is a zero."""

    sites: tuple[Tensor, ...]
    _known: dict[tuple[int, int], Ways] = field(default_factory=dict)

    def _ways(self, offset: Offset) -> list[Ways]:
        for key in enumerate(offset):
            if key not in self._known:
                self._known[key] = _ways(self.sites[key[0]], key[1])
        return [self._known[key] for key in enumerate(offset)]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return every difference of the sites read by p and p + offset."""
        if offset is EVERY:
            return ((self.before, EVERY),)
        return ((self.before, tuple(combination)) for combination in itertools.product(*self._ways(offset)))

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Assemble the result from the maps of all those offsets."""
        if offset is EVERY:
            return self._every(lookup(self.before, EVERY))
        ways = self._ways(offset)
        size = [max(0, len(sites) - abs(d)) for sites, d in zip(self.sites, offset)]
        shape = (4, *self.before.kxx.shape[:2], *size)
        out = torch.zeros(shape, dtype=torch.float64, device=self.before.kxx.device)
        for combination in itertools.product(*(way.items() for way in ways)):
            inner = tuple(delta for delta, _ in combination)
            read = _mesh([sites for _, (_, sites) in combination])
            write = _mesh([outputs for _, (outputs, _) in combination])
            out[(..., *write)] = lookup(self.before, inner)[(..., *read)]
        return out

    def _flat(self) -> Tensor:
        """Return the flattened position that every output reads, -1 for a zero."""
        flat = torch.zeros((), dtype=torch.long)
        zero = torch.zeros((), dtype=torch.bool)
        for sites, size in zip(self.sites, self.before.positions, strict=True):
            flat = flat[..., None] * size + sites.clamp_min(0)
            zero = zero[..., None] | (sites < 0)
        return torch.where(zero, -1, flat).flatten()

    def _every(self, inner: Cross) -> Cross:
        read, count = self._flat(), math.prod(self.before.positions)
        both = torch.cat([read.clamp_min(0), read.clamp_min(0) + count])
        moved = inner[..., both, :][..., both]
        outside = (read < 0).repeat(2)
        if bool(outside.any()):
            moved[..., outside, :] = 0
            moved[..., outside] = 0
        return moved

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return the same at the positions that are read, of which none is a filled-in zero."""
        if len(self.sites) != 1 or not bool((self.sites[0] >= 0).all()):
            return super().table_shares(table)
        (sites,), shape = self.sites, self.before.kxx.shape
        both = torch.cat([sites, sites + shape[2]])
        shares = []
        for rows, *factors in self.before.table_shares(table):
            x, y = (torch.as_tensor(side, dtype=torch.float64).expand(shape)[..., sites] for side in factors)
            shares.append((replace(rows, same=rows.same[:, both][:, :, both]), x, y))
        return shares

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """To where they were read."""
        return scattered(gradients, [self._flat()], math.prod(self.before.positions))


def _ways(sites: Tensor, d: int) -> Ways:
    """Return for one axis: difference of sites → (outputs whose sites differ by it, indices into its map)."""
    first, second = base(sites, (d,)), partner(sites, (d,))
    valid = (first >= 0) & (second >= 0)
    result = {}
    for delta in torch.unique((second - first)[valid]).tolist():
        outputs = (valid & (second - first == delta)).nonzero()[:, 0]
        result[int(delta)] = (outputs, first[outputs] - max(0, -int(delta)))
    return result


def _mesh(axes: list[Tensor]) -> Any:
    """Return indices of a grid, as slices if they are adjacent, which saves copies."""
    slices = []
    for index in axes:
        first, last = (int(index[0]), int(index[-1])) if len(index) else (0, -1)
        slices.append(slice(first, last + 1) if last - first + 1 == len(index) else None)
    if None not in slices:
        return tuple(slices)
    return tuple(index.reshape([-1 if k == axis else 1 for k in range(len(axes))]) for axis, index in enumerate(axes))


def box_sums(maps: Tensor, kernel: Iterable[int], stride: Iterable[int]) -> Tensor:
    """Return sums over windows of the trailing axes, without padding."""
    size = tuple(kernel)
    return FilterTaps(size, tuple(stride), (1,) * len(size), ((0, 0),) * len(size)).sum(maps)


@dataclass(frozen=True, eq=False)
class AveragedWindows(OfOne):
    """Origin of means over windows: sums over all pairs of their positions."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]

    def _inside(self) -> Iterable[Offset]:
        return itertools.product(*(range(1 - k, k) for k in self.kernel))

    def _inner(self, offset: Offset, tau: Offset) -> Offset:
        return tuple(s * d + t for s, d, t in zip(self.stride, offset, tau))

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return every offset between a position of one window and one of the other."""
        if offset is EVERY:
            return ((self.before, EVERY),)
        return ((self.before, self._inner(offset, tau)) for tau in self._inside())

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the sum over those offsets; for all positions, averages of rows and of columns."""
        if offset is EVERY:
            mean = self._averages()
            both = torch.block_diag(mean, mean)  # type: ignore[no-untyped-call]
            pooled: Cross = both @ lookup(self.before, EVERY) @ both.T
            return pooled
        size = [
            (n - k) // s + 1 - abs(d) for n, k, s, d in zip(self.before.positions, self.kernel, self.stride, offset)
        ]
        shape = (4, *self.before.kxx.shape[:2], *size)
        total = torch.zeros(shape, dtype=torch.float64, device=self.before.kxx.device)
        cut: Any = (..., *(slice(0, n) for n in size))
        for tau in self._inside():
            inner = self._inner(offset, tau)
            # first entry of the inner map that the first pair of windows reads
            start = [s * max(0, -d) + max(0, -t) - max(0, -i) for s, d, t, i in zip(self.stride, offset, tau, inner)]
            index: Any = (..., *(slice(s, None) for s in start))
            window = [k - abs(t) for k, t in zip(self.kernel, tau)]
            total += box_sums(lookup(self.before, inner)[index], window, self.stride)[cut]
        return total / math.prod(self.kernel) ** 2

    def _averages(self) -> Tensor:
        """Return the weight of every position in every output: ``[outputs, positions]``."""
        axes, count = len(self.kernel), math.prod(self.before.positions)
        windows = FilterTaps(self.kernel, self.stride, (1,) * axes, ((0, 0),) * axes)
        read = torch.stack(list(windows.positions_read(self.before.positions)))
        mean = torch.zeros(read.shape[1], count, dtype=torch.float64)
        return mean.scatter_(1, read.T, 1 / len(read))

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Return averages of rows and of columns, transposed."""
        mean = self._averages()
        return mean.mT @ gradients @ mean
