r"""The spread and shift of every row for one network of finite width, to first order in 1/width.

Given the layers before, the channels of a layer are independent. A layer of weights averages over channels, and this
average deviates from its expectation by the average of the channels' deviations. Deviations of all layers at once, from
drawn channels, are propagated through the recursion. The difference of two walks with opposite deviations is the
influence of single channels on every later row, and their sum the curvature.

.. math:: \mathrm{Var}[\cos_R] = \sum_l \frac1{C_l}\,\mathrm{Var}_c\,\langle\nabla f_{l\to R},\kappa_c\rangle, \qquad
          E[\cos_R] - \cos^\infty_R = \sum_l \frac1{2C_l}\,E_c\,D^2 f_{l\to R}[\kappa_c-K^l,\kappa_c-K^l]

Here :math:`f_{l\to R}` is the recursion from the second moments :math:`K^l` that layer l averages to the cosine of row
R, and :math:`\kappa_c` are the products of channel c. Channels that a skip connection passes on keep their deviations.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope._utils.progress import steps
from initscope._utils.randomness import torch_generator
from initscope.geometry import Floats
from initscope.graph import Inputs, Node
from initscope.propagate.channel_deviations import (
    DIRECTIONS,
    STEP,
    ChannelDeviations,
    PerturbedCovariances,
    channel_deviations,
)
from initscope.propagate.context import Context
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.deviation_survey import EXACT, DeviationSurvey, Step
from initscope.propagate.networks import Networks, Simulation
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.base import is_value
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.walk import Walk

__all__ = ["FiniteWidth", "finite_width"]

_CHANNELS = 4096
"""Channels of each layer whose influence is averaged: its tails are heavy."""
_ENTRIES = 1 << 22
"""Entries of one map in a walk: more directions go one group after the other."""
_COST = 16
"""Covariances between positions may cost this many times what they may cost a prediction."""
_RECORDED = 1 << 26
"""Values of channels that are kept."""
_MOST_NETWORKS = 192


@dataclass(frozen=True)
class FiniteWidth:
    """Deviations of one draw, ``[rows, pairs]``; NaN if not covered, with the reason of each row."""

    cosine_sd: Floats
    rms_sd: Floats
    """Of the ratio of RMS, relative to it."""
    cosine_shift: Floats
    """Mean of the cosine of one draw less its limit."""
    cosine_shift_se: Floats
    deviations: Floats
    """Of cosines, ``[directions, rows, pairs]``: independent samples of the deviations of one draw."""
    reasons: tuple[str, ...]


class _PerturbedWalk(Walk):
    """The walk of copies of the pairs. In each copy, the averages that layers read deviate in another direction."""

    def __init__(
        self,
        simulation: Simulation,
        known_steps: dict[Node, Step],
        channels: dict[Node, ChannelDeviations],
        context: Context,
    ) -> None:
        super().__init__(simulation.networks.traced, _inputs(simulation), context, simulation)
        self._steps, self._channels = known_steps, channels
        self.perturbed: dict[Node, Any] = {}

    def _value(self, node: Node) -> Any:
        step = self._steps.get(node, EXACT)
        if step.reason:
            return None  # no row after it is read
        if step.kind == "moved":
            self.perturbed[node] = self._reading_perturbed(node)
        value = self._reading_perturbed(node) if step.mixes else super()._value(node)
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
        origin = None if value.origin is None else PerturbedCovariances(value, channels)
        self.perturbed[node] = value.after(tuple(torch.clamp_min(moment, 0) for moment in moments), origin=origin)
        return value

    def _factor(self, side: Tensor, step: Step, channels: ChannelDeviations) -> Tensor:
        """Return the factor of a norm relative to the limit: its mean square over channels deviates."""
        squares = side.square()
        if step.over:
            squares = squares.mean(dim=step.over, keepdim=True)
        whole = replace(channels, sizes=(sum(channels.sizes),))
        relative = squares / squares.mean(dim=1, keepdim=True)
        return (1 + whole.average(relative)).rsqrt()

    def _reading_perturbed(self, node: Node) -> Any:
        known = {parent: self._values[parent] for parent in node.inputs if parent in self._values}
        self._values.update({parent: self.perturbed[parent] for parent in known if parent in self.perturbed})
        try:
            return super()._value(node)
        finally:
            self._values.update(known)

    def forget(self) -> None:
        """Drop values that no later op reads."""
        self.perturbed = {node: value for node, value in self.perturbed.items() if node in self._values}


def finite_width(networks: Networks, x: Inputs, y: Inputs, seed: int) -> FiniteWidth:
    """Return spread and shift of every row; all pairs use the same draws of the weights."""
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
    shift, shift_se = curvatures.mean(axis=0), curvatures.std(axis=0, ddof=1) / math.sqrt(DIRECTIONS)
    return FiniteWidth(sd, rms, shift, shift_se, deviations, parts[0][3])


def _surveyed(simulation: Simulation, seed: int, share: float) -> tuple[dict[Node, Step], dict[Node, Totals | None]]:
    """Return the deviations at every op, and the sums of every row in the limit."""
    survey = DeviationSurvey(simulation, _inputs(simulation), _context(simulation, seed, share / (2 * DIRECTIONS)))
    plain = {node: _totals(value) for node, value in survey.states()}
    return survey.steps, plain


def _sizes(known_steps: dict[Node, Step]) -> tuple[int, int]:
    """Return the number of pairs per batch, and the number of networks to draw."""
    recorded = [step for step in known_steps.values() if step.recorded]
    values = 2 * sum(math.prod(step.shape) for step in recorded)
    narrowest = min([sum(step.sizes) for step in recorded], default=_CHANNELS)
    draws = max(2, min(math.ceil(_CHANNELS / narrowest), _MOST_NETWORKS, _RECORDED // max(values, 1)))
    return max(1, _RECORDED // max(1, values * draws)), draws


def _part(
    simulation: Simulation, draws: int, seed: int, all_pairs: int
) -> tuple[Floats, Floats, Floats, tuple[str, ...]]:
    """Return deviations and curvatures of the cosines, relative deviations of the RMS; the reasons of the rows."""
    share = simulation.x.samples / all_pairs
    known_steps, plain = _surveyed(simulation, seed, share)
    channels = channel_deviations(simulation, known_steps, draws, seed)
    reasons = {node: known_steps[node].reason or ("" if known else "it has no cosine") for node, known in plain.items()}
    networks, pairs, rows = simulation.networks, simulation.x.samples, {node: k for k, node in enumerate(plain)}
    result = np.full((3, DIRECTIONS, len(rows), pairs), np.nan)
    result[:, :, [not reasons[node] for node in rows]] = 0
    entries = max([pairs * math.prod(known.x.shape[3:]) for known in channels.values()], default=1)
    group = max(1, min(DIRECTIONS, _ENTRIES // entries // 2))
    for start in range(0, DIRECTIONS, group):
        part = slice(start, min(start + group, DIRECTIONS))
        those = {node: replace(known, numbers=known.numbers[part]) for node, known in channels.items()}
        copies = 2 * (part.stop - start)
        many = Simulation(networks, _copied(simulation.x, copies), _copied(simulation.y, copies))
        context = _context(simulation, seed, share * copies / (2 * DIRECTIONS))
        walk = _PerturbedWalk(many, known_steps, those, context)
        for node, value in walk.states():
            totals = plain[node]
            if totals is not None and not reasons[node] and known_steps[node].kind != "exact":
                result[:, part, rows[node]] = _differences(totals, walk.perturbed.get(node, value).totals())
            walk.forget()
    return result[0], result[1], result[2], tuple(reasons.values())


def _inputs(simulation: Simulation) -> list[Any]:
    x, y = simulation.x, simulation.y
    sides = zip(x.tensors(), y.tensors(), x.batched, strict=True)
    return [InputValues(a, b) if carries else a for a, b, carries in sides]


def _copied(side: Inputs, copies: int) -> Inputs:
    """Yield all samples one after the other, repeatedly."""
    return side.map_samples(lambda tensor: tensor.repeat(copies, *[1] * (tensor.dim() - 1)))


def _context(simulation: Simulation, seed: int, share: float) -> Context:
    """Walk with its own random numbers; ``share`` is its part of the total budget of all copies of all pairs."""
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


def _differences(plain: Totals, perturbed: Totals) -> Floats:
    """Return the first and second difference of the cosine in one draw, and the first of the logarithm of the RMS."""
    differences = []
    for base, copies in ((1 - plain.gap, 1 - perturbed.gap), (plain.xx.log() / 2, perturbed.xx.log() / 2)):
        up, down = (side.reshape(-1, len(base)) for side in copies.chunk(2))
        differences += [(up - down) / (2 * STEP), (up + down - 2 * base) / (2 * STEP**2)]
    return torch.stack(differences[:3]).numpy()
