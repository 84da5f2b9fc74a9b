"""How covariances between positions come from earlier states: an `Origin` for each kind of step.

All but `GatheredPositions` are elementwise or linear, and act on an offset's maps and on whole Gram matrices (`EVERY`) alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from initscope.propagate import loops
from initscope.propagate.duals import dual_matrix, slopes, transformed
from initscope.propagate.moments import Cross, Factor, Lookup, MomentMaps, NotCovered, Origin, Wanted
from initscope.propagate.windows import EVERY, Offset, at_both, base, partner
from initscope.theory._fast import as_numpy
from initscope.theory._interpolation import LARGE
from initscope.theory.activations import Activation

__all__ = [
    "Activations",
    "GatheredPositions",
    "JoinedPositions",
    "KnownGram",
    "Multiplied",
    "PermutedPositions",
    "SelectedBlocks",
    "Shifted",
    "StackedChannels",
    "SummedBranches",
]

_INTEGRAL, _PLANE = 256, 1024  # what an entry costs that is integrated, in one dimension and in two
_NODES, _TABLE = 513, 1 << 14  # of a dual as a function of the angle, and from how many entries on it pays
_NEARLY = 1.05  # ratio of variances between which a straight line is right to 1e-4

Ways = dict[int, tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class KnownGram(Origin):
    """A Gram matrix that is known as a whole: ``[pairs, blocks, 2P, 2P]``, for one axis of positions."""

    matrix: Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Nothing."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """The matrix, or the four diagonals of its blocks."""
        if offset is EVERY:
            return self.matrix[None]
        half, (d,) = self.matrix.shape[-1] // 2, offset
        x, y = slice(None, half), slice(half, None)
        blocks = [self.matrix[..., a, b] for a, b in ((x, x), (y, y), (x, y), (y, x))]
        return torch.stack([block.diagonal(d, dim1=-2, dim2=-1) for block in blocks])


@dataclass(frozen=True, eq=False)
class Shifted(Origin):
    """Of units with means ``m`` less constants ``a``: E(X-a)(Y-b) = E XY - a E Y - b E X + ab."""

    before: MomentMaps
    means: tuple[Tensor, Tensor]
    shifts: tuple[Tensor, Tensor]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Covariances less what the constants take away."""
        shape = self.before.kxx.shape
        means, shifts = ([side.double().expand(shape) for side in both] for both in (self.means, self.shifts))
        (m, n), (a, b) = at_both(means[0], means[1], offset), at_both(shifts[0], shifts[1], offset)
        return lookup(self.before, offset) - a * n - m * b + a * b

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Constants do not move."""
        return tangents(self.before, offset)


@dataclass(frozen=True, eq=False)
class Multiplied(Origin):
    """Of products of two uncorrelated units, one of which is linear in zero-mean weights of its own."""

    first: MomentMaps
    second: MomentMaps

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset of both."""
        return (self.first, offset), (self.second, offset)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Covariances multiply."""
        return lookup(self.first, offset) * lookup(self.second, offset)

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """The rule of products."""
        first, second = (lookup_both(one, offset, values, tangents) for one in (self.first, self.second))
        return first[0] * second[1] + first[1] * second[0]


def lookup_both(state: MomentMaps, offset: Offset, values: Lookup, tangents: Lookup) -> tuple[Cross, Cross]:
    """What is, and how it moves."""
    return values(state, offset), tangents(state, offset)


@dataclass(frozen=True, eq=False)
class Activations(Origin):
    """Of an activation of Gaussian units: the dual, with the variances at both positions."""

    before: MomentMaps
    sigma: Activation

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def work(self, offset: Offset) -> int:
        """An integral costs more than a formula."""
        if self.sigma.planar:
            return _PLANE
        return _INTEGRAL if self.sigma.method == "quadrature" else 1

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Four duals."""
        covariance = lookup(self.before, offset)
        first, second = at_both(self.before.kxx.double(), self.before.kyy.double(), offset)
        if offset is EVERY:
            return self._every(first, second, covariance)
        return self._duals(first, second, covariance)

    def _every(self, first: Tensor, second: Tensor, covariance: Cross) -> Cross:
        """By the series; of nearly equal variances, as behind a norm, from a table; else one half is enough."""
        whole = dual_matrix(self.sigma, first[..., 0], covariance)
        if whole is not None:
            return whole
        least, most = float(first.min()), float(first.max())
        if self.sigma.integrated and covariance.numel() > _TABLE and 0 < most <= _NEARLY * least:
            return self._from_tables(least, most, first, second, covariance)
        size = covariance.shape[-1]
        rows, columns = torch.triu_indices(size, size)
        half = (one.expand_as(covariance)[..., rows, columns] for one in (first, second, covariance))
        duals = self._duals(*half)
        whole = torch.empty_like(covariance)
        whole[..., rows, columns] = duals
        whole[..., columns, rows] = duals
        return whole

    def _from_tables(self, least: float, most: float, first: Tensor, second: Tensor, covariance: Cross) -> Cross:
        """The dual as a function of the angle at two variances, by cubics, and between these by a straight line."""
        size = (first * second).sqrt()
        place = torch.arccos((covariance / size).clamp(-1, 1)).mul_((_NODES - 1) / math.pi)
        below = place.long().clamp_(1, _NODES - 3)
        t = place.sub_(below)
        cubic = (
            -t * (t - 1) * (t - 2) / 6,
            (t + 1) * (t - 1) * (t - 2) / 2,
            -(t + 1) * t * (t - 2) / 2,
            (t + 1) * t * (t - 1) / 6,
        )
        angle = torch.linspace(0, math.pi, _NODES, dtype=torch.float64)
        tables = []
        for variance in (least, most):
            same = torch.full_like(angle, variance)
            nodes = self._duals(same, same, variance * angle.cos())
            tables.append(
                sum((weight * nodes[below + shift - 1] for shift, weight in enumerate(cubic)), angle.new_zeros(()))
            )
        share = (size - least) / (most - least) if most > least else 0.0
        result: Cross = tables[0] + share * (tables[1] - tables[0])
        return result

    def _duals(self, first: Tensor, second: Tensor, covariance: Tensor) -> Tensor:
        fused = loops.large_loops(covariance) if self.sigma.name == "relu" else None
        if fused is not None:
            gap = (first + second - 2 * covariance).contiguous()
            fused.relu_step(as_numpy(first), as_numpy(second), as_numpy(gap))
            return (first + second - gap) / 2
        limit = (first * second).sqrt()  # rounding must not carry a cosine beyond 1
        covariance = covariance.clamp(-limit, limit)
        if self.sigma.integrated and (self.sigma.planar or covariance.numel() >= LARGE):  # many are interpolated
            moments = transformed(self.sigma, first, second, first + second - 2 * covariance)
            return (moments[0] + moments[1] - moments[2]) / 2
        result: Tensor = self.sigma.dual(first, second, covariance)
        return result

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Times E σ'(X)σ'(Y), by which gradients pass."""
        first, second = at_both(self.before.kxx.double(), self.before.kyy.double(), offset)
        return slopes(self.sigma, first, second, values(self.before, offset)) * tangents(self.before, offset)


@dataclass(frozen=True, eq=False)
class _OfAll(Origin):
    """Of several states, each at the same offset."""

    terms: tuple[MomentMaps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset of every one."""
        return ((term, offset) for term in self.terms)


