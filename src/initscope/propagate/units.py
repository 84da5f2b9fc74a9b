"""Units of token maps at other places, as heads and samples along another axis (`Units`); drawn values (`Drawn`).

Attention cuts the channels of every token into heads, and torch's own folds samples and heads into one axis. A `Units`
keeps the maps it was cut from and the number of every unit, so that whatever moves units is run on the numbers. What no
rule covers, as rotations of queries by their position, is run on values that are drawn from the maps: jointly for all
tokens of x and y, every channel by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import Status, weakest
from initscope.graph import SampleAxis
from initscope.propagate.attended import Root
from initscope.propagate.covariances import both_factors, gram, unscaled
from initscope.propagate.draws import factor_of
from initscope.propagate.heads import entropy_of
from initscope.propagate.laws import WRITTEN_OUT, Activated
from initscope.propagate.moments import Constants, Given, Maps, NotCovered, Rescaled, State
from initscope.propagate.numbering import Lines, lines, numbers, same_units, viewed
from initscope.propagate.origins import Chosen
from initscope.propagate.registry import Context
from initscope.propagate.totals import Totals, own_call
from initscope.theory.attention import mean_token_cosine

__all__ = [
    "Drawn",
    "Units",
    "drawn",
    "fresh_values",
    "gaussian_values",
    "is_tokens",
    "moved_units",
    "placed",
    "token_cosine",
    "units_of",
]

_NOWHERE = SampleAxis(-1)  # samples do not lie along an axis
_LEAST_TOKENS = 4  # as where they are measured
_ROOTS = 4  # of Gram matrices that are kept: queries and keys share theirs
_VALUES = 8  # drawn values of so many states are kept: a step may read those of another again


@dataclass(frozen=True, eq=False)
class Drawn(Given):
    """Values of one drawn layer, ``[pairs, ...]``, or with the samples elsewhere, as ``place`` says."""

    weights: frozenset[object] = frozenset()
    place: SampleAxis | None = None
    samples: int = 0
    entropy: float = math.nan
    """Of weights of an attention, as `measurement.attention` has it."""

    @classmethod
    def of(
        cls, parents: Sequence[Drawn], place: SampleAxis | None, samples: int, *, attends: bool = False
    ) -> Callable[[Tensor, Tensor], Drawn]:
        """What makes values of a step that reads others; ``attends``: they are weights of an attention."""
        weights = frozenset[object]().union(*(parent.weights for parent in parents))
        status = weakest(*(parent.status for parent in parents))

        def make(x: Tensor, y: Tensor) -> Drawn:
            where = None if x.dim() > 0 and len(x) == samples == len(y) else place or _NOWHERE
            if where is not None and any(where.to_front(side, samples) is None for side in (x, y)):
                where = _NOWHERE
            entropy = entropy_of(x, y) if attends and x.dim() >= 3 else math.nan
            return cls(x, y, status, weights=weights, place=where, samples=samples, entropy=entropy)

        return make

    def as_maps(self, axis: int, groups: int = 1) -> Maps:
        """Mean squares over the channels."""
        if self.place is not None:
            raise NotCovered("samples do not lie on its first axis")
        maps = super().as_maps(axis, groups)
        return maps.after(weights=self.weights, status=self.status)

    def totals(self) -> Totals:
        """Sums over units."""
        if self.place is None:
            return super().totals()
        x, y = (self.place.to_front(side, self.samples) for side in (self.x, self.y))
        if x is None or y is None:
            raise NotCovered("it mixes samples")
        return replace(self, x=x, y=y, place=None).totals()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's output; where samples are not first, of all of them."""
        return tuple(self.x.shape[1:] if self.place is None else self.x.shape)

    @property
    def real(self) -> bool:
        """Whether these are real values, and it is known whose."""
        return super().real and self.place is not _NOWHERE


