"""Choice of the rule for an op: by the op and by the kind of its inputs; else sampling, else a reason.

`Dispatcher.value_of` is the only code that decides. The ways in which an op can be covered are tried in this order,
by the most special kind of value among its inputs:

=================  ================================================================================================
`Uncovered`        a product with random weights of the model's own; else the reason
`RoutedTokens`     a rule for them (``on=RoutedTokens``), or the rule of maps, row by row
`UnitView`         a rule for it (``on=UnitView``), or the rule of maps, unit by unit; else on values that are drawn
`MomentMaps`       its rule; else as a `UnitView`
`InputValues`      the op itself, unless it has random weights; then its rule
=================  ================================================================================================
"""

from __future__ import annotations

import operator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.graph import Node, SampleAxis, as_module, is_named_tuple, overwritten
from initscope.graph.ops import SIZES
from initscope.propagate.context import Context
from initscope.propagate.model_calls import function_of, of_constants, run_on_values
from initscope.propagate.networks import Simulation
from initscope.propagate.random_matrices import RandomMatrices
from initscope.propagate.registry import find_operation, find_rule, is_elementwise
from initscope.propagate.rules.gates import independent
from initscope.propagate.rules.routing import gathers_tokens, row_by_row
from initscope.propagate.rules.views import unit_by_unit
from initscope.propagate.totals import NotCovered, own_call
from initscope.propagate.values.base import Value, is_random, is_uncovered, is_view, map_values, values_in
from initscope.propagate.values.routed_tokens import RoutedTokens
from initscope.propagate.values.uncovered import RANDOM_WEIGHTS, RandomMatrix, Uncovered
from initscope.propagate.values.unit_view import UnitView

__all__ = ["Dispatcher", "OpOnPairs"]

_UNCOVERED = (Uncovered, RandomMatrix)
_RANDOM = operator.attrgetter("random")


class OpOnPairs:
    """One op of a model on a batch of pairs: the called function, and its sample axis."""

    def __init__(self, node: Node, simulation: Simulation) -> None:
        self.node, self.target, self.module, self.name = node, node.target, node.module, node.function
        self._simulation = simulation

    @property
    def reads_shape(self) -> bool:
        """Whether it reads only the shape or type of its input."""
        return self.target is getattr or self.name in SIZES or self.node.traits.constant

    def sample_axis(self) -> SampleAxis | None:
        """Sample axis of its output, if known."""
        return self._simulation.networks.axes.of(self.node)

    def run(self, args: Any, kwargs: Any) -> Any:
        """Run the op itself, on constants and known values."""
        function = function_of(self.node) if self.module is None else self.module
        attends = self.node.traits.attention == "weights"
        return run_on_values(function, args, kwargs, self._simulation.x.samples, self.sample_axis, attends=attends)


