"""Whole-network sampling for what no rule covers: the model itself, with new weights.

One run of ``draws`` networks records the second moments of every step; prediction goes on from them in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.graph import Batch, Graph, Inputs, Node, Observer, SampleAxes, run, sample_axes, trace
from initscope.graph.borrowing import copy_of, snapshot, without_dropout
from initscope.initializers._base import drawn_parameters, weight_layers
from initscope.initializers._matrices import matrices
from initscope.propagate.context import Context
from initscope.propagate.distributions import KnownMeans, NetworkUnits
from initscope.propagate.origins.matrices import KnownGram
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["Networks", "Sides", "Simulation", "tied_weights"]


@dataclass
class _Record:
    """Sums over draws of the maps of one step, by the axis of its channels."""

    maps: dict[int, list[Tensor]] = field(default_factory=dict)
    channels: dict[int, int] = field(default_factory=dict)
    draws: int = 0
    gram: Tensor | None = None
    """Of tokens with their channels last: products at every two tokens of x and y, ``[pairs, 2T, 2T]``."""

    def add(self, x: Tensor, y: Tensor, *, means: bool, tokens: bool = False) -> None:
        """One draw's values, ``[pairs, ...]``. In sequences channels may come first or last."""
        if tokens and x.dim() == 3:
            both = torch.cat([x, y], dim=1)
            products = both @ both.mT / both.shape[2]
            self.gram = products if self.gram is None else self.gram.add_(products)
        for axis in (0, 1) if x.dim() == 3 else (0,):
            maps = InputValues(x, y).moments(axis)
            moments = [maps.kxx[:, 0], maps.kyy[:, 0], maps.d[:, 0]]
            if means:
                moments += [side.mean(dim=axis + 1) for side in (x, y)]
            if axis in self.maps:
                moments = [old.add_(new) for old, new in zip(self.maps[axis], moments, strict=True)]
            self.maps[axis], self.channels[axis] = moments, x.shape[axis + 1]
        self.draws += 1


Records = dict[str, _Record]
Sides = tuple[slice, slice]