@dataclass(frozen=True, eq=False)
class Units:
    """Units of ``base``, which has one axis of positions and its channels last, at the places of ``source``.

    ``source`` holds (sample·T + token)·channels + channel, in the shape of the step's output with all its samples.
    """

    base: Maps
    source: Tensor
    note: str = ""
    entropy: float = math.nan

    @property
    def status(self) -> Status:
        """That of the maps."""
        return self.base.status

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's output; where samples are not first, of all of them."""
        samples = len(self.base.kxx)
        return tuple(self.source.shape[1:] if len(self.source) == samples else self.source.shape)

    def totals(self) -> Totals:
        """Sums over units."""
        base, (tokens, channels) = self.base, self.base.shape
        if self.source.numel() == len(base.kxx) * tokens * channels:
            return base.totals()  # every unit once
        edges = torch.tensor(base.sizes).cumsum(0)
        block = torch.bucketize((self.source % channels).contiguous(), edges, right=True)
        place = (self.source // channels * len(base.sizes) + block).flatten()
        counts = torch.bincount(place, minlength=len(base.kxx) * tokens * len(base.sizes))
        counts = counts.reshape(len(base.kxx), tokens, -1).mT.double()
        xx, yy, distance = ((counts * maps).sum(dim=(1, 2)) for maps in (base.kxx, base.kyy, base.d))
        return Totals(xx, yy, self.source.numel() // len(base.kxx), distance)

    def collapsed(self) -> Maps | Units:
        """The maps themselves, where all units are back at their places."""
        shape = self.whole
        if tuple(self.source.shape) != shape or not same_units(self.source, numbers(shape), shape):
            return self
        return replace(self.base, note=self.note)

    @property
    def whole(self) -> tuple[int, ...]:
        """Shape of the maps' units with all samples."""
        return (len(self.base.kxx), *self.base.shape)

    def lines(self) -> Lines:
        """Where the vectors along the last axis stand."""
        return lines(self.source, self.whole)


def is_tokens(state: Any) -> bool:
    """Whether a state is of tokens with their channels last."""
    return isinstance(state, Maps) and not state.mixed and len(state.positions) == 1 and state.axis == 1


def units_of(state: State) -> Units:
    """All units of a state at their own places."""
    if isinstance(state, Given) and not state.x.is_floating_point():
        raise NotCovered("whole numbers have no moments")
    maps = state.as_maps(1) if isinstance(state, Given) and len(state.shape) == 2 else state
    if not isinstance(maps, Maps) or not is_tokens(maps):
        raise NotCovered("it is not known as tokens with channels")
    return Units(maps, numbers((len(maps.kxx), *maps.shape)))


def moved_units(units: Units, operation: Callable[[Tensor], Any]) -> Any:
    """The units after an operation that only moves, copies or drops them."""
    moved = own_call(operation, units.source)
    if isinstance(moved, Tensor):
        return placed(replace(units, source=moved, entropy=math.nan))
    return tuple(placed(replace(units, source=part, entropy=math.nan)) for part in moved)


def placed(units: Units) -> Maps | Units:
    """Maps where units, or some of their channels, stand as in maps."""
    base, source = units.base, units.source
    tokens, channels = base.shape
    if source.dim() != 3 or source.shape[:2] != (len(base.kxx), tokens) or source.shape[2] == channels:
        return units.collapsed()
    start, width = int(source[0, 0, 0]), source.shape[2]
    chosen = numbers(units.whole)[..., start : start + width]
    if start >= channels or chosen.shape != source.shape or not same_units(chosen, source, units.whole):
        return units
    edges = [sum(base.sizes[:k]) for k in range(len(base.sizes) + 1)]
    blocks = [k for k in range(len(base.sizes)) if edges[k] < start + width and start < edges[k + 1]]
    sizes = tuple(min(edges[k + 1], start + width) - max(edges[k], start) for k in blocks)
    kxx, kyy, d = (maps[:, blocks] for maps in (base.kxx, base.kyy, base.d))
    part = (base.order, start, start + width)
    return base.after(kxx=kxx, kyy=kyy, d=d, sizes=sizes, origin=Chosen(base, tuple(blocks)), part=part)


def drawn(state: Any, context: Context) -> Drawn | Any:
    """Values of a state, drawn once: whoever reads the state again reads the same ones."""
    if isinstance(state, Given) or not isinstance(state, (Maps, Units)):
        return state
    units = state if isinstance(state, Units) else units_of(state)
    base = units.base
    if base.order not in context.values:
        context.values[base.order] = fresh_values(base, context)
        while len(context.values) > _VALUES:
            context.values.popitem(last=False)
    x, y = (viewed(side, units.source, units.whole) for side in context.values[base.order])
    status = weakest(base.status, "sampled")
    first = len(x) == len(base.kxx) and bool((units.source[0] < math.prod(base.shape)).all())
    place = None if first else _NOWHERE
    return Drawn(x, y, status, weights=base.weights, place=place, samples=len(base.kxx))


def fresh_values(base: Maps, context: Context) -> tuple[Tensor, Tensor]:
    """New values of all units of a state, ``[pairs, tokens, channels]`` for x and for y."""
    if isinstance(base.unit, Constants):
        return base.unit.given.x, base.unit.given.y
    if isinstance(base.unit, Activated):
        before = drawn(base.unit.before, context)
        return base.unit.sigma(before.x), base.unit.sigma(before.y)
    if not base.gaussian:
        raise NotCovered("the law of its input is not known beyond second moments")
    parts = [gaussian_values(base, context, size, block) for block, size in enumerate(base.sizes)]
    x, y = (side.contiguous() for side in torch.cat(parts, dim=2).chunk(2, dim=1))
    if context.roots is not None:
        context.roots.append(Root(base, x.requires_grad_(), y.requires_grad_()))
    return x, y


def gaussian_values(base: Maps, context: Context, channels: int, block: int = 0) -> Tensor:
    """Values of new channels at all tokens of x, then of y: ``[pairs, 2T, channels]``."""
    context.sampled.append("heads")
    source, x, y = unscaled(base)
    if source.order not in context.factors:
        context.factors[source.order] = factor_of(gram(source, context.grams)).to(base.kxx.dtype)
        while len(context.factors) > _ROOTS:
            context.factors.popitem(last=False)
    root = context.factors[source.order][:, block]
    shape = (len(root), root.shape[-1], channels)
    values = root @ torch.randn(shape, generator=context.generator, dtype=root.dtype)
    return values.mul_(both_factors(source, x, y)[:, block, :, None].to(values.dtype))


def _is_part_of_activation(state: Any) -> bool:
    """Whether a state is a step on the way to an activation that is written out."""
    unit = state.unit
    while isinstance(unit, Rescaled):
        unit = unit.before.unit
    return isinstance(unit, Activated) and unit.sigma.name == WRITTEN_OUT


def token_cosine(state: Any, context: Context) -> float:
    """Mean cosine of the non-zero tokens of a sample, over x and y; NaN for states without tokens, or not known."""
    if isinstance(state, Given) and not isinstance(state, Drawn) and state.real and len(state.shape) == 2:
        state = state.as_maps(1)
    if not is_tokens(state) or min(state.shape) < _LEAST_TOKENS:
        return math.nan
    if _is_part_of_activation(state):
        return math.nan  # to integrate it for all tokens would cost more than all the rest
    source, x, y = unscaled(state)
    if len(state.sizes) > 1 or not all(isinstance(one, float) or bool((one > 0).all()) for one in (x, y)):
        source = state  # blocks or signs of their own: cosines are not those before
    if source.order not in context.cosines:
        try:
            context.cosines[source.order] = _mean_cosine(gram(source, context.grams), source.sizes)
        except NotCovered:
            return math.nan
    return context.cosines[source.order]


def _mean_cosine(matrix: Tensor, sizes: tuple[int, ...]) -> float:
    """Of two different tokens, within x and within y; NaN where no sample has two tokens that are not zero."""
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    matrix = matrix[:, 0] if len(sizes) == 1 else (matrix * shares[:, None, None]).sum(dim=1)
    tokens = matrix.shape[-1] // 2
    sides = (matrix[:, :tokens, :tokens], matrix[:, tokens:, tokens:])
    return float(torch.cat([mean_token_cosine(side) for side in sides]).nanmean())
