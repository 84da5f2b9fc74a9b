"""Calls of the model's own functions and modules on values that are known, for x and for y."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from initscope.graph import Node, SampleAxis
from initscope.graph.borrowing import NoDropoutCalls
from initscope.propagate.totals import NotCovered, own_call
from initscope.propagate.values.base import side_of, values_in
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.sampled_units import SampledUnits

__all__ = ["evaluated", "function_of", "of_constants", "run_on_values"]

Make = Callable[[Tensor, Tensor], InputValues]


def function_of(node: Any) -> Callable[..., Any]:
    """Return the function that a node calls; a function that writes into its first argument gets a copy of it."""
    target = node.target
    if target is operator.setitem:
        return _set_in_copy
    if node.op != "call_method":
        return target  # type: ignore[no-any-return]
    name = str(target)

    def method(value: Any, *args: Any, **kwargs: Any) -> Any:
        receiver = value.clone() if name.endswith("_") and isinstance(value, Tensor) else value
        return getattr(receiver, name)(*args, **kwargs)

    return method


def _set_in_copy(values: Any, index: Any, new: Any) -> Any:
    values = values.clone()
    values[index] = new
    return values


def evaluated(node: Any) -> Any:
    """Return the result of a node without a row, on the parameters themselves."""
    if isinstance(node, Node):
        args, kwargs = evaluated(node.args), evaluated(node.kwargs)
        with torch.no_grad():
            return own_call(function_of(node), *args, **kwargs)
    if isinstance(node, dict):
        return {key: evaluated(item) for key, item in node.items()}
    return type(node)(map(evaluated, node)) if type(node) in (tuple, list) else node


def run_on_values(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    pairs: int,
    sample_axis: Callable[[], SampleAxis | None] = lambda: None,
    *,
    attends: bool = False,
) -> Any:
    """Return the result of a call on constants and known values; once for x and once for y if there are known values.

    Parameters
    ----------
    function : callable
        What is called.
    args, kwargs : tuple and dict
        Arguments, with known values among them.
    pairs : int
        Samples of each side.
    sample_axis : callable
        Function that returns the sample axis of the result; called only for sampled values whose first axis is not the
        sample axis.
    attends : bool
        Whether the result is weights of an attention.

    Returns
    -------
    Value, constant, or a tuple of them
        A constant if the result does not depend on the data.
    """
    values = values_in((args, kwargs))
    with NoDropoutCalls():
        if not values:
            return own_call(function, *args, **kwargs)
        x, y = (
            own_call(function, *side_of(args, side, copies=True), **side_of(kwargs, side, copies=True))
            for side in ("x", "y")
        )
    parents = [value for value in values if value.sampled]
    if not parents:
        return _joined(x, y, pairs)
    if isinstance(x, Tensor) and x.is_nested:
        raise NotCovered("its output has no shape")
    elsewhere = isinstance(x, Tensor) and not (x.dim() > 0 and len(x) == pairs)
    axis = sample_axis() if elsewhere else None
    return _joined(x, y, pairs, SampledUnits.after(parents, axis, pairs, attends=attends))


def _joined(x: Any, y: Any, pairs: int, make: Make | None = None) -> Any:
    """Return both results as one value; a constant if they do not depend on the data."""
    if isinstance(x, (tuple, list)) and any(isinstance(item, Tensor) for item in x):
        return tuple(_joined(a, b, pairs, make) for a, b in zip(x, y, strict=True))
    if not isinstance(x, Tensor):
        return x
    if make is not None:
        return make(x, y)
    known, per_sample = InputValues(x, y), x.shape == y.shape and x.dim() > 0 and len(x) == pairs
    if per_sample and known.real:
        return known
    if torch.equal(x, y):
        return x
    if not per_sample:
        raise NotCovered("it mixes samples")
    return known


def of_constants(value: Any, pairs: int) -> Any:
    """Return the output of a module for constants; an output with one entry per sample is the same for x and y."""
    per_sample = isinstance(value, Tensor) and value.dim() > 1 and len(value) == pairs > 1
    return InputValues(value.detach(), value.detach()) if per_sample else value
