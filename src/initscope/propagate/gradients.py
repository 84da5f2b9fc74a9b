r"""Predicted gradients of the weights of every layer: a walk over a few samples, and the recursion back from its end.

.. math:: \frac{\|\partial\ell/\partial W\|_F}{\|\partial\ell/\partial a\|\,\|x\|},\qquad
          E\,\|\partial\ell/\partial W\|_F^2 = \sum_{tap}\sum_{p,p'}\Delta_{pp'}\,\langle u_p, u_{p'}\rangle

with the loss :math:`\ell = \langle a, v\rangle` of a Gaussian v, as gradients are measured. A row has a value only if
every way from it to the output has a rule; else the reason is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.geometry import Floats, start_norms
from initscope.graph import Inputs, Node, Trace
from initscope.propagate.attended import Attended, Root
from initscope.propagate.backward import back, sources_of, spread_over_taps
from initscope.propagate.budget import Budget
from initscope.propagate.channels import Channels, positions_of
from initscope.propagate.moments import Given, Maps, NotCovered, Origin, Scaled
from initscope.propagate.networks import Sides, Simulation
from initscope.propagate.origins import Activations, Shifted, Stacked
from initscope.propagate.rules import Context
from initscope.propagate.rules.pooling import Pooled, windows_of
from initscope.propagate.rules.weights import Weighted
from initscope.propagate.spread import standard_error
from initscope.propagate.units import Drawn, Units
from initscope.propagate.walk import Missing, Several, Walk

__all__ = ["Gradients", "gradients_of", "sides_of"]

_AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
_ENTRIES, _FEWEST, _MOST = 1 << 18, 2, 64  # of the Gram matrices of all samples; and samples


@dataclass(frozen=True)
class Gradients:
    """Of every row: the root mean square of the ratio over samples, its error over what was drawn, or a reason."""

    ratio: Floats
    error: Floats
    reasons: tuple[str, ...]


class _Recalling(Walk):
    """A walk that keeps the values of all its nodes."""

    seen: dict[Node, Any]

    def _value(self, node: Node) -> Any:
        value = super()._value(node)
        self.seen[node] = value
        return value


def sides_of(x: Inputs) -> Sides:
    """The first samples of ``x``, as many as Gram matrices allow, as the two sides of pairs."""
    half = _samples(x) // 2
    return (slice(0, half), slice(half, 2 * half)) if half else (slice(0, 1), slice(0, 1))


def gradients_of(simulation: Simulation) -> Gradients:
    """Predicted gradient ratios of every row, on the samples of both sides of its pairs."""
    networks, x, y = simulation.networks, simulation.x, simulation.y
    traced = networks.traced
    context = replace(networks.context, budget=Budget(), sampled=[], roots=list[Root]())
    inputs = [Given(a, b) if carries else a for a, b, carries in zip(x.tensors(), y.tensors(), x.batched, strict=True)]
    with torch.enable_grad(), _constant_parameters(traced.model):
        walk = _Recalling(traced, inputs, context, simulation, keep=True)
        walk.seen = {}
        for _ in walk.states():
            pass
    replicates = max((len(value.states) for value in walk.seen.values() if isinstance(value, Several)), default=1)
    found = [_Backward(traced, walk.seen, index, context).ratios() for index in range(replicates)]
    squares = np.stack([np.square(one).mean(axis=1) for one, _ in found])
    ratio = np.sqrt(squares.mean(axis=0))
    error = np.zeros_like(ratio)
    if replicates > 1:  # of a root: that of the square over twice the root
        error = np.divide(standard_error(squares), 2 * ratio, out=error, where=ratio != 0)
    return Gradients(ratio, error, found[0][1])


@contextmanager
def _constant_parameters(model: nn.Module) -> Iterator[None]:
    """Gradients are taken by drawn values alone."""
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in moved:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in moved:
            parameter.requires_grad_(True)


def _samples(x: Inputs) -> int:
    """Samples whose Gram matrices are not too many entries: by the positions of the inputs."""
    positions = 1
    for tensor, carries in zip(x.tensors(), x.batched, strict=True):
        sizes = list(tensor.shape[1:]) if carries else [1]
        inner = sizes[1:] if len(sizes) > 2 else [max(sizes, default=1)]
        positions = max(positions, 1 if len(sizes) == 1 and tensor.is_floating_point() else math.prod(inner))
    return min(x.samples, max(_FEWEST, min(_MOST, _ENTRIES // positions**2)))


class _Backward:
    """The recursion back through the states of one replicate."""

    def __init__(self, traced: Trace, values: dict[Node, Any], replicate: int, context: Context) -> None:
        self._traced = traced
        self._values = {node: _of(value, replicate) for node, value in values.items()}
        self._origins: dict[int, Origin] = {}
        for node in traced.steps:
            with suppress(NotCovered):
                self._know_step(node, context)
        self._channels = Channels(context.generator, self._origins)
        self._squares: dict[int, Tensor] = {}
        self._failed: dict[int, str] = {}
        self._reached: dict[int, frozenset[int]] = {}

    def ratios(self) -> tuple[Floats, tuple[str, ...]]:
        """``[rows, samples]``, NaN where there is none, and why."""
        output = next((node for node in self._traced.returned if node in self._values), None)
        start = self._start()
        result = np.full((len(self._traced.steps), len(start)), np.nan)
        try:
            if output is None:
                raise NotCovered("the output is not known")
            self._run(self._values[output])
        except NotCovered as error:
            return result, (f"the output: {error}",) * len(result)
        blocked = self._blocked(output)
        reasons = []
        for row, node in enumerate(self._traced.steps):
            state = next(iter(_states(self._values.get(node))), None)
            reason = blocked.get(node, "") or (self._why_not(state) if state is not None else "")
            squares = None if state is None or reason else self._of_weights(state)
            if squares is not None:
                result[row] = squares.sqrt().numpy() / start
            reasons.append(reason if state is not None and _has_weights(state) else "")
        return result, tuple(reasons)

    def _know_step(self, node: Node, context: Context) -> None:
        """Where values were sampled, as behind a table that embeds tokens too, gradients may still know the step."""
        module, value = self._traced.module(node), self._values.get(node)
        before = next((s for parent in node.all_input_nodes for s in _states(self._values.get(parent))), None)
        if not isinstance(value, Maps) or before is None or before.axis != value.axis or _has_rule(value):
            return
        if isinstance(module, nn.Linear) and before.shape == (*value.shape[:-1], module.in_features):
            law = context.law(module)
            origin: Origin = Weighted(before, law, 1, None, law.variance * before.channels, None)
        elif isinstance(module, _AVERAGES) and not any(np.atleast_1d(getattr(module, "padding", 0))):
            origin = Pooled(before, *windows_of(module, before))
        else:
            return
        self._origins[value.order] = origin
        self._values[node] = replace(value, origin=origin)

    def _start(self) -> Floats:
        """Norms of the samples, as `start_norms` has them."""
        steps = self._traced.steps
        totals = []
        for node in steps:
            value = self._values.get(node)
            value = value[0] if type(value) is tuple and value else value
            known = isinstance(value, (Maps, Units)) or (type(value) is Given and value.real)
            totals.append(value.totals() if value is not None and known else None)
        pairs = next(len(one.xx) for one in totals if one is not None)
        totals = [one if one is not None and len(one.xx) == pairs else None for one in totals]  # not of folded samples
        unknown = torch.full((2 * pairs,), torch.nan, dtype=torch.float64)
        norms = torch.stack([unknown if one is None else torch.cat([one.xx, one.yy]).double().sqrt() for one in totals])
        units = np.array([0 if one is None else one.units for one in totals], dtype=np.float64)
        return start_norms(norms.numpy(), units, [node.op == "placeholder" for node in steps])[0]

    def _run(self, output: Any) -> None:
        """Gradients at all states that they reach, from the last to the first; squares of those of weights are kept."""
        state = _whole(output)
        sizes = torch.tensor(state.sizes, dtype=torch.float64)
        unit = torch.eye(positions_of(state), dtype=torch.float64) / (positions_of(state) * state.channels)
        waiting = {state.order: (state, (sizes[:, None, None] * unit).expand(2 * len(state.kxx), -1, -1, -1))}
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

    def _step(self, state: Maps, gradients: Tensor) -> Iterable[tuple[Maps, Tensor]]:
        origin = state.origin
        if isinstance(origin, Weighted):
            spread = spread_over_taps(origin, self._channels.mean(gradients))
            self._squares[state.order] = (spread * self._channels.gram(origin.before)).sum(dim=(1, 2, 3))
        sources_of(state)  # raises where there is no rule
        return back(state, gradients, self._channels)

    def _of_weights(self, state: Maps) -> Tensor | None:
        """E of the squared gradient of a layer's weights, for each sample."""
        if isinstance(state.origin, Stacked):
            parts = [self._of_weights(part) for part in state.origin.terms]
            known = [part for part in parts if part is not None]
            return torch.stack(known).sum(dim=0) if len(known) == len(parts) else None
        return self._squares.get(state.order)

    def _why_not(self, state: Maps) -> str:
        """Why gradients that reach a state are not all known: some failed on the way."""
        for order, reason in self._failed.items():
            if state.order == order or any(one.order == order for one in self._after(state)):
                return reason
        return ""

    def _after(self, state: Maps) -> list[Maps]:
        """States behind a state that failed."""
        return [one for one in self._known() if one.order in self._failed and state.order in self._reach(one)]

    def _known(self) -> list[Maps]:
        return [state for value in self._values.values() for state in _states(value)]

    def _reach(self, state: Maps) -> frozenset[int]:
        """Orders of all states that gradients reach from this one, itself included."""
        waiting = [state]
        while waiting:
            last = waiting[-1]
            sources = self._sources(last)
            unknown = [source for source in sources if source.order not in self._reached]
            if unknown:
                waiting += unknown
            else:
                found = (self._reached[source.order] for source in sources)
                self._reached[last.order] = frozenset({last.order}).union(*found)
                waiting.pop()
        return self._reached[state.order]

    def _sources(self, state: Maps) -> Sequence[Maps]:
        """What gradients pass to; nothing where there is no rule."""
        try:
            return sources_of(self._channels.known(state))
        except NotCovered:
            return ()

    def _blocked(self, output: Node) -> dict[Node, str]:
        """Nodes on whose way to the output a step has no rule for gradients, and the reason."""
        leads: dict[Node, None] = {output: None}
        stack: list[Node] = [output]
        while stack:
            node = stack.pop()
            value = self._values.get(node)
            if isinstance(value, Given) and not isinstance(value, Drawn):
                continue  # a mean over many channels, as a norm takes it: nothing that a single unit moves
            for parent in node.all_input_nodes:
                if parent not in leads:
                    leads[parent] = None
                    stack.append(parent)
        places = {node: place for place, node in enumerate(self._values)}
        blocked: dict[Node, str] = {}
        for node in sorted((one for one in leads if one in places), key=places.__getitem__, reverse=True):
            for parent in (one for one in node.all_input_nodes if one in leads):
                reason = blocked.get(node) or self._stops(node, parent)
                if reason:
                    blocked.setdefault(parent, reason)
        return blocked

    def _stops(self, node: Node, parent: Node) -> str:
        """Why gradients do not pass a step to one that it reads; empty where they do, or where there is nothing."""
        value, before = self._values.get(node), _states(self._values.get(parent))
        name = self._traced.names.get(node, str(node.target))
        if isinstance(self._values.get(parent), Drawn) and not isinstance(value, Drawn):
            heads = all(isinstance(one.origin, Attended) for one in _states(value))
            return "" if heads and _states(value) else f"{name}: its values were drawn"
        if not before:
            return ""
        if isinstance(value, Missing):
            return f"{name}: {value.reason}"
        if isinstance(value, Drawn):
            return "" if value.x.requires_grad else f"{name}: its values were drawn"
        behind = _states(value)
        reached = frozenset[int]().union(*(self._reach(one) for one in behind))
        if behind and not all(_meets(one, reached) for one in before):
            return f"{name}: gradients have no rule there"
        return ""


