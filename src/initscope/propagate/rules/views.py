"""Ops on tokens cut into heads (`UnitView`): units are moved by number, weights read whole tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from initscope.graph.ops import OPS
from initscope.propagate.context import Context
from initscope.propagate.numbering import numbers, same_units
from initscope.propagate.registry import operation
from initscope.propagate.rules.shapes import KEEPS_VALUES, MOVES, move_of
from initscope.propagate.totals import NotCovered, own_call
from initscope.propagate.values.base import is_maps, is_random, is_sampled, is_value, is_view
from initscope.propagate.values.unit_view import UnitView

__all__ = ["unit_by_unit"]


@operation(*KEEPS_VALUES, on=UnitView)
def unchanged(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the units themselves."""
    return value if is_view(value) else NotImplemented


def _moved(name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the units after a move of that name."""
    if not is_value(value) or value.sampled or any(is_value(arg) for arg in args):
        return NotImplemented
    units = value.units()
    if not OPS[name].traits.is_view and _fills_in(name, units.index, *args, **kwargs):
        return NotImplemented  # zeros have no number
    return units.moved(lambda index: move_of(name, index, *args, in_order=False, **kwargs))


def _fills_in(name: str, index: Tensor, *args: Any, **kwargs: Any) -> bool:
    """Return whether a move inserts values that are not part of its input."""
    moved = own_call(move_of, name, torch.ones((), dtype=torch.bool).expand(index.shape), *args, **kwargs)
    return not all(bool(part.all()) for part in (moved if isinstance(moved, (tuple, list)) else (moved,)))


def _move(name: str) -> Callable[..., Any]:
    """Return the rule of a function or method of that name."""
    return lambda context, value, *args, **kwargs: _moved(name, value, *args, **kwargs)


for _name in MOVES:
    operation(_name, on=UnitView)(_move(_name))


@operation("view_as", "reshape_as", on=UnitView)
def reshape_as(context: Context, value: Any, other: Any) -> Any:
    """Return units in the shape of another value."""
    known = is_value(other)
    return _moved("reshape", value, tuple(other.placeholder().shape)) if known else NotImplemented


@operation("cat", "concat", "concatenate", on=UnitView)
def only_part(context: Context, tensors: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the only part of several that is not empty; a cache of keys begins with an empty part."""
    parts = [part for part in tensors if not (isinstance(part, Tensor) and part.numel() == 0)]
    return parts[0] if len(parts) == 1 and is_random(parts[0]) else NotImplemented


def unit_by_unit(args: Any, context: Context, rule: Callable[[Any], Any]) -> Any:
    """Apply an elementwise op to tokens that were only folded together with the samples.

    Parameters
    ----------
    args : sequence
        The arguments of the op.
    context : Context
        Context for gates, which are drawn.
    rule : callable
        The rule for maps, as a function of its arguments.

    Returns
    -------
    MomentMaps or UnitView
        The units after the op, at their earlier positions.
    """
    args = [value.units() if is_random(value) else value for value in args]
    views = [value for value in args if is_view(value)]
    if not views:
        raise NotCovered("it reads no units")
    view = max(views, key=lambda value: value.whole[-1])
    if not _in_place(view):
        raise NotCovered("its units are at other positions")
    after = rule(tuple(_unfolded(value, view, context) for value in args))
    if not is_maps(after) or after.shape != view.base.shape:
        raise NotCovered("it changes the shape of its units")
    return replace(view, base=replace(after, note=""), note=after.note).simplest()


def _in_place(view: UnitView) -> bool:
    """Return whether all units are there, in their order: tokens were only folded together with samples."""
    whole, folded = view.whole, view.index.shape
    every = folded[-1] == whole[-1] and view.index.numel() == numbers(whole).numel()
    return every and same_units(view.index, numbers(whole).reshape(folded), whole)


def _unfolded(value: Any, view: UnitView, context: Context) -> Any:
    """Return an argument as the rule of maps reads it: the maps, or one number for all channels of a token."""
    if is_view(value) and value.whole[-1] == 1 < view.whole[-1]:
        value = value.samples(context)  # a gate
    if is_view(value):
        if value.whole != view.whole or not same_units(value.index, view.index, view.whole):
            raise NotCovered("its units are at other positions")
        return value.base
    if is_sampled(value) and value.x.shape == (*view.index.shape[:-1], 1):
        x, y = (side.reshape(*view.whole[:-1], 1) for side in (value.x, value.y))
        return replace(value, x=x, y=y, sample_axis=None)
    if is_value(value) or isinstance(value, Tensor):
        raise NotCovered("it also reads other values, for which this rule has no formula")
    return value