class Networks:
    """One copy of the model, whose weights are drawn again and again; the same networks for every batch of pairs."""

    def __init__(self, traced: Graph, inputs: Inputs, context: Context, draws: int, seed: int) -> None:
        self.traced, self.context, self.draws = traced, context, draws
        self._inputs, self._seed = inputs, seed
        self._copy: nn.Module | None = None
        self._copied: Graph | None = None
        self._weights: dict[Node, frozenset[object]] = {}

    def of_samples(self, inputs: Inputs, generator: torch.Generator) -> Networks:
        """The same for other samples, with random numbers from their beginning: the trace and the copy serve both."""
        again = Networks(
            self.traced, inputs, self.context.of_replicate(self.context.replicate, generator), self.draws, self._seed
        )
        again._copy, again._copied, again._weights = self._copy, self._copied, self._weights
        return again

    @cached_property
    def axes(self) -> SampleAxes:
        """Where the samples of each step are, if one of the steps may move them from the first axis."""
        traced = self.traced
        moves = any(_may_move_samples(node) for node in traced.nodes)
        return sample_axes(traced, self._inputs) if moves or traced.symbolic is None else SampleAxes()

    def weights(self, node: Node) -> frozenset[object]:
        """The parameters that a node's value depends on."""
        stack = [] if node in self._weights else [node]
        while stack:
            reads = stack[-1].inputs
            missing = [parent for parent in reads if parent not in self._weights]
            stack += missing
            if not missing:
                last = stack.pop()
                drawn_here = self.context.drawn(constants_of(self.traced, last))
                self._weights[last] = drawn_here.union(*(self._weights[parent] for parent in reads))
        return self._weights[node]

    def records(self, both: Inputs, pairings: Sequence[Sides], first: Node) -> list[list[Records]]:
        """Second moments on ``both`` of the ops from ``first`` on, of each of the ``pairings`` of its samples.

        One for each replicate, over its share of the networks.
        """
        nodes = self.traced.nodes
        replicates, names = range(self.context.replicates), [node.name for node in nodes[nodes.index(first) :]]
        collected = [[{name: _Record() for name in names} for _ in replicates] for _ in pairings]
        model = self.traced.model
        layers = [*weight_layers(model), *(matrix.layer() for matrix in matrices(model))]
        means = any(self.context.initializer.weight_distribution(layer).strength > 0 for layer in layers)
        tokens = bool(self.traced.attention_nodes)

        def observers(drawn: Graph, draw: int) -> list[Observer]:
            # With fewer networks than replicates these share theirs.
            wanted = [r for r in replicates if draw % len(replicates) == r % self.draws]
            return [
                _MomentObserver(drawn, [groups[r] for r in wanted], sides, means=means, tokens=tokens)
                for groups, sides in zip(collected, pairings, strict=True)
            ]

        self.watch(both, self.draws, observers)
        return collected

    def watch(self, both: Inputs, draws: int, observers: Callable[[Graph, int], Sequence[Observer]]) -> None:
        """Run ``draws`` networks on ``both``, each seen by its own ``observers``."""
        axes_by_name = {node.name: self.axes.of(node) for node in self.traced.nodes}
        samples, drawn = both.samples, self._copied
        for draw, network in enumerate(self._drawn(both.tensors()[0].device, draws)):
            dtype = next((p.dtype for p in network.parameters()), None)
            values = both.map(lambda t, dtype=dtype: t.to(dtype) if t.is_floating_point() else t.clone())  # type: ignore[misc]
            if drawn is None:
                drawn = trace(network, values, recorded=samples, opened=self.traced.opened)
                self._copied = drawn if drawn.symbolic is not None else None  # steps of a run are those of its size
            # Of single tensors only: what a tuple holds has steps of its own.
            axes = SampleAxes({node: {"": axes_by_name.get(node.name)} for node in drawn.nodes})
            with without_dropout(network):
                run(drawn, Batch(values), observers(drawn, draw), axes)

    def _drawn(self, device: torch.device, draws: int) -> Iterator[nn.Module]:
        generator = torch_generator(self._seed, "networks of a prediction", device)
        if self._copy is None:
            self._copy = copy_of(self.traced.model)
            if self.context.mode is not None:
                self._copy.train(self.context.mode == "train")
        network = self._copy
        set_back = snapshot(network)
        for _ in range(draws):
            with torch.no_grad():  # an initializer may read the present weights, and a forward write its own
                for ours, theirs in zip(network.parameters(), self.traced.model.parameters(), strict=True):
                    ours.copy_(theirs)
            if drawn_parameters(network):
                self.context.initializer.fill_(network, generator=generator)
            yield network
            set_back()  # what a run has changed


