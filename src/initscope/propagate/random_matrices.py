"""Random weights that a model's own calls multiply by: ``x @ w``, ``F.linear(x, w)``, one matrix for each expert."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from initscope.initializers._base import drawn_parameters, weight_layers
from initscope.initializers._matrices import Matrix, matrices
from initscope.propagate.context import Context
from initscope.propagate.model_calls import evaluated
from initscope.propagate.registry import find_rule
from initscope.propagate.rules.merging import stacked
from initscope.propagate.rules.routing import sent_to_experts
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.values.routed_tokens import RoutedTokens
from initscope.propagate.values.uncovered import RANDOM_WEIGHTS, RandomMatrix, Uncovered

__all__ = ["RandomMatrices", "product_with_weights"]

_ALIKE = 1.1  # ratio of the largest to the least variance of experts that pass for one distribution


class RandomMatrices:
    """Which parameters of a model are random, and the matrices that its calls multiply by."""

    def __init__(self, model: nn.Module) -> None:
        # What an initializer draws; other parameters of the model are constants.
        self._drawn = drawn_parameters(model)
        self._parts: dict[int, list[Matrix]] = {}
        for matrix in matrices(model):
            self._parts.setdefault(id(matrix.parameters[0]), []).append(matrix)
        self._matrices = {key: RandomMatrix.of(parts) for key, parts in self._parts.items() if _is_one(parts)}
        for layer in weight_layers(model):
            if isinstance(layer, nn.Linear) and find_rule(layer) is not None:
                whole = RandomMatrix(RANDOM_WEIGHTS.reason, tuple(layer.parameters()), (layer,))
                self._matrices.setdefault(id(layer.weight), whole)

    def drawn_in(self, module: nn.Module) -> bool:
        """Whether some parameters of a module are random."""
        return any(id(parameter) in self._drawn for parameter in module.parameters())

    def constant(self, value: Any) -> Any:
        """A constant of the model: itself, or the random weights that it is."""
        return self._matrices.get(id(value), RANDOM_WEIGHTS) if id(value) in self._drawn else value

    def of_parameters(self, node: Any) -> RandomMatrix | None:
        """The random matrix that a node computes of parameters, as one of attention's projections, if it does."""
        try:
            raw = evaluated(node)
        except NotCovered:  # it cannot be computed from its parameters alone: what it stands for is not known
            return None
        for parts in self._parts.values():
            chosen = [part for part in parts if _holds(raw, part.weight())]
            if chosen and sum(len(part.weight()) for part in chosen) == len(raw):
                return RandomMatrix.of(chosen)
            if _is_transposed_stack(raw, parts):
                return RandomMatrix.of(parts, turned=True)
        return None


def _is_one(parts: list[Matrix]) -> bool:
    """Whether the matrices of a parameter are all of it, as its calls read it."""
    stack = parts[0].parameters[0].dim() == 3
    return stack or all(isinstance(part.owner, nn.MultiheadAttention) or not part.part for part in parts)


def _holds(whole: Any, part: Tensor) -> bool:
    """Whether ``part`` are rows of ``whole``, in the same memory."""
    if not isinstance(whole, Tensor) or whole.dim() != 2:
        return False
    if whole.untyped_storage().data_ptr() != part.untyped_storage().data_ptr() or whole.shape[1] != part.shape[1]:
        return False
    first, last = whole.storage_offset(), whole.storage_offset() + whole.numel()
    return first <= part.storage_offset() and part.storage_offset() + part.numel() <= last


def _is_transposed_stack(values: Any, parts: list[Matrix]) -> bool:
    """Whether values are a parameter with a matrix for each expert, every one of them transposed."""
    whole = parts[0].parameters[0]
    if not isinstance(values, Tensor) or values.dim() != 3 or whole.dim() != 3 or len(parts) != len(whole):
        return False
    same = values.mT.shape == whole.shape and values.mT.stride() == whole.stride()
    return same and values.data_ptr() == whole.data_ptr()


def product_with_weights(name: str, args: Any, kwargs: Any, context: Context) -> Value | None:
    """The value of a call that multiplies by random weights, by the rule of Linear layers; None: it is no such call."""
    args = (*args, *(kwargs[key] for key in ("weight", "bias") if key in kwargs and name == "linear"))
    bias = offsets = None
    experts, inputs_first = name in ("grouped_mm", "_grouped_mm"), name != "linear"
    if name in ("matmul", "mm") and len(args) == 2:
        state, weights = args
    elif name == "linear" and len(args) in (2, 3):
        state, weights, bias = (*args, None)[:3]
    elif name == "addmm" and len(args) == 3:
        bias, state, weights = args
    elif experts and len(args) >= 2:
        state, weights, offsets = (*args, kwargs.get("offs"))[:3]
    else:
        return None
    if not isinstance(weights, RandomMatrix) or weights.experts != experts or weights.transposed != inputs_first:
        return None
    if experts:
        return _through_experts(state, weights, offsets, context) if isinstance(state, RoutedTokens) else None
    # What is drawn as the bias comes as a reason too; a constant, or the bias of another, has no place here.
    known = weights.bias == (bias is not None) and (bias is None or isinstance(bias, Uncovered))
    covered = isinstance(state, Value) and not isinstance(state, Uncovered)
    return _through_linear(state, weights, context) if known and covered else None


def _through_linear(state: Any, weights: RandomMatrix, context: Context) -> Any:
    """The product with a matrix of weights: the Linear that it amounts to, by the rule of Linear layers."""
    rules = [(layer, find_rule(layer)) for layer in weights.layers]
    own = context.drawn(weights.parameters)

    def product(before: Any) -> MomentMaps:
        parts = [rule(layer, before, context) for layer, rule in rules if rule is not None]
        after: MomentMaps = parts[0] if len(parts) == 1 else stacked(parts)
        return replace(after, weights=(after.weights - after.fresh) | own, fresh=own)

    return state.through(product)


def _through_experts(rows: RoutedTokens, weights: RandomMatrix, offsets: Any, context: Context) -> RoutedTokens:
    """Rows times the matrix of their expert: as the first does it, with the mean square of all."""
    variances = [context.law(layer).variance for layer in weights.layers]
    mean = sum(variances) / len(variances)
    if max(variances) > _ALIKE * min(variances):
        raise NotCovered("its experts are drawn by different laws")
    first = replace(weights, layers=weights.layers[:1])

    def product(before: MomentMaps) -> MomentMaps:
        after: MomentMaps = _through_linear(before, first, context)
        return after.scaled(math.sqrt(mean / variances[0])) if mean != variances[0] else after

    return sent_to_experts(rows, offsets, product)
