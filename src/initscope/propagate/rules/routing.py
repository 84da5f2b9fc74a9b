r"""Mixtures of experts: ops on tokens that a drawn router has sent to experts (`RoutedTokens`).

At the tokens, with :math:`w_{te}` the share of expert e in token t, covariances are :math:`C_{tt'}\sum_e
w_{te}w_{t'e}`: two tokens share what both sent to the same expert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from initscope.propagate.context import Context
from initscope.propagate.numbering import numbers
from initscope.propagate.registry import find_operation, operation
from initscope.propagate.rules.gates import gated
from initscope.propagate.rules.merging import add
from initscope.propagate.rules.shapes import KEEPS_VALUES, MOVES, move_of
from initscope.propagate.rules.tied import from_gram
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import (
    is_maps,
    is_random,
    is_routed,
    is_sampled,
    is_value,
    side_of,
    values_in,
)
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.values.routed_tokens import RoutedTokens, Sides
from initscope.propagate.values.unit_view import UnitView

__all__ = ["at_tokens", "gathers_tokens", "row_by_row", "sent_to_experts"]

_SIDES = ("x", "y")


def at_tokens(rows: RoutedTokens, context: Context) -> MomentMaps:
    """Return the sum of the rows of every token, 0 if there are none."""
    base = rows.base
    samples, tokens = base.kxx.shape[0], base.kxx.shape[2]
    experts = 1 + max(int(side.max()) if side.numel() else 0 for side in rows.expert)
    shares = []
    for token, factor, expert in zip(rows.token, rows.factor, rows.expert, strict=True):
        share = torch.zeros(samples * tokens * experts, dtype=torch.float64)
        share.index_add_(0, (token * experts + expert).flatten(), factor.flatten().double())
        shares.append(share.reshape(samples, tokens, experts))
    both = torch.cat(shares, dim=1)
    after = gated(base, from_gram(base, both @ both.mT, base.channels, rows.weights))
    return after if rows.onto is None else _sum(context, rows.onto, after)


def _sum(context: Context, a: Any, b: Any) -> MomentMaps:
    result: MomentMaps = add(context, a, b)
    if not is_maps(result):
        raise NotCovered("it adds rows to a value that is not a state of tokens")
    return result


def gathers_tokens(name: str, args: Any) -> bool:
    """Return whether a call reads tokens in an order that was drawn."""
    rule = find_operation(name, RoutedTokens)
    if rule is None or rule.function not in (gather, select) or len(args) < 2:
        return False
    tokens, index = args[0], args[-1]
    if isinstance(tokens, Tensor) or is_sampled(tokens):
        return False
    return any(is_sampled(part) for part in (index if isinstance(index, tuple) else (index,)))


def _move(name: str) -> Callable[..., Any]:
    """Return the rule of a function or method of that name: rows in another shape."""

    def moved(context: Context, rows: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_routed(rows) or any(value.random for value in values_in((args, kwargs))):
            return NotImplemented
        channels = rows.base.channels

        def move(number: Tensor, side: int) -> Tensor:
            wide = number[..., None].expand(*number.shape, channels)
            after = move_of(name, wide, *side_of(args, _SIDES[side]), in_order=False, **kwargs)
            if not isinstance(after, Tensor) or after.dim() < 2 or after.shape[-1] != channels:
                raise _CutsChannels
            if not bool((after == after[..., :1]).all()):
                raise NotCovered("it mixes rows and channels")
            return after[..., 0]

        try:
            return rows.reordered(move)
        except _CutsChannels:
            return NotImplemented
        except RuntimeError as error:
            raise NotCovered(f"this move of the rows of experts is not supported ({error})") from error

    return moved


class _CutsChannels(Exception):
    """It is no move of whole rows."""


for _name in MOVES:
    operation(_name, on=RoutedTokens)(_move(_name))


@operation("getitem", on=RoutedTokens)
def gather(context: Context, tokens: Any, index: Any) -> Any:
    """Read tokens, or rows of them, in an order that was drawn."""
    if not gathers_tokens("getitem", (tokens, index)):
        return _move("getitem")(context, tokens, index)
    if is_routed(tokens):
        return tokens.reordered(lambda number, side: _on_side(lambda chosen: number[chosen], index, side))
    return _routed(tokens.units(), index)


@operation("index_select", on=RoutedTokens)
def select(context: Context, tokens: Any, dim: int, index: Any) -> Any:
    """Return the same along the first axis."""
    if not is_sampled(index):
        return _move("index_select")(context, tokens, dim, index)
    if dim != 0:
        raise NotCovered("it reads some of the channels in an order that was drawn")
    return gather(context, tokens, index)


def _routed(units: UnitView, index: Any) -> RoutedTokens:
    """Tokens at drawn positions."""
    base, channels = units.base, units.base.channels
    row = units.index[..., 0] // channels
    whole = len(base.sizes) == 1 and units.index.shape[-1] == channels
    if not whole or not torch.equal(row[..., None] * channels + torch.arange(channels), units.index):
        raise NotCovered("it reads some of the channels in an order that was drawn")
    token = _both_sides(lambda chosen: row[chosen], index)
    ones = tuple(torch.ones_like(side).to(base.kxx.dtype) for side in token)
    zeros = tuple(map(torch.zeros_like, token))
    weights = frozenset[object]().union(*(part.weights for part in values_in(index) if part.sampled))
    return RoutedTokens(base, token, (ones[0], ones[1]), (zeros[0], zeros[1]), weights=weights)


def _on_side(read: Callable[[Any], Tensor], index: Any, side: int) -> Tensor:
    """Return the values at drawn positions of x (0) or of y (1)."""
    try:
        return read(side_of(index, _SIDES[side]))
    except (IndexError, RuntimeError) as error:
        raise NotCovered(f"tokens cannot be read at the sampled positions ({error})") from error


def _both_sides(read: Callable[[Any], Tensor], index: Any) -> Sides:
    return _on_side(read, index, 0), _on_side(read, index, 1)


@operation(*KEEPS_VALUES, on=RoutedTokens)
def unchanged(context: Context, rows: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the rows themselves."""
    return rows if is_routed(rows) else NotImplemented


