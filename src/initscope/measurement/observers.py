"""Observers of pairs: their geometry after every node (`PairObserver`), their weight gradients (`GradientObserver`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.errors import InputError
from initscope.geometry import Floats, reference_norms
from initscope.graph import (
    Batch,
    Graph,
    Node,
    Observer,
    SampleAxes,
    SampleAxis,
    Sides,
    as_slices,
    couples_samples,
    gap_of,
    is_weight_layer,
    pair_norms,
)
from initscope.graph.pair_norms import row_norms
from initscope.measurement.weight_gradients import called_layer, weight_gradient_norms

__all__ = ["GradientObserver", "PairObserver"]


class PairObserver(Observer):
    """‖x‖, ‖y‖ and ‖x-y‖ after every node, for all pairs; NaN if a batch skipped a node."""

    def __init__(self, graph: Graph) -> None:
        self._norms: dict[Node, list[Tensor]] = {node: [] for node in graph.nodes}
        self._sides: Sides | None = None

    def begin(self, batch: Batch) -> None:
        """Allocate memory for the pairs of a batch."""
        self._sides = None if batch.sides is None else as_slices(batch.sides)
        if batch.sides is not None:
            _allocate(self._norms, len(batch.sides[0]))

    def see(self, node: Node, values: Tensor) -> None:
        """Take the norms."""
        if self._sides is not None:
            self._norms[node][-1] = pair_norms(values.reshape(len(values), -1), self._sides)

    def geometry(self, shapes: dict[Node, tuple[int, ...]]) -> tuple[Floats, Floats, Floats, Floats]:
        """1 - cosine, norm ratio and rms ratio, ``[steps, pairs]``, and the norms that ratios refer to, ``[pairs]``."""
        norms = _stacked(self._norms)
        units = np.array([math.prod(shapes[node]) if node in shapes else 0 for node in self._norms], dtype=np.float64)
        start, size = reference_norms(norms[:, 0], units, [node.op == "placeholder" for node in self._norms])
        gap = gap_of(norms.swapaxes(0, 1))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = norms[:, 0] / start
            return gap, ratio, ratio * np.sqrt(size / units)[:, None], start


def _allocate(norms: dict[Node, list[Tensor]], pairs: int) -> None:
    for parts in norms.values():
        parts.append(torch.full((3, pairs), torch.nan, dtype=torch.float64))


def _stacked(norms: dict[Node, list[Tensor]]) -> Floats:
    return np.stack([torch.cat(parts, dim=1).numpy() for parts in norms.values()])


class GradientObserver(Observer):
    """Norms of the weight gradients of both samples of every pair, and of their difference, at layers with weights.

    A batch holds the first samples of all pairs, then the second ones. The loss is ⟨f(x), v⟩ with a Gaussian v, or
    ``loss(output, targets)``.
    """

    def __init__(
        self, graph: Graph, axes: SampleAxes, *, seed: int, loss: Callable[[Any, Any], Tensor] | None = None
    ) -> None:
        self._graph, self._axes, self._seed, self._loss = graph, axes, seed, loss
        self._norms: dict[Node, list[Tensor]] = {node: [] for node in graph.nodes}
        self._passed: dict[Node, list[Tensor]] = {node: [] for node in graph.nodes}  # ‖∂ℓ/∂h‖ of x, per batch
        self._top: list[Tensor] = []  # ‖∂ℓ/∂a‖ of x, per batch
        self._sources: list[Tensor] = []  # what the backward pass runs to
        self._reached: set[Node] = set()  # nodes whose values are made of those of a source
        self._batch: Batch | None = None
        self._samples = 0
        self.note = ""
        """Why there are no gradients, if there are none."""
        self.notes: dict[Node, str] = {}
        """Why a node has none."""

    def needs_graph(self, batch: Batch) -> bool:
        """Return whether batches of pairs have gradients."""
        return batch.sides is not None

    def begin(self, batch: Batch) -> None:
        """Allocate memory for the pairs of a batch."""
        self._batch, self._sources, self._reached = batch, [], set()
        self._samples = len(batch)
        if batch.sides is not None:
            _allocate(self._norms, self._samples // 2)
            for parts in self._passed.values():
                parts.append(torch.full((self._samples // 2,), torch.nan, dtype=torch.float64))

    def follow(
        self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, tensor: Tensor, axis: SampleAxis
    ) -> Any:
        """Let the backward pass reach this node, and record the weight gradients there."""
        replaced, layer = None, None
        if node.role == "weights":
            layer = self._layer(node, args, kwargs)
        first = self._reached.isdisjoint(node.inputs)
        self._reached.add(node)
        if not tensor.requires_grad and output is tensor and torch.is_grad_enabled() and (first or layer is not None):
            # The inputs, the first values that indices led to, or weights after values that the model detached: these
            # stay so themselves, or buffers that they are written to would become part of the graph.
            # A copy, because steps may write into it.
            source = tensor.detach().requires_grad_()
            self._sources.append(source)
            replaced = tensor = source.clone()
        if tensor.requires_grad:
            tensor.register_hook(partial(self._pass, node, axis))  # type: ignore[no-untyped-call]
        if layer is not None and not axis.first and not isinstance(layer[0], nn.Linear):
            self.notes[node] = "no gradient: the samples are not on the first axis of the layer's output"
        elif layer is not None and tensor.requires_grad:
            module, inputs = layer
            tensor.register_hook(partial(self._take, node, module, inputs.detach(), inputs._version, axis))  # type: ignore[no-untyped-call]
        return replaced

    def _layer(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tensor] | None:
        """Return the layer with weights that a node is, called as a module or as a function, and its input."""
        module = node.module
        if module is None:
            return called_layer(node.target, args, kwargs) if node.op == "call_function" else None
        known = is_weight_layer(module) and args and isinstance(args[0], Tensor)
        return (module, args[0]) if known else None

    def _take(self, node: Node, module: Any, seen: Tensor, version: int, axis: SampleAxis, delta: Tensor) -> None:
        if seen._version != version:
            self.notes[node] = "its input is overwritten in place, so its gradient is lost"
            return
        samples = len(seen) if axis.first or self._batch is None else self._samples
        with torch.no_grad():
            inputs, back = axis.to_front(seen, samples), axis.to_front(delta, samples)
            if inputs is not None and back is not None:
                self._norms[node][-1] = weight_gradient_norms(module, inputs, back).cpu()

    def _pass(self, node: Node, axis: SampleAxis, delta: Tensor) -> None:
        """Keep the size of the gradient that comes by."""
        count = self._samples
        with torch.no_grad():
            front = axis.to_front(delta, count)
            if front is not None:
                self._passed[node][-1] = row_norms(front[: count // 2].flatten(1)).cpu()

    def end(self, output: Any) -> None:
        """Run the loss backward through all steps, and store the norms of its gradient at the output."""
        batch = self._batch
        if batch is None or batch.sides is None:
            return
        self._top.append(torch.full((len(batch) // 2,), torch.nan, dtype=torch.float64))
        with_axis = self._axes.tensor(None, output, len(batch))
        whole, top = (None, None) if with_axis is None else with_axis[:2]
        if self._loss is not None:
            value = self._loss(output, batch.targets)
            if not isinstance(value, Tensor) or not value.requires_grad:
                raise InputError("loss(output, targets) must return a tensor that depends on the output")
        elif top is not None and top.requires_grad:
            v = torch.randn(top.shape[1:], generator=torch_generator(self._seed, "direction of the output")).to(top)
            value = top * v * self._signs(len(batch), top)
        else:
            self.note = "no gradient: the output holds no real values, one set for each sample"
            return
        tops = [whole] if whole is not None and whole.requires_grad else []
        gradients = torch.autograd.grad(value.sum(), [*self._sources, *tops], allow_unused=True)
        if tops and gradients[-1] is not None and with_axis is not None:
            front = with_axis[2].to_front(gradients[-1], len(batch))
            norms = torch.linalg.vector_norm(front.reshape(len(batch), -1), dim=1)  # type: ignore[union-attr]
            self._top[-1] = norms[: len(batch) // 2].double().cpu()

    def _signs(self, samples: int, top: Tensor) -> Tensor:
        """Return a random sign for every pair if batch norm couples samples, otherwise 1.

        After a batch norm, the sum of all samples' outputs does not depend on its input, so its gradient would be zero:
        random signs avoid this. Both samples of a pair have the same sign, so that cosines do not change.
        """
        shape = (samples, *(1,) * (top.dim() - 1))
        if not couples_samples(self._graph.model):
            return top.new_ones(())
        coins = torch.randint(2, (samples // 2,), generator=torch_generator(self._seed, "signs of pairs"))
        return (2 * coins - 1).repeat(2).to(top).reshape(shape)

    def norms(self) -> Floats:
        """Return ``[steps, 3, pairs]``: ‖G_x‖, ‖G_y‖, ‖G_x - G_y‖; NaN at steps without weights."""
        return _stacked(self._norms)

    def at_steps(self) -> Floats:
        """Return ``[steps, pairs]``: the norm of the gradient of x's loss at each node's output.

        NaN if there is none.
        """
        return np.stack([torch.cat(parts).numpy() for parts in self._passed.values()])

    def at_output(self) -> Floats:
        """Return ``[pairs]``: norm of the gradient of x's loss with respect to the model's output."""
        return torch.cat(self._top).numpy()
