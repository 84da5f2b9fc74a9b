"""Weights that a model's own calls multiply by (``x @ w``, ``F.linear(x, w)``), and reasons why a state is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initscope.initializers._matrices import Matrix
from initscope.propagate.moments import Given, Maps
from initscope.propagate.totals import own_call
from initscope.propagate.units import Units
from initscope.tracing import Step

__all__ = ["WEIGHTS", "Missing", "Weights", "evaluated", "holds", "method_of", "weights_product"]


@dataclass(frozen=True)
class Missing:
    """Instead of a state: why there is none."""

    reason: str


WEIGHTS = Missing("it computes with weights that are drawn at random, as a function of its own")


@dataclass(frozen=True)
class Weights(Missing):
    """Matrices of weights that are drawn, one above the other, which one of the model's own calls multiplies by."""

    parameters: tuple[nn.Parameter, ...]
    layers: tuple[nn.Linear, ...]
    transposed: bool = False

    @classmethod
    def of(cls, parts: list[Matrix]) -> Weights:
        """With the Linear that each of the matrices amounts to."""
        layers = tuple(part.layer() for part in parts)
        return cls(WEIGHTS.reason, tuple(parts[0].parameters), layers, parts[0].transposed)

    @property
    def bias(self) -> bool:
        """Whether something is added."""
        return self.layers[0].bias is not None


def weights_product(name: str, args: Any, kwargs: Any) -> tuple[Any, Weights] | None:
    """(state, weights) of a call that amounts to a Linear: x @ w, linear(x, w, b), addmm(b, x, w)."""
    args = (*args, *(kwargs[key] for key in ("weight", "bias") if key in kwargs))
    if name in ("matmul", "mm") and len(args) == 2:
        (state, weights), bias, inputs_first = args, None, True
    elif name == "linear" and len(args) in (2, 3):
        (state, weights), bias, inputs_first = args[:2], args[2] if len(args) == 3 else None, False
    elif name == "addmm" and len(args) == 3:
        (bias, state, weights), inputs_first = args, True
    else:
        return None
    if not isinstance(state, (Given, Maps, Units)) or not isinstance(weights, Weights):
        return None
    # What is drawn as the bias comes as a reason too; a constant, or the bias of another, has no place here.
    known = weights.bias == (bias is not None) and (bias is None or isinstance(bias, Missing))
    return (state, weights) if known and weights.transposed == inputs_first else None


def evaluated(step: Any) -> Any:
    """A step without a row on the parameters themselves."""
    if isinstance(step, Step):
        args, kwargs = evaluated(step.args), evaluated(step.kwargs)
        function = method_of(str(step.target)) if step.op == "call_method" else step.target
        with torch.no_grad():
            return own_call(function, *args, **kwargs)
    if isinstance(step, dict):
        return {key: evaluated(item) for key, item in step.items()}
    return type(step)(map(evaluated, step)) if type(step) in (tuple, list) else step


def holds(whole: Any, part: Tensor) -> bool:
    """Whether ``part`` are rows of ``whole``, in the same memory."""
    if not isinstance(whole, Tensor) or whole.dim() != 2:
        return False
    if whole.untyped_storage().data_ptr() != part.untyped_storage().data_ptr() or whole.shape[1] != part.shape[1]:
        return False
    first, last = whole.storage_offset(), whole.storage_offset() + whole.numel()
    return first <= part.storage_offset() and part.storage_offset() + part.numel() <= last


def method_of(name: str) -> Callable[..., Any]:
    """The method of that name, as a function."""
    return lambda value, *args, **kwargs: getattr(value, name)(*args, **kwargs)
