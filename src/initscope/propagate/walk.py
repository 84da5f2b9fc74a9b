"""The walk over a traced model: the value of every op, in order, from the values of those that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter, methodcaller
from typing import Any

import torch

from initscope.graph import Graph, Node
from initscope.propagate.context import Context
from initscope.propagate.dispatch import Dispatcher
from initscope.propagate.networks import Simulation
from initscope.propagate.random_matrices import RandomMatrices
from initscope.propagate.registry import Reads, find_rule, rule_of_call
from initscope.propagate.values.base import is_uncovered, is_value, map_values, values_in
from initscope.propagate.values.replicates import replicated
from initscope.propagate.values.uncovered import Uncovered

__all__ = ["Walk"]

_REPLICATED = attrgetter("replicated")


class Walk:
    """Values of all nodes of a traced model for one batch of pairs; each is dropped after its last use."""

    def __init__(
        self, graph: Graph, inputs: list[Any], context: Context, simulation: Simulation, *, keep: bool = False
    ) -> None:
        """``keep``: store the origin of every value, whether or not a later op reads it."""
        self._graph = graph
        self._keep = keep or bool(graph.attention_nodes)  # every row asks for the cosines of its tokens
        self._contexts = [context]
        for index in range(1, context.replicates):
            seed = int(torch.randint(1 << 62, (), generator=context.generator))
            generator = torch.Generator(device=context.generator.device).manual_seed(seed)
            self._contexts.append(context.of_replicate(index, generator))
        self._inputs = iter(inputs)
        self._values: dict[Node, Any] = {}
        self._weights = RandomMatrices(graph.model)
        self._dispatcher = Dispatcher(simulation, self._weights, self._values)

    def states(self) -> Iterator[tuple[Node, Any]]:
        """Yield (op, its value) in order, for the ops that have a row."""
        nodes = self._graph.calls
        last_use = {parent: node for node in nodes for parent in node.inputs}
        last_reader = _last_readers(nodes)
        for index, node in enumerate(nodes):
            value = self._value(node)
            # What no later op reads is set free, and with it the early maps that it rests on.
            origin = self._keep or index < last_reader["positions"]
            distribution = index < max(last_reader["distribution"], last_reader["means"])
            released = methodcaller("released", origin=origin, distribution=distribution)
            self._values[node] = released(value) if is_value(value) else map_values(released, value)
            if node.row:
                yield node, value
            for parent in node.inputs:
                if last_use[parent] is node:
                    del self._values[parent]

    def tokens(self, value: Any) -> tuple[list[float], list[float]]:
        """Return for each replicate the mean cosine of an op's tokens, and the entropy of its weights."""
        if not is_value(value):
            return [float("nan")], [float("nan")]
        pairs = zip(value.replicates, self._contexts, strict=False)
        return [replicate.token_cosine(context) for replicate, context in pairs], [
            replicate.entropy for replicate in value.replicates
        ]

    def _value(self, node: Node) -> Any:
        if node.op == "placeholder":
            return next(self._inputs, Uncovered("it got no input"))
        if node.op == "get_attr":
            return self._weights.constant(self._graph.constant(node))
        args, kwargs = self._filled_in(node.args), self._filled_in(node.kwargs) if node.kwargs else {}
        kwargs.pop("out", None)  # the result is the same; who reads from there later reads this op
        inputs = values_in((args, kwargs))
        first, *others = self._contexts
        drawn = len(first.sampled)
        if not any(map(_REPLICATED, inputs)):
            value = self._dispatcher.value_of(node, args, kwargs, inputs, first)
            if len(first.sampled) == drawn:
                return value
            again = [self._dispatcher.value_of(node, args, kwargs, inputs, context) for context in others]
            return replicated([value, *again])
        values = []
        for context in self._contexts:
            own_args, own_kwargs = map_values(methodcaller("replicate", context.replicate), (args, kwargs))
            own_inputs = values_in((own_args, own_kwargs))
            values.append(self._dispatcher.value_of(node, own_args, own_kwargs, own_inputs, context))
        return replicated(values)

    def _filled_in(self, value: Any) -> Any:
        """Return arguments with the values of the nodes that they name."""
        if isinstance(value, Node):
            return self._values[value] if value in self._values else self._in_arguments(value)
        if isinstance(value, slice):
            return slice(*(self._filled_in(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return {key: self._filled_in(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return (list if isinstance(value, list) else tuple)(map(self._filled_in, value))
        return self._weights.constant(value)

    def _in_arguments(self, node: Node) -> Any:
        """Return the value of a node that occurs only in arguments, such as sizes and parameters."""
        value = self._value(node)
        if node.inputs or not is_uncovered(value):
            return value
        return self._weights.of_parameters(node) or value


def _last_readers(nodes: Sequence[Node]) -> dict[Reads, int]:
    """Return the last op whose rule reads means, covariances between positions or distributions of its input.

    -1: none.
    """
    last: dict[Reads, int] = {"means": -1, "positions": -1, "distribution": -1}
    for index, node in enumerate(nodes):
        rule = rule_of_call(node.function) if node.module is None else find_rule(node.module)
        for what in () if rule is None else rule.reads(node.module):
            last[what] = index
    return last
