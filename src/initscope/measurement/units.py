r"""Statistics of a layer's units over a whole stream of samples: dead, always on, effective rank, Gaussian mean width.

Rank and width of wide layers use `SAMPLED_UNITS` of their units at a time, drawn at random, so that one pass is cheap
and memory does not grow with the stream. With C the covariance of the D units, of which m are sampled,

.. math:: \frac{(\operatorname{tr} C)^2}{\operatorname{tr} C^2} \approx
   \frac{w\sum_{i\ne j} C_{ii}C_{jj} + u\sum_i C_{ii}^2}{w\sum_{i\ne j} C_{ij}^2 + u\sum_i C_{ii}^2},
   \qquad w = \frac{D(D-1)}{m(m-1)},\quad u = \frac Dm

has unbiased numerator and denominator, is exact for m = D, and 1 for data on a line. The width is the mean over
`DIRECTIONS` random directions; every four of them use another m units, so that the spread between these groups is that
of directions and of units.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope._utils.randomness import generator
from initscope.geometry import Floats
from initscope.graph import Graph, Node, Observer, SampleAxes, unit_axes
from initscope.measurement.width import random_directions
from initscope.theory.mean_width import gaussian_norm_mean

__all__ = ["DIRECTIONS", "SAMPLED_UNITS", "Activity", "ActivityObserver", "SpreadObserver", "UnitSample", "UnitSpread"]

SAMPLED_UNITS = 128
"""Units of a layer that its effective rank and each direction of its width see; smaller layers are seen whole."""
DIRECTIONS = 64
"""Directions over which the mean width is taken."""
_CHOICES = 16  # of units: the number of groups of directions
_END = 0.005
"""Share of a range that counts as its end: there tanh and the sigmoid have less than 4·0.005 of their largest slope."""


class UnitSample:
    """The sampled units of layers of one size, and the directions in which their extent is measured."""

    def __init__(self, dimension: int, seed: int, device: torch.device) -> None:
        self.dimension, self.seen = dimension, min(dimension, SAMPLED_UNITS)
        self.index: Tensor | None = None
        if self.seen < dimension:
            rng = generator(seed, "units of a layer")
            # The first choice is that of the rank; each group of directions has one of its own.
            chosen = [rng.choice(dimension, self.seen, replace=False, shuffle=False) for _ in range(1 + _CHOICES)]
            self.index = torch.as_tensor(np.sort(chosen, axis=1).ravel(), device=device)
        directions = random_directions(self.seen, DIRECTIONS, seed)
        self.directions = torch.as_tensor(directions, dtype=torch.float64, device=device)
        self.norm_mean = float(gaussian_norm_mean(self.seen))

    def look(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the columns of ``[samples, units]`` for the rank, and inner products of samples and directions.

        Double precision is used, because a large offset would remove the digits of the spread.
        """
        if self.index is None:
            whole = flat.double()
            return whole, whole @ self.directions.T
        seen = flat.index_select(1, self.index).double().view(len(flat), 1 + _CHOICES, self.seen)
        products = torch.bmm(seen[:, 1:].transpose(0, 1), self.directions.view(_CHOICES, -1, self.seen).mT)
        return seen[:, 0], products.transpose(0, 1).reshape(len(flat), -1)


class UnitSpread:
    """Covariance and extent of one layer's outputs, from a random choice of its units."""

    def __init__(self, sample: UnitSample) -> None:
        self.sample = sample
        self.count = 0

    def add(self, flat: Tensor) -> None:
        """Add the outputs ``[samples, units]`` of one batch to the statistics."""
        values, products = self.sample.look(flat)
        if self.count == 0:
            self.precision = torch.finfo(flat.dtype).eps
            self.scale = float(values.abs().max()) or 1.0  # squares of vanishing outputs must not underflow
        values = values / self.scale
        high, low = products.amax(dim=0), products.amin(dim=0)
        if self.count == 0:
            self.center = values.mean(dim=0)  # near the mean, so that sums of squares keep their digits
            centered = values - self.center
            self.total, self.second = centered.sum(dim=0), centered.T @ centered
            self.highest, self.lowest = high, low
        else:
            centered = values - self.center
            self.total += centered.sum(dim=0)
            self.second.addmm_(centered.T, centered)
            self.highest, self.lowest = torch.maximum(self.highest, high), torch.minimum(self.lowest, low)
        self.count += len(flat)

    def effective_rank(self) -> float:
        """Return the participation ratio of the covariance; NaN if outputs vary only by rounding."""
        mean, covariance = self.total.cpu().numpy() / self.count, self.second.cpu().numpy() / self.count
        power = float(covariance.trace()) + float(self.center.square().sum())
        covariance -= np.outer(mean, mean)
        variances = covariance.diagonal()
        total = float(variances.sum())
        if not total > (10 * self.precision) ** 2 * power:
            return math.nan
        diagonal = float(np.square(variances / total).sum())
        squares = float(np.square(covariance / total).sum())
        size, seen = self.sample.dimension, self.sample.seen
        off = size * (size - 1) / (seen * (seen - 1)) if seen > 1 else 0.0
        on = size / seen
        return float((off * (1 - diagonal) + on * diagonal) / (off * (squares - diagonal) + on * diagonal))

    def mean_width(self) -> tuple[float, float]:
        """Return the two-sided Gaussian mean width of the outputs, 0 if they are equal, and its standard error."""
        size, seen = self.sample.dimension, self.sample.seen
        extents = (self.highest - self.lowest).cpu().numpy()
        largest = float(extents.max()) or 1.0  # its square may vanish or overflow
        groups = extents if self.sample.index is None else extents.reshape(_CHOICES, -1).mean(axis=1)
        mean, error = (groups / largest).mean(), (groups / largest).std(ddof=1) / math.sqrt(len(groups))
        factor = self.sample.norm_mean * math.sqrt(size / seen) * largest
        return factor * float(mean), factor * float(error)


