r"""What a layer's units do over a whole stream of samples: dead, always on, effective rank, Gaussian mean width.

Rank and width of wide layers rest on `SAMPLED_UNITS` of their units, drawn at random, so that one pass costs little and
memory does not grow with the stream. With C the covariance of the D units, of which m are seen,

.. math:: \frac{(\operatorname{tr} C)^2}{\operatorname{tr} C^2} \approx
   \frac{w\sum_{i\ne j} C_{ii}C_{jj} + u\sum_i C_{ii}^2}{w\sum_{i\ne j} C_{ij}^2 + u\sum_i C_{ii}^2},
   \qquad w = \frac{D(D-1)}{m(m-1)},\quad u = \frac Dm

has unbiased numerator and denominator, is exact for m = D, and 1 for data on a line.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope._hall.randomness import generator
from initscope.measurement.width import random_directions
from initscope.theory.mean_width import gaussian_norm_mean

__all__ = ["SAMPLED_UNITS", "ActivityTally", "SpreadTally", "UnitSample"]

SAMPLED_UNITS = 128
"""Units of a layer on which its effective rank and mean width rest; layers up to this size are seen whole."""
_DIRECTIONS = 64
_END = 0.005
"""Share of a range that counts as its end: there tanh and the sigmoid have less than 4·0.005 of their largest slope."""


class UnitSample:
    """Which units of layers of one size are seen, and the directions in which their extent is taken."""

    def __init__(self, dimension: int, seed: int, device: torch.device) -> None:
        self.dimension, self.seen = dimension, min(dimension, SAMPLED_UNITS)
        self.index: Tensor | None = None
        if self.seen < dimension:
            chosen = generator(seed, "units of a layer").choice(dimension, self.seen, replace=False, shuffle=False)
            self.index = torch.as_tensor(np.sort(chosen), device=device)
        directions = random_directions(self.seen, _DIRECTIONS, seed).T
        self.directions = torch.as_tensor(directions, dtype=torch.float32, device=device)

    def view(self, flat: Tensor) -> Tensor:
        """The chosen columns of ``[samples, units]``."""
        return (flat if self.index is None else flat.index_select(1, self.index)).float()


class SpreadTally:
    """Covariance and extent of a layer's outputs, seen through a random choice of its units."""

    def __init__(self, sample: UnitSample) -> None:
        self.sample = sample
        self.count = 0

    def add(self, flat: Tensor) -> None:
        """Take the outputs ``[samples, units]`` of one batch into account."""
        values = self.sample.view(flat)
        if self.count == 0:
            self.scale = float(values.abs().max()) or 1.0  # squares of vanishing outputs must not underflow
        values = values / self.scale
        products = values @ self.sample.directions
        high, low = products.amax(dim=0), products.amin(dim=0)
        if self.count == 0:
            self.centre = values.mean(dim=0)  # near the mean, so that sums of squares keep their digits
            centred = values - self.centre
            self.total, self.second = centred.sum(dim=0), centred.T @ centred
            self.highest, self.lowest = high, low
        else:
            centred = values - self.centre
            self.total += centred.sum(dim=0)
            self.second.addmm_(centred.T, centred)
            self.highest, self.lowest = torch.maximum(self.highest, high), torch.minimum(self.lowest, low)
        self.count += len(flat)

    def effective_rank(self) -> float:
        """Participation ratio of the covariance; NaN for outputs that do not vary."""
        mean, covariance = self.total.cpu().numpy() / self.count, self.second.cpu().numpy() / self.count
        power = float(covariance.trace()) + float(self.centre.square().sum())
        covariance -= np.outer(mean, mean)
        variances = covariance.diagonal()
        total = float(variances.sum())
        if not total > 1e-10 * power:  # nothing but rounding
            return math.nan
        diagonal = float(np.square(variances / total).sum())
        squares = float(np.square(covariance / total).sum())
        size, seen = self.sample.dimension, self.sample.seen
        off = size * (size - 1) / (seen * (seen - 1)) if seen > 1 else 0.0
        on = size / seen
        return float((off * (1 - diagonal) + on * diagonal) / (off * (squares - diagonal) + on * diagonal))

    def mean_width(self) -> float:
        """Two-sided Gaussian mean width of the outputs; 0 if they are all equal."""
        size, seen = self.sample.dimension, self.sample.seen
        extent = float((self.highest - self.lowest).double().mean())
        return float(gaussian_norm_mean(seen)) * self.scale * extent * math.sqrt(size / seen)


class ActivityTally:
    """Which units of an activation's output are zero, or positive, for all samples at all positions.

    A unit is a channel of a convolution's output, a feature of a Linear's; ``axis`` says where units are. Of a bounded
    activation ``bounds`` are the ends of its range, and the values there are counted.
    """

    def __init__(self, axis: int, bounds: tuple[float, float] | None = None) -> None:
        self.axis, self.bounds = axis, bounds
        self.highest: Tensor | None = None
        self.lowest: Tensor | None = None
        self.values = self.at_ends = 0

    def add(self, output: Tensor) -> None:
        """Take one batch of outputs ``[samples, ...]`` into account."""
        high, low = output.amax(dim=0), output.amin(dim=0)
        self.highest = high if self.highest is None else torch.maximum(self.highest, high)
        self.lowest = low if self.lowest is None else torch.minimum(self.lowest, low)
        if self.bounds is not None:
            least, most = self.bounds
            margin = _END * (most - least)
            self.values += output.numel()
            self.at_ends += int(((output < least + margin) | (output > most - margin)).sum())

    def saturated_fraction(self) -> float:
        """Fraction of the values, over units and samples, at the ends of the range; NaN without bounds."""
        return self.at_ends / self.values if self.values else math.nan

    def fractions(self) -> dict[str, float]:
        """Fractions of units that are dead and always on, and of single elements (a unit at a position) likewise."""
        assert self.highest is not None
        assert self.lowest is not None
        dead = (self.highest == 0) & (self.lowest == 0)
        on = self.lowest > 0
        return {
            "dead_fraction": _whole_units(dead, self.axis),
            "always_on_fraction": _whole_units(on, self.axis),
            "dead_element_fraction": int(dead.sum()) / dead.numel(),
            "always_on_element_fraction": int(on.sum()) / on.numel(),
        }


def _whole_units(flags: Tensor, axis: int) -> float:
    """Fraction of the units along ``axis`` (of one sample) for which all positions are flagged."""
    if flags.dim() == 0:
        return float(flags)
    units: Any = flags.movedim(axis, 0).flatten(1) if flags.dim() > 1 else flags[:, None]
    return float(units.all(dim=1).double().mean())
