r"""Covariances between different positions, one offset at a time.

Whatever averages positions after the weights needs E[x_p y_{p+δ}] for δ ≠ 0. Convolutions do not mix offsets, so each
is its own recursion over maps of one image's size: `crosses` finds the offsets that every earlier layer must supply,
reports the cost before it is spent, and runs the recursion offset by offset. Attention needs all offsets at once:
`gram` runs the same recursion with whole matrices (`EVERY`) and remembers the last ones.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.propagate.bases import Cross, Factor, Lookup, Wanted
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, Offset

if TYPE_CHECKING:
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = [
    "Grams", "KnownCrosses", "both_factors", "canonical", "closure", "covariances", "crosses", "gram", "nothing",
    "outside", "unscaled",
]  # fmt: skip

_OVERHEAD = 1 << 15  # what one map costs in addition to its entries
_MEMORY = 1 << 29


KnownCrosses = dict[tuple[int, Offset], Cross]


def crosses(state: MomentMaps, offsets: Sequence[Offset], budget: CovarianceBudget) -> Iterator[Cross]:
    """The covariances of ``state`` at each of ``offsets``, computed one after the other."""
    shared = _affordable([(state, offset) for offset in offsets], budget)
    known: KnownCrosses = {}
    for offset in offsets:
        _evaluate([(state, offset)], known)
        yield _lookup(known)(state, offset)
        if not shared:
            known.clear()


def covariances(wanted: Iterable[Wanted], budget: CovarianceBudget) -> Lookup:
    """All ``wanted`` covariances at once, to be looked up."""
    wanted = list(closure(wanted, deep=False))
    if not wanted:
        return _lookup({})
    shared = _affordable(wanted, budget)
    asked = frozenset((state.order, offset) for state, offset in wanted)
    if budget.found_last[0] != asked:
        budget.found_last = (asked, _evaluated(wanted, shared=shared))
    return _lookup(budget.found_last[1])


def _evaluated(wanted: list[Wanted], *, shared: bool) -> KnownCrosses:
    """The ``wanted`` covariances; those of earlier layers are ``shared``, or computed for each alone and dropped."""
    known: KnownCrosses = {}
    for together in [wanted] if shared else [[item] for item in wanted]:
        passing: KnownCrosses = {}
        _evaluate(together, passing)
        known.update({(state.order, offset): passing[state.order, offset] for state, offset in together})
    return known


def _affordable(wanted: list[Wanted], budget: CovarianceBudget) -> bool:
    """Whether offsets can share what they need of earlier layers, or memory asks to compute each alone.

    Refuses what takes too long.
    """
    needed = closure(wanted)
    entries = sum(_cost(state, offset) for state, offset in needed)
    budget.spend(entries, f"the covariances of {len(wanted)} offsets")
    return 8 * entries <= _MEMORY


def _lookup(known: KnownCrosses) -> Lookup:
    def lookup(state: MomentMaps, offset: Offset) -> Cross:
        if not any(offset) and offset is not EVERY:
            return aligned(state)
        if outside(state, offset):
            return nothing(state, offset)
        plain, swapped = canonical(offset)
        cross = known[state.order, plain]
        return cross[[0, 1, 3, 2]] if swapped else cross

    return lookup


def _evaluate(wanted: list[Wanted], known: KnownCrosses) -> None:
    """The recursion over the layers; ``known`` holds what is there already, and then all that is wanted."""
    for state, offset in sorted(closure(wanted), key=lambda item: item[0].order):
        assert state.origin is not None
        if (state.order, offset) not in known:
            known[state.order, offset] = state.origin.cross(offset, _lookup(known))


def closure(wanted: Iterable[Wanted], *, deep: bool = True, also_aligned: bool = False) -> list[Wanted]:
    """Everything that has to be computed for ``wanted``, each once, offsets in their canonical direction.

    Not ``deep``: without the layers before. Offset 0, whose covariances every state has, only if ``also_aligned``.
    """
    wanted_by_key: dict[tuple[int, Offset], tuple[MomentMaps, Offset]] = {}
    stack = list(wanted)
    while stack:
        state, offset = stack.pop()
        if not (any(offset) or also_aligned or offset is EVERY) or outside(state, offset):
            continue
        offset, _ = canonical(offset)
        if (state.order, offset) in wanted_by_key:
            continue
        if state.origin is None:
            raise NotCovered("it averages positions whose covariances are not known")
        wanted_by_key[state.order, offset] = (state, offset)
        if deep:
            stack.extend(state.origin.sources(offset))
    return list(wanted_by_key.values())


def _cost(state: MomentMaps, offset: Offset) -> int:
    assert state.origin is not None
    entries = 4 * math.prod(state.kxx.shape[:2]) * math.prod(n - abs(d) for n, d in zip(state.positions, offset))
    return _OVERHEAD + state.origin.cost(offset) * entries


def canonical(offset: Offset) -> tuple[Offset, bool]:
    """One of ±offset, and whether that is the other direction."""
    if offset is EVERY:
        return offset, False
    swapped = next((d for d in offset if d), 0) < 0
    return (tuple(-d for d in offset), True) if swapped else (offset, False)


def outside(state: MomentMaps, offset: Offset) -> bool:
    """Whether no two positions are that far apart."""
    return offset is not EVERY and any(abs(d) >= n for n, d in zip(state.positions, offset, strict=True))


def nothing(state: MomentMaps, offset: Offset) -> Cross:
    """The covariances of no positions."""
    sizes = [max(0, n - abs(d)) for n, d in zip(state.positions, offset)]
    return torch.zeros((4, *state.kxx.shape[:2], *sizes), dtype=torch.float64, device=state.kxx.device)


def aligned(state: MomentMaps) -> Cross:
    """The covariances at offset 0."""
    kxx, kyy, d = (maps.double() for maps in (state.kxx, state.kyy, state.d))
    kxy = (kxx + kyy - d) / 2
    return torch.stack([kxx, kyy, kxy, kxy])


Grams = OrderedDict[int, Tensor]
"""Gram matrices of the last states that asked for theirs, by `MomentMaps.order`."""
_REMEMBERED = 12


def gram(state: MomentMaps, known: Grams) -> Tensor:
    """E of the products of a unit at every two positions of x and y: ``[pairs, blocks, 2P, 2P]``, in float64.

    ``known`` holds what was found last: steps in a row read each other's.
    """
    needed: dict[int, MomentMaps] = {}
    source, x, y = unscaled(state)
    stack = [source]
    while stack:
        current = stack.pop()
        if current.order in known or current.order in needed:
            continue
        if current.origin is None:
            raise NotCovered("it reads covariances between positions that are not known")
        entries = 4 * math.prod(current.kxx.shape[:2]) * math.prod(current.positions) ** 2
        if 8 * entries > _MEMORY:
            raise NotCovered(
                f"the covariances of {math.prod(current.positions)} positions would take {8 * entries / 1e9:.1f} GB "
                f"(bound: {_MEMORY / 1e9:.1f} GB); fewer pairs or shorter sequences would do without whole networks"
            )
        needed[current.order] = current
        stack += [unscaled(before)[0] for before, offset in current.origin.sources(EVERY) if offset is EVERY]
    crosses_of = dict(known)
    for order in sorted(needed):
        origin = needed[order].origin
        assert origin is not None
        crosses_of[order] = origin.cross(EVERY, lambda before, _: _scaled(crosses_of, *unscaled(before))[None])[0]
        known[order] = crosses_of[order]
    known.move_to_end(source.order)
    result = _scaled(known, source, x, y)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
    return result


def unscaled(state: MomentMaps) -> tuple[MomentMaps, Factor, Factor]:
    """The earliest state whose units these are but for a number for each position of x and of y, and the numbers."""
    x: Factor = 1.0
    y: Factor = 1.0
    while state.origin is not None and (scaling := state.origin.scaling()) is not None:
        state, a, b = scaling
        x, y = x * _double(a), y * _double(b)
    return state, x, y


def _double(factor: Factor) -> Factor:
    return factor.double() if isinstance(factor, Tensor) else factor


def both_factors(state: MomentMaps, x: Factor, y: Factor) -> Tensor:
    """Those numbers at every position of x, then of y: ``[pairs, blocks, 2P]``."""
    shape = state.kxx.shape
    sides = [torch.as_tensor(side, dtype=torch.float64).expand(shape).reshape(*shape[:2], -1) for side in (x, y)]
    return torch.cat(sides, dim=2)


def _scaled(known: Mapping[int, Tensor], source: MomentMaps, x: Factor, y: Factor) -> Tensor:
    matrix = known[source.order]
    if isinstance(x, float) and isinstance(y, float) and x == y:
        return matrix if x == 1 else matrix * (x * x)
    factors = both_factors(source, x, y)
    return (matrix * factors[..., :, None]).mul_(factors[..., None, :])
