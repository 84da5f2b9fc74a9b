r"""Covariances between different positions, one offset at a time.

Whatever averages positions after the weights needs E[x_p y_{p+δ}] for δ ≠ 0. Convolutions do not mix offsets, so each
is its own recursion over maps of one image's size: `crosses` finds the offsets that every earlier layer must supply,
tells the cost before it is spent, and runs the recursion offset by offset. Attention needs all offsets at once: `gram`
runs the same recursion with whole matrices (`EVERY`) and remembers the last ones.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from initscope.propagate import loops
from initscope.propagate.budget import Budget
from initscope.propagate.moments import Cross, Lookup, Maps, NotCovered, Origin, Wanted
from initscope.propagate.windows import EVERY, Offset, at_both, base, partner
from initscope.theory._fast import as_numpy
from initscope.theory.activations import Activation

# fmt: off
__all__ = [
    "Activations", "Chosen", "Found", "Gathered", "Gram", "Grams", "Joined", "Multiplied", "Shifted",
    "Stacked", "Summed", "canonical", "closure", "covariances", "crosses", "gram", "nothing", "outside",
]
# fmt: on

_OVERHEAD = 1 << 15  # what one map costs beside its entries
_INTEGRAL, _PLANE = 256, 1024  # what an entry costs that is integrated, in one dimension and in two
_MEMORY = 1 << 29
_NODES, _TABLE = 513, 1 << 14  # of a dual as a function of the angle, and from how many entries on it pays
_NEARLY = 1.05  # ratio of variances between which a straight line is right to 1e-4


Found = dict[tuple[int, Offset], Cross]
Ways = dict[int, tuple[Tensor, Tensor]]


def crosses(state: Maps, offsets: Sequence[Offset], budget: Budget) -> Iterator[Cross]:
    """The covariances of ``state`` at each of ``offsets``, computed one after the other."""
    shared = _affordable([(state, offset) for offset in offsets], budget)
    known: Found = {}
    for offset in offsets:
        _evaluate([(state, offset)], known)
        yield _lookup(known)(state, offset)
        if not shared:
            known.clear()


def covariances(wanted: Iterable[Wanted], budget: Budget) -> Lookup:
    """All ``wanted`` covariances at once, to be looked up."""
    wanted = list(closure(wanted, deep=False))
    if not wanted:
        return _lookup({})
    shared = _affordable(wanted, budget)
    known: Found = {}
    if shared:
        _evaluate(wanted, known)
        return _lookup(known)
    for state, offset in wanted:
        passing: Found = {}
        _evaluate([(state, offset)], passing)
        known[state.order, offset] = passing[state.order, offset]
    return _lookup(known)


def _affordable(wanted: list[Wanted], budget: Budget) -> bool:
    """Whether offsets can share what they need of earlier layers, or memory asks to compute each alone.

    Refuses what takes too long.
    """
    needed = closure(wanted)
    entries = sum(_cost(state, offset) for state, offset in needed)
    budget.spend(entries, f"the covariances of {len(wanted)} offsets")
    return 8 * entries <= _MEMORY


def _lookup(known: Found) -> Lookup:
    def lookup(state: Maps, offset: Offset) -> Cross:
        if not any(offset) and offset is not EVERY:
            return aligned(state)
        if outside(state, offset):
            return nothing(state, offset)
        plain, swapped = canonical(offset)
        cross = known[state.order, plain]
        return cross[[0, 1, 3, 2]] if swapped else cross

    return lookup


def _evaluate(wanted: list[Wanted], known: Found) -> None:
    """The recursion over the layers; ``known`` holds what is there already, and then all that is wanted."""
    for state, offset in sorted(closure(wanted), key=lambda item: item[0].order):
        assert state.origin is not None
        if (state.order, offset) not in known:
            known[state.order, offset] = state.origin.cross(offset, _lookup(known))


def closure(wanted: Iterable[Wanted], *, deep: bool = True, also_aligned: bool = False) -> list[Wanted]:
    """Everything that has to be computed for ``wanted``, each once, offsets in their canonical direction.

    Not ``deep``: without the layers before. Offset 0, whose covariances every state has, only if ``also_aligned``.
    """
    found: dict[tuple[int, Offset], tuple[Maps, Offset]] = {}
    stack = list(wanted)
    while stack:
        state, offset = stack.pop()
        if not (any(offset) or also_aligned or offset is EVERY) or outside(state, offset):
            continue
        offset, _ = canonical(offset)
        if (state.order, offset) in found:
            continue
        if state.origin is None:
            raise NotCovered("it averages positions whose covariances are not known")
        found[state.order, offset] = (state, offset)
        if deep:
            stack.extend(state.origin.sources(offset))
    return list(found.values())


def _cost(state: Maps, offset: Offset) -> int:
    assert state.origin is not None
    entries = 4 * math.prod(state.kxx.shape[:2]) * math.prod(n - abs(d) for n, d in zip(state.positions, offset))
    return _OVERHEAD + state.origin.work(offset) * entries


def canonical(offset: Offset) -> tuple[Offset, bool]:
    """One of ±offset, and whether that is the other direction."""
    if offset is EVERY:
        return offset, False
    swapped = next((d for d in offset if d), 0) < 0
    return (tuple(-d for d in offset), True) if swapped else (offset, False)


def outside(state: Maps, offset: Offset) -> bool:
    """Whether no two positions are that far apart."""
    return offset is not EVERY and any(abs(d) >= n for n, d in zip(state.positions, offset, strict=True))


def nothing(state: Maps, offset: Offset) -> Cross:
    """The covariances of no positions."""
    sizes = [max(0, n - abs(d)) for n, d in zip(state.positions, offset)]
    return torch.zeros((4, *state.kxx.shape[:2], *sizes), dtype=torch.float64, device=state.kxx.device)


def aligned(state: Maps) -> Cross:
    """The covariances at offset 0."""
    kxx, kyy, d = (maps.double() for maps in (state.kxx, state.kyy, state.d))
    kxy = (kxx + kyy - d) / 2
    return torch.stack([kxx, kyy, kxy, kxy])


Grams = OrderedDict[int, Tensor]
"""Gram matrices of the last states that asked for theirs, by `Maps.order`."""
_REMEMBERED = 12


def gram(state: Maps, known: Grams) -> Tensor:
    """E of the products of a unit at every two positions of x and y: ``[pairs, blocks, 2P, 2P]``, in float64.

    ``known`` holds what was found last: steps in a row read each other's.
    """
    needed: dict[int, Maps] = {}
    stack = [state]
    while stack:
        one = stack.pop()
        if one.order in known or one.order in needed:
            continue
        if one.origin is None:
            raise NotCovered("it reads covariances between positions that are not known")
        entries = 4 * math.prod(one.kxx.shape[:2]) * math.prod(one.positions) ** 2
        if 8 * entries > _MEMORY:
            raise NotCovered(
                f"the covariances of {math.prod(one.positions)} positions would take {8 * entries / 1e9:.1f} GB "
                f"(bound: {_MEMORY / 1e9:.1f} GB); fewer pairs or shorter sequences would do without whole networks"
            )
        needed[one.order] = one
        stack += [source for source, offset in one.origin.sources(EVERY) if offset is EVERY]
    found: Found = {(order, EVERY): known[order][None] for order in known}
    for order in sorted(needed):
        origin = needed[order].origin
        assert origin is not None
        found[order, EVERY] = origin.cross(EVERY, _lookup(found))
        known[order] = found[order, EVERY][0]
    known.move_to_end(state.order)
    result = known[state.order]
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
    return result


@dataclass(frozen=True, eq=False)
class Gram(Origin):
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

    before: Maps
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

    first: Maps
    second: Maps

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


def lookup_both(state: Maps, offset: Offset, values: Lookup, tangents: Lookup) -> tuple[Cross, Cross]:
    """What is, and how it moves."""
    return values(state, offset), tangents(state, offset)


@dataclass(frozen=True, eq=False)
class Activations(Origin):
    """Of an activation of Gaussian units: the dual, with the variances at both positions."""

    before: Maps
    sigma: Activation

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def work(self, offset: Offset) -> int:
        """An integral costs more than a formula."""
        if self.sigma.integrated:
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
        """Of a symmetric matrix one half is enough; of nearly equal variances, as behind a norm, a table."""
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
            tables.append(sum(weight * nodes[below + shift - 1] for shift, weight in enumerate(cubic)))
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
        if self.sigma.integrated:  # the transform of many elements is interpolated
            moments: tuple[Tensor, ...] = self.sigma.transform(first, second, first + second - 2 * covariance)
            return (moments[0] + moments[1] - moments[2]) / 2
        result: Tensor = self.sigma.dual(first, second, covariance)
        return result

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Times E σ'(X)σ'(Y), by which gradients pass."""
        first, second = at_both(self.before.kxx.double(), self.before.kyy.double(), offset)
        limit = (first * second).sqrt()
        slope = self.sigma.derivative_dual(first, second, values(self.before, offset).clamp(-limit, limit))
        product: Tensor = slope * tangents(self.before, offset)
        return product


