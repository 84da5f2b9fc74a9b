"""`Graph`: the nodes of a model, queries about them, and the method that runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from initscope.graph import paths
from initscope.graph.inputs import Inputs
from initscope.graph.node import Node
from initscope.graph.paths import Branch
from initscope.graph.recording import Recording
from initscope.graph.symbolic import NodeCallback, Traced, attribute, execute_nodes
from initscope.graph.threads import multiplications_per_value

__all__ = ["Graph"]


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes of a model that have a row, inputs first, in the order in which they run (see `trace`).

    Attributes
    ----------
    model : nn.Module
        The model, not a copy.
    root : nn.Module
        The module to run: the model, or a bare layer wrapped as a model with one op.
    nodes : tuple of Node
        The inputs and the ops that carry data: no sizes, no parameters. After an in-place op its result is read from
        it, and through other views of the tensor from an op `overwritten` after it.
    symbolic : Traced or None
        The symbolic trace with all its nodes, sizes and parameters included; None if ``fallback`` gives a reason.
    fallback : str
        Why the model could not be traced symbolically, or empty. The nodes are then those of one run, with the sizes of
        that run (``batch`` samples) among their arguments.
    batch : int or None
        Number of samples of the run that was recorded.
    returned : tuple of Node
        The nodes whose values the model returns, in the order of its output.
    opened : bool
        Whether modules that hide their ops are looked into.
    output_shapes : dict
        Shapes of the model's own output, by position, if a run was recorded.
    """

    model: nn.Module
    root: nn.Module
    nodes: tuple[Node, ...]
    symbolic: Traced | None = None
    fallback: str = ""
    batch: int | None = None
    returned: tuple[Node, ...] = ()
    opened: bool = False
    output_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    samples_first: dict[tuple[int, ...], bool] = field(default_factory=dict, repr=False)
    """What `all_keep_samples_first` found, by the numbers of axes of the inputs."""

    @property
    def calls(self) -> tuple[Node, ...]:
        """All nodes in order, including those without a row, which a recorded run has only in arguments."""
        return self.nodes if self.symbolic is None else self.symbolic.calls

    @property
    def output(self) -> Any:
        """The model's output in terms of nodes; of a recorded run the nodes that it returns."""
        return self.returned if self.symbolic is None else self.symbolic.output

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that are inputs of the model."""
        return tuple(node for node in self.nodes if node.op == "placeholder")

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The node of every row, by its name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For every row, the rows that read it."""
        return paths.readers([node.reads for node in self.nodes])

    @cached_property
    def output_index(self) -> int:
        """The first row whose values the model returns; the last row if none is known."""
        return self.returned[0].index if self.returned else len(self.nodes) - 1

    @cached_property
    def main_path(self) -> tuple[Node, ...]:
        """The nodes that all ways from an input to the output lead through: no branches, no insides of a norm."""
        inputs = [node.index for node in self.inputs]
        rows = paths.main_path([node.reads for node in self.nodes], inputs, self.output_index)
        return tuple(self.nodes[row] for row in rows)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The parallel paths between neighboring rows of the main path; a skip connection has no rows."""
        return paths.branches([node.reads for node in self.nodes], [node.index for node in self.main_path])

    @cached_property
    def head(self) -> Node | None:
        """The last weight layer if all paths to the output pass through it, otherwise None."""
        weights = [node for node in self.nodes if node.role == "weights" and node.index <= self.output_index]
        return weights[-1] if weights and weights[-1] in self.main_path else None

    @cached_property
    def blocks(self) -> dict[str, tuple[Node, ...]]:
        """For every module that is traced into, by its path, the nodes inside it."""
        blocks: dict[str, list[Node]] = {}
        for node in self.nodes:
            parts = node.path.split(".") if node.path else []
            inside = parts[:-1] if node.module is not None else parts
            for depth in range(1, len(inside) + 1):
                blocks.setdefault(".".join(inside[:depth]), []).append(node)
        return {path: tuple(nodes) for path, nodes in blocks.items()}

    @cached_property
    def attention_nodes(self) -> tuple[Node, ...]:
        """Nodes that hold weights of an attention: softmaxes, and calls of scaled dot-product attention."""
        return tuple(node for node in self.nodes if node.traits.attention in ("weights", "fused"))

    @cached_property
    def work_per_value(self) -> dict[Node, float]:
        """Approximate number of multiplications per value of a node's output."""
        return {node: multiplications_per_value(node.module) for node in self.nodes}

    def constant(self, node: Node) -> Any:
        """Return the parameter or buffer that a node of op "get_attr" reads.

        Parameters
        ----------
        node : Node
            Of ``calls``.

        Returns
        -------
        object
            The object at its path in the model, or the recorded one if only the trace has it.
        """
        path = str(node.target)
        try:
            return attribute(self.root, path)
        except AttributeError:
            return None if self.symbolic is None else self.symbolic.constants[path]

    def execute(self, inputs: Inputs, watch: NodeCallback) -> Any:
        """Run the model on ``inputs`` and call ``watch(node, args, kwargs, output)`` right after each node.

        Values are shown to the observer before any later in-place op overwrites them. If a model branches on its data,
        nodes may be missing in a run, or differ from those of the graph; nodes that the graph lacks are not observed.

        Parameters
        ----------
        inputs : Inputs
            Arguments of the model.
        watch : callable
            Its return value replaces the output, unless it is None.

        Returns
        -------
        object
            The model's output.
        """
        inputs = inputs.map(torch.clone)  # what is written into them is the model's affair
        if self.symbolic is not None:
            return execute_nodes(self.symbolic, self.root, inputs, watch)
        by_name = self.by_name

        def watch_named(name: str, args: Any, kwargs: Any, output: Any) -> Any:
            node = by_name.get(name)
            return None if node is None else watch(node, args, kwargs, output)

        return Recording(self.root, self._is_single, watch_named, opened=self.opened).run(inputs)

    @cached_property
    def _is_single(self) -> Callable[[nn.Module], bool]:
        single = {id(node.module) for node in self.nodes if node.module is not None}
        return lambda module: id(module) in single
