r"""What one draw of a network of finite width strays by: spread and shift of every row, to first order in 1/width.

Given the layers before, the channels of a layer are independent. A layer of weights reads an average over them, which
strays from its expectation by the average of their deviations. Here deviations of all layers at once, of channels that
were drawn, go through the recursion: the difference of two walks with opposite deviations is the influence of single
channels on every later row, and their sum the curvature.

.. math:: \mathrm{Var}[\cos_R] = \sum_l \frac1{C_l}\,\mathrm{Var}_c\,\langle\nabla f_{l\to R},\kappa_c\rangle, \qquad
          E[\cos_R] - \cos^\infty_R = \sum_l \frac1{2C_l}\,E_c\,D^2 f_{l\to R}[\kappa_c-K^l,\kappa_c-K^l]

with :math:`f_{l\to R}` the recursion from the second moments :math:`K^l` that layer l averages to the cosine of row R,
and :math:`\kappa_c` the products of channel c. Channels that a skip connection carries on keep their deviations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from initscope._utils.progress import steps
from initscope._utils.randomness import torch_generator
from initscope.geometry import Floats
from initscope.graph import Inputs, Node, Observer
from initscope.propagate.bases import Cross, Lookup, Wanted
from initscope.propagate.context import Context
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.networks import Networks, Simulation
from initscope.propagate.origins.elementwise import OfOne
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.base import Value, is_value
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.walk import Walk
from initscope.propagate.windows import EVERY, Offset, at_both

__all__ = ["FiniteWidth", "finite_width"]

_CHANNELS = 4096
"""Channels of each layer whose influence is averaged: its tails are heavy."""
_DIRECTIONS = 192
"""Combinations of channels that go through the recursion: a spread is known to 1/√384 = 5 %."""
_STEP = 0.05
"""Of the deviation of one draw: differences then have an error of its square."""
_ENTRIES = 1 << 22
"""Entries of one map in a walk: more directions go one group after the other."""
_COST = 16
"""Covariances between positions may cost this many times what they may cost a prediction."""
_RECORDED = 1 << 26
"""Values of channels that are kept."""
_MOST_NETWORKS = 192
_AVERAGES: frozenset[str] = frozenset({"mean"})
"""Kinds of `initscope.traits.Pooling` that are averages."""
_BY_CHANNEL = ("activation", "scaling", "merge", "gate", "pooling")
"""Roles of ops that act on each channel by itself."""


@dataclass(frozen=True)
class FiniteWidth:
    """By how much one draw strays, ``[rows, pairs]``; NaN where it is not covered, with the reason of each row."""

    cosine_sd: Floats
    rms_sd: Floats
    """Of the ratio of RMS, relative to it."""
    cosine_shift: Floats
    """Mean of the cosine of one draw less its limit."""
    cosine_shift_se: Floats
    deviations: Floats
    """Of cosines, ``[directions, rows, pairs]``: independent samples of what one draw strays by."""
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Step:
    """What deviates at one op: nothing, averages over its channels (``axis``), or a number by which it divides."""

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


_EXACT = _Step("exact")


class _Survey(Walk):
    """The plain walk, which finds out for every op whether its deviations are known."""

    def __init__(self, simulation: Simulation, inputs: list[Any], context: Context) -> None:
        super().__init__(simulation.networks.traced, inputs, context, simulation)
        self.steps: dict[Node, _Step] = {}
        self._context, self._layers = context, set[object]()

    def _value(self, node: Node) -> Any:
        reasons = [self.steps[parent].reason for parent in node.inputs if parent in self.steps]
        reason = next(filter(None, reasons), "")
        value = None if reason else super()._value(node)
        self.steps[node] = _not(reason) if reason else self._step(node, value)
        return value

    def _step(self, node: Node, value: Any) -> _Step:
        before = [parent for parent in node.inputs if parent in self.steps and self.steps[parent].kind != "exact"]
        random = is_value(value) and value.random
        if not before and not random:
            return _EXACT
        if not is_value(value):
            return _not(f"{node.name} has several results") if type(value) is tuple else _EXACT
        if value.replicated or value.sampled or value.status == "sampled":
            return _not(f"{node.name} is sampled ({value.replicates[0].note})")
        if not random:
            return self._mean(node, before)
        if not isinstance(value, MomentMaps):
            return _not(f"{node.name} is known unit by unit only")
        if node.role == "weights":
            return self._layer(node, value, known=not before)
        channels = _Step("channels", "", value.axis, value.sizes, value.shape)
        traits, norm = node.traits, node.traits.normalizes
        if traits.moves_values or traits.keeps_values or traits.is_view:
            source = self._values.get(before[0])
            same = isinstance(source, MomentMaps) and source.channels == value.channels
            return _Step("moved") if same or value.mixed else _not(f"{node.name} is a part of the channels")
        if value.mixed or not node.row:
            return _not(f"{node.name} ({node.kind}) has no rule for it")
        if traits.concatenates:
            whole = len(before) == len(node.inputs)
            return channels if whole else _not(f"{node.name} puts known values next to random channels")
        if norm is not None and not norm.over_samples and norm.kind in ("layer", "group", "rms"):
            rank = len(value.shape)
            over = sorted({a - 1 if a > 0 else a + rank for a in norm.axes} if norm.axes else range(rank))
            kept = tuple(3 + a - (a > value.axis) for a in over if a != value.axis)
            return replace(channels, kind="divided", over=kept, centers=value.gaussian and norm.kind != "rms")
        fixed = norm is not None and norm.kind == "batch" and not norm.over_samples
        if fixed or node.role in _BY_CHANNEL or (node.role == "other" and self._same_shape(node, value)):
            return channels
        return _not(f"{node.name} ({node.kind}) has no rule for it")

    def _same_shape(self, node: Node, value: MomentMaps) -> bool:
        """Whether its only input has the shape of its output: a rule without a role acts unit by unit then."""
        source = self._values.get(node.inputs[0]) if len(node.inputs) == 1 else None
        return isinstance(source, MomentMaps) and source.shape == value.shape

    def _mean(self, node: Node, before: list[Node]) -> _Step:
        """A mean over channels, or a function of one."""
        step, source = self.steps[before[0]], self._values.get(before[0])
        if not isinstance(source, Value) or not source.random:
            return _Step("known")
        pools = node.traits.pools
        if pools is None or pools.kind not in _AVERAGES or step.kind != "channels":
            return _not(f"{node.name} ({node.kind}) has no rule for it")
        return replace(step, kind="averaged")

    def _layer(self, node: Node, value: MomentMaps, *, known: bool) -> _Step:
        module = node.module
        if not isinstance(module, (nn.Linear, _ConvNd)) or isinstance(module, _ConvTransposeNd):
            return _not(f"{node.name} ({node.kind}) has no rule for it")
        distribution, drawn = self._context.weight_distribution(module), self._context.drawn(module.parameters())
        groups = getattr(module, "groups", 1)
        single = groups == value.channels == getattr(module, "in_channels", 0)
        if not distribution.independent or (distribution.strength > 0 and not known):
            return _not(f"the weights of {node.name} are not independent")
        if drawn & self._layers:
            return _not(f"{node.name} has the weights of an earlier layer")
        if groups > 1 and not single:
            return _not(f"{node.name} reads groups of few channels")
        self._layers |= drawn
        mixes = not single or known
        return _Step("channels", "", value.axis, value.sizes, value.shape, mixes=mixes)


def _not(reason: str) -> _Step:
    return _Step("unknown", reason)


class _Recorder(Observer):
    """Channels of x and of y at every op that needs them: ``[channels, pairs, *positions]``."""

    def __init__(self, wanted: dict[str, _Step], pairs: int) -> None:
        self.steps, self._pairs = wanted, pairs
        self.recorded: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def see(self, step: Node, values: Tensor) -> None:
        """Copy both sides."""
        known = self.steps.get(step.name)
        if known is not None:
            channels = values.float().movedim(known.axis + 1, 0)
            sides = channels[:, : self._pairs].clone(), channels[:, self._pairs :].clone()
            self.recorded.setdefault(step.name, []).append(sides)


@dataclass(frozen=True, eq=False)
class _Channels:
    """Deviations of averages over the channels of one op, in several directions.

    ``x`` and ``y`` are channels of all networks, ``[networks, channels, pairs, *positions]``, and ``numbers``
    ``[directions, networks, channels]`` standard normal.
    """

    x: Tensor
    y: Tensor
    numbers: Tensor
    sizes: tuple[int, ...]
    norm: _Channels | None = None
    """Gaussian channels that a norm has centered, of which these are functions: their mean strays too."""
    over: tuple[int, ...] = ()
    """Axes over which that norm averages together with the channels."""

    def average(self, values: Tensor) -> Tensor:
        """Of values ``[networks, channels, pairs, …]``, with both signs: ``[2·directions·pairs, blocks, …]``."""
        blocks, start = [], 0
        networks, shape = len(values), values.shape[2:]
        if max(self.sizes) == 1:  # each channel is a block: they have one distribution
            centered = values - values.mean(dim=1, keepdim=True)
            total = torch.einsum("knc,ncp->kcp", self.numbers, centered.flatten(2)) / math.sqrt(networks)
            deviations = total.reshape(len(total), values.shape[1], *shape).movedim(1, 2)
        else:
            for size in self.sizes:
                part = slice(start, start := start + size)
                numbers = self.numbers[:, :, part]
                numbers = (numbers - numbers.mean(dim=2, keepdim=True)) / math.sqrt(max(size - 1, 1) * size * networks)
                total = numbers.flatten(1) @ values[:, part].flatten(2).flatten(0, 1)
                blocks.append(total.reshape(len(numbers), *shape))
            deviations = torch.stack(blocks, dim=2)
        return _STEP * torch.cat([deviations, -deviations]).flatten(0, 1)

    def moments(self) -> tuple[Tensor, ...]:
        """Of kxx, kyy and d."""
        products = (side.square() for side in (self.x, self.y, self.x - self.y))
        if self.norm is None:
            return tuple(map(self.average, products))
        return tuple(self.average(self._centered(product, self.norm.x, self.norm.y)) for product in products)

    def cross(self, offset: Offset) -> Cross:
        """Of the four products at an offset."""
        first, second = self._at_both(offset)
        products: Iterable[Tensor] = first * second
        if self.norm is not None:
            products = map(self._centered, products, *self.norm._at_both(offset))
        return torch.stack(list(map(self.average, products)))

    def _at_both(self, offset: Offset) -> tuple[Tensor, Tensor]:
        """Factors of the four products, ``[4, networks, channels, pairs, *positions]``."""
        shape = self.x.shape
        x, y = (side.reshape(shape[0] * shape[1], *shape[2:]) for side in (self.x, self.y))
        first, second = at_both(x, y, offset)
        return tuple(side.reshape(4, *shape[:3], *side.shape[3:]) for side in (first, second))  # type: ignore[return-value]

    def _centered(self, products: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Products less what the mean of channels, which the norm takes off, moves them by.

        The slopes of E κ in the means of two Gaussians are the coefficients of a regression of κ on both [Stein1981]_.
        """

        def mean(values: Tensor) -> Tensor:
            return values.mean(dim=(0, 1))

        a, b, c = mean(first.square()), mean(second.square()), mean(first * second)
        p, q = mean(first * products), mean(second * products)
        ridge = 1e-4 * (a + b) / 2
        a, b = a + ridge, b + ridge
        determinant = (a * b - c * c).clamp_min(1e-30)
        slopes = (b * p - c * q) / determinant, (a * q - c * p) / determinant
        for slope, side in zip(slopes, (first, second), strict=True):
            taken = side.mean(dim=self.over, keepdim=True) if self.over else side
            products = products - slope * taken
        return products


