"""`run`: run a graph batch by batch; every `Observer` sees each node's output before anything overwrites it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import Row, numbered
from initscope.graph.batch import Batch
from initscope.graph.graph import Graph
from initscope.graph.inputs import Inputs
from initscope.graph.modes import NO_VALUES
from initscope.graph.node import Node
from initscope.graph.samples import SampleAxes, SampleAxis, sample_axes
from initscope.graph.saved_state import ask_for_gradient
from initscope.graph.threads import LARGE, all_threads

__all__ = ["GraphRun", "Observer", "run"]


class Observer:
    """Looks at the nodes of a run. A new observer only needs `see`; the other methods are optional.

    An observer stores reduced values per node immediately, because outputs are large and the next op may overwrite
    them.

    >>> class Largest(Observer):
    ...     def __init__(self):
    ...         self.largest = {}
    ...     def see(self, node, values):
    ...         self.largest[node] = max(self.largest.get(node, 0.0), float(values.abs().max()))
    """

    def nodes(self, graph: Graph) -> Collection[Node]:
        """Return the nodes that it wants to see; by default all."""
        return graph.nodes

    def begin(self, batch: Batch) -> None:
        """Called before a batch runs; it has the targets, and the ``sides`` of pairs if it consists of pairs."""

    def see(self, node: Node, values: Tensor) -> None:
        """Called with the output of ``node``, real, ``[samples, ...]``, without gradient.

        Do not write into it or keep it.
        """

    def read(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called with the arguments of ``node``, right after `see`; the same restrictions hold."""

    def needs_graph(self, batch: Batch) -> bool:
        """Whether the run must keep values for a backward pass; if so, `follow` is called, and `end` inside it."""
        return False

    def follow(
        self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, tensor: Tensor, axis: SampleAxis
    ) -> Any:
        """Called with the same node and its gradient graph; the return value replaces the output, unless it is None.

        ``tensor`` is the observed part of ``output``, unchanged: its samples lie along ``axis``.
        """
        return None

    def end(self, output: Any) -> None:
        """The batch has run, with this output of the model."""


@dataclass
class GraphRun:
    """What ran.

    Attributes
    ----------
    graph : Graph
        The model and its nodes.
    axes : SampleAxes
        Where the samples of each node are.
    shapes : dict
        Shape of one sample's output by node; nodes without real values, one set per sample, are missing.
    samples : int
        Number of samples seen.
    """

    graph: Graph
    axes: SampleAxes
    shapes: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    samples: int = 0
    work: float = 0.0
    """Multiplications so far: those of a large run take all threads."""

    def rows(self, notes: Mapping[Node, str] | None = None) -> tuple[Row, ...]:
        """Return the numbered rows of all nodes, with a remark for rows without values and from ``notes``.

        Parameters
        ----------
        notes : mapping, optional
            Further remarks, by node.

        Returns
        -------
        tuple of Row
        """
        notes, rows = notes or {}, []
        for node in self.graph.nodes:
            shape = self.shapes.get(node, ())
            note = "; ".join(filter(None, ("" if node in self.shapes else NO_VALUES, node.note, notes.get(node))))
            row = Row(node.name, node.kind, "measured", shape, note, node.role, node.path, node.reads, node.traits)
            rows.append(row)
        return numbered(rows)


def run(
    graph: Graph,
    inputs: Batch | Inputs | Iterable[Batch],
    observers: Sequence[Observer],
    axes: SampleAxes | None = None,
    *,
    seen: GraphRun | None = None,
) -> GraphRun:
    """Run a graph and show every node's output to observers.

    Parameters
    ----------
    graph : Graph
        The model runs in its present modes; `initscope.graph.borrowed` restores the model.
    inputs : Batch, Inputs or iterable of Batch
        Batches to run, one after the other.
    observers : sequence of Observer
        The observers.
    axes : SampleAxes, optional
        Where the samples of each node are. None: found by running a few samples of the first batch.
    seen : GraphRun, optional
        An earlier run of the same observers that this run continues.

    Returns
    -------
    GraphRun
        Shapes and number of samples.
    """
    if isinstance(inputs, Inputs):
        inputs = Batch(inputs)
    running: _Running | None = None
    for batch in [inputs] if isinstance(inputs, Batch) else inputs:
        try:
            if running is None:
                if seen is None:
                    seen = GraphRun(graph, sample_axes(graph, batch.inputs) if axes is None else axes)
                running = _Running(seen, tuple(observers))
            running.run(batch)
        except Exception as error:
            raise batch.inputs.refused(error) from error
    return GraphRun(graph, axes or SampleAxes()) if seen is None else seen


class _Running:
    """One run: who wants to see which node, and how much work was done."""

    def __init__(self, seen: GraphRun, observers: tuple[Observer, ...]) -> None:
        self.seen, self.observers = seen, observers
        self._see: dict[Node, list[Callable[[Node, Tensor], None]]] = {node: [] for node in seen.graph.nodes}
        self._read: dict[Node, list[Callable[..., None]]] = {node: [] for node in seen.graph.nodes}
        for observer in observers:
            sees, reads = type(observer).see is not Observer.see, type(observer).read is not Observer.read
            for node in observer.nodes(seen.graph):
                if sees:
                    self._see[node].append(observer.see)
                if reads:
                    self._read[node].append(observer.read)
        self._batch = 0  # samples of the batch that runs
        self._work_per_value = seen.graph.work_per_value
        self._followers: tuple[Observer, ...] = ()

    def run(self, batch: Batch) -> None:
        graph = self.seen.graph
        self._batch = len(batch)
        self._followers = tuple(observer for observer in self.observers if observer.needs_graph(batch))
        # Only gradients of outputs are needed.
        learning = [p for p in graph.model.parameters() if p.requires_grad] if self._followers else []
        try:
            for parameter in learning:
                parameter.requires_grad_(False)
            for observer in self.observers:
                observer.begin(batch)
            with torch.set_grad_enabled(bool(self._followers)):
                output = graph.execute(batch.inputs, self._watch)
                for observer in self.observers:
                    observer.end(output)
        finally:
            for parameter in learning:
                ask_for_gradient(parameter, needs_gradient=True)
        self.seen.samples += len(batch)

    def _watch(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        # The calls of observers are hidden from the modes that look for calls of the model, which would cost time.
        with torch._C.DisableTorchFunction():
            with_axis = self.seen.axes.tensor(node, output, self._batch)
            if with_axis is None:
                return None
            tensor, front, axis = with_axis
            values = front.detach()
            self.seen.shapes[node] = tuple(values.shape[1:])
            self.seen.work += self._work_per_value[node] * values.numel()
            if self.seen.work > LARGE:
                all_threads()
            for see in self._see[node]:
                see(node, values)
            for read in self._read[node]:
                read(node, args, kwargs)
            replaced = None
            for observer in self._followers:
                again = observer.follow(node, args, kwargs, output, tensor, axis)
                replaced = replaced if again is None else again
            return replaced