@dataclass(frozen=True, eq=False)
class Summed(Origin):
    """Of a sum of uncorrelated units."""

    terms: tuple[Maps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset of every term."""
        return ((term, offset) for term in self.terms)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Covariances add."""
        first, *rest = (lookup(term, offset) for term in self.terms)
        return sum(rest, first)


@dataclass(frozen=True, eq=False)
class Stacked(Origin):
    """Of channels put side by side."""

    parts: tuple[Maps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset of every part."""
        return ((part, offset) for part in self.parts)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Blocks side by side."""
        return torch.cat([lookup(part, offset) for part in self.parts], dim=2)


@dataclass(frozen=True, eq=False)
class Joined(Origin):
    """Of positions of uncorrelated states one after the other: between them nothing."""

    parts: tuple[Maps, ...]

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
class Chosen(Origin):
    """Of some of the blocks of channels."""

    before: Maps
    blocks: tuple[int, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        return ((self.before, offset),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Of these blocks."""
        return lookup(self.before, offset)[:, :, list(self.blocks)]


@dataclass(frozen=True, eq=False)
class Gathered(Origin):
    """Of units read from other positions, axis by axis: ``sites[a][p]`` is where output p reads, -1 for a zero."""

    before: Maps
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

    def _every(self, inner: Cross) -> Cross:
        place = torch.zeros((), dtype=torch.long)
        zero = torch.zeros((), dtype=torch.bool)
        for sites, size in zip(self.sites, self.before.positions, strict=True):
            place = place[..., None] * size + sites.clamp_min(0)
            zero = zero[..., None] | (sites < 0)
        count = math.prod(self.before.positions)
        both = torch.cat([place.flatten(), place.flatten() + count])
        moved = inner[..., both, :][..., both]
        outside = zero.flatten().repeat(2)
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