@operation("mul", on=RoutedTokens)
def weigh(context: Context, a: Any, b: Any) -> Any:
    """Return rows times a number for each that was drawn with their order."""
    rows, factor = (a, b) if is_routed(a) else (b, a)
    if not is_sampled(factor):
        return NotImplemented
    sides = []
    for token, factors, drawn in zip(rows.token, rows.factor, (factor.x, factor.y), strict=True):
        if drawn.dim() != token.dim() + 1 or drawn.shape[-1] != 1 or drawn.shape[:-1] != token.shape:
            raise NotCovered("it multiplies rows by something other than one number per row")
        sides.append(factors * drawn[..., 0].detach().to(factors.dtype))
    return replace(rows, factor=(sides[0], sides[1]), weights=rows.weights | factor.weights, note="")


@operation("add", on=RoutedTokens)
def add_rows(context: Context, a: Any, b: Any, alpha: float = 1) -> Any:
    """Add rows to the earlier value of their tokens: nothing, or a value."""
    rows, other = (a, b) if is_routed(a) else (b, a)
    if is_sampled(other) and other.zero and alpha == 1:
        return rows
    if is_routed(other) and alpha == 1 and _same(rows.token, other.token):
        for added, onto in ((rows, other), (other, rows)):
            if added.onto is None and onto.plain:
                return replace(added, onto=onto.base, note="")
    raise NotCovered("it adds rows of different tokens")


def _same(a: Sides, b: Sides) -> bool:
    return all(first is second or torch.equal(first, second) for first, second in zip(a, b, strict=True))


