"""Weights that a model's own calls multiply by (``x @ w``, ``F.linear(x, w)``), and reasons why a state is missing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initscope.graph import Step
from initscope.initializers._matrices import Matrix
from initscope.propagate.moments import InputValues, MomentMaps
from initscope.propagate.routed import RoutedTokens
from initscope.propagate.totals import own_call
from initscope.propagate.units import UnitView

__all__ = [
    "RANDOM_WEIGHTS",
    "RandomMatrix",
    "Uncovered",
    "evaluated",
    "experts_product",
    "function_of",
    "holds",
    "is_turned_stack",
    "weights_product",
]


@dataclass(frozen=True)
class Uncovered:
    """Instead of a state: why there is none."""

    reason: str


RANDOM_WEIGHTS = Uncovered("it computes with weights that are drawn at random, as a function of its own")


@dataclass(frozen=True)
class RandomMatrix(Uncovered):
    """Matrices of weights that are drawn, one above the other, which one of the model's own calls multiplies by."""

    parameters: tuple[nn.Parameter, ...]
    layers: tuple[nn.Linear, ...]
    transposed: bool = False
    experts: bool = False
    """Whether they are one matrix for each expert, along an axis of their own, and not one above the other."""

    @classmethod
    def of(cls, parts: list[Matrix], *, turned: bool = False) -> RandomMatrix:
        """With the Linear that each of the matrices amounts to."""
        layers, first = tuple(part.layer() for part in parts), parts[0]
        experts = first.parameters[0].dim() == 3 and len(parts) == len(first.parameters[0])
        return cls(RANDOM_WEIGHTS.reason, tuple(first.parameters), layers, first.transposed != turned, experts)

    @property
    def bias(self) -> bool:
        """Whether something is added."""
        return self.layers[0].bias is not None


def weights_product(name: str, args: Any, kwargs: Any) -> tuple[Any, RandomMatrix] | None:
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
    if (
        not isinstance(state, (InputValues, MomentMaps, UnitView, RoutedTokens))
        or not isinstance(weights, RandomMatrix)
        or weights.experts
    ):
        return None
    # What is drawn as the bias comes as a reason too; a constant, or the bias of another, has no place here.
    known = weights.bias == (bias is not None) and (bias is None or isinstance(bias, Uncovered))
    return (state, weights) if known and weights.transposed == inputs_first else None


def experts_product(name: str, args: Any, kwargs: Any) -> tuple[RoutedTokens, RandomMatrix, Any] | None:
    """(rows, weights, ends of the experts' rows) of a call that multiplies rows by the matrix of their expert."""
    if name not in ("grouped_mm", "_grouped_mm") or len(args) < 2:
        return None
    rows, weights, offsets = args[0], args[1], args[2] if len(args) > 2 else kwargs.get("offs")
    known = (
        isinstance(rows, RoutedTokens) and isinstance(weights, RandomMatrix) and weights.experts and weights.transposed
    )
    return (rows, weights, offsets) if known else None


def is_turned_stack(values: Any, parts: list[Matrix]) -> bool:
    """Whether values are a parameter with a matrix for each expert, every one of them transposed."""
    whole = parts[0].parameters[0]
    if not isinstance(values, Tensor) or values.dim() != 3 or whole.dim() != 3 or len(parts) != len(whole):
        return False
    same = values.mT.shape == whole.shape and values.mT.stride() == whole.stride()
    return same and values.data_ptr() == whole.data_ptr()


def evaluated(step: Any) -> Any:
    """A step without a row on the parameters themselves."""
    if isinstance(step, Step):
        args, kwargs = evaluated(step.args), evaluated(step.kwargs)
        with torch.no_grad():
            return own_call(function_of(step), *args, **kwargs)
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


def function_of(step: Any) -> Callable[..., Any]:
    """What a step calls; what writes into its first argument writes into a copy of it, and returns that."""
    target = step.target
    if target is operator.setitem:
        return _set_in_copy
    if step.op != "call_method":
        return target  # type: ignore[no-any-return]
    name = str(target)

    def method(value: Any, *args: Any, **kwargs: Any) -> Any:
        own = value.clone() if name.endswith("_") and isinstance(value, Tensor) else value
        return getattr(own, name)(*args, **kwargs)

    return method


def _set_in_copy(values: Any, index: Any, new: Any) -> Any:
    values = values.clone()
    values[index] = new
    return values