@dataclass(frozen=True, eq=False)
class _Strayed(OfOne):
    """Covariances that stray by the average of channels."""

    channels: _Channels

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Those of the expectation and the deviations."""
        return lookup(self.before, offset) + self.channels.cross(offset)

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The same offset."""
        if offset is EVERY:
            raise NotCovered("it reads all covariances at once")
        return super().sources(offset)


class _StrayedWalk(Walk):
    """The walk of copies of the pairs, in each of which the averages that layers read stray in their own direction."""

    def __init__(
        self, simulation: Simulation, known_steps: dict[Node, _Step], channels: dict[Node, _Channels], context: Context
    ) -> None:
        super().__init__(simulation.networks.traced, _inputs(simulation), context, simulation)
        self._steps, self._channels = known_steps, channels
        self.strayed: dict[Node, Any] = {}

    def _value(self, node: Node) -> Any:
        step = self._steps.get(node, _EXACT)
        if step.reason:
            return None  # no row after it is read
        if step.kind == "moved":
            self.strayed[node] = self._reading_strayed(node)
        value = self._reading_strayed(node) if step.mixes else super()._value(node)
        channels = self._channels.get(node)
        if channels is None:
            return value
        if step.kind == "averaged":
            keep = value.x.dim() == len(channels.x.shape) - 1
            moved = (channels.average(side)[:, 0] for side in (channels.x, channels.y))
            dx, dy = (mean.unsqueeze(step.axis + 1) if keep else mean for mean in moved)
            return replace(value, x=value.x + dx, y=value.y + dy)
        if step.kind == "divided":
            value = value.scaled(*(self._factor(side, step, channels) for side in (channels.x, channels.y)))
        moments = map(operator.add, (value.kxx, value.kyy, value.d), channels.moments())
        origin = None if value.origin is None else _Strayed(value, channels)
        self.strayed[node] = value.after(tuple(torch.clamp_min(moment, 0) for moment in moments), origin=origin)
        return value

    def _factor(self, side: Tensor, step: _Step, channels: _Channels) -> Tensor:
        """What a norm multiplies by, against the limit: its mean square over channels strays."""
        squares = side.square()
        if step.over:
            squares = squares.mean(dim=step.over, keepdim=True)
        whole = replace(channels, sizes=(sum(channels.sizes),))
        relative = squares / squares.mean(dim=1, keepdim=True)
        return (1 + whole.average(relative)).rsqrt()

    def _reading_strayed(self, node: Node) -> Any:
        known = {parent: self._values[parent] for parent in node.inputs if parent in self._values}
        self._values.update({parent: self.strayed[parent] for parent in known if parent in self.strayed})
        try:
            return super()._value(node)
        finally:
            self._values.update(known)

    def forget(self) -> None:
        """Drop what no later op reads."""
        self.strayed = {node: value for node, value in self.strayed.items() if node in self._values}


