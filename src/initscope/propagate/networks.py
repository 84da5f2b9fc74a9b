"""Whole-network sampling for what no rule covers: the model itself, with weights drawn anew.

One run of ``draws`` networks records the second moments of every step; prediction goes on from them in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from initscope.errors import InputError
from initscope.initializers._base import weight_layers
from initscope.propagate.laws import MeansOnly
from initscope.propagate.moments import Given, Law, Maps, NotCovered
from initscope.propagate.registry import Context, find_rule
from initscope.tracing import Inputs, Node, SampleAxes, SampleAxis, Step, Trace, Watch, sample_axes, trace
from initscope.tracing.untouched import copy_of, without_dropout

__all__ = ["Simulation", "attribute"]


@dataclass
class _Record:
    """Sums over draws of the maps of one step, by the axis of its channels; each draw's cosine, mean over pairs."""

    maps: dict[int, list[Tensor]] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)
    cosines: list[float] = field(default_factory=list)

    def add(self, x: Tensor, y: Tensor, *, means: bool) -> None:
        """One draw's values, ``[pairs, ...]``. In sequences channels may come first or last."""
        for axis in (0, 1) if x.dim() == 3 else (0,):
            maps = Given(x, y).as_maps(axis)
            moments = [maps.kxx[:, 0], maps.kyy[:, 0], maps.d[:, 0]]
            if means:
                moments += [side.mean(dim=axis + 1) for side in (x, y)]
            if axis in self.maps:
                moments = [old.add_(new) for old, new in zip(self.maps[axis], moments, strict=True)]
            self.maps[axis], self.channels[axis] = moments, x.shape[axis + 1]
        self.cosines.append(float(maps.totals().cosine.mean()))


class Simulation:
    """Networks drawn at random, run on one batch of pairs when first asked for."""

    def __init__(self, traced: Trace, x: Inputs, y: Inputs, context: Context, draws: int, seed: int) -> None:
        self._traced, self._x, self._y, self._context, self._draws = traced, x, y, context, draws
        self._seed = seed

    def state(self, node: Node, axis: int | None) -> Maps:
        """Second moments after ``node`` as they were sampled; ``axis`` is where its channels are, if that is known."""
        record = self._records[self._traced.name(node)]
        if not record.maps:
            raise NotCovered("its output is not one value per unit")
        if axis not in record.maps:
            axis = self._usual_axis(record)
        dtype = next((t.dtype for t in self._x.tensors() if t.is_floating_point()), torch.float32)
        kxx, kyy, d, *means = ((m[:, None] / self._draws).to(dtype) for m in record.maps[axis])
        error = torch.tensor(record.cosines).std() / self._draws**0.5 if self._draws > 1 else None
        return Maps(
            kxx,
            kyy,
            d,
            sizes=(record.channels[axis],),
            status="sampled",
            axis=axis,
            unit=MeansOnly(*means) if means else Law(),
            weights=self._weights(node),
            note=f"{self._draws} networks sampled" + ("" if error is None else f", cosine ± {float(error):.1g}"),
        )

    def _usual_axis(self, record: _Record) -> int:
        last = max(record.maps)
        sequences = (nn.Conv1d, nn.ConvTranspose1d, nn.MaxPool1d, nn.AvgPool1d)
        tokens = last == 1 and not any(isinstance(module, sequences) for module in self._traced.model.modules())
        return last if tokens else 0

    def _weights(self, node: Node) -> frozenset[object]:
        """The parameters that a node's value depends on."""
        seen, stack = {node}, [node]
        while stack:
            for parent in stack.pop().all_input_nodes:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        found: set[object] = set()
        for one in seen:
            if (module := self._traced.module(one)) is not None:
                found.update(map(id, module.parameters()))
            elif one.op == "get_attr":
                found.add(id(attribute(self._traced.graph_module, str(one.target))))
            elif isinstance(one, Step):
                found.update(map(id, one.constants))
        return frozenset(found)

    def _copy(self) -> nn.Module:
        try:
            return copy_of(self._traced.model)
        except InputError as error:
            raise NotCovered(str(error)) from error

    @cached_property
    def axes(self) -> SampleAxes:
        """Where the samples of each step are, if one of the steps may move them from the first axis."""
        traced = self._traced
        moves = any(traced.kind(step) in _MOVES or _sequence_first(traced, step) for step in traced.steps)
        return sample_axes(traced, self._x) if moves or traced.graph_module is None else SampleAxes()

    @cached_property
    def _records(self) -> dict[str, _Record]:
        records = {name: _Record() for name in self._traced.names.values()}
        both = self._x.joined(self._y)
        generator = torch.Generator(device=both.tensors()[0].device).manual_seed(self._seed)
        samples = both.samples
        means = any(self._context.law(layer).strength > 0 for layer in weight_layers(self._traced.model))
        for _ in range(self._draws):
            network = self._copy()
            if weight_layers(network):
                self._context.initializer.fill_(network, generator=generator)
            if self._context.mode is not None:
                network.train(self._context.mode == "train")
            dtype = next((p.dtype for p in network.parameters()), None)
            values = both.map(lambda t, dtype=dtype: t.to(dtype) if t.is_floating_point() else t.clone())  # type: ignore[misc]
            try:
                drawn = trace(network, values, is_leaf=lambda module: find_rule(module) is not None)
                places = {name: self.axes.of(step) for step, name in self._traced.names.items()}
                with without_dropout(network):
                    drawn.run(values, _recorder(drawn, records, samples, places, means=means))
            except Exception as error:
                cause = str(error).strip().splitlines() or [""]
                raise NotCovered(f"the model fails on these inputs: {type(error).__name__}: {cause[0]}") from error
        return records


_MOVES = frozenset({
    "transpose", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "t", "T", "getattr", "reshape", "view",
    "flatten", "unflatten", "einsum", "rearrange", "unfold", "Flatten", "Unflatten", "Unfold", "Fold", "roll",
})  # fmt: skip


def _sequence_first(traced: Trace, step: Node) -> bool:
    module = traced.module(step)
    return isinstance(module, nn.RNNBase) or getattr(module, "batch_first", None) is False  # hidden states always are


def _recorder(
    drawn: Trace, records: dict[str, _Record], samples: int, places: dict[str, SampleAxis | None], *, means: bool
) -> Watch:
    """Reduces the output of each step at once, if it has real values for each of the ``samples``."""

    def watch(node: Any, args: Any, kwargs: Any, output: Any) -> None:
        record = records.get(drawn.name(node))
        axis = places.get(drawn.name(node))
        if record is None or axis is None or not isinstance(output, Tensor):
            return
        output = axis.to_front(output, samples)
        if output is not None and output.dim() > 1 and output.is_floating_point():
            x, y = output.detach().chunk(2)
            record.add(x, y, means=means)

    return watch


def attribute(root: nn.Module | None, path: str) -> Any:
    """What stands at a dotted path in a module."""
    value: Any = root
    for name in path.split("."):
        value = getattr(value, name)
    return value
