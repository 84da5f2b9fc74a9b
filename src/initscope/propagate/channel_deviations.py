"""Deviations of averages over the channels of drawn networks, and the covariances that they perturb."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope._utils.randomness import torch_generator
from initscope.graph import Node, Observer
from initscope.propagate.bases import Cross, Lookup, Wanted
from initscope.propagate.deviation_survey import Step
from initscope.propagate.networks import Simulation
from initscope.propagate.origins.elementwise import OfOne
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, Offset, at_both

__all__ = ["DIRECTIONS", "STEP", "ChannelDeviations", "PerturbedCovariances", "channel_deviations"]

DIRECTIONS = 192
"""Combinations of channels that go through the recursion: a spread is known to 1/√384 = 5 %."""
STEP = 0.05
"""Of the deviation of one draw: differences then have an error of its square."""


class _ChannelRecorder(Observer):
    """Channels of x and of y at every op that needs them: ``[channels, pairs, *positions]``."""

    def __init__(self, wanted: dict[str, Step], pairs: int) -> None:
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
class ChannelDeviations:
    """Deviations of averages over the channels of one op, in several directions.

    ``x`` and ``y`` are channels of all networks, ``[networks, channels, pairs, *positions]``, and ``numbers``
    ``[directions, networks, channels]`` standard normal.
    """

    x: Tensor
    y: Tensor
    numbers: Tensor
    sizes: tuple[int, ...]
    norm: ChannelDeviations | None = None
    """Gaussian channels that a norm has centered, of which these are functions: their mean deviates too."""
    over: tuple[int, ...] = ()
    """Axes over which that norm averages together with the channels."""

    def average(self, values: Tensor) -> Tensor:
        """Return sums of ``[networks, channels, pairs, …]`` with both signs: ``[2·directions·pairs, blocks, …]``."""
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
        return STEP * torch.cat([deviations, -deviations]).flatten(0, 1)

    def moments(self) -> tuple[Tensor, ...]:
        """Return deviations of kxx, kyy and d."""
        products = (side.square() for side in (self.x, self.y, self.x - self.y))
        if self.norm is None:
            return tuple(map(self.average, products))
        return tuple(self.average(self._centered(product, self.norm.x, self.norm.y)) for product in products)

    def cross(self, offset: Offset) -> Cross:
        """Return deviations of the four products at an offset."""
        first, second = self._at_both(offset)
        products: Iterable[Tensor] = first * second
        if self.norm is not None:
            products = map(self._centered, products, *self.norm._at_both(offset))
        return torch.stack(list(map(self.average, products)))

    def _at_both(self, offset: Offset) -> tuple[Tensor, Tensor]:
        """Return factors of the four products, ``[4, networks, channels, pairs, *positions]``."""
        shape = self.x.shape
        x, y = (side.reshape(shape[0] * shape[1], *shape[2:]) for side in (self.x, self.y))
        first, second = at_both(x, y, offset)
        return tuple(side.reshape(4, *shape[:3], *side.shape[3:]) for side in (first, second))  # type: ignore[return-value]

    def _centered(self, products: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return products minus their change by the mean over channels that the norm subtracts.

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
class PerturbedCovariances(OfOne):
    """Covariances plus the average of the deviations of channels."""

    channels: ChannelDeviations

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return those of the expectation and the deviations."""
        return lookup(self.before, offset) + self.channels.cross(offset)

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return the same offset."""
        if offset is EVERY:
            raise NotCovered("it reads all covariances at once")
        return super().sources(offset)


def channel_deviations(
    simulation: Simulation, known_steps: dict[Node, Step], draws: int, seed: int
) -> dict[Node, ChannelDeviations]:
    """Return channels of drawn networks at every op, with the numbers that make each of them deviate."""
    recorder = _ChannelRecorder(
        {node.name: step for node, step in known_steps.items() if step.recorded}, simulation.x.samples
    )
    if recorder.steps:
        simulation.networks.watch(simulation.x.joined(simulation.y), draws, lambda *_: [recorder])
    numbers = _numbers(known_steps, (DIRECTIONS, draws), torch_generator(seed, "directions of a spread"))
    result: dict[Node, ChannelDeviations] = {}
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
            result[node] = ChannelDeviations(x, y, numbers[source], step.sizes, norm, known_steps[centered].over)
    return result


def _numbers(known_steps: dict[Node, Step], shape: tuple[int, int], generator: torch.Generator) -> dict[Node, Tensor]:
    """Return for every op one number per direction, network and channel.

    Ops that pass channels on share their numbers.
    """
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
