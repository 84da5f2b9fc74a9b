"""Ops that move units without changing them: flatten, reshape, permute, slices, padding, nearest upsampling, dropout.

All of these are one rule: the operation itself, run on a tensor of unit numbers, shows where every output comes from
(`Value.moved`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import padding

from initscope.graph.ops import OPS
from initscope.propagate.context import Context
from initscope.propagate.registry import operation, rule
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value, is_random, is_value, values_in

__all__ = ["KEEPS_VALUES", "MOVES", "move_of", "moves_units"]


@rule(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, reads=())
def dropout(module: nn.Module, state: Value, context: Context) -> Value:
    """Return the value unchanged, as in evaluation."""
    return state


@rule(nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle, nn.UpsamplingNearest2d, reads=())
@rule(padding._ReflectionPadNd, padding._ReplicationPadNd, padding._CircularPadNd, reads=())
def moves_units(module: nn.Module, state: Value, context: Context) -> Value:
    """Return the units at their new positions."""
    return state.moved(module)  # type: ignore[no-any-return]


@rule(padding._ConstantPadNd, reads=())
def constant_padding(module: Any, state: Value, context: Context) -> Value:
    """Pad with zeros; other constants do not fit zero-mean maps."""
    if state.random and module.value != 0:
        raise NotCovered(f"it pads with {module.value}, which is not random")
    return state.moved(module)  # type: ignore[no-any-return]


@rule(nn.Upsample, reads=())
def upsample(module: nn.Upsample, state: Value, context: Context) -> Value:
    """Interpolate: nearest neighbors are copies, other modes average positions."""
    if state.random and not module.mode.startswith("nearest"):
        raise NotCovered(f"{module.mode} interpolation averages positions")
    return state.moved(module)  # type: ignore[no-any-return]


MOVES = tuple(name for name, op in OPS.items() if op.traits.moves_values)
"""Functions and methods whose results are values of their input, at other positions, and zeros that are filled in."""
KEEPS_VALUES = tuple(name for name, op in OPS.items() if op.traits.keeps_values)
"""Functions and methods that leave values as they are; dropout is off."""


def _move(name: str) -> Callable[..., Any]:
    """Return the rule of a function or method of that name."""

    def moved(context: Context, state: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_value(state):
            return move_of(name, state, *args, **kwargs)
        if values_in((args, kwargs)):
            raise NotCovered(f"{name} of two values has no rule")
        return state.moved(lambda values: move_of(name, values, *args, **kwargs))

    return moved


_COPIES = {"view": "reshape"}
"""What does the same to values that lie in another order in memory."""


def move_of(name: str, values: Tensor, *args: Any, in_order: bool = True, **kwargs: Any) -> Any:
    """Return the call of that name, on values or on numbers of units, which may not lie ``in_order`` in memory."""
    name = name if in_order else _COPIES.get(name, name)
    kind = type(values)  # a tensor, or a tuple of them
    method = getattr(kind, name, None) or getattr(kind, f"__{name}__", None) or getattr(nn.functional, name)
    return method(values, *args, **kwargs)


for _name in MOVES:
    operation(_name, reads=())(_move(_name))


@operation("pad", reads=())
def pad(context: Context, state: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Pad with zeros or copies; other constants do not fit zero-mean maps."""
    if is_random(state) and mode == "constant" and value is not None and value != 0:
        raise NotCovered("it pads with a constant, which is not random")
    return _move("pad")(context, state, pad, mode, value)
