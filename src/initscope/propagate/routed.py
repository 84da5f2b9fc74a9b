r"""Tokens that a router sends to some of its experts: rows in a drawn order, and what they come to at the tokens.

Logits of a router are drawn as heads are, and whatever chooses by them (top-k, sorting, offsets, masks) is run on the
drawn values. Experts are alike and independent: `RoutedTokens` keep what one of them would make of every token, and for each
row its token, its factor and its expert. Back at the tokens, with :math:`w_{te}` the share of expert e in token t,
covariances are :math:`C_{tt'}\sum_e w_{te}w_{t'e}`: two tokens have in common what both sent to the same expert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import Status
from initscope.graph.calls import UNCHANGED
from initscope.propagate.moments import InputValues, MomentMaps, NotCovered
from initscope.propagate.numbering import numbers
from initscope.propagate.registry import Context
from initscope.propagate.rules.gates import gated
from initscope.propagate.rules.merging import add
from initscope.propagate.rules.shapes import MOVES, move_of
from initscope.propagate.rules.tied import from_gram
from initscope.propagate.totals import Totals
from initscope.propagate.units import SampledUnits, UnitView, placed, units_of

__all__ = ["RoutedTokens", "by_rows", "chooses_tokens", "sent_to_experts"]

Sides = tuple[Tensor, Tensor]
_WRITES = ("index_add", "setitem", "index_put")


@dataclass(frozen=True, eq=False)
class RoutedTokens:
    """Rows ``[..., channels]``: each is a token of ``base``, in the order of x and of y, times a factor.

    Attributes
    ----------
    base : Maps
        What one expert makes of all tokens.
    token : tuple of Tensor
        Of every row of x and of y, sample·T + token.
    factor : tuple of Tensor
        What it is multiplied by.
    expert : tuple of Tensor
        Which expert made it: rows of two experts have nothing in common.
    onto : Maps or None
        A state at the same tokens to which the rows were added.
    weights : frozenset
        Those that the order was drawn from.
    """

    base: MomentMaps
    token: Sides
    factor: Sides
    expert: Sides
    onto: MomentMaps | None = None
    weights: frozenset[object] = frozenset()
    note: str = ""

    @property
    def status(self) -> Status:
        """That of the states, behind a drawn order."""
        return "closed form after sampling"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's rows, where they lie sample by sample."""
        lead, samples = self.token[0].shape, len(self.base.kxx)
        return (lead[0] // samples, *lead[1:], self.base.channels)

    @property
    def in_order(self) -> bool:
        """Whether rows lie sample by sample, those of x and of y at the same tokens."""
        x, y = self.token
        samples, tokens = self.base.kxx.shape[0], self.base.kxx.shape[2]
        if x.shape != y.shape or x.numel() == 0 or len(x) % samples or not torch.equal(x, y):
            return False
        return bool((x.reshape(samples, -1) // tokens == torch.arange(samples)[:, None]).all())

    @property
    def plain(self) -> bool:
        """Whether these are the tokens of a state as they are."""
        return self.onto is None and not any(bool((one != 1).any()) for one in self.factor)

    def totals(self) -> Totals:
        """Sums over units."""
        base, (a, b) = self.base, self.factor
        place, samples = self.token[0].flatten(), len(self.base.kxx)
        xx, yy, d = (maps[:, 0].flatten()[place].double() for maps in (base.kxx, base.kyy, base.d))
        a, b = (one.flatten().double() for one in (a, b))
        both = a * b * (self.expert[0] == self.expert[1]).flatten()
        own, other = a * a, b * b
        distance = (own - both) * xx + (other - both) * yy + both * d
        sums = [one.reshape(samples, -1).sum(dim=1) * base.channels for one in (own * xx, other * yy, distance)]
        return Totals(sums[0], sums[1], place.numel() // samples * base.channels, sums[2])

    def moved(self, operation: Callable[[Tensor, int], Tensor]) -> RoutedTokens:
        """The rows after an operation on numbers of rows, of x (0) and of y (1)."""
        found = [
            operation(torch.arange(one.numel()).reshape(one.shape), side).long() for side, one in enumerate(self.token)
        ]
        changed = {
            name: tuple(one.reshape(-1)[where] for one, where in zip(getattr(self, name), found, strict=True))
            for name in ("token", "factor", "expert")
        }
        return replace(self, note="", **changed)  # type: ignore[arg-type]

    def through(self, layer: Callable[[MomentMaps], MomentMaps]) -> RoutedTokens:
        """The rows after a layer that reads all channels of each."""
        if not self.plain:
            raise NotCovered("it reads sums of experts before they are back at their tokens")
        after = layer(self.base)
        return replace(self, base=replace(after, note=""), note=after.note)

    def at_tokens(self, context: Context) -> MomentMaps:
        """The sum of the rows of every token, 0 where there is none."""
        base = self.base
        samples, tokens = base.kxx.shape[0], base.kxx.shape[2]
        experts = 1 + max(int(one.max()) if one.numel() else 0 for one in self.expert)
        shares = []
        for token, factor, expert in zip(self.token, self.factor, self.expert, strict=True):
            share = torch.zeros(samples * tokens * experts, dtype=torch.float64)
            share.index_add_(0, (token * experts + expert).flatten(), factor.flatten().double())
            shares.append(share.reshape(samples, tokens, experts))
        both = torch.cat(shares, dim=1)
        together = from_gram(base, both @ both.mT, base.channels, self.weights)
        after = gated(base, together)
        return after if self.onto is None else _sum(context, self.onto, after)


def _sum(context: Context, a: Any, b: Any) -> MomentMaps:
    result = add(context, a, b)
    if not isinstance(result, MomentMaps):
        raise NotCovered("it adds rows to what is no state of tokens")
    return result


def chooses_tokens(name: str, args: Any) -> bool:
    """Whether a call reads tokens in an order that was drawn."""
    if name not in ("getitem", "index_select") or len(args) < 2 or isinstance(args[0], (SampledUnits, Tensor)):
        return False
    index = args[1] if name == "getitem" else args[2]
    return any(isinstance(one, SampledUnits) for one in (index if isinstance(index, tuple) else (index,)))


def rows_of(state: Any, index: Any) -> RoutedTokens:
    """Tokens at drawn places."""
    units = state if isinstance(state, UnitView) else units_of(state)
    base, channels = units.base, units.base.channels
    if len(base.sizes) > 1 or units.source.shape[-1] != channels:
        raise NotCovered("it reads some of the channels in an order that was drawn")
    row = units.source[..., 0] // channels
    if not torch.equal(row[..., None] * channels + torch.arange(channels), units.source):
        raise NotCovered("it reads some of the channels in an order that was drawn")
    token = _both(lambda side: row[_side(index, side)])
    ones, zeros = ((make(token[0]), make(token[1])) for make in (torch.ones_like, torch.zeros_like))
    return RoutedTokens(
        base, token, (ones[0].to(base.kxx.dtype), ones[1].to(base.kxx.dtype)), zeros, weights=_drawn_by(index)
    )


def _both(function: Callable[[int], Tensor]) -> Sides:
    try:
        return function(0), function(1)
    except (IndexError, RuntimeError) as error:
        raise NotCovered(f"tokens cannot be read at the drawn places ({error})") from error


def _side(value: Any, side: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_side(one, side) for one in value)
    return (value.x, value.y)[side] if isinstance(value, InputValues) else value


def _drawn_by(index: Any) -> frozenset[object]:
    parts = index if isinstance(index, tuple) else (index,)
    return frozenset[object]().union(*(one.weights for one in parts if isinstance(one, SampledUnits)))


def by_rows(name: str, args: Any, kwargs: Any, context: Context, rule: Callable[[Any, Any], Any]) -> Any:
    """The value of a step that reads rows; ``rule(args, kwargs)`` is what it does to states of tokens."""
    first = args[0] if args else None
    if chooses_tokens(name, args):
        return _reordered(first, args[1]) if isinstance(first, RoutedTokens) else rows_of(first, args[-1])
    if name in UNCHANGED and isinstance(first, RoutedTokens):
        return first
    if name in _WRITES:
        return _written(name, args, kwargs, context)
    if name == "sum" and isinstance(first, RoutedTokens):
        return _summed(first, args[1:], kwargs, context)
    if name in MOVES and isinstance(first, RoutedTokens):
        moved = _moved(name, first, args, kwargs)
        if moved is not None:
            return moved
    rows = [one for one in args if isinstance(one, RoutedTokens)]
    if name in ("mul", "add") and len(args) == 2:
        one, other = args if isinstance(first, RoutedTokens) else args[::-1]
        if name == "mul" and isinstance(other, SampledUnits):
            return _weighed(one, other)
        if name == "add":
            return _added(one, other)
    if not rows or not all(one.plain for one in rows):
        raise NotCovered("it reads sums of experts before they are back at their tokens")
    return _lifted(rows, args, kwargs, rule)


def _lifted(rows: list[RoutedTokens], args: Any, kwargs: Any, rule: Callable[[Any, Any], Any]) -> Any:
    """A step that acts on every row alike: what it does to all tokens."""
    like = rows[0]
    same = all(_same(a, b) for one in rows for a, b in zip(_places(one), _places(like), strict=True))
    if not same:
        raise NotCovered("it puts rows of different experts together")
    rank = like.token[0].dim()
    given = [one.base if isinstance(one, RoutedTokens) else one for one in args]
    if any(isinstance(one, InputValues) for one in given):
        raise NotCovered("it reads rows and other values together")
    named = {key: -1 if key == "dim" and value == rank else value for key, value in kwargs.items()}
    result = rule(tuple(given), named)

    def back(state: Any) -> RoutedTokens:
        if not isinstance(state, MomentMaps) or state.positions != like.base.positions:
            raise NotCovered("it mixes rows")
        return replace(like, base=replace(state, note=""), note=state.note)

    return tuple(map(back, result)) if type(result) is tuple else back(result)


def _places(rows: RoutedTokens) -> tuple[Tensor, ...]:
    return (*rows.token, *rows.expert)


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or torch.equal(a, b)


def _reordered(rows: RoutedTokens, index: Any) -> RoutedTokens:
    def chosen(number: Tensor, side: int) -> Tensor:
        return _both(lambda _: number[_side(index, side)])[0]

    return rows.moved(chosen)


def _moved(name: str, rows: RoutedTokens, args: Any, kwargs: Any) -> RoutedTokens | None:
    """Rows in another shape; None where the step cuts channels."""
    name, channels = "reshape" if name == "view" else name, rows.base.channels

    def move(number: Tensor, side: int) -> Tensor:
        wide = number[..., None].expand(*number.shape, channels)
        after = move_of(name, wide, *_side(tuple(args[1:]), side), **kwargs)
        if not isinstance(after, Tensor) or after.dim() < 2 or after.shape[-1] != channels:
            raise _CutsChannels
        if not bool((after == after[..., :1]).all()):
            raise NotCovered("it mixes rows and channels")
        return after[..., 0]

    try:
        return rows.moved(move)
    except _CutsChannels:
        return None
    except RuntimeError as error:
        raise NotCovered(f"rows of experts cannot be moved so ({error})") from error


class _CutsChannels(Exception):
    """It is no move of whole rows."""


def _weighed(rows: RoutedTokens, factor: SampledUnits) -> RoutedTokens:
    """Rows times a number for each that was drawn with their order."""
    sides = []
    for token, own, drawn in zip(rows.token, rows.factor, (factor.x, factor.y), strict=True):
        if drawn.dim() != token.dim() + 1 or drawn.shape[-1] != 1 or drawn.shape[:-1] != token.shape:
            raise NotCovered("it multiplies rows by what is not one number for each")
        sides.append(own * drawn[..., 0].detach().to(own.dtype))
    return replace(rows, factor=(sides[0], sides[1]), weights=rows.weights | factor.weights, note="")


def _added(rows: RoutedTokens, other: Any) -> RoutedTokens:
    """Rows added to what stood at their tokens: nothing, or a state."""
    if isinstance(other, SampledUnits) and not bool(other.x.any()) and not bool(other.y.any()):
        return rows
    if isinstance(other, RoutedTokens) and all(_same(a, b) for a, b in zip(rows.token, other.token, strict=True)):
        for added, onto in ((rows, other), (other, rows)):
            if added.onto is None and onto.plain:
                return replace(added, onto=onto.base, note="")
    raise NotCovered("it adds rows of different tokens")


def _summed(rows: RoutedTokens, args: Any, kwargs: Any, context: Context) -> MomentMaps | UnitView:
    """The sum over the rows of every token."""
    (dim,) = (*args, *kwargs.values()) or (None,)
    lead = rows.token[0].dim()
    if not isinstance(dim, int) or not 0 <= dim % (lead + 1) < lead:
        raise NotCovered("it sums the channels of rows")
    first = [one.narrow(dim % (lead + 1), 0, 1) for one in rows.token]
    if any(bool((one != own).any()) for one, own in zip(rows.token, first, strict=True)):
        raise NotCovered("it sums rows of different tokens")
    base = rows.base
    samples, tokens = base.kxx.shape[0], base.kxx.shape[2]
    every = torch.arange(samples * tokens)
    where = first[0].squeeze(dim % (lead + 1))
    if not all(torch.equal(one.flatten(), every) for one in first):
        raise NotCovered("it sums rows of some of the tokens")
    after = rows.at_tokens(context)
    return placed(UnitView(after, numbers((samples, tokens, base.channels)).reshape(*where.shape, base.channels)))


def _written(name: str, args: Any, kwargs: Any, context: Context) -> MomentMaps | UnitView:
    """Rows added to tokens, or written over what they were added to."""
    if name == "index_add":
        target, dim, index, rows = args
        if dim != 0 or kwargs.get("alpha", 1) != 1 or getattr(rows, "onto", None) is not None:
            raise NotCovered("it adds rows along another axis")
    else:
        target, index, rows = args
    if not isinstance(rows, RoutedTokens) or not isinstance(target, (MomentMaps, UnitView, Tensor)):
        raise NotCovered("it writes what is not known as rows of tokens")
    base = rows.base
    samples, tokens = base.kxx.shape[0], base.kxx.shape[2]
    units = units_of(target) if isinstance(target, MomentMaps) else target
    shape = tuple(units.source.shape if isinstance(units, UnitView) else units.shape)
    lead = torch.arange(samples * tokens).reshape(shape[:-1])
    here = _both(lambda side: lead[_side(index, side)])
    if not all(_same(a, b) for a, b in zip(here, rows.token, strict=True)):
        raise NotCovered("it writes rows to other tokens than they came from")
    if isinstance(units, Tensor):
        if bool(units.any()) or rows.onto is not None:
            raise NotCovered("it writes rows over constants")
        after = rows.at_tokens(context)
    elif name == "index_add":
        after = _sum(context, units.base, rows.at_tokens(context))
    else:
        if rows.onto is None or rows.onto.order != units.base.order:
            raise NotCovered("it writes rows over other values")
        after = rows.at_tokens(context)
    return placed(UnitView(after, numbers((samples, tokens, base.channels)).reshape(shape)))


def sent_to_experts(rows: RoutedTokens, offsets: Any, product: Callable[[MomentMaps], MomentMaps]) -> RoutedTokens:
    """Rows that were sorted by expert, times the weights of each; ``offsets`` are where the rows of each end."""
    if not isinstance(offsets, SampledUnits) or any(one.dim() != 1 for one in rows.token):
        raise NotCovered("its groups of rows were not drawn with their order")
    labels = []
    for token, ends in zip(rows.token, (offsets.x, offsets.y), strict=True):
        labels.append(torch.bucketize(torch.arange(len(token)), ends.contiguous(), right=True))
    label = (labels[0], labels[1])
    same = all(_same(a, b) for a, b in zip(rows.expert, label, strict=True))
    if not same and any(bool(one.any()) for one in rows.expert):
        raise NotCovered("its rows come from other experts")
    return replace(rows.through(product), expert=label)