@operation("sum", on=RoutedTokens)
def sum_rows(context: Context, rows: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the sum over the rows of every token."""
    (dim,) = (*args, *kwargs.values()) or (None,)
    lead = rows.token[0].dim()
    if not isinstance(dim, int) or not 0 <= dim % (lead + 1) < lead:
        raise NotCovered("it sums the channels of rows")
    axis = dim % (lead + 1)
    first = [side.narrow(axis, 0, 1) for side in rows.token]
    if any(bool((side != expected).any()) for side, expected in zip(rows.token, first, strict=True)):
        raise NotCovered("it sums rows of different tokens")
    every = torch.arange(rows.base.kxx.shape[0] * rows.base.kxx.shape[2])
    if not all(torch.equal(side.flatten(), every) for side in first):
        raise NotCovered("it sums rows of some of the tokens")
    return _back_at_tokens(at_tokens(rows, context), first[0].squeeze(axis).shape)


def _back_at_tokens(after: MomentMaps, lead: Any) -> MomentMaps | UnitView:
    """Return maps of all tokens, folded into the shape ``[*lead, channels]``."""
    whole = (len(after.kxx), *after.shape)
    return UnitView(after, numbers(whole).reshape(*lead, whole[-1])).simplest()


@operation("index_add", on=RoutedTokens)
def add_to_tokens(context: Context, target: Any, dim: Any, index: Any, source: Any, alpha: float = 1) -> Any:
    """Return rows added to the tokens that they came from."""
    if dim != 0 or alpha != 1 or getattr(source, "onto", None) is not None:
        raise NotCovered("it adds rows along another axis")
    target = _target_of_rows(target, index, source)
    after = at_tokens(source, context)
    if is_random(target):
        after = _sum(context, target.base, after)
    elif bool(target.any()):
        raise NotCovered("it writes rows over constants")
    return _back_at_tokens(after, target.index.shape[:-1] if is_random(target) else target.shape[:-1])


@operation("setitem", "index_put", on=RoutedTokens)
def write_to_tokens(context: Context, target: Any, index: Any, rows: Any) -> Any:
    """Return rows written over the tokens that they were added to, or over zeros."""
    target = _target_of_rows(target, index, rows)
    if is_random(target):
        if rows.onto is None or rows.onto.order != target.base.order:
            raise NotCovered("it writes rows over other values")
    elif bool(target.any()) or rows.onto is not None:
        raise NotCovered("it writes rows over constants")
    lead = target.index.shape[:-1] if is_random(target) else target.shape[:-1]
    return _back_at_tokens(at_tokens(rows, context), lead)


def _target_of_rows(target: Any, index: Any, rows: Any) -> Any:
    """Return the target of written rows, as a view of its units if it is random: the tokens that the rows came from."""
    if not is_routed(rows) or not (isinstance(target, Tensor) or is_random(target)):
        raise NotCovered("it writes a value that is not known as rows of tokens")
    target = target.units() if is_random(target) else target
    shape = target.index.shape if is_random(target) else target.shape
    tokens = torch.arange(rows.base.kxx.shape[0] * rows.base.kxx.shape[2]).reshape(shape[:-1])
    if not _same(_both_sides(lambda chosen: tokens[chosen], index), rows.token):
        raise NotCovered("it writes rows to other tokens than they came from")
    return target


def row_by_row(args: Any, kwargs: Any, rule: Callable[[Any, Any], Any]) -> Any:
    """Apply an op that acts on every row alike: ``rule(args, kwargs)`` is its effect on the maps of all tokens."""
    rows = [value for value in args if is_routed(value)]
    if not rows or not all(row.plain for row in rows):
        raise NotCovered("it reads sums of experts before they are back at their tokens")
    like = rows[0]
    if not all(row.same_rows(like) for row in rows):
        raise NotCovered("it puts rows of different experts together")
    if any(is_value(value) and not value.random for value in args):
        raise NotCovered("it reads rows and other values together")
    bases = tuple(value.base if is_routed(value) else value for value in args)
    rank = like.token[0].dim()
    result = rule(bases, {key: -1 if key == "dim" and value == rank else value for key, value in kwargs.items()})

    def back(state: Any) -> Any:
        if not is_maps(state) or state.positions != like.base.positions:
            raise NotCovered("it mixes rows")
        return like.with_base(state)

    return tuple(map(back, result)) if type(result) is tuple else back(result)


def sent_to_experts(rows: RoutedTokens, offsets: Any, product: Callable[[MomentMaps], MomentMaps]) -> RoutedTokens:
    """Multiply rows that are sorted by expert by the weights of each; ``offsets`` are the ends of their rows."""
    if not is_sampled(offsets) or any(side.dim() != 1 for side in rows.token):
        raise NotCovered("its groups of rows were drawn independently of their order")
    x, y = (
        torch.bucketize(torch.arange(len(token)), ends.contiguous(), right=True)
        for token, ends in zip(rows.token, (offsets.x, offsets.y), strict=True)
    )
    if not _same(rows.expert, (x, y)) and any(bool(side.any()) for side in rows.expert):
        raise NotCovered("its rows come from other experts")
    return replace(rows.through(product), expert=(x, y))