class Simulation:
    """Networks drawn at random, run on one batch of pairs when first asked for, unless their records are ``known``.

    ``extra`` pairs of samples of x are recorded too.
    """

    def __init__(
        self,
        networks: Networks,
        x: Inputs,
        y: Inputs,
        *,
        extra: Sides | None = None,
        known: list[Records] | None = None,
    ) -> None:
        self.networks, self.x, self.y = networks, x, y
        self._sides = [(slice(0, x.samples), slice(x.samples, 2 * x.samples)), *([extra] if extra else [])]
        self._records = [known] if known else []
        self._failure = ""

    @property
    def extra(self) -> list[Records] | None:
        """Records of the extra pairs; None if no networks had to be run."""
        return self._records[1] if len(self._records) > 1 else None

    def state(self, node: Node, axis: int | None, context: Context) -> MomentMaps:
        """Second moments after ``node`` as they were sampled; ``axis`` is where its channels are, if that is known."""
        record = self._recorded(node)[context.replicate][node.name]
        if not record.maps:
            raise NotCovered("its output is not one value per unit")
        context.sampled.append("networks")
        if axis not in record.maps:
            axis = self._usual_axis(record)
        dtype = next((t.dtype for t in self.x.tensors() if t.is_floating_point()), torch.float32)
        kxx, kyy, d, *means = ((m[:, None] / record.draws).to(dtype) for m in record.maps[axis])
        known = None if record.gram is None or axis != 1 else KnownGram(record.gram[:, None].double() / record.draws)
        return MomentMaps(
            kxx,
            kyy,
            d,
            sizes=(record.channels[axis],),
            status="sampled",
            axis=axis,
            distribution=KnownMeans(*means) if means else NetworkUnits(),
            weights=self.networks.weights(node),
            origin=known,
            alike=False,
            note=f"{self.networks.draws} networks sampled",
        )

    def _recorded(self, node: Node) -> list[Records]:
        """What the networks gave from ``node`` on, or the reason why they gave nothing.

        Found once in a walk, which asks for one op after the other; a second walk may ask for an earlier one.
        """
        if self._failure:
            raise NotCovered(self._failure)
        if not self._records or node.name not in self._records[0][0]:
            try:
                self._records = self.networks.records(self.x.joined(self.y), self._sides, node)
            except Exception as error:  # whatever the model, its copy or its weights raise
                self.x.refuse_misfits(self.networks.traced.model)
                self._failure = str(self.x.refused(error)).splitlines()[0]
                raise NotCovered(self._failure) from error
        return self._records[0]

    def _usual_axis(self, record: _Record) -> int:
        last = max(record.maps)
        sequences = (nn.Conv1d, nn.ConvTranspose1d, nn.MaxPool1d, nn.AvgPool1d)
        modules = self.networks.traced.model.modules()
        tokens = last == 1 and not any(isinstance(module, sequences) for module in modules)
        return last if tokens else 0


def constants_of(traced: Graph, node: Node) -> list[Any]:
    """The parameters, and other tensors that are not made of the inputs, that a step itself reads."""
    if node.module is not None:
        return list(node.module.parameters())
    if node.op == "get_attr":
        return [traced.constant(node)]
    return [] if traced.symbolic is not None else list(node.constants)


def tied_weights(traced: Graph) -> frozenset[int]:
    """Drawn weights, by ``id``, that steps of different kinds read, as an embedding and the last Linear."""
    kinds: dict[int, set[str]] = {}
    for node in traced.calls:
        readers = [node] if node.op != "get_attr" else [reader for reader in traced.calls if node in reader.inputs]
        for value in constants_of(traced, node):
            if isinstance(value, Tensor) and value.dim() > 1:
                kinds.setdefault(id(value), set()).update(reader.kind for reader in readers)
    drawn = drawn_parameters(traced.model)
    return frozenset(key for key, kinds_of_layer in kinds.items() if len(kinds_of_layer) > 1 and key in drawn)


_GRAMS = 1 << 26  # entries of the products of tokens of all steps


def _may_move_samples(node: Node) -> bool:
    """Whether samples may lie elsewhere after an op: it moves values, is unknown, or puts the sequence first."""
    module, traits = node.module, node.traits
    if isinstance(module, nn.RNNBase) or getattr(module, "batch_first", None) is False:  # hidden states always are
        return True
    unknown = traits.role == "other" and module is None
    return traits.moves_values or bool(traits.equation) or unknown


class _MomentObserver(Observer):
    """Second moments of every step of one network, for the replicates that it belongs to."""

    def __init__(self, drawn: Graph, groups: list[Records], sides: Sides, *, means: bool, tokens: bool) -> None:
        self._drawn, self._groups, self._sides, self._means = drawn, groups, sides, means
        self._left = _GRAMS if tokens else 0

    def see(self, step: Node, values: Tensor) -> None:
        """Add the moments of both sides of the pairs."""
        records = [group[step.name] for group in self._groups if step.name in group]
        if records and values.dim() > 1:
            x, y = (values[side] for side in self._sides)
            size = len(x) * (2 * values.shape[1]) ** 2 if values.dim() == 3 else 0
            tokens = 0 < size <= self._left
            self._left -= size if tokens else 0
            for record in records:
                record.add(x, y, means=self._means, tokens=tokens)
