r"""Predicted gradients of the weights of every layer: a walk over a few samples, and the recursion back from its end.

.. math:: \frac{\|\partial\ell/\partial W\|_F}{\|\partial\ell/\partial a\|\,\|x\|},\qquad
          E\,\|\partial\ell/\partial W\|_F^2 = \sum_{tap}\sum_{p,p'}\Delta_{pp'}\,\langle u_p, u_{p'}\rangle

with the loss :math:`\ell = \langle a, v\rangle` of a Gaussian v, as gradients are measured. A row has a value only if
every path from it to the output has a rule; otherwise the reason is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from mmap import mmap
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.geometry import Floats, reference_norms
from initscope.graph import Graph, Inputs, Node
from initscope.propagate.bases import Origin
from initscope.propagate.channels import MOST_POSITIONS, Channels, positions_of
from initscope.propagate.context import Context
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.networks import Sides, Simulation
from initscope.propagate.origins.matrices import SampledRoot
from initscope.propagate.origins.positions import AveragedWindows
from initscope.propagate.origins.weights import WeightedSums
from initscope.propagate.rules.pooling import windows_of
from initscope.propagate.spread import standard_error
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.base import is_maps, is_sampled, is_uncovered, is_value, map_values, values_in
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.walk import Walk

__all__ = ["Gradients", "gradients_of", "sides_of"]

_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
_ENTRIES, _FEWEST, _MOST = 1 << 18, 2, 64  # of the Gram matrices of all samples; and samples


@dataclass(frozen=True)
class Gradients:
    """Gradient ratios of every row: the root mean square over samples, its sampling error, or a reason."""

    ratio: Floats
    error: Floats
    reasons: tuple[str, ...]

    @classmethod
    def unknown(cls, rows: int, reason: str) -> Gradients:
        """Return no gradient for any row, with this reason."""
        return cls(np.full(rows, np.nan), np.full(rows, np.nan), (reason,) * rows)


class _Recalling(Walk):
    """A walk that stores the values of all its nodes."""

    seen: dict[Node, Any]

    def _value(self, node: Node) -> Any:
        value = super()._value(node)
        self.seen[node] = value
        return value


def sides_of(x: Inputs) -> Sides:
    """Return the first samples of ``x``, as many as Gram matrices allow, as the two sides of pairs."""
    half = _samples(x) // 2
    return (slice(0, half), slice(half, 2 * half)) if half else (slice(0, 1), slice(0, 1))


def gradients_of(simulation: Simulation) -> Gradients:
    """Return predicted gradient ratios of every row, on the samples of both sides of its pairs."""
    networks, x, y = simulation.networks, simulation.x, simulation.y
    traced = networks.traced
    context = replace(networks.context, budget=CovarianceBudget(), sampled=[], roots=list[SampledRoot]())
    inputs = [
        InputValues(a, b) if carries else a for a, b, carries in zip(x.tensors(), y.tensors(), x.batched, strict=True)
    ]
    with torch.enable_grad(), _constant_parameters(traced.model):
        walk = _Recalling(traced, inputs, context, simulation, keep=True)
        walk.seen = {}
        for _ in walk.states():
            pass
    replicates = max(len(value.replicates) for value in values_in(list(walk.seen.values())))
    backward_runs = [_Backward(traced, walk.seen, index, context).ratios() for index in range(replicates)]
    squares = np.stack([np.square(ratios).mean(axis=1) for ratios, _ in backward_runs])
    ratio = np.sqrt(squares.mean(axis=0))
    error = np.zeros_like(ratio)
    if replicates > 1:  # of a root: that of the square over twice the root
        error = np.divide(standard_error(squares), 2 * ratio, out=error, where=ratio != 0)
    return Gradients(ratio, error, backward_runs[0][1])


@contextmanager
def _constant_parameters(model: nn.Module) -> Iterator[None]:
    """Gradients are computed only with respect to drawn values."""
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in moved:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in moved:
            parameter.requires_grad_(True)


def _samples(x: Inputs) -> int:
    """Return the number of samples whose Gram matrices fit, from the positions of the inputs."""
    positions = 1
    for tensor, carries in zip(x.tensors(), x.batched, strict=True):
        sizes = list(tensor.shape[1:]) if carries else [1]
        inner = sizes[1:] if len(sizes) > 2 else [max(sizes, default=1)]
        positions = max(positions, 1 if len(sizes) == 1 and tensor.is_floating_point() else math.prod(inner))
    return min(x.samples, max(_FEWEST, min(_MOST, _ENTRIES // positions**2)))


class _Backward:
    """Backward recursion through the states of one replicate."""

    def __init__(self, traced: Graph, values: dict[Node, Any], replicate: int, context: Context) -> None:
        self._traced = traced
        self._values = map_values(lambda value: value.replicate(replicate), values)
        self._origins: dict[int, Origin] = {}
        for node in traced.nodes:
            with suppress(NotCovered):
                self._know_step(node, context)
        self._channels = Channels(context.generator, self._origins)
        self._squares: dict[int, Tensor] = {}
        self._failed: dict[int, str] = {}
        self._reached: dict[int, frozenset[int]] = {}

    def ratios(self) -> tuple[Floats, tuple[str, ...]]:
        """Return ``[rows, samples]``, NaN if there is none, and the reason."""
        output = next((node for node in self._traced.returned if node in self._values), None)
        start = self._start()
        result = np.full((len(self._traced.nodes), len(start)), np.nan)
        try:
            if output is None:
                raise NotCovered("the output is not known")
            self._run(self._values[output])
        except NotCovered as error:
            return result, (f"the output: {error}",) * len(result)
        blocked = self._blocked(output)
        reasons = []
        for row, node in enumerate(self._traced.nodes):
            state = next(iter(_maps_of(self._values.get(node))), None)
            reason = blocked.get(node, "") or (self._why_not(state) if state is not None else "")
            squares = None if state is None or reason else self._of_weights(state)
            if squares is not None:
                result[row] = squares.sqrt().numpy() / start
            reasons.append(reason if state is not None and state.layers() else "")
        return result, tuple(reasons)

    def _know_step(self, node: Node, context: Context) -> None:
        """Return gradients of a step whose values were sampled, such as an embedding of tokens, if a rule has them."""
        module, value = node.module, self._values.get(node)
        before = next((s for parent in node.inputs for s in _maps_of(self._values.get(parent))), None)
        if not is_maps(value) or before is None or before.axis != value.axis or _has_rule(value):
            return
        if before.order == value.order:  # a mean over one position is its input, and would have itself as origin
            return
        if isinstance(module, nn.Linear) and before.shape == (*value.shape[:-1], module.in_features):
            distribution = context.weight_distribution(module)
            origin: Origin = WeightedSums(before, distribution, 1, None, distribution.variance * before.channels, None)
        elif isinstance(module, _AVERAGES) and not any(np.atleast_1d(getattr(module, "padding", 0))):
            origin = AveragedWindows(before, *windows_of(module, before))
        else:
            return
        self._origins[value.order] = origin
        self._values[node] = replace(value, origin=origin)

    def _start(self) -> Floats:
        """Return norms of the samples, as `reference_norms` returns them."""
        steps = self._traced.nodes
        totals = [_totals(self._values.get(node)) for node in steps]
        pairs = next(len(sums.xx) for sums in totals if sums is not None)
        totals = [sums if sums is not None and len(sums.xx) == pairs else None for sums in totals]  # no folded samples
        unknown = torch.full((2 * pairs,), torch.nan, dtype=torch.float64)
        norms = torch.stack(
            [unknown if sums is None else torch.cat([sums.xx, sums.yy]).double().sqrt() for sums in totals]
        )
        units = np.array([0 if sums is None else sums.units for sums in totals], dtype=np.float64)
        return reference_norms(norms.numpy(), units, [node.op == "placeholder" for node in steps])[0]

    def _run(self, output: Any) -> None:
        """Compute gradients at all states that they reach, from the last to the first.

        Squares of those of weights are stored.
        """
        output = output[0] if type(output) is tuple and output else output
        if not is_value(output):
            raise NotCovered("its values per unit are not known")
        state = output.whole_moments()
        positions = positions_of(state)
        if positions > 4 * MOST_POSITIONS:
            raise NotCovered(f"gradients would need covariances between {positions} positions, which are too many")
        # These zeros take no time until they are read, and a step that is refused reads none of them. Those of NumPy
        # come in huge pages, of which the diagonal would touch every one.
        zeros = mmap(-1, 8 * len(state.sizes) * positions**2)
        start = torch.frombuffer(zeros, dtype=torch.float64).reshape(-1, positions, positions)
        sizes = torch.tensor(state.sizes, dtype=torch.float64)
        start.diagonal(dim1=-2, dim2=-1)[:] = (sizes * (1.0 / (positions * state.channels)))[:, None]
        waiting = {state.order: (state, start.expand(2 * len(state.kxx), -1, -1, -1))}
        while waiting:
            order = max(waiting)
            state, gradients = waiting.pop(order)
            try:
                for before, share in self._step(self._channels.known(state), gradients):
                    known = waiting.get(before.order)
                    waiting[before.order] = (before, share if known is None else known[1] + share)
            except NotCovered as error:
                self._failed[order] = str(error)
            self._channels.release(order)

    def _step(self, state: MomentMaps, gradients: Tensor) -> Iterable[tuple[MomentMaps, Tensor]]:
        squares = None if state.origin is None else state.origin.weight_squares(gradients, self._channels)
        if squares is not None:
            self._squares[state.order] = squares
        return state.history().transposed(state, gradients, self._channels)

    def _of_weights(self, state: MomentMaps) -> Tensor | None:
        """E of the squared gradient of a layer's weights, for each sample."""
        layers = state.layers()
        known = [self._squares[layer.order] for layer in layers if layer.order in self._squares]
        return torch.stack(known).sum(dim=0) if layers and len(known) == len(layers) else None

    def _why_not(self, state: MomentMaps) -> str:
        """Return why the gradients at a state are not all known: some failed on the way."""
        for order, reason in self._failed.items():
            if state.order == order or any(later.order == order for later in self._after(state)):
                return reason
        return ""

    def _after(self, state: MomentMaps) -> list[MomentMaps]:
        """States after a state that failed."""
        return [later for later in self._known() if later.order in self._failed and state.order in self._reach(later)]

    def _known(self) -> list[MomentMaps]:
        return [state for value in self._values.values() for state in _maps_of(value)]

    def _reach(self, state: MomentMaps) -> frozenset[int]:
        """Return the orders of all states that gradients reach from this one, itself included."""
        waiting = [state]
        while waiting:
            last = waiting[-1]
            sources = self._sources(last)
            unknown = [source for source in sources if source.order not in self._reached]
            if unknown:
                waiting += unknown
            else:
                reached = (self._reached[source.order] for source in sources)
                self._reached[last.order] = frozenset({last.order}).union(*reached)
                waiting.pop()
        return self._reached[state.order]

    def _sources(self, state: MomentMaps) -> Sequence[MomentMaps]:
        """Return the states to which gradients pass; none if there is no rule."""
        try:
            return self._channels.known(state).history().parents()
        except NotCovered:
            return ()

    def _blocked(self, output: Node) -> dict[Node, str]:
        """Return the nodes on whose path to the output a step has no rule for gradients, and the reason."""
        leads: dict[Node, None] = {output: None}
        stack: list[Node] = [output]
        while stack:
            node = stack.pop()
            value = self._values.get(node)
            if is_value(value) and not value.random and not value.sampled:
                continue  # a mean over many channels, as a norm takes it: nothing that a single unit moves
            for parent in node.inputs:
                if parent not in leads:
                    leads[parent] = None
                    stack.append(parent)
        order = {node: position for position, node in enumerate(self._values)}
        blocked: dict[Node, str] = {}
        for node in sorted(
            (node_of_lead for node_of_lead in leads if node_of_lead in order), key=order.__getitem__, reverse=True
        ):
            for parent in (node_of_lead for node_of_lead in node.inputs if node_of_lead in leads):
                reason = blocked.get(node) or self._stops(node, parent)
                if reason:
                    blocked.setdefault(parent, reason)
        return blocked

    def _stops(self, node: Node, parent: Node) -> str:
        """Return why gradients do not pass a step to one of its inputs; empty if they do, or if there are none."""
        value, before = self._values.get(node), _maps_of(self._values.get(parent))
        name, after = node.name if node.row else str(node.target), _maps_of(value)
        if is_sampled(self._values.get(parent)) and not is_sampled(value):
            heads = after and all(maps.origin is not None and maps.origin.through_samples for maps in after)
            return "" if heads else f"{name}: its values were drawn"
        if not before:
            return ""
        if is_uncovered(value):
            return f"{name}: {value.reason}"
        if is_sampled(value):
            return "" if value.x.requires_grad else f"{name}: its values were drawn"
        reached = frozenset[int]().union(*(self._reach(maps) for maps in after))
        if after and not all(_meets(maps, reached) for maps in before):
            return f"{name}: gradients have no rule there"
        return ""


def _maps_of(value: Any) -> list[MomentMaps]:
    """Return the maps that a value, or a tuple of them, consists of."""
    return [maps for replicate in values_in(value) for maps in replicate.moment_maps()]


def _totals(value: Any) -> Totals | None:
    """Return sums over the units of a value that was not drawn; of several the first; None if there are none."""
    value = value[0] if type(value) is tuple and value else value
    if not is_value(value) or value.sampled:
        return None
    try:
        totals: Totals = value.totals()
    except NotCovered:
        return None
    return totals


def _has_rule(state: MomentMaps) -> bool:
    try:
        state.history().parents()
    except NotCovered:
        return False
    return True


def _meets(state: MomentMaps, reached: frozenset[int]) -> bool:
    """Return whether gradients pass a value, or the value of which it is an elementwise function."""
    if state.order in reached:
        return True
    before = None if state.origin is None else state.origin.elementwise_of
    return before is not None and _meets(before, reached)
