r"""The state of a batch of pairs between two layers: what a wide random network remembers of them.

For each pair and position: the second moments of a unit, ``kxx`` and ``kyy``, and the mean squared difference
``d = kxx + kyy - 2 kxy``, which keeps the digits that kxy loses near cosine 1. Before the first weights nothing is
random and the state is the pair of tensors itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.report.geometry import Status
from initscope.theory.activations import Activation

__all__ = ["Given", "Maps", "State", "Totals", "from_tensors", "regroup"]


@dataclass(frozen=True)
class Totals:
    """Sums over all units, per pair, in float64: E‖x‖², E‖y‖², E‖x-y‖², and the number of units."""

    xx: Tensor
    yy: Tensor
    gap: Tensor
    units: int

    @property
    def cosine(self) -> Tensor:
        """⟨x, y⟩/(‖x‖‖y‖), through the gap."""
        product = self.xx.sqrt() * self.yy.sqrt()
        return 1 - (self.gap - (self.xx.sqrt() - self.yy.sqrt()).square()) / (2 * product)


@dataclass(frozen=True)
class Given:
    """Values that no weights have touched yet: the inputs, or a fixed function of them. ``[pairs, channels, ...]``."""

    x: Tensor
    y: Tensor
    status: Status = "closed form"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    def totals(self) -> Totals:
        """Sums over units."""
        axes = tuple(range(1, self.x.dim()))
        xx, yy, gap = (v.double().square().sum(dim=axes) for v in (self.x, self.y, self.x - self.y))
        return Totals(xx, yy, gap, math.prod(self.shape))


@dataclass(frozen=True)
class Maps:
    """Second moments ``[pairs, blocks, *positions]`` of random units.

    Channels come in ``blocks`` of equal law, ``multiplicity`` channels each; a convolution with groups makes as many
    blocks as it has groups, every other layer one. ``mx, my`` are the means of the units (None: zero).
    ``gaussian`` says whether the units are Gaussian, as after weights; after an activation ``before`` and ``sigma``
    remember the Gaussian it was applied to.
    """

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    multiplicity: int
    status: Status
    mx: Tensor | None = None
    my: Tensor | None = None
    gaussian: bool = True
    before: Maps | None = None
    sigma: Activation | None = None

    @property
    def channels(self) -> int:
        """Number of channels of the layer."""
        return self.multiplicity * self.kxx.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the layer's output for one input."""
        return (self.channels, *self.kxx.shape[2:])

    def totals(self) -> Totals:
        """Sums over units."""
        axes = tuple(range(1, self.kxx.dim()))
        maps = (self.kxx, self.kyy, self.d)
        xx, yy, gap = (self.multiplicity * m.sum(dim=axes, dtype=torch.float64) for m in maps)
        return Totals(xx, yy, gap, math.prod(self.shape))


State = Given | Maps


def from_tensors(
    given: Given, groups: int, *, means: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Mean over the channels of each group of x², y², (x-y)² and, if asked for, of x and y themselves."""
    pairs, channels = given.x.shape[:2]
    size = (pairs, groups, channels // groups, *given.x.shape[2:])
    x, y = given.x.reshape(size), given.y.reshape(size)
    second = [v.square().mean(dim=2) for v in (x, y)]
    gap = (x - y).square().mean(dim=2)
    first = [v.mean(dim=2) if means else None for v in (x, y)]
    return second[0], second[1], gap, first[0], first[1]


def regroup(maps: Tensor, groups: int) -> Tensor:
    """Average of the blocks that each of ``groups`` groups of channels reads; fewer blocks than groups stay."""
    blocks = maps.shape[1]
    if groups % blocks == 0:
        return maps
    common = math.lcm(blocks, groups)
    spread = maps.repeat_interleave(common // blocks, dim=1)
    return spread.reshape(maps.shape[0], groups, common // groups, *maps.shape[2:]).mean(dim=2)