class Dispatcher:
    """Finds the value of every op of a traced model on one batch of pairs."""

    def __init__(self, simulation: Simulation, weights: RandomMatrices, values: dict[Node, Any]) -> None:
        self._simulation, self._weights, self._values = simulation, weights, values

    def value_of(self, node: Node, args: Any, kwargs: Any, inputs: list[Any], context: Context) -> Any:
        """Return the value of an op by a rule for it and for the kind of its inputs, by sampling, or with a reason.

        Parameters
        ----------
        node : Node
            The op.
        args, kwargs : tuple and dict
            Arguments in one replicate, with values among them.
        inputs : list of Value
            These values.
        context : Context
            Of that replicate.

        Returns
        -------
        Value, constant, or a tuple of them
            What the op returns.
        """
        if node.target is operator.getitem and type(args[0]) is tuple and isinstance(args[1], int):
            return args[0][args[1]]
        op, kinds = OpOnPairs(node, self._simulation), set(map(type, inputs))
        try:
            if not kinds.isdisjoint(_UNCOVERED):
                return self._of_uncovered(op, args, kwargs, inputs, context)
            if RoutedTokens in kinds or (op.module is None and gathers_tokens(op.name, args)):
                return self._of_routed(op, args, kwargs, context)
            if UnitView in kinds and not op.reads_shape:
                return self._on_units(op, args, kwargs, context)
            return self._of_maps(op, args, kwargs, inputs, context)
        except NotCovered as error:
            reason = str(error)
        if node.row:
            return self._sampled(node, inputs, reason, context)
        # a size, or weights that are computed: nothing to sample
        return next((value for value in inputs if is_uncovered(value)), None) or Uncovered(reason)

    def _sampled(self, node: Node, inputs: list[Any], reason: str, context: Context) -> Value:
        """Return the second moments of whole networks that were drawn."""
        axis = next((value.axis for value in inputs if value.axis is not None), None)
        try:
            state = self._simulation.state(node, axis, context)
        except NotCovered as error:
            why = str(error)
            return Uncovered(reason if why == reason else f"{reason}; not sampled: {why}")
        return replace(state, note=f"{reason}: {state.note}")

    def _of_uncovered(self, op: OpOnPairs, args: Any, kwargs: Any, inputs: list[Any], context: Context) -> Any:
        rule = find_operation(op.name, RandomMatrix)
        value = NotImplemented if rule is None else rule(context, *args, **kwargs)
        if value is not NotImplemented:
            return value
        first = next(value for value in inputs if is_uncovered(value))
        weights = first.reason == RANDOM_WEIGHTS.reason
        raise NotCovered(RANDOM_WEIGHTS.reason if weights else "a layer before it is not covered")

    def _of_routed(self, op: OpOnPairs, args: Any, kwargs: Any, context: Context) -> Any:
        rule = find_operation(op.name, RoutedTokens)
        value = NotImplemented if rule is None else rule(context, *args, **kwargs)
        if value is not NotImplemented:
            return value
        return row_by_row(args, kwargs, lambda a, k: self._by_rule(op, a, k, values_in((a, k)), context))

    def _of_maps(self, op: OpOnPairs, args: Any, kwargs: Any, inputs: list[Any], context: Context) -> Any:
        # Nothing is found where no op may move samples.
        moves = self._moves_samples if self._simulation.networks.axes.axes else None
        moved_before = moves is not None and any(
            moves(parent) and not _knows_samples(self._values.get(parent)) for parent in op.node.inputs
        )
        try:
            if op.node.row and moves is not None and (moved_before or moves(op.node)):
                raise NotCovered("its first axis is not the sample axis")  # rules read the first axis as samples
            return self._by_rule(op, args, kwargs, inputs, context)
        except NotCovered:
            if not moved_before:
                with suppress(NotCovered):
                    return self._on_units(op, args, kwargs, context)
            raise

    def _moves_samples(self, node: Node) -> bool:
        """Return whether the samples of a node lie elsewhere than along its first axis."""
        axis = self._simulation.networks.axes.of(node)
        return axis is not None and not axis.first

    def _by_rule(self, op: OpOnPairs, args: Any, kwargs: Any, inputs: list[Any], context: Context) -> Any:
        """Apply the rule for maps; if all inputs are known, run the op itself."""
        if op.module is not None:
            return self._of_module(op.module, args, kwargs, inputs, context)
        if op.target is overwritten:
            raise NotCovered("another view of the same tensor was modified in place")
        if not any(map(_RANDOM, inputs)):
            return op.run(args, kwargs)
        if is_named_tuple(op.target):
            return tuple(args)
        if is_random(args[0]):
            if op.target is getattr:
                return args[0].attribute(args[1])
            if op.name in SIZES:
                return _size_of(args[0].placeholder(), op, args[1:], kwargs)
            if op.node.traits.constant:
                return op.run((_zeros_like(args[0]), *args[1:]), kwargs)
        rule = find_operation(op.name)
        if rule is not None:
            return rule(context, *args, **kwargs)
        stand_in = own_call(as_module, op.name, args[1:], kwargs) if is_random(args[0]) and len(inputs) == 1 else None
        if stand_in is None:
            raise NotCovered(f"{op.node.kind} has no rule")
        return self._of_module(stand_in, args[:1], {}, inputs, context)

    def _of_module(self, module: nn.Module, args: Any, kwargs: Any, inputs: list[Any], context: Context) -> Any:
        known, pairs = not any(map(_RANDOM, inputs)), self._simulation.x.samples
        parameters = next(module.parameters(), None) is not None
        if known and inputs and not parameters and not isinstance(module, _BatchNorm):
            return run_on_values(module, args, kwargs, pairs)  # a fixed function of each sample
        if not inputs and not self._weights.drawn_in(module):
            return of_constants(own_call(module, *args, **kwargs), pairs)
        rule = find_rule(module)
        if rule is None:
            raise NotCovered(f"{type(module).__name__} has no rule")
        if len(inputs) != 1 or not args or args[0] is not inputs[0]:
            raise NotCovered(f"{type(module).__name__} reads {len(inputs)} values")
        return rule(module, args[0], context)

    def _on_units(self, op: OpOnPairs, args: Any, kwargs: Any, context: Context) -> Any:
        """Move tokens by the numbers of their units; run uncovered ops on drawn values."""
        if op.module is not None:
            return self._module_on_units(op, op.module, args, kwargs, context)
        if not values_in(kwargs) and is_elementwise(op.name):
            with suppress(NotCovered):
                return unit_by_unit(args, context, lambda a: self._by_rule(op, a, kwargs, values_in(a), context))
        rule = find_operation(op.name, UnitView)
        value = NotImplemented if rule is None else rule(context, *args, **kwargs)
        if value is not NotImplemented:
            return value
        _check_independent(values_in((args, kwargs)))
        return op.run(*map_values(lambda value: value.samples(context), (args, kwargs)))

    def _module_on_units(self, op: OpOnPairs, module: nn.Module, args: Any, kwargs: Any, context: Context) -> Any:
        first, rule = args[0] if args else None, find_rule(module)
        if isinstance(module, (nn.Identity, nn.Dropout)):
            return first
        if not values_in(first):
            raise NotCovered(f"{type(module).__name__} reads no values of the data")
        if isinstance(module, nn.Linear) and rule is not None and (is_view(first) or not is_random(first)):
            return first.units().through(lambda before: rule(module, before, context))  # type: ignore[union-attr]
        values = map_values(lambda value: value.samples(context), first)
        if rule is not None:
            return rule(module, values, context)
        if self._weights.drawn_in(module):
            raise NotCovered(f"{type(module).__name__} has no rule")
        return op.run((values, *args[1:]), kwargs)


def _knows_samples(value: Any) -> bool:
    """Return whether it is known which sample every entry belongs to."""
    values = values_in(value)
    return bool(values) and all(argument.knows_samples for argument in values)


def _check_independent(values: list[Any]) -> None:
    """Refuse random values that share their randomness, because they cannot be drawn separately."""
    maps = {maps.order: maps for value in values for maps in value.moment_maps()}
    if not all(independent(a, b) for a, b in combinations(maps.values(), 2)):
        raise NotCovered("its branches share their randomness")


def _size_of(like: torch.Tensor, op: OpOnPairs, args: Any, kwargs: Any) -> Any:
    """Return what a method reads of a tensor's shape and type."""
    size = own_call(getattr(like, op.name, None) or getattr(like, f"__{op.name}__"), *args, **kwargs)
    if isinstance(size, torch.Tensor):
        raise NotCovered(f"{op.node.kind} has no rule")
    return size


def _zeros_like(value: Value) -> torch.Tensor:
    """Return zeros of the value's shape that use the memory of one."""
    like = value.placeholder()
    return torch.zeros((1,), dtype=like.dtype, device=value.attribute("device")).expand(like.shape)
