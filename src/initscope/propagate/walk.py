"""The walk over a traced model: the value of every step, by its rule, or sampled, or the reason why there is none."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.graph import (
    MADE_ANEW,
    Node,
    SampleAxis,
    Step,
    Trace,
    as_module,
    attends,
    call_name,
    is_named_tuple,
    overwritten,
)
from initscope.graph.borrowing import NoDropoutCalls
from initscope.graph.calls import called_activation
from initscope.initializers._base import drawn_parameters, weight_layers
from initscope.initializers._matrices import Matrix, matrices
from initscope.propagate.arguments import (
    Several,
    attribute_of,
    holds_several,
    kept,
    of_replicate,
    several,
    shaped_like,
    side_of,
    states_in,
    tells_places,
    zeros_like,
)
from initscope.propagate.called_weights import (
    WEIGHTS,
    Missing,
    Weights,
    evaluated,
    experts_product,
    function_of,
    holds,
    is_turned_stack,
    weights_product,
)
from initscope.propagate.moments import Given, Maps
from initscope.propagate.networks import Simulation
from initscope.propagate.registry import Reads, find_operation, rule_of_call
from initscope.propagate.routed import Rows, by_rows, chooses_tokens, sent_to_experts
from initscope.propagate.rules import Context, NotCovered, find_rule
from initscope.propagate.rules.merging import stacked
from initscope.propagate.totals import own_call
from initscope.propagate.units import Drawn, Units, token_cosine
from initscope.propagate.without_rule import ELEMENTWISE, at_own_places, by_units, weighted_units

__all__ = ["Missing", "Several", "Walk"]

_ALIKE = 1.1  # ratio of the largest to the least variance of experts that pass for one law
_SIZES = ("size", "dim", "numel", "ndimension", "len")


class Walk:
    """Values of all nodes of a traced model for one batch of pairs; each is dropped after its last use."""

    def __init__(
        self, traced: Trace, inputs: list[Any], context: Context, simulation: Simulation, *, keep: bool = False
    ) -> None:
        """``keep``: where every value comes from stays known, whether or not a later step reads it."""
        self._traced, self._simulation = traced, simulation
        self._keep = keep or attends(traced)  # every row asks for the cosines of its tokens
        self._contexts = [context] + [
            context.of_replicate(index, _next_generator(context.generator)) for index in range(1, context.replicates)
        ]
        self._inputs = iter(inputs)
        self._pairs = next(len(given.x) for given in inputs if isinstance(given, Given))
        # What an initializer draws; other parameters of the model are constants.
        self._drawn = drawn_parameters(traced.model)
        self._parts: dict[int, list[Matrix]] = {}
        for one in matrices(traced.model):
            self._parts.setdefault(id(one.parameters[0]), []).append(one)
        self._matrices = {
            key: Weights.of(parts)
            for key, parts in self._parts.items()
            if parts[0].parameters[0].dim() == 3
            or all(isinstance(part.owner, nn.MultiheadAttention) or not part.part for part in parts)
        }
        for layer in weight_layers(traced.model):
            if isinstance(layer, nn.Linear) and find_rule(layer) is not None:
                found = Weights(WEIGHTS.reason, tuple(layer.parameters()), (layer,))
                self._matrices.setdefault(id(layer.weight), found)
        self._values: dict[Node, Any] = {}

    def states(self) -> Iterator[tuple[Node, Any]]:
        """(step, its value) in order."""
        graph = self._traced.graph_module
        nodes: list[Node] = list(self._traced.steps) if graph is None else list(graph.graph.nodes)
        last_use = {parent: node for node in nodes for parent in node.all_input_nodes}
        steps = set(self._traced.steps)
        last_reader = self._last_readers(nodes)
        for index, node in enumerate(nodes):
            if node.op == "output":
                continue
            value = self._value(node)
            # What no step to come reads is set free, and with it the early maps that it rests on.
            origin = self._keep or index < last_reader["positions"]
            law = index < max(last_reader["law"], last_reader["means"])
            self._values[node] = kept(value, origin=origin, law=law)
            if node in steps:
                yield node, value
            for parent in node.all_input_nodes:
                if last_use[parent] is node:
                    del self._values[parent]

    def tokens(self, value: Any) -> tuple[list[float], list[float]]:
        """Of the value of a step, for each replicate: the mean cosine of its tokens, the entropy of its weights."""
        states = value.states if isinstance(value, Several) else (value,)
        pairs = list(zip(states, self._contexts, strict=False))
        return [token_cosine(state, context) for state, context in pairs], [
            getattr(state, "entropy", math.nan) for state in states
        ]

    def _last_readers(self, nodes: list[Node]) -> dict[Reads, int]:
        """The last step whose rule reads means, covariances between positions or laws of its input; -1: none."""
        last: dict[Reads, int] = {"means": -1, "positions": -1, "law": -1}
        for index, node in enumerate(nodes):
            module = self._traced.module(node)
            found = rule_of_call(call_name(node.target)) if module is None else find_rule(module)
            for what in () if found is None else found.reads(module):
                last[what] = index
        return last

    def _value(self, node: Node) -> Any:
        if node.op == "placeholder":
            return next(self._inputs, Missing("it got no input"))
        if node.op == "get_attr":
            return self._constant(self._traced.constant(node))
        args, kwargs = self._filled_in(node.args), self._filled_in(node.kwargs)
        kwargs.pop("out", None)  # the result is the same; who reads from there later reads this step
        first, *others = self._contexts
        drawn = len(first.sampled)
        value = self._one_value(node, of_replicate((args, kwargs), 0), first)
        if holds_several((args, kwargs)) or len(first.sampled) > drawn:
            values = [value, *(self._one_value(node, of_replicate((args, kwargs), c.replicate), c) for c in others)]
            return several(values)
        return value

    def _one_value(self, node: Node, arguments: Any, context: Context) -> Any:
        """The value of a step in one replicate."""
        args, kwargs = arguments
        if node.target is operator.getitem and type(args[0]) is tuple and isinstance(args[1], int):
            return args[0][args[1]]
        found = states_in((args, kwargs))
        missing = next((value for value in found if isinstance(value, Missing)), None)
        try:
            if missing is None:
                return self._covered(node, args, kwargs, found, context)
            product = weights_product(call_name(node.target), args, kwargs)
            if product is not None:
                return self._call_weights(*product, context)
            routed = experts_product(call_name(node.target), args, kwargs)
            if routed is not None:
                return self._call_experts(*routed, context)
            reason = WEIGHTS.reason if missing.reason == WEIGHTS.reason else "a layer before it is not covered"
        except NotCovered as error:
            reason = str(error)
        if node in self._traced.names:
            return self._sampled(node, found, reason, context)
        return missing or Missing(reason)  # a size, or weights that are computed: nothing to sample

    def _covered(self, node: Node, args: Any, kwargs: Any, found: list[Any], context: Context) -> Any:
        """By its rule; else unit by unit, where tokens are cut into heads; else on drawn values of all heads."""
        if any(isinstance(value, Rows) for value in found) or chooses_tokens(call_name(node.target), args):
            return self._by_rows(node, args, kwargs, context)
        whole = not any(isinstance(value, Units) for value in found)
        try:
            if whole:
                self._check_samples_first(node)
                return self._call(node, args, kwargs, found, context)
            if node.target is getattr or call_name(node.target) in {*_SIZES, *MADE_ANEW}:
                return self._call(node, args, kwargs, found, context)
        except NotCovered:
            if not self._moved_before(node):
                with suppress(NotCovered):
                    return self._by_units(node, args, kwargs, found, context)
            raise
        return self._by_units(node, args, kwargs, found, context)

    def _by_units(self, node: Node, args: Any, kwargs: Any, found: list[Any], context: Context) -> Any:
        module, name = self._traced.module(node), call_name(node.target)
        if module is None and not states_in(kwargs) and (name in ELEMENTWISE or called_activation(name) is not None):
            with suppress(NotCovered):
                return at_own_places(args, context, lambda a: self._call(node, a, kwargs, states_in(a), context))
        function = function_of(node) if module is None else module
        return by_units(module, name, args, kwargs, context, lambda a, k: self._run_drawn(node, function, a, k))

    def _by_rows(self, node: Node, args: Any, kwargs: Any, context: Context) -> Any:
        def rule(args: Any, kwargs: Any) -> Any:
            return self._call(node, args, kwargs, states_in((args, kwargs)), context)

        return by_rows(call_name(node.target), args, kwargs, context, rule)

    def _run_drawn(self, node: Node, function: Any, args: Any, kwargs: Any) -> Any:
        """A call on drawn values."""
        module = self._traced.module(node)
        if module is not None and self._drawn.intersection(map(id, module.parameters())):
            raise NotCovered(f"{type(module).__name__} has no rule")
        return self._run(function, args, kwargs, node)

    def _check_samples_first(self, node: Node) -> None:
        """Rules read the first axis as samples."""
        if node not in self._traced.names:
            return
        if self._is_moved(node) or self._moved_before(node):
            raise NotCovered("samples do not lie on its first axis")

    def _is_moved(self, node: Node) -> bool:
        """Whether the samples of a step lie elsewhere than along its first axis."""
        place = self._simulation.axes.of(node)
        return place is not None and not place.first

    def _moved_before(self, node: Node) -> bool:
        """Whether those of a step that this one reads do, and nothing tells where each unit is."""
        return any(
            self._is_moved(parent) and not tells_places(self._values.get(parent)) for parent in node.all_input_nodes
        )

    def _filled_in(self, value: Any) -> Any:
        """Arguments with the values of the nodes that they name."""
        if isinstance(value, Node):
            if value in self._values:
                return self._values[value]
            return self._value(value) if value.inputs else self._of_parameters(value)  # it stands in arguments only
        if isinstance(value, slice):
            return slice(*(self._filled_in(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return {key: self._filled_in(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return (list if isinstance(value, list) else tuple)(self._filled_in(item) for item in value)
        return self._constant(value)

    def _of_parameters(self, step: Step) -> Any:
        """What is computed of parameters: the part of attention's projections that a call multiplies by, if it is."""
        value = self._value(step)
        if not isinstance(value, Missing):
            return value
        try:
            raw = evaluated(step)
        except NotCovered:  # it cannot be computed from its parameters alone: what it stands for is not known
            return value
        for parts in self._parts.values():
            chosen = [
                part for part in parts if isinstance(raw, Tensor) and raw.dim() == 2 and holds(raw, part.weight())
            ]
            if chosen and sum(len(part.weight()) for part in chosen) == len(raw):
                return Weights.of(chosen)
            if is_turned_stack(raw, parts):
                return Weights.of(parts, turned=True)
        return value

    def _constant(self, value: Any) -> Any:
        return self._matrices.get(id(value), WEIGHTS) if id(value) in self._drawn else value

    def _call(self, node: Node, args: Any, kwargs: Any, found: list[Any], context: Context) -> Any:
        module = self._traced.module(node)
        if module is not None:
            return self._call_module(module, args, kwargs, found, context)
        target, name = node.target, call_name(node.target)
        if target is overwritten:
            raise NotCovered("another view of it was written into")
        if not found or all(isinstance(value, Given) for value in found):
            return self._run(function_of(node), args, kwargs, node)
        if target is getattr:
            return attribute_of(args[0], args[1])
        if is_named_tuple(target):
            return tuple(args)
        if name in _SIZES and isinstance(args[0], (Maps, Units)):
            return (
                getattr(shaped_like(args[0]), name)(*args[1:], **kwargs) if name != "len" else len(shaped_like(args[0]))
            )
        if name in MADE_ANEW and isinstance(args[0], (Maps, Units)):
            return self._run(function_of(node), (zeros_like(args[0]), *args[1:]), kwargs)
        with_rule = find_operation(name)
        if with_rule is not None:
            return with_rule(context, *args, **kwargs)
        single = bool(args) and isinstance(args[0], Maps) and len(found) == 1
        stand_in = own_call(as_module, name, args[1:], kwargs) if single else None
        if stand_in is None:
            raise NotCovered(f"{self._traced.kind(node)} has no rule")
        return self._call_module(stand_in, args[:1], {}, found, context)

    def _call_module(self, module: nn.Module, args: Any, kwargs: Any, found: list[Any], context: Context) -> Any:
        fixed = not weight_layers(module) and not isinstance(module, _BatchNorm)
        if all(isinstance(value, Given) for value in found) and fixed and not any(True for _ in module.parameters()):
            return self._run(module, args, kwargs)
        if not found and not self._drawn.intersection(map(id, module.parameters())):
            return self._of_constants(own_call(module, *args, **kwargs))
        rule = find_rule(module)
        if rule is None:
            raise NotCovered(f"{type(module).__name__} has no rule")
        if len(found) != 1 or not args or args[0] is not found[0]:
            raise NotCovered(f"{type(module).__name__} reads {len(found)} values")
        return rule(module, args[0], context)

    def _of_constants(self, value: Any) -> Any:
        """What a module makes of constants; one for each sample is the same for x and y."""
        each = isinstance(value, Tensor) and value.dim() > 1 and len(value) == self._pairs > 1
        return Given(value.detach(), value.detach()) if each else value

    def _call_weights(self, state: Any, weights: Weights, context: Context) -> Any:
        """The product with a matrix of weights: the Linear that it amounts to, by the rule of Linear layers."""
        rules = [(layer, find_rule(layer)) for layer in weights.layers]
        own = context.drawn(weights.parameters)

        def product(before: Any) -> Maps:
            each = [found(layer, before, context) for layer, found in rules if found is not None]
            after: Maps = each[0] if len(each) == 1 else stacked(each)
            return replace(after, weights=(after.weights - after.fresh) | own, fresh=own)

        if isinstance(state, Rows):
            return state.through(product)
        return weighted_units(state, product) if isinstance(state, Units) else product(state)

    def _call_experts(self, rows: Rows, weights: Weights, offsets: Any, context: Context) -> Rows:
        """Rows times the matrix of their expert: as the first does it, with the mean square of all."""
        variances = [context.law(layer).variance for layer in weights.layers]
        mean = sum(variances) / len(variances)
        if max(variances) > _ALIKE * min(variances):
            raise NotCovered("its experts are drawn by different laws")
        first = replace(weights, layers=weights.layers[:1])

        def product(before: Maps) -> Maps:
            after: Maps = self._call_weights(before, first, context)
            return after.scaled(math.sqrt(mean / variances[0])) if mean != variances[0] else after

        return sent_to_experts(rows, offsets, product)

    def _run(self, function: Any, args: Any, kwargs: Any, node: Node | None = None) -> Any:
        """A call on constants, given and drawn values: on x and on y, or once where there are none."""
        states = states_in((args, kwargs))
        if not states:
            with NoDropoutCalls():
                return own_call(function, *args, **kwargs)
        with NoDropoutCalls():
            x, y = (own_call(function, *side_of(args, side), **side_of(kwargs, side)) for side in ("x", "y"))
        heads = [state for state in states if isinstance(state, Drawn)]
        place = self._place(node, x) if heads and node is not None else None
        attends = node is not None and self._traced.kind(node).lower() == "softmax"
        return self._joined(x, y, Drawn.of(heads, place, self._pairs, attends=attends) if heads else Given)

    def _place(self, node: Node, x: Any) -> SampleAxis | None:
        """Where the samples of drawn values are, if not first."""
        if isinstance(x, Tensor) and x.is_nested:
            raise NotCovered("its output has no shape")
        if not isinstance(x, Tensor) or (x.dim() > 0 and len(x) == self._pairs):
            return None
        return self._simulation.axes.of(node)

    def _joined(self, x: Any, y: Any, kind: Callable[[Tensor, Tensor], Given] = Given) -> Any:
        """Both results as one value: a constant where they do not depend on the data."""
        if isinstance(x, (tuple, list)) and any(isinstance(item, Tensor) for item in x):
            return tuple(self._joined(a, b, kind) for a, b in zip(x, y, strict=True))
        if not isinstance(x, Tensor):
            return x
        if kind is not Given:
            return kind(x, y)
        given, each = Given(x, y), x.shape == y.shape and x.dim() > 0 and len(x) == self._pairs
        if each and given.real:
            return given
        if torch.equal(x, y):
            return x
        if not each:
            raise NotCovered("it mixes samples")
        return given

    def _sampled(self, node: Node, found: list[Any], reason: str, context: Context) -> Any:
        parents = [value for value in found if isinstance(value, Maps)]
        try:
            state = self._simulation.state(node, parents[0].axis if parents else None, context)
        except NotCovered as error:
            why = str(error)
            return Missing(reason if why == reason else f"{reason}; not sampled: {why}")
        return replace(state, note=f"{reason}: {state.note}")


def _next_generator(generator: torch.Generator) -> torch.Generator:
    seed = int(torch.randint(1 << 62, (), generator=generator))
    return torch.Generator(device=generator.device).manual_seed(seed)