class SpreadObserver(Observer):
    """Effective rank and mean width after every node."""

    names = ("effective_rank", "mean_width", "mean_width_error")

    def __init__(self, graph: Graph, seed: int) -> None:
        self._spreads: dict[Node, UnitSpread | None] = dict.fromkeys(graph.nodes)
        self._seed = seed
        self._samples: dict[int, UnitSample] = {}

    def see(self, node: Node, values: Tensor) -> None:
        """Take the outputs of a batch into account; sizes that differ from those of the first are left out."""
        flat = values.reshape(len(values), -1)
        spread = self._spreads[node]
        if spread is None:
            spread = self._spreads[node] = UnitSpread(self._sample(flat))
        if flat.shape[1] == spread.sample.dimension:
            spread.add(flat)

    def _sample(self, flat: Tensor) -> UnitSample:
        """Return the choice of units for layers of this size, made once."""
        size = flat.shape[1]
        if size not in self._samples:
            self._samples[size] = UnitSample(size, self._seed, flat.device)
        return self._samples[size]

    def columns(self) -> dict[str, Floats]:
        """Return ``effective_rank``, ``mean_width`` and its error, ``[steps]``."""
        nothing = (math.nan, math.nan)
        spreads = list(self._spreads.values())
        widths = np.array([nothing if spread is None else spread.mean_width() for spread in spreads])
        ranks = np.array([math.nan if spread is None else spread.effective_rank() for spread in spreads])
        return {"effective_rank": ranks, "mean_width": widths[:, 0], "mean_width_error": widths[:, 1]}


class Activity:
    """Units of one activation's output that are off, or positive, for all samples at all positions.

    A unit is a channel of a convolution's output or a feature of a Linear's; ``axis`` is the axis of units. Off means
    zero if the activation is flat at its zero (``zero_is_off``): a unit of tanh that is zero still passes gradients.
    For a bounded activation, ``bounds`` are the ends of its range, and the values there are counted.
    """

    def __init__(self, axis: int, bounds: tuple[float, float] | None = None, *, zero_is_off: bool = True) -> None:
        self.axis, self.bounds, self.zero_is_off = axis, bounds, zero_is_off
        self.highest: Tensor | None = None
        self.lowest: Tensor | None = None
        self.values = self.at_ends = 0

    def add(self, output: Tensor) -> None:
        """Add one batch of outputs ``[samples, ...]`` to the statistics."""
        high, low = output.amax(dim=0), output.amin(dim=0)
        self.highest = high if self.highest is None else torch.maximum(self.highest, high)
        self.lowest = low if self.lowest is None else torch.minimum(self.lowest, low)
        if self.bounds is not None:
            least, most = self.bounds
            margin = _END * (most - least)
            self.values += output.numel()
            self.at_ends += int(((output < least + margin) | (output > most - margin)).sum())

    def fractions(self) -> dict[str, float]:
        """Return fractions of dead and always-on units, of such elements, and of saturated values."""
        assert self.highest is not None
        assert self.lowest is not None
        dead = (self.highest == 0) & (self.lowest == 0) & self.zero_is_off
        on = self.lowest > 0
        return {
            "dead_fraction": _whole_units(dead, self.axis),
            "always_on_fraction": _whole_units(on, self.axis),
            "dead_element_fraction": int(dead.sum()) / dead.numel(),
            "always_on_element_fraction": int(on.sum()) / on.numel(),
            "saturated_fraction": self.at_ends / self.values if self.values else math.nan,
        }


class ActivityObserver(Observer):
    """Dead, always-on and saturated units at the output of every activation, and of products with constants."""

    names = (
        "dead_fraction",
        "always_on_fraction",
        "dead_element_fraction",
        "always_on_element_fraction",
        "saturated_fraction",
    )

    def __init__(self, graph: Graph, samples: SampleAxes | None = None) -> None:
        axes = unit_axes(graph, samples)
        self._steps = graph.nodes
        self._activities: dict[Node, Activity] = {}
        for node in graph.nodes:
            if node.role in ("activation", "scaling"):
                self._activities[node] = _activity(axes[node], node)

    def nodes(self, graph: Graph) -> Collection[Node]:
        """Activations, and products with constants."""
        return self._activities

    def see(self, node: Node, values: Tensor) -> None:
        """Take the outputs of a batch into account; shapes that differ from that of the first are left out."""
        activity = self._activities[node]
        if activity.highest is None or activity.highest.shape == values.shape[1:]:
            activity.add(values)

    def columns(self) -> dict[str, Floats]:
        """Return the fractions, ``[steps]`` each, NaN at steps that are no activations."""
        columns = {name: np.full(len(self._steps), np.nan) for name in self.names}
        for index, node in enumerate(self._steps):
            activity = self._activities.get(node)
            if activity is not None and activity.highest is not None:
                for name, value in activity.fractions().items():
                    columns[name][index] = value
        return columns


def _activity(axis: int, node: Node) -> Activity:
    """Includes the range of a saturating activation; the zeros of ReLU6 count as dead, like those of ReLU."""
    traits = node.traits
    if not traits.activation:  # a role that a user has declared: nothing is known of its zeros
        return Activity(axis)
    return Activity(axis, traits.bounds if traits.saturates else None, zero_is_off=traits.zero_is_off)


def _whole_units(flags: Tensor, axis: int) -> float:
    """Return the fraction of the units along ``axis`` (of one sample) for which all positions are flagged."""
    if flags.dim() == 0:
        return float(flags)
    units: Any = flags.movedim(axis, 0).flatten(1) if flags.dim() > 1 else flags[:, None]
    return float(units.all(dim=1).double().mean())
