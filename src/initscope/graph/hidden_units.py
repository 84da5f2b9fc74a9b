"""Which values of a model share their units: all that is not parted by weights."""

from __future__ import annotations

from torch import nn

from initscope.graph.graph import Graph
from initscope.graph.node import Node
from initscope.graph.ops import is_weight_layer

__all__ = ["hidden_sides"]


def hidden_sides(graph: Graph) -> dict[nn.Module, tuple[bool, bool]]:
    """Return for every module that is a step whether its inputs and its outputs are hidden units.

    A stream consists of all values that are connected without passing a Linear or convolution: a layer's output, its
    norm and activation, the skips that are added to it, concatenated values. Its units are hidden if neither an input
    nor an output of the model is part of it. A layer that is called again reads and writes the same stream.

    Parameters
    ----------
    graph : Graph
        The nodes of a model.

    Returns
    -------
    dict
        For every module that is a node: whether its inputs, and whether its outputs, are hidden units.
    """
    streams = _Streams(graph.nodes)
    first: dict[nn.Module, tuple[list[Node], Node]] = {}
    read: set[Node] = set()
    for step in graph.nodes:
        module, sources = step.module, [node for node in step.inputs if node in streams]
        read.update(sources)
        if is_weight_layer(module):
            sources_before, step_before = first.setdefault(module, (sources, step))
            streams.join(step, step_before)
            streams.join(*sources, *sources_before)
        else:
            streams.join(step, *sources)
            if module is not None:
                first.setdefault(module, ([step], step))
    ends = [step for step in graph.nodes if step.op == "placeholder" or step not in read]
    if graph.symbolic is not None:
        ends += graph.returned
    outward = {streams.of(step) for step in ends}
    return {
        module: (all(streams.of(source) not in outward for source in sources), streams.of(step) not in outward)
        for module, (sources, step) in first.items()
    }


class _Streams:
    """Disjoint sets of steps."""

    def __init__(self, steps: tuple[Node, ...]) -> None:
        self._parent: dict[Node, Node] = {step: step for step in steps}

    def __contains__(self, step: object) -> bool:
        return step in self._parent

    def of(self, step: Node) -> Node:
        """Return the node that holds the hidden units of the whole residual stream."""
        while self._parent[step] is not step:
            self._parent[step] = self._parent[self._parent[step]]
            step = self._parent[step]
        return step

    def join(self, *steps: Node) -> None:
        for step in steps[1:]:
            self._parent[self.of(step)] = self.of(steps[0])
