"""Which ops of a walk deviate at finite width, and how: the survey before `finite_width`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from initscope.graph import Node
from initscope.propagate.context import Context
from initscope.propagate.networks import Simulation
from initscope.propagate.values.base import Value, is_value
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.walk import Walk

__all__ = ["EXACT", "DeviationSurvey", "Step"]

_AVERAGES: frozenset[str] = frozenset({"mean"})
"""Kinds of `initscope.traits.Pooling` that are averages."""
_BY_CHANNEL = ("activation", "scaling", "merge", "gate", "pooling")


@dataclass(frozen=True)
class Step:
    """Deviations at one op: none, averages over its channels (``axis``), or a number by which it divides."""

    kind: str
    reason: str = ""
    axis: int = 0
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    """Of one sample."""
    over: tuple[int, ...] = ()
    """Axes of recorded channels over which a norm averages together with these."""
    mixes: bool = False
    """Whether it reads averages over channels."""
    centers: bool = False
    """Whether it takes the mean off Gaussian channels."""

    @property
    def recorded(self) -> bool:
        """Whether its channels are read from drawn networks."""
        return self.kind in ("channels", "divided")


EXACT = Step("exact")


class DeviationSurvey(Walk):
    """The plain walk, which determines for every op whether its deviations are known."""

    def __init__(self, simulation: Simulation, inputs: list[Any], context: Context) -> None:
        super().__init__(simulation.networks.traced, inputs, context, simulation)
        self.steps: dict[Node, Step] = {}
        self._context, self._layers = context, set[object]()

    def _value(self, node: Node) -> Any:
        reasons = [self.steps[parent].reason for parent in node.inputs if parent in self.steps]
        reason = next(filter(None, reasons), "")
        value = None if reason else super()._value(node)
        self.steps[node] = _unknown(reason) if reason else self._step(node, value)
        return value

    def _step(self, node: Node, value: Any) -> Step:
        before = [parent for parent in node.inputs if parent in self.steps and self.steps[parent].kind != "exact"]
        random = is_value(value) and value.random
        if not before and not random:
            return EXACT
        if not is_value(value):
            return _unknown(f"{node.name} has several results") if type(value) is tuple else EXACT
        if value.replicated or value.sampled or value.status == "sampled":
            return _unknown(f"{node.name} is sampled ({value.replicates[0].note})")
        if not random:
            return self._mean(node, before)
        if not isinstance(value, MomentMaps):
            return _unknown(f"{node.name} is known unit by unit only")
        if node.role == "weights":
            return self._layer(node, value, known=not before)
        channels = Step("channels", "", value.axis, value.sizes, value.shape)
        traits, norm = node.traits, node.traits.normalizes
        if traits.moves_values or traits.keeps_values or traits.is_view:
            source = self._values.get(before[0])
            same = isinstance(source, MomentMaps) and source.channels == value.channels
            return Step("moved") if same or value.mixed else _unknown(f"{node.name} is a part of the channels")
        if value.mixed or not node.row:
            return _unknown(f"{node.name} ({node.kind}) has no rule for it")
        if traits.concatenates:
            whole = len(before) == len(node.inputs)
            return channels if whole else _unknown(f"{node.name} puts known values next to random channels")
        if norm is not None and not norm.over_samples and norm.kind in ("layer", "group", "rms"):
            rank = len(value.shape)
            over = sorted({a - 1 if a > 0 else a + rank for a in norm.axes} if norm.axes else range(rank))
            kept = tuple(3 + a - (a > value.axis) for a in over if a != value.axis)
            return replace(channels, kind="divided", over=kept, centers=value.gaussian and norm.kind != "rms")
        fixed = norm is not None and norm.kind == "batch" and not norm.over_samples
        if fixed or node.role in _BY_CHANNEL or (node.role == "other" and self._same_shape(node, value)):
            return channels
        return _unknown(f"{node.name} ({node.kind}) has no rule for it")

    def _same_shape(self, node: Node, value: MomentMaps) -> bool:
        """Return whether its only input has the shape of its output: a rule without a role then acts elementwise."""
        source = self._values.get(node.inputs[0]) if len(node.inputs) == 1 else None
        return isinstance(source, MomentMaps) and source.shape == value.shape

    def _mean(self, node: Node, before: list[Node]) -> Step:
        """Return the deviations of a mean over channels, or of a function of one."""
        step, source = self.steps[before[0]], self._values.get(before[0])
        if not isinstance(source, Value) or not source.random:
            return Step("known")
        pools = node.traits.pools
        if pools is None or pools.kind not in _AVERAGES or step.kind != "channels":
            return _unknown(f"{node.name} ({node.kind}) has no rule for it")
        return replace(step, kind="averaged")

    def _layer(self, node: Node, value: MomentMaps, *, known: bool) -> Step:
        module = node.module
        if not isinstance(module, (nn.Linear, _ConvNd)) or isinstance(module, _ConvTransposeNd):
            return _unknown(f"{node.name} ({node.kind}) has no rule for it")
        distribution, drawn = self._context.weight_distribution(module), self._context.drawn(module.parameters())
        groups = getattr(module, "groups", 1)
        single = groups == value.channels == getattr(module, "in_channels", 0)
        if not distribution.independent or (distribution.strength > 0 and not known):
            return _unknown(f"the weights of {node.name} are not independent")
        if drawn & self._layers:
            return _unknown(f"{node.name} has the weights of an earlier layer")
        if groups > 1 and not single:
            return _unknown(f"{node.name} reads groups of few channels")
        self._layers |= drawn
        mixes = not single or known
        return Step("channels", "", value.axis, value.sizes, value.shape, mixes=mixes)


def _unknown(reason: str) -> Step:
    return Step("unknown", reason)