def finite_width(networks: Networks, x: Inputs, y: Inputs, seed: int) -> FiniteWidth:
    """Spread and shift of every row; the same draws of the weights for all pairs."""
    x, y = (side.map(lambda t: t.double() if t.is_floating_point() else t) for side in (x, y))
    pairs = x.samples
    if networks.traced.symbolic is None:
        raise NotCovered("the model was recorded from a run, which fixes the number of samples")
    size, draws = _sizes(_surveyed(Simulation(networks, x.pick([0]), y.pick([0])), seed, 1 / pairs)[0])
    parts = []
    for start in steps(range(0, pairs, size), "predicting spreads"):
        several = slice(start, start + size)
        parts.append(_part(Simulation(networks, x.pick(several), y.pick(several)), draws, seed, pairs))
    deviations, curvatures, sizes = (np.concatenate(values, axis=2) for values in zip(*(part[:3] for part in parts)))
    sd, rms = (np.sqrt((values**2).mean(axis=0)) for values in (deviations, sizes))
    shift, shift_se = curvatures.mean(axis=0), curvatures.std(axis=0, ddof=1) / math.sqrt(_DIRECTIONS)
    return FiniteWidth(sd, rms, shift, shift_se, deviations, parts[0][3])


def _surveyed(simulation: Simulation, seed: int, share: float) -> tuple[dict[Node, _Step], dict[Node, Totals | None]]:
    """What deviates at every op, and the sums of every row in the limit."""
    survey = _Survey(simulation, _inputs(simulation), _context(simulation, seed, share / (2 * _DIRECTIONS)))
    plain = {node: _totals(value) for node, value in survey.states()}
    return survey.steps, plain