def _of(value: Any, replicate: int) -> Any:
    if isinstance(value, Several):
        return value.states[replicate]
    return tuple(_of(item, replicate) for item in value) if type(value) is tuple else value


def _states(value: Any) -> list[Maps]:
    """The maps that a value consists of."""
    if isinstance(value, Maps):
        return [value]
    if isinstance(value, Units):
        return [value.base]
    return [state for item in value for state in _states(item)] if type(value) is tuple else []


def _whole(value: Any) -> Maps:
    """The maps of the output, every unit once."""
    value = value[0] if type(value) is tuple and value else value
    if isinstance(value, Missing):
        raise NotCovered(value.reason)
    if isinstance(value, Units) and value.source.numel() == len(value.base.kxx) * math.prod(value.base.shape):
        return value.base
    if not isinstance(value, Maps):
        raise NotCovered("it is not known as one value per unit")
    return value


def _has_weights(state: Maps) -> bool:
    origin = state.origin
    return isinstance(origin, Weighted) or (
        isinstance(origin, Stacked) and all(isinstance(part.origin, Weighted) for part in origin.terms)
    )


def _has_rule(state: Maps) -> bool:
    try:
        sources_of(state)
    except NotCovered:
        return False
    return True


def _meets(state: Maps, reached: frozenset[int]) -> bool:
    """Whether gradients come by a state, or by what it is a function of, unit by unit."""
    if state.order in reached:
        return True
    origin = state.origin
    return isinstance(origin, (Activations, Scaled, Shifted)) and _meets(origin.before, reached)
