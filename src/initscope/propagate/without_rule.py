"""What no rule covers, on tokens cut into heads: units are moved by number, all else is run on drawn values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

from torch import Tensor, nn

from initscope.graph.calls import UNCHANGED
from initscope.propagate.moments import InputValues, MomentMaps, NotCovered
from initscope.propagate.numbering import numbers, of_rows, same_units
from initscope.propagate.registry import Context, find_operation, find_rule
from initscope.propagate.rules.attention import attention, product
from initscope.propagate.rules.gates import independent
from initscope.propagate.rules.shapes import MOVES, move_of
from initscope.propagate.units import SampledUnits, UnitView, drawn, is_tokens, moved_units, placed, units_of

__all__ = ["ELEMENTWISE", "at_own_places", "by_units", "weighted_units"]

_ATTENTION = {"scaled_dot_product_attention": attention, "matmul": product, "bmm": product}


def by_units(
    module: nn.Module | None,
    name: str,
    args: Any,
    kwargs: Any,
    context: Context,
    run: Callable[[Any, Any], Any],
) -> Any:
    """The value of a step one of whose arguments is tokens; ``run`` calls it on values."""
    states = [value for value in args if isinstance(value, (InputValues, MomentMaps, UnitView))]
    first = args[0] if args else None
    if module is not None:
        return _module(module, first, context, lambda value: run((value, *args[1:]), kwargs))
    if name in ("view_as", "reshape_as") and len(states) == 2:
        name, args, states = "reshape", (first, _sizes(args[1])), states[:1]
    if name in UNCHANGED and isinstance(first, UnitView):
        return first
    if name in MOVES and len(states) == 1 and first is states[0] and not isinstance(first, SampledUnits):
        units = first if isinstance(first, UnitView) else units_of(first)
        name = "reshape" if name == "view" else name  # numbers may lie in another order in memory
        return moved_units(units, lambda numbers: move_of(name, numbers, *args[1:], **kwargs))
    if name in ("cat", "concat", "concatenate"):
        whole = [part for part in args[0] if not (isinstance(part, Tensor) and part.numel() == 0)]
        if len(whole) == 1 and isinstance(whole[0], (UnitView, MomentMaps)):
            return whole[0]
    if name in _ATTENTION:
        with_rule = find_operation(name)
        try:
            assert with_rule is not None
            return with_rule(context, *args, **kwargs)
        except NotCovered:
            if name == "scaled_dot_product_attention":
                raise
    values = _values((args, kwargs), context)
    return run(*values)


def _sizes(state: Any) -> tuple[int, ...]:
    """Of the tensor that a state stands for."""
    if isinstance(state, UnitView):
        return tuple(state.source.shape)
    return tuple(state.x.shape) if isinstance(state, InputValues) else (len(state.kxx), *state.shape)


def _module(module: nn.Module, first: Any, context: Context, run: Callable[[Any], Any]) -> Any:
    found = find_rule(module)
    if isinstance(module, (nn.Identity, nn.Dropout)):
        return first
    if isinstance(module, nn.Linear) and isinstance(first, (UnitView, InputValues)) and found is not None:
        return weighted_units(
            first if isinstance(first, UnitView) else units_of(first), lambda b: found(module, b, context)
        )
    values = drawn(first, context)
    return run(values) if found is None else found(module, values, context)


ELEMENTWISE = ("add", "sub", "mul", "div", "neg")


def at_own_places(args: Any, context: Context, rule: Callable[[Any], Any]) -> MomentMaps | UnitView:
    """A step that acts on every unit by itself, on tokens that were only folded together with the samples."""
    args = [units_of(one) if isinstance(one, MomentMaps) else one for one in args]
    units = max((one for one in args if isinstance(one, UnitView)), key=lambda one: one.whole[-1], default=None)
    if units is None:
        raise NotCovered("it reads no units")
    whole, folded = units.whole, units.source.shape
    every = folded[-1] == whole[-1] and units.source.numel() == numbers(whole).numel()
    if not every or not same_units(units.source, numbers(whole).reshape(folded), whole):
        raise NotCovered("its units stand at other places")

    def unfolded(value: Any) -> Any:
        if isinstance(value, UnitView) and value.whole[-1] == 1 < whole[-1]:
            value = drawn(value, context)  # a gate: one number for all channels of a token
        if isinstance(value, UnitView):
            if value.whole != whole or not same_units(value.source, units.source, whole):
                raise NotCovered("its units stand at other places")
            return value.base
        if isinstance(value, SampledUnits) and value.x.shape == (*folded[:-1], 1):
            x, y = (side.reshape(*whole[:-1], 1) for side in (value.x, value.y))
            return replace(value, x=x, y=y, place=None)
        if isinstance(value, (InputValues, Tensor)):
            raise NotCovered("it reads other values too")
        return value

    after = rule(tuple(map(unfolded, args)))
    if not isinstance(after, MomentMaps) or after.shape != units.base.shape:
        raise NotCovered("it changes the shape of its units")
    return placed(replace(units, base=replace(after, note=""), note=after.note))


def weighted_units(units: UnitView, layer: Callable[[MomentMaps], MomentMaps]) -> MomentMaps | UnitView:
    """Weights that read all channels of a token, wherever tokens and samples stand."""
    after = layer(units.base)
    return placed(UnitView(after, of_rows(units.source, units.whole, after.shape[1]), note=after.note))


def _values(value: Any, context: Context) -> Any:
    """Nested arguments with drawn values in the place of random ones, which must not share their randomness."""
    found: dict[int, MomentMaps] = {}
    for state in _random(value):
        base = state.base if isinstance(state, UnitView) else state
        found[base.order] = base
    for a, b in combinations(found.values(), 2):
        if not independent(a, b):
            raise NotCovered("its branches share their randomness")
    return _replaced(value, context)


def _random(value: Any) -> list[MomentMaps | UnitView]:
    if isinstance(value, (MomentMaps, UnitView)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for item in value for one in _random(item)] if isinstance(value, (tuple, list)) else []


def _replaced(value: Any, context: Context) -> Any:
    if isinstance(value, MomentMaps) and not is_tokens(value):
        raise NotCovered("its input is not known as tokens with channels")
    if isinstance(value, (MomentMaps, UnitView)):
        return drawn(value, context)
    if isinstance(value, dict):
        return {key: _replaced(item, context) for key, item in value.items()}
    return type(value)(_replaced(item, context) for item in value) if type(value) in (tuple, list) else value