def _sizes(known_steps: dict[Node, _Step]) -> tuple[int, int]:
    """How many pairs go together, and how many networks are drawn."""
    recorded = [step for step in known_steps.values() if step.recorded]
    values = 2 * sum(math.prod(step.shape) for step in recorded)
    narrowest = min([sum(step.sizes) for step in recorded], default=_CHANNELS)
    draws = max(2, min(math.ceil(_CHANNELS / narrowest), _MOST_NETWORKS, _RECORDED // max(values, 1)))
    return max(1, _RECORDED // max(1, values * draws)), draws


def _part(
    simulation: Simulation, draws: int, seed: int, all_pairs: int
) -> tuple[Floats, Floats, Floats, tuple[str, ...]]:
    """Deviations and curvatures of the cosines, relative deviations of the RMS; the reasons of the rows."""
    share = simulation.x.samples / all_pairs
    known_steps, plain = _surveyed(simulation, seed, share)
    channels = _channels(simulation, known_steps, draws, seed)
    reasons = {node: known_steps[node].reason or ("" if known else "it has no cosine") for node, known in plain.items()}
    networks, pairs, rows = simulation.networks, simulation.x.samples, {node: k for k, node in enumerate(plain)}
    result = np.full((3, _DIRECTIONS, len(rows), pairs), np.nan)
    result[:, :, [not reasons[node] for node in rows]] = 0
    entries = max([pairs * math.prod(known.x.shape[3:]) for known in channels.values()], default=1)
    group = max(1, min(_DIRECTIONS, _ENTRIES // entries // 2))
    for start in range(0, _DIRECTIONS, group):
        part = slice(start, min(start + group, _DIRECTIONS))
        those = {node: replace(known, numbers=known.numbers[part]) for node, known in channels.items()}
        copies = 2 * (part.stop - start)
        many = Simulation(networks, _copied(simulation.x, copies), _copied(simulation.y, copies))
        context = _context(simulation, seed, share * copies / (2 * _DIRECTIONS))
        walk = _StrayedWalk(many, known_steps, those, context)
        for node, value in walk.states():
            totals = plain[node]
            if totals is not None and not reasons[node] and known_steps[node].kind != "exact":
                result[:, part, rows[node]] = _differences(totals, walk.strayed.get(node, value).totals())
            walk.forget()
    return result[0], result[1], result[2], tuple(reasons.values())


def _inputs(simulation: Simulation) -> list[Any]:
    x, y = simulation.x, simulation.y
    sides = zip(x.tensors(), y.tensors(), x.batched, strict=True)
    return [InputValues(a, b) if carries else a for a, b, carries in sides]


def _copied(side: Inputs, copies: int) -> Inputs:
    """All samples one after the other, then all of them again."""
    return side.map_samples(lambda tensor: tensor.repeat(copies, *[1] * (tensor.dim() - 1)))


def _context(simulation: Simulation, seed: int, share: float) -> Context:
    """With random numbers of its own; ``share`` of what all copies of all pairs may cost."""
    budget = CovarianceBudget(_COST * share)
    return replace(
        simulation.networks.context,
        budget=budget,
        sampled=[],
        generator=torch_generator(seed, "spreads"),
        cosines={},
    )


def _totals(value: Any) -> Totals | None:
    try:
        return value.totals() if is_value(value) else None
    except NotCovered:
        return None


def _differences(plain: Totals, strayed: Totals) -> Floats:
    """Of the cosine the first and the second difference, of one draw, and the first of the logarithm of the RMS."""
    differences = []
    for base, copies in ((1 - plain.gap, 1 - strayed.gap), (plain.xx.log() / 2, strayed.xx.log() / 2)):
        up, down = (side.reshape(-1, len(base)) for side in copies.chunk(2))
        differences += [(up - down) / (2 * _STEP), (up + down - 2 * base) / (2 * _STEP**2)]
    return torch.stack(differences[:3]).numpy()


def _channels(simulation: Simulation, known_steps: dict[Node, _Step], draws: int, seed: int) -> dict[Node, _Channels]:
    """Channels of drawn networks at every op, with the numbers by which each of them deviates."""
    recorder = _Recorder({node.name: step for node, step in known_steps.items() if step.recorded}, simulation.x.samples)
    if recorder.steps:
        simulation.networks.watch(simulation.x.joined(simulation.y), draws, lambda *_: [recorder])
    numbers = _numbers(known_steps, (_DIRECTIONS, draws), torch_generator(seed, "directions of a spread"))
    result: dict[Node, _Channels] = {}
    norms: dict[Node, Node] = {}
    for node, step in known_steps.items():
        source = node.inputs[0] if step.kind == "averaged" else node
        if step.centers:
            norms[node] = node
        elif not step.mixes:
            before = {norms[parent] for parent in node.inputs if parent in norms}
            norms |= {node: before.pop()} if len(before) == 1 else {}
        if source.name in recorder.recorded and (step.recorded or step.kind == "averaged"):
            x, y = (torch.stack(side) for side in zip(*recorder.recorded[source.name], strict=True))
            centered = norms.get(node, node)
            norm = None if centered is node or result[centered].x.shape != x.shape else result[centered]
            result[node] = _Channels(x, y, numbers[source], step.sizes, norm, known_steps[centered].over)
    return result


def _numbers(known_steps: dict[Node, _Step], shape: tuple[int, int], generator: torch.Generator) -> dict[Node, Tensor]:
    """Of every op one number for each direction, network and channel; ops that hand channels on share theirs."""
    family: dict[Node, Node] = {}
    parts: dict[Node, list[Node]] = {}

    def first(node: Node) -> Node:
        while family[node] is not node:
            node = family[node]
        return node

    for node, step in known_steps.items():
        if step.kind == "exact" or step.reason:
            continue
        before = [first(parent) for parent in node.inputs if parent in family]
        family[node] = node
        if node.traits.concatenates and step.kind == "channels":
            parts[node] = before
        elif not step.mixes:
            for other in before:
                here = first(node)
                if here is not other:  # the one that consists of several goes on
                    joined, root = (here, other) if here not in parts else (other, here)
                    family[joined] = root
    drawn: dict[Node, Tensor] = {}
    result = {}
    for node in family:
        root, step = first(node), known_steps[node]
        if root not in drawn:
            if root in parts:
                drawn[root] = torch.cat([drawn[first(part)] for part in parts[root]], dim=2)
            else:
                members = (known_steps[member].sizes for member in family if first(member) is root)
                width = sum(next(filter(None, members)))
                drawn[root] = torch.randn(*shape, width, generator=generator)
        result[node] = drawn[root]
    return result