@dataclass(frozen=True, eq=False)
class SummedBranches(_OfAll):
    """Of a sum of uncorrelated units."""

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Covariances add."""
        first, *rest = (lookup(term, offset) for term in self.terms)
        return sum(rest, first)


@dataclass(frozen=True, eq=False)
class StackedChannels(_OfAll):
    """Of channels put side by side."""

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Blocks side by side."""
        return torch.cat([lookup(term, offset) for term in self.terms], dim=2)


@dataclass(frozen=True, eq=False)
class JoinedPositions(Origin):
    """Of positions of uncorrelated states one after the other: between them nothing."""

    parts: tuple[MomentMaps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """All positions of every part."""
        return ((part, EVERY) for part in self.parts)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Blocks on the diagonal, for x, for y and between them."""
        if offset is not EVERY:
            raise NotCovered("it averages positions whose covariances are not known")
        grams = [lookup(part, EVERY) for part in self.parts]
        sizes = [gram.shape[-1] // 2 for gram in grams]
        count = sum(sizes)
        whole = grams[0].new_zeros((*grams[0].shape[:-2], 2 * count, 2 * count))
        start = 0
        for gram, size in zip(grams, sizes, strict=True):
            place = torch.cat([torch.arange(start, start + size), torch.arange(count + start, count + start + size)])
            whole[..., place[:, None], place] = gram
            start += size
        return whole


@dataclass(frozen=True, eq=False)
class PermutedPositions(Origin):
    """Of positions in another order or shape, as patches that become tokens: known for all of them together only."""

    before: MomentMaps
    where: Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """All positions."""
        if offset is not EVERY:
            raise NotCovered("it averages positions whose covariances are not known")
        return ((self.before, EVERY),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Rows and columns at their new places, 0 for a zero."""
        place, count = self.where.flatten(), math.prod(self.before.positions)
        both = torch.cat([place.clamp_min(0), place.clamp_min(0) + count])
        inside = (place >= 0).double().repeat(2)
        return lookup(self.before, EVERY)[..., both, :][..., both] * inside[:, None] * inside


@dataclass(frozen=True, eq=False)
class SelectedBlocks(Origin):
    """Of some of the blocks of channels."""

    before: MomentMaps
    blocks: tuple[int, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Of these blocks."""
        return lookup(self.before, offset)[:, :, list(self.blocks)]

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """One block is all of them."""
        return (self.before, 1.0, 1.0) if len(self.before.sizes) == len(self.blocks) == 1 else None


@dataclass(frozen=True, eq=False)
class GatheredPositions(Origin):
    """Of units read from other positions, axis by axis: ``sites[a][p]`` is where output p reads, -1 for a zero."""

    before: MomentMaps
    sites: tuple[Tensor, ...]
    _known: dict[tuple[int, int], Ways] = field(default_factory=dict)

    def _ways(self, offset: Offset) -> list[Ways]:
        for key in enumerate(offset):
            if key not in self._known:
                self._known[key] = _ways(self.sites[key[0]], key[1])
        return [self._known[key] for key in enumerate(offset)]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Every difference of the sites read by p and p + offset."""
        if offset is EVERY:
            return ((self.before, EVERY),)
        return ((self.before, tuple(combination)) for combination in itertools.product(*self._ways(offset)))

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Put together from the maps of all those offsets."""
        if offset is EVERY:
            return self._every(lookup(self.before, EVERY))
        ways = self._ways(offset)
        size = [max(0, len(sites) - abs(d)) for sites, d in zip(self.sites, offset)]
        shape = (4, *self.before.kxx.shape[:2], *size)
        out = torch.zeros(shape, dtype=torch.float64, device=self.before.kxx.device)
        for combination in itertools.product(*(way.items() for way in ways)):
            inner = tuple(delta for delta, _ in combination)
            read = _mesh([sites for _, (_, sites) in combination])
            write = _mesh([places for _, (places, _) in combination])
            out[(..., *write)] = lookup(self.before, inner)[(..., *read)]
        return out

    def places(self) -> Tensor:
        """The flattened position that every output reads, -1 for a zero."""
        place = torch.zeros((), dtype=torch.long)
        zero = torch.zeros((), dtype=torch.bool)
        for sites, size in zip(self.sites, self.before.positions, strict=True):
            place = place[..., None] * size + sites.clamp_min(0)
            zero = zero[..., None] | (sites < 0)
        return torch.where(zero, -1, place).flatten()

    def _every(self, inner: Cross) -> Cross:
        place, count = self.places(), math.prod(self.before.positions)
        both = torch.cat([place.clamp_min(0), place.clamp_min(0) + count])
        moved = inner[..., both, :][..., both]
        outside = (place < 0).repeat(2)
        if bool(outside.any()):
            moved[..., outside, :] = 0
            moved[..., outside] = 0
        return moved


def _ways(sites: Tensor, d: int) -> Ways:
    """Along one axis: difference of sites → (places among the outputs, indices into that difference's map)."""
    first, second = base(sites, (d,)), partner(sites, (d,))
    valid = (first >= 0) & (second >= 0)
    result = {}
    for delta in torch.unique((second - first)[valid]).tolist():
        places = (valid & (second - first == delta)).nonzero()[:, 0]
        result[int(delta)] = (places, first[places] - max(0, -int(delta)))
    return result


def _mesh(axes: list[Tensor]) -> Any:
    """What indexes a grid of these places: slices where they are neighbours, which saves copies."""
    runs = [_run(index) for index in axes]
    if all(run is not None for run in runs):
        return tuple(runs)
    return tuple(index.reshape([-1 if k == axis else 1 for k in range(len(axes))]) for axis, index in enumerate(axes))


def _run(places: Tensor) -> slice | None:
    first, last = (int(places[0]), int(places[-1])) if len(places) else (0, -1)
    return slice(first, last + 1) if last - first + 1 == len(places) else None
