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

import array_api_compat.torch as torch_namespace
import torch
from torch import Tensor

from initscope._random import generator
from initscope.measurement.width import Tally, random_directions

__all__ = ["SAMPLED_UNITS", "ActivityTally", "SpreadTally"]

SAMPLED_UNITS = 256
"""Units of a layer on which its effective rank and mean width rest; layers up to this size are seen whole."""
_DIRECTIONS = 64


class SpreadTally:
    """Covariance and extent of a layer's outputs, seen through a random choice of its units."""

    def __init__(self, first: Tensor, seed: int) -> None:
        self.dimension = first.shape[1]
        self.seen = min(self.dimension, SAMPLED_UNITS)
        self.index: Tensor | None = None
        if self.seen < self.dimension:
            chosen = generator(seed, "units of a layer").choice(self.dimension, self.seen, replace=False)
            chosen.sort()
            self.index = torch.as_tensor(chosen, device=first.device)
        start = self._view(first)
        self.centre = start.mean(dim=0)
        self.count = 0
        self.total = torch.zeros(self.seen, dtype=torch.float64)
        self.second = torch.zeros(self.seen, self.seen, device=first.device)
        directions = torch.as_tensor(random_directions(self.seen, _DIRECTIONS, seed).T, dtype=torch.float32)
        self.width = Tally(torch_namespace, directions.to(first.device), self.centre)

    def _view(self, flat: Tensor) -> Tensor:
        values = flat if self.index is None else flat.index_select(1, self.index)
        return values.float()

    def add(self, flat: Tensor) -> None:
        """Take the outputs ``[samples, units]`` of one batch into account."""
        values = self._view(flat)
        self.width.add(values)
        centred = values - self.centre
        self.count += len(flat)
        self.total += centred.sum(dim=0).cpu().double()
        self.second.addmm_(centred.T, centred)

    def effective_rank(self) -> float:
        """Participation ratio of the covariance; NaN for outputs that do not vary."""
        mean = self.total / self.count
        covariance = self.second.cpu().double() / self.count - torch.outer(mean, mean)
        size, seen = self.dimension, self.seen
        variances = covariance.diagonal().clamp_min(0)
        diagonal = variances.square().sum()
        pairs = size * (size - 1) / (seen * (seen - 1)) if seen > 1 else 0.0
        numerator = pairs * (variances.sum().square() - diagonal) + size / seen * diagonal
        denominator = pairs * (covariance.square().sum() - diagonal) + size / seen * diagonal
        floor = 1e-10 * float(self.second.cpu().double().diagonal().sum() / self.count + self.centre.square().sum())
        return float(numerator / denominator) if float(variances.sum()) > floor else math.nan

    def mean_width(self) -> float:
        """Two-sided Gaussian mean width of the outputs; 0 if they are all equal."""
        from initscope.errors import InputError

        try:
            value = self.width.result(self.seen).value
        except InputError:
            return 0.0 if bool(torch.isfinite(self.centre).all()) else math.nan
        return value * math.sqrt(self.dimension / self.seen)


class ActivityTally:
    """Which units of an activation's output are zero, or positive, for all samples at all positions.

    A unit is a channel of a convolution's output, a feature of a Linear's; ``axis`` says where units are.
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.highest: Tensor | None = None
        self.lowest: Tensor | None = None

    def add(self, output: Tensor) -> None:
        """Take one batch of outputs ``[samples, ...]`` into account."""
        high, low = output.amax(dim=0), output.amin(dim=0)
        self.highest = high if self.highest is None else torch.maximum(self.highest, high)
        self.lowest = low if self.lowest is None else torch.minimum(self.lowest, low)

    def fractions(self) -> dict[str, float]:
        """Fractions of units that are dead and always on, and of single elements (a unit at a position) likewise."""
        assert self.highest is not None
        assert self.lowest is not None
        dead = (self.highest == 0) & (self.lowest == 0)
        on = self.lowest > 0
        return {
            "dead_fraction": _whole_units(dead, self.axis),
            "always_on_fraction": _whole_units(on, self.axis),
            "dead_element_fraction": float(dead.double().mean()),
            "always_on_element_fraction": float(on.double().mean()),
        }


def _whole_units(flags: Tensor, axis: int) -> float:
    """Fraction of the units along ``axis`` (of one sample) for which all positions are flagged."""
    if flags.dim() == 0:
        return float(flags)
    units: Any = flags.movedim(axis, 0).flatten(1) if flags.dim() > 1 else flags[:, None]
    return float(units.all(dim=1).double().mean())
