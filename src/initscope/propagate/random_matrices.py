"""Random weights by which a model's own calls multiply: ``x @ w``, ``F.linear(x, w)``, one matrix per expert."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from initscope.initializers._base import drawn_parameters, weight_layers
from initscope.initializers._matrices import Matrix, matrices
from initscope.propagate.context import Context
from initscope.propagate.model_calls import evaluated
from initscope.propagate.registry import find_rule, operation
from initscope.propagate.rules.merging import stacked
from initscope.propagate.rules.routing import sent_to_experts
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import is_routed, is_uncovered, is_value
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.values.uncovered import RANDOM_WEIGHTS, RandomMatrix

__all__ = ["RandomMatrices"]

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
        """Return whether some parameters of a module are random."""
        return any(id(parameter) in self._drawn for parameter in module.parameters())

    def constant(self, value: Any) -> Any:
        """Return a constant of the model: the object, or the random weights that it holds."""
        return self._matrices.get(id(value), RANDOM_WEIGHTS) if id(value) in self._drawn else value

    def of_parameters(self, node: Any) -> RandomMatrix | None:
        """Return the random matrix that a node computes from parameters, such as a projection of attention, or None."""
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
    """Return whether the matrices of a parameter are all of it, as its calls read it."""
    stack = parts[0].parameters[0].dim() == 3
    return stack or all(isinstance(part.owner, nn.MultiheadAttention) or not part.part for part in parts)


def _holds(whole: Any, part: Tensor) -> bool:
    """Return whether ``part`` are rows of ``whole``, in the same memory."""
    if not isinstance(whole, Tensor) or whole.dim() != 2:
        return False
    if whole.untyped_storage().data_ptr() != part.untyped_storage().data_ptr() or whole.shape[1] != part.shape[1]:
        return False
    first, last = whole.storage_offset(), whole.storage_offset() + whole.numel()
    return first <= part.storage_offset() and part.storage_offset() + part.numel() <= last


def _is_transposed_stack(values: Any, parts: list[Matrix]) -> bool:
    """Return whether values are a parameter with a matrix per expert, each of them transposed."""
    whole = parts[0].parameters[0]
    if not isinstance(values, Tensor) or values.dim() != 3 or whole.dim() != 3 or len(parts) != len(whole):
        return False
    same = values.mT.shape == whole.shape and values.mT.stride() == whole.stride()
    return same and values.data_ptr() == whole.data_ptr()


@operation("matmul", "mm", on=RandomMatrix)
def product(context: Context, state: Any, weights: Any) -> Any:
    """Return inputs times a matrix."""
    return _through_linear(context, state, weights, inputs_first=True)


@operation("addmm", on=RandomMatrix)
def product_with_bias(context: Context, bias: Any, state: Any, weights: Any) -> Any:
    """Return inputs times a matrix, and a bias."""
    return _through_linear(context, state, weights, bias, inputs_first=True)


@operation("linear", on=RandomMatrix)
def linear_call(context: Context, input: Any, weight: Any, bias: Any = None) -> Any:
    """Return inputs times the transposed matrix, and a bias."""
    return _through_linear(context, input, weight, bias, inputs_first=False)


def _through_linear(context: Context, state: Any, weights: Any, bias: Any = None, *, inputs_first: bool) -> Any:
    """Apply the rule of Linear layers, if the call is equivalent to a Linear layer."""
    if not isinstance(weights, RandomMatrix) or weights.experts or weights.transposed != inputs_first:
        return NotImplemented
    # What is drawn as the bias comes as a reason too; a constant, or the bias of another layer, is not allowed here.
    known = weights.bias == (bias is not None) and (bias is None or is_uncovered(bias))
    if not known or not is_value(state) or is_uncovered(state):
        return NotImplemented
    return state.through(_layer(weights, context))


def _layer(weights: RandomMatrix, context: Context) -> Callable[[Any], MomentMaps]:
    """Return the Linear layers that are equivalent to stacked random matrices."""
    rules = [(layer, find_rule(layer)) for layer in weights.layers]
    drawn = context.drawn(weights.parameters)

    def product(before: Any) -> MomentMaps:
        parts = [rule(layer, before, context) for layer, rule in rules if rule is not None]
        after: MomentMaps = parts[0] if len(parts) == 1 else stacked(parts)
        return replace(after, weights=(after.weights - after.fresh) | drawn, fresh=drawn)

    return product


@operation("grouped_mm", "_grouped_mm", on=RandomMatrix)
def product_with_experts(context: Context, rows: Any, weights: Any, offs: Any = None, **options: Any) -> Any:
    """Return rows times the matrix of their expert: as the first does it, with the mean square of all."""
    if not is_routed(rows) or not isinstance(weights, RandomMatrix):
        return NotImplemented
    if not weights.experts or not weights.transposed:
        return NotImplemented
    variances = [context.weight_distribution(layer).variance for layer in weights.layers]
    mean = sum(variances) / len(variances)
    if max(variances) > _ALIKE * min(variances):
        raise NotCovered("the weights of its experts have different distributions")
    layer = _layer(replace(weights, layers=weights.layers[:1]), context)

    def product(before: MomentMaps) -> MomentMaps:
        after = layer(before)
        return after.scaled(math.sqrt(mean / variances[0])) if mean != variances[0] else after

    return sent_to_experts(rows, offs, product)
