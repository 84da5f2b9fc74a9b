r"""The exact probability that the norm stays inside its band in *every* layer, not only the last.

:math:`\log\|h^l\|^2/\|x\|^2` is a random walk with independent steps; the probability of leaving a band is carried from
layer to layer by integrating the density of the survivors against the distribution of the next step. Beyond the
sources, whose theorem 1 bounds this event by a union over layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from initscope.errors import InputError
from initscope.theory.norms.bounds import _widths
from initscope.theory.norms.deep import Probability, _layers, _log_moment
from initscope.theory.norms.law import active_units

__all__ = ["path_norm_failure"]

_TINY = -50.0
"""Logarithm of the mass that may be cut off the ends of a layer's distribution."""


def path_norm_failure(widths: Sequence[int], lows: Sequence[float], highs: Sequence[float]) -> Probability:
    r"""Return exact probability that some layer l has :math:`\|h^l\|^2/\|x\|^2` outside [``lows[l]``, ``highs[l]``].

    Beyond the sources; compare [ArpitBengio2019]_.

    He fan-out, one fixed input. With f_l the density of the log ratio on the event that all layers up to l are inside
    and g_l the density of one layer's step,

    .. math:: f_l(y) = \int f_{l-1}(x)\,g_l(y-x)\,dx, \qquad
              P = \sum_l \int f_{l-1}(x)\,P(\text{step } l \text{ leaves} \mid x)\,dx .

    Gauss–Legendre nodes on each band: g is analytic, so the rule converges exponentially; ``error`` is the change when
    the number of nodes grows by half. One layer is `relu_norm_failure`.

    >>> probability = path_norm_failure([200] * 3, [0.8, 0.7, 0.6], [1.2, 1.4, 1.7])
    >>> 0 < probability.value < 0.5 and probability.error < 1e-11
    True
    """
    widths = _widths(widths)
    if not len(widths) == len(lows) == len(highs):
        raise InputError(f"{len(widths)} widths, {len(lows)} lows and {len(highs)} highs: give one of each per layer")
    for low, high in zip(lows, highs):
        if not 0 < low < high < math.inf:
            raise InputError(f"low = {low} and high = {high} must satisfy 0 < low < high < inf in every layer")
    steps = {width: _Step(width) for width in set(widths)}
    bands = _bands(widths, lows, highs)
    coarse = _carry(widths, steps, lows, highs, bands, 1.0)
    fine = _carry(widths, steps, lows, highs, bands, 1.5)
    return Probability(min(fine, 1.0), abs(fine - coarse) + 1e-12 * fine)


def _bands(widths: Sequence[int], lows: Sequence[float], highs: Sequence[float]) -> list[tuple[float, float]]:
    """Return the interval of the survivors after each layer: the band, cut at Chernoff's bound e^_TINY."""
    bands = []
    for depth in range(1, len(widths) + 1):
        layers = _layers(widths[:depth], negligible=math.exp(_TINY))[0]
        pole = min(float(layer.halves[0]) for layer in layers)
        scale = 1 / math.sqrt(sum(5 / width for width in widths[:depth]))
        powers = scale * np.geomspace(0.05, 20, 12)
        reach = min((_log_moment(layers, power) - _TINY) / power for power in powers)
        below = [power for power in powers if power < pole] or [pole / 2]
        floor = max(-(_log_moment(layers, -power) - _TINY) / power for power in below)
        bands.append((max(math.log(lows[depth - 1]), floor), min(math.log(highs[depth - 1]), reach)))
    return bands


def _carry(
    widths: Sequence[int],
    steps: dict[int, _Step],
    lows: Sequence[float],
    highs: Sequence[float],
    bands: Sequence[tuple[float, float]],
    refinement: float,
) -> float:
    nodes, mass = np.zeros(1), np.ones(1)
    failure = 0.0
    for depth, width in enumerate(widths):
        step = steps[width]
        failure += float(mass @ step.leaves(math.log(lows[depth]) - nodes, math.log(highs[depth]) - nodes))
        if depth + 1 == len(widths):
            break
        low, high = bands[depth]
        if low >= high:
            break
        # Four nodes per standard deviation of the narrowest step resolve the density to rounding.
        finest = min(math.sqrt(5 / width), math.sqrt(5 / widths[depth + 1]), 1.0)
        count = math.ceil(refinement * (24 + 4 * (high - low) / finest))
        points, weights = _legendre(count)
        fresh = (low + high) / 2 + (high - low) / 2 * points
        density = step.density(fresh[:, None] - nodes[None, :]) @ mass
        nodes, mass = fresh, density * weights * (high - low) / 2
    return failure


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(count)


class _Step:
    """The distribution of the log ratio of one layer: its density by interpolation, its tails by the exact sum."""

    def __init__(self, width: int) -> None:
        from scipy.interpolate import make_interp_spline
        from scipy.special import gammaln

        counts, weights = active_units(width)
        kept = (weights > math.exp(_TINY)) & (counts > 0)
        self.halves, self.weights = counts[kept] / 2, weights[kept]
        self.atom = float(weights[0]) if counts[0] == 0 else 0.0
        self.half_width = width / 2
        (low, high) = _bands([width], [1e-300], [1e300])[0]
        grid = np.linspace(low, high, math.ceil((high - low) / min(math.sqrt(5 / width), 1.0) * 30))
        log_x = grid[:, None] + math.log(self.half_width / 2)
        log_density = self.halves * log_x - np.exp(log_x) - gammaln(self.halves)
        self.spline = make_interp_spline(grid, np.exp(log_density) @ self.weights, k=7)
        self.ends = (low, high)

    def density(self, y: np.ndarray) -> np.ndarray:
        inside = (y > self.ends[0]) & (y < self.ends[1])
        result = np.zeros_like(y)
        result[inside] = np.maximum(self.spline(y[inside]), 0.0)
        return result

    def leaves(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the probability that the step is below ``low`` (a dead layer included) or above ``high``."""
        from scipy.special import gammainc, gammaincc

        result = np.full(low.shape, self.atom)
        # Outside the ends of the distribution a tail is 0 to e^_TINY, and most nodes are that far from the edge of the
        # band.
        for tail, edge, reached in ((gammainc, low, low > self.ends[0]), (gammaincc, high, high < self.ends[1])):
            result[reached] += tail(self.halves, np.exp(edge[reached, None]) * self.half_width / 2) @ self.weights
        return result
