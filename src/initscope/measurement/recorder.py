"""Runs a traced model and reduces each step's output at once to the few numbers that `observe` reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.errors import InputError
from initscope.geometry import Floats, Row
from initscope.measurement.fast import compiled_loops
from initscope.measurement.gradients import called_layer, has_weight_gradient, weight_gradient_products
from initscope.measurement.pairs import cosine_of, pair_sums
from initscope.measurement.steps import NO_VALUES, aside, is_activation, norms_at_start, unit_axes
from initscope.measurement.stream import Batch
from initscope.measurement.units import ActivityTally, SpreadTally, UnitSample
from initscope.tracing import Node, SampleAxes, SampleAxis, Trace

__all__ = ["Recorder"]

_FRACTIONS = ("dead_fraction", "always_on_fraction", "dead_element_fraction", "always_on_element_fraction")


@dataclass
class _Record:
    """What is known of one step so far."""

    shape: tuple[int, ...] = ()
    note: str = ""
    sums: list[Tensor] = field(default_factory=list)  # [3, pairs of a batch]
    gradient_sums: list[Tensor] = field(default_factory=list)
    spread: SpreadTally | None = None
    activity: ActivityTally | None = None


class Recorder:
    """Sees every step of every batch; `run_pairs` for geometry and gradients, `run_samples` for units alone."""

    def __init__(
        self,
        traced: Trace,
        *,
        axes: SampleAxes,
        seed: int,
        gradients: bool,
        units: bool = True,
        loss: Callable[[Any, Any], Tensor] | None = None,
    ) -> None:
        self.traced, self.seed, self.gradients, self.units, self.loss = traced, seed, gradients, units, loss
        self._axes, unit_axis = axes, unit_axes(traced, axes)
        self.records = {
            node: _Record(activity=ActivityTally(unit_axis[node]) if is_activation(traced, node) else None)
            for node in traced.steps
        }
        self.scale: list[Tensor] = []  # ‖∂ℓ/∂a‖ of x, per batch
        self.gradient_note = ""  # for the rows of weights
        self.samples = 0
        self._batch = 0  # samples of the batch that runs
        self._values = 0  # of pairs, seen so far
        self._samples: dict[int, UnitSample] = {}
        self._sources: list[Tensor] = []  # what the backward pass runs to
        self._reached: set[Node] = set()  # steps whose values are made of those of a source

    def run_samples(self, batch: Batch) -> None:
        """Add a batch to what is known of the units."""
        self._batch = len(batch)
        self.samples += len(batch)
        self.traced.run(batch.inputs, aside(partial(self._watch, paired=False)))

    def run_pairs(self, batch: Batch) -> None:
        """Add a batch of pairs, x in its first half."""
        self._batch = len(batch)
        self.samples += len(batch)
        for record in self.records.values():
            record.sums.append(torch.full((3, self._batch // 2), torch.nan, dtype=torch.float64))
            record.gradient_sums.append(torch.full((3, self._batch // 2), torch.nan, dtype=torch.float64))
        if not self.gradients:
            self.traced.run(batch.inputs, aside(partial(self._watch, paired=True)))
            return
        for parameter in self.traced.model.parameters():
            parameter.requires_grad_(False)  # only gradients of outputs are needed; `leaves_no_trace` puts it back
        self._sources, self._reached = [], set()
        with torch.enable_grad():
            output = self.traced.run(batch.inputs, aside(partial(self._watch, paired=True)))
            self._backward(output, batch)

    def _watch(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, *, paired: bool) -> Any:
        record = self.records[node]
        found = self._axes.tensor(node, output, self._batch)
        if found is None:
            record.note = NO_VALUES
            return None
        tensor, front, axis = found
        values = front.detach()
        flat = values.reshape(self._batch, -1)
        flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
        record.shape = tuple(values.shape[1:])
        if self.units:
            self._add_units(record, values, flat)
        if not paired:
            return None
        self._values += flat.numel()
        record.sums[-1] = pair_sums(flat, compiled_loops(flat, self._values))
        return self._follow(node, record, args, kwargs, output, tensor, axis) if self.gradients else None

    def _add_units(self, record: _Record, values: Tensor, flat: Tensor) -> None:
        if record.spread is None:
            record.spread = SpreadTally(self._sample(flat))
        if flat.shape[1] == record.spread.sample.dimension:
            record.spread.add(flat)
            if record.activity is not None:
                record.activity.add(values)

    def _sample(self, flat: Tensor) -> UnitSample:
        """The choice of units for layers of this size, made once."""
        size = flat.shape[1]
        if size not in self._samples:
            self._samples[size] = UnitSample(size, self.seed, flat.device)
        return self._samples[size]

    def _follow(
        self,
        node: Node,
        record: _Record,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
        tensor: Tensor,
        axis: SampleAxis,
    ) -> Any:
        """Let the backward pass reach this step, and take the weight gradients when it comes by."""
        replaced, layer = None, self._layer(node, args, kwargs)
        first = not any(parent in self._reached for parent in node.all_input_nodes)
        self._reached.add(node)
        if not tensor.requires_grad and output is tensor and torch.is_grad_enabled() and (first or layer is not None):
            # The inputs, the first values that indices led to, or weights behind values that the model detached: these
            # stay so themselves, or buffers that they are written to would become part of the graph.
            # A copy, because steps may write into it.
            source = tensor.detach().requires_grad_()
            self._sources.append(source)
            replaced = tensor = source.clone()
        if layer is not None and not axis.first and not isinstance(layer[0], nn.Linear):
            record.note = "no gradient: the samples are not on the first axis of the layer's output"
        elif layer is not None and tensor.requires_grad:
            module, inputs = layer
            tensor.register_hook(partial(self._take, record, module, inputs.detach(), inputs._version, axis))  # type: ignore[no-untyped-call]
        return replaced

    def _layer(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Tensor] | None:
        """The layer with weights that a step is, called as a module or as a function, and its input."""
        module = self.traced.module(node)
        if module is None:
            return called_layer(node.target, args, kwargs) if node.op == "call_function" else None
        known = has_weight_gradient(module) and args and isinstance(args[0], Tensor)
        return (module, args[0]) if known else None

    def _take(self, record: _Record, module: Any, seen: Tensor, version: int, axis: SampleAxis, delta: Tensor) -> None:
        if seen._version != version:
            record.note = "its input is overwritten in place, so its gradient is lost"
            return
        with torch.no_grad():
            inputs, back = (axis.to_front(values, len(seen) if axis.first else self._batch) for values in (seen, delta))
            if inputs is not None and back is not None:
                record.gradient_sums[-1] = weight_gradient_products(module, inputs, back).cpu()

    def _backward(self, output: Any, batch: Batch) -> None:
        """Run the loss backwards through all steps; keep the norms of its gradient at the output."""
        self.scale.append(torch.full((self._batch // 2,), torch.nan, dtype=torch.float64))
        place = self._axes.tensor(None, output, self._batch)
        whole, top = (None, None) if place is None else place[:2]
        if self.loss is not None:
            value = self.loss(output, batch.targets)
            if not isinstance(value, Tensor) or not value.requires_grad:
                raise InputError("loss(output, targets) must return a tensor that depends on the output")
        elif top is not None and top.requires_grad:
            v = torch.randn(top.shape[1:], generator=torch.Generator().manual_seed(self.seed)).to(top)
            value = top * v
        else:
            self.gradient_note = "no gradient: the output holds no real values, one set for each sample"
            return
        tops = [whole] if whole is not None and whole.requires_grad else []
        found = torch.autograd.grad(value.sum(), [*self._sources, *tops], allow_unused=True)
        if tops and found[-1] is not None and place is not None:
            front = place[2].to_front(found[-1], self._batch)
            norms = torch.linalg.vector_norm(torch.flatten(front, 1), dim=1)  # type: ignore[arg-type]
            self.scale[-1] = norms[: self._batch // 2].double().cpu()

    def result(self) -> dict[str, Any]:
        """The columns of an `Observation`."""
        steps = self.traced.steps
        sums = np.stack([torch.cat(self.records[node].sums, dim=1).numpy() for node in steps])
        gradient_sums = np.stack([torch.cat(self.records[node].gradient_sums, dim=1).numpy() for node in steps])
        units = np.array([math.prod(self.records[node].shape) for node in steps], dtype=np.float64)
        norm, size = norms_at_start(self.traced, sums[:, 0], units)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.sqrt(sums[:, 0]) / norm
            gradient_ratio = np.sqrt(gradient_sums[:, 0]) / norm
            if self.scale:
                gradient_ratio = gradient_ratio / torch.cat(self.scale).numpy()
            return {
                "rows": tuple(self._row(node) for node in steps),
                "cosine": np.stack([cosine_of(row) for row in sums]),
                "norm_ratio": ratio,
                "rms_ratio": ratio * np.sqrt(size / units)[:, None],
                "gradient_ratio": gradient_ratio,
                "gradient_cosine": np.stack([cosine_of(row) for row in gradient_sums]),
                **self._activity(),
                "effective_rank": self._spread(SpreadTally.effective_rank),
                "mean_width": self._spread(SpreadTally.mean_width),
                "samples": self.samples,
            }

    def _row(self, node: Node) -> Row:
        record, notes = self.records[node], list(filter(None, [self.traced.note(node)]))
        if record.note:
            notes.append(record.note)
        if self.gradient_note and has_weight_gradient(self.traced.module(node)):
            notes.append(self.gradient_note)
        name, kind, role = self.traced.name(node), self.traced.kind(node), self.traced.role(node)
        return Row(name, kind, "measured", record.shape, "; ".join(notes), role)

    def _activity(self) -> dict[str, Floats]:
        columns = {name: np.full(len(self.records), np.nan) for name in _FRACTIONS}
        for index, record in enumerate(self.records.values()):
            if record.activity is not None and record.activity.highest is not None:
                for name, value in record.activity.fractions().items():
                    columns[name][index] = value
        return columns

    def _spread(self, quantity: Callable[[SpreadTally], float]) -> Floats:
        return np.array(
            [math.nan if record.spread is None else quantity(record.spread) for record in self.records.values()]
        )
