"""Whole-network sampling for what no rule covers: the model itself, with weights drawn anew (theory §3.3).

One run of ``draws`` networks records the second moments of every step; prediction goes on from them in closed form.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn

from initscope.initializers._base import weight_layers
from initscope.propagate.registry import Context
from initscope.propagate.state import Given, Maps, NotCovered
from initscope.propagate.units import Known
from initscope.tracing import Trace

__all__ = ["Simulation"]

_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


@dataclass
class _Record:
    """Sums over draws of the maps of one step, and each draw's cosine, mean over pairs."""

    maps: dict[int, list[Tensor]] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)
    cosines: list[float] = field(default_factory=list)

    def add(self, x: Tensor, y: Tensor) -> None:
        axes = {0, x.dim() - 2}
        for axis in axes:
            dim = axis + 1
            moments = [v.square().mean(dim=dim, dtype=torch.float64) for v in (x, y, x - y)]
            moments += [v.mean(dim=dim, dtype=torch.float64) for v in (x, y)]
            if axis in self.maps:
                moments = [old.add_(new) for old, new in zip(self.maps[axis], moments, strict=True)]
            self.maps[axis], self.channels[axis] = moments, x.shape[dim]
        xx, yy, gap = (v.flatten(1).square().sum(dim=1, dtype=torch.float64) for v in (x, y, x - y))
        cosine = (xx + yy - gap) / (2 * (xx * yy).sqrt())
        self.cosines.append(float(cosine.mean()))


class Simulation:
    """Networks drawn at random, run on one batch of pairs when first asked for."""

    def __init__(self, traced: Trace, inputs: list[Given], context: Context, draws: int, seed: int) -> None:
        self._traced, self._inputs, self._context, self._draws, self._seed = traced, inputs, context, draws, seed

    def state(self, node: fx.Node, axis: int | None) -> Maps:
        """Second moments after ``node`` as they were sampled; ``axis`` is where its channels are, if that is known."""
        record = self._records.get(node)
        if record is None or not record.maps:
            raise NotCovered("its output is not one value per unit")
        if axis not in record.maps:
            axis = self._usual_axis(record)
        kxx, kyy, d, mx, my = (m[:, None] / self._draws for m in record.maps[axis])
        dtype = self._inputs[0].x.dtype
        error = torch.tensor(record.cosines).std() / self._draws**0.5 if self._draws > 1 else None
        note = f"{self._draws} networks sampled" + ("" if error is None else f": cosine ± {float(error):.1g}")
        return Maps(
            *(m.to(dtype) for m in (kxx, kyy, d)),
            sizes=(record.channels[axis],),
            status="sampled",
            axis=axis,
            unit=Known(mx.to(dtype), my.to(dtype)),
            weights=self._weights(node),
            note=note,
        )

    def _usual_axis(self, record: _Record) -> int:
        last = max(record.maps)
        sequences = (nn.Conv1d, nn.ConvTranspose1d, nn.MaxPool1d, nn.AvgPool1d)
        tokens = last == 1 and not any(isinstance(m, sequences) for m in self._traced.graph_module.modules())
        return last if tokens else 0

    def _weights(self, node: fx.Node) -> frozenset[object]:
        """All layers before a node."""
        seen, stack = {node}, [node]
        while stack:
            for parent in stack.pop().all_input_nodes:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        modules = (module for one in seen if (module := self._traced.module(one)) is not None)
        return frozenset(id(part) for module in modules for part in module.modules())

    @cached_property
    def _records(self) -> dict[fx.Node, _Record]:
        x, y = zip(*((given.x, given.y) for given in self._inputs), strict=True)
        records = {node: _Record() for node in self._traced.steps}
        device = x[0].device
        generator = torch.Generator(device=device).manual_seed(self._seed)
        for _ in range(self._draws):
            network = copy.deepcopy(self._traced.graph_module)
            if weight_layers(network):
                self._context.initializer.fill_(network, generator=generator)
            if self._context.mode is not None:
                network.train(self._context.mode == "train")
            for module in network.modules():
                if isinstance(module, _DROPOUT):
                    module.eval()
            parameter = next(network.parameters(), x[0])
            both = [torch.cat(sides).to(parameter.dtype) for sides in zip(x, y, strict=True)]
            try:
                _Recorder(network, records, self._traced.graph_module).run(*both)
            except Exception as error:
                raise NotCovered(f"the model fails on these inputs: {type(error).__name__}: {error}") from error
        return records


class _Recorder(fx.Interpreter):
    """Runs a drawn network and reduces the output of each step at once."""

    def __init__(self, network: fx.GraphModule, records: dict[fx.Node, _Record], original: fx.GraphModule) -> None:
        super().__init__(network)
        twins = zip(network.graph.nodes, original.graph.nodes, strict=True)
        self._records = {twin: records[node] for twin, node in twins if node in records}

    def run_node(self, n: fx.Node) -> Any:
        output = super().run_node(n)
        if n in self._records and isinstance(output, Tensor) and output.is_floating_point() and output.dim() >= 2:
            pairs = len(output) // 2
            self._records[n].add(output[:pairs], output[pairs:])
        return output
