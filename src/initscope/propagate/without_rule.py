"""What no rule covers, on tokens cut into heads: units are moved by number, all else is run on drawn values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from torch import Tensor, nn

from initscope.layers.calls import UNCHANGED
from initscope.propagate.moments import Given, Maps, NotCovered
from initscope.propagate.numbering import of_rows
from initscope.propagate.registry import Context, find_operation, find_rule
from initscope.propagate.rules.attention import attention, product
from initscope.propagate.rules.gates import independent
from initscope.propagate.rules.shapes import MOVES, move_of
from initscope.propagate.units import Units, drawn, is_tokens, moved_units, placed, units_of

__all__ = ["by_units", "weighted_units"]

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
    states = [value for value in args if isinstance(value, (Given, Maps, Units))]
    first = args[0] if args else None
    if module is not None:
        return _module(module, first, context, lambda value: run((value, *args[1:]), kwargs))
    if name in UNCHANGED and isinstance(first, Units):
        return first
    if name in MOVES and len(states) == 1 and first is states[0]:
        units = first if isinstance(first, Units) else units_of(first)
        name = "reshape" if name == "view" else name  # numbers may lie in another order in memory
        return moved_units(units, lambda numbers: move_of(name, numbers, *args[1:], **kwargs))
    if name in ("cat", "concat", "concatenate"):
        whole = [part for part in args[0] if not (isinstance(part, Tensor) and part.numel() == 0)]
        if len(whole) == 1 and isinstance(whole[0], (Units, Maps)):
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


def _module(module: nn.Module, first: Any, context: Context, run: Callable[[Any], Any]) -> Any:
    found = find_rule(module)
    if isinstance(module, (nn.Identity, nn.Dropout)):
        return first
    if isinstance(module, nn.Linear) and isinstance(first, (Units, Given)) and found is not None:
        return weighted_units(
            first if isinstance(first, Units) else units_of(first), lambda b: found(module, b, context)
        )
    values = drawn(first, context)
    return run(values) if found is None else found(module, values, context)


def weighted_units(units: Units, layer: Callable[[Maps], Maps]) -> Maps | Units:
    """Weights that read all channels of a token, wherever tokens and samples stand."""
    after = layer(units.base)
    return placed(Units(after, of_rows(units.source, units.whole, after.shape[1]), note=after.note))


def _values(value: Any, context: Context) -> Any:
    """Nested arguments with drawn values in the place of random ones, which must not share their randomness."""
    found: dict[int, Maps] = {}
    for state in _random(value):
        base = state.base if isinstance(state, Units) else state
        found[base.order] = base
    for a, b in combinations(found.values(), 2):
        if not independent(a, b):
            raise NotCovered("its branches share their randomness")
    return _replaced(value, context)


def _random(value: Any) -> list[Maps | Units]:
    if isinstance(value, (Maps, Units)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for item in value for one in _random(item)] if isinstance(value, (tuple, list)) else []


def _replaced(value: Any, context: Context) -> Any:
    if isinstance(value, Maps) and not is_tokens(value):
        raise NotCovered("its input is not known as tokens with channels")
    if isinstance(value, (Maps, Units)):
        return drawn(value, context)
    if isinstance(value, dict):
        return {key: _replaced(item, context) for key, item in value.items()}
    return type(value)(_replaced(item, context) for item in value) if type(value) in (tuple, list) else value
