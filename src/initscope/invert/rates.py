"""Error of the linear estimate against width and depth, measured and compared with theory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.palette import line_color
from initscope._utils.randomness import generator
from initscope.errors import check_count
from initscope.results import Result, make_axes
from initscope.theory.inversion import deep_linear_error, linear_estimate, linear_estimate_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ErrorGrowth", "ErrorRate", "GrowthPoint", "RatePoint", "error_growth", "error_rate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RatePoint(Result):
    """Root mean square relative error of the linear estimate at one width, with its standard error."""

    dimension: int
    mean_width: float
    outputs: int
    error: float
    standard_error: float
    predicted: float


@dataclass(frozen=True)
class ErrorRate(Result):
    """Error of the linear estimate, projected on subspaces of several dimensions, against the number of outputs."""

    inputs: int
    draws: int
    points: tuple[RatePoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point."""
        return [point.to_dict() for point in self.points]

    def slopes(self) -> dict[int, float]:
        """Return the slope of log error against log outputs, by dimension; theory predicts -1/2."""
        return {
            dimension: _slope([(p.outputs, p.error) for p in self.points if p.dimension == dimension])
            for dimension in dict.fromkeys(point.dimension for point in self.points)
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors as dots, theory as lines."""
        ax = make_axes(ax, figsize=(5.2, 3.6))
        for dimension, slope in self.slopes().items():
            mine = [point for point in self.points if point.dimension == dimension]
            widths = [point.outputs for point in mine]
            (line,) = ax.loglog(widths, [point.predicted for point in mine], lw=1)
            label = f"dimension {dimension}: slope {slope:.3f}"
            bars = [2 * point.standard_error for point in mine]
            ax.errorbar(widths, [p.error for p in mine], bars, fmt="o", ms=4, color=line.get_color(), label=label)
        outputs = sorted({point.outputs for point in self.points})
        ax.set_xticks(outputs, [str(count) for count in outputs])
        ax.set_xticks([], minor=True)
        ax.set(xlabel="outputs m", ylabel="relative error", title="Linear estimate: dots measured, lines √((2d+3)/m)")
        ax.title.set_fontsize(10)
        ax.legend(fontsize=8)
        return ax


def _slope(points: Sequence[tuple[float, float]]) -> float:
    across, up = np.log(np.array(points)).T
    return float(np.polyfit(across, up, 1)[0])


def error_rate(
    dimensions: Sequence[int] = (4, 16, 64),
    outputs: Sequence[int] = (256, 512, 1024, 2048, 4096),
    *,
    inputs: int = 128,
    draws: int = 40,
    seed: int = 0,
) -> ErrorRate:
    """Return the error of the linear estimate of unit inputs of a ReLU layer, projected on a subspace, against m and d.

    Source: [Bronstein2016]_, 'Stable embedding' II: the error is O(ω/√m), as in [PlanVershynin2016]_.

    Parameters
    ----------
    dimensions : sequence of int
        Dimensions d of the subspace.
    outputs : sequence of int
        Numbers m of outputs.
    inputs : int
        Dimensions of the inputs.
    draws : int
        Layers and inputs to average over.
    seed : int
        Seed of both.

    Returns
    -------
    ErrorRate
        The error and its standard error for every d and m.
    """
    from initscope.theory.mean_width import Ball

    n, draws = check_count("inputs", inputs), check_count("draws", draws, least=2)
    rng = generator(seed, "error rate")
    points = []
    for d in dimensions:
        check_count("dimension", d, most=n)
        for m in outputs:
            squares = []
            for _ in range(draws):
                x = np.zeros(n)
                x[:d] = rng.standard_normal(d)
                x /= np.linalg.norm(x)
                weight = rng.standard_normal((check_count("outputs", m), n))
                # The weights are rotation invariant, so the first d axes represent any subspace.
                estimate = linear_estimate(weight, np.maximum(weight @ x, 0), sd=1.0)[:d]
                squares.append(float(((estimate - x[:d]) ** 2).sum()))
            mean, spread = float(np.mean(squares)), float(np.std(squares, ddof=1)) / math.sqrt(draws)
            predicted = math.sqrt(linear_estimate_error(m, d))
            points.append(RatePoint(d, Ball(d).width(), m, math.sqrt(mean), spread / (2 * math.sqrt(mean)), predicted))
    return ErrorRate(n, draws, tuple(points))


@dataclass(frozen=True)
class GrowthPoint(Result):
    """Relative error after inverting ``depth`` layers by the linear estimate.

    ``plain``: without projections (root mean square; ``plain_predicted`` is the value of theory). ``projected``: each
    intermediate estimate is projected on its set (median, with quartiles).
    """

    depth: int
    plain: float
    plain_standard_error: float
    plain_predicted: float
    projected: float
    projected_low: float
    projected_high: float


@dataclass(frozen=True)
class ErrorGrowth(Result):
    """Error against depth, see `error_growth`."""

    width: int
    dimension: int
    draws: int
    points: tuple[GrowthPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per depth."""
        return [point.to_dict() for point in self.points]

    def exponent(self) -> float:
        """Return the power of the depth with which the projected error grows; the theorem gives at most 1."""
        return _slope([(point.depth, point.projected) for point in self.points])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both errors, theory, and N times the first layer's."""
        ax = make_axes(ax, figsize=(5.2, 3.6))
        depths = [point.depth for point in self.points]
        first = self.points[0].projected
        ax.semilogy(
            depths, [point.plain for point in self.points], "o", color=line_color(1), ms=4, label="no projection"
        )
        ax.semilogy(
            depths, [point.plain_predicted for point in self.points], color=line_color(1), lw=1, label="its theory"
        )
        bars = np.array([[p.projected - p.projected_low, p.projected_high - p.projected] for p in self.points]).T
        ax.errorbar(
            depths, [p.projected for p in self.points], bars, fmt="o", ms=4, color=line_color(0), label="projected"
        )
        ax.semilogy(
            depths, [first * depth for depth in depths], "--", color=line_color(0), lw=1, label="N × first layer"
        )
        ax.set_xticks(depths)
        ax.set(xlabel="layers N", ylabel="relative error", title=f"Width {self.width}, dimension {self.dimension}")
        ax.title.set_fontsize(10)
        ax.legend(fontsize=8)
        return ax


def error_growth(
    depth: int = 6, *, width: int = 600, dimension: int = 5, draws: int = 20, seed: int = 0
) -> ErrorGrowth:
    """Invert 1, 2, … layers of a random ReLU network by the linear estimate, with and without projections.

    Source: [Bronstein2016]_: after N layers the error grows as O(Nδ³).

    Inputs are unit vectors of a space of ``dimension`` dimensions, so that layer l sees a cone of that dimension in its
    ``width`` dimensions; the projection on it is found by Gauss–Newton steps in the input.

    Parameters
    ----------
    depth : int
        Largest number of layers.
    width : int
        Units of each layer.
    dimension : int
        Dimensions of the space of the inputs.
    draws : int
        Networks and inputs to average over.
    seed : int
        Seed of both.

    Returns
    -------
    ErrorGrowth
        The error after each number of layers.
    """
    depth, draws = check_count("depth", depth), check_count("draws", draws, least=2)
    m, d = check_count("width", width), check_count("dimension", dimension)
    rng = generator(seed, "error growth")
    plain, projected = np.zeros((draws, depth)), np.zeros((draws, depth))
    for draw in range(draws):
        sizes = [d, *[m] * depth]
        weights = [rng.standard_normal((b, a)) * math.sqrt(2 / b) for a, b in pairwise(sizes)]
        x = rng.standard_normal(d)
        x /= np.linalg.norm(x)
        values = x
        for count in range(1, depth + 1):
            values = np.maximum(weights[count - 1] @ values, 0)
            plain[draw, count - 1] = np.sum((_transposes(weights[:count], values) - x) ** 2)
            projected[draw, count - 1] = np.linalg.norm(_projections(weights[:count], values) - x)
    predicted = np.sqrt(deep_linear_error(d, [m] * depth))
    points = []
    for index in range(depth):
        mean, spread = plain[:, index].mean(), plain[:, index].std(ddof=1) / math.sqrt(draws)
        low, middle, high = np.quantile(projected[:, index], [0.25, 0.5, 0.75])
        points.append(GrowthPoint(index + 1, math.sqrt(mean), float(spread / (2 * math.sqrt(mean))),
                                  float(predicted[index]), float(middle), float(low), float(high)))  # fmt: skip
    return ErrorGrowth(m, d, draws, tuple(points))


def _transposes(weights: Sequence[Floats], values: Floats) -> Floats:
    for weight in reversed(weights):
        values = weight.T @ values
    return values


def _projections(weights: Sequence[Floats], values: Floats) -> Floats:
    """Invert with a projection after every layer on the outputs that the layers before it can produce."""
    for layer in range(len(weights), 0, -1):
        values = weights[layer - 1].T @ values
        if layer > 1:
            values = _nearest_image(weights[: layer - 1], values)
    return values


def _nearest_image(weights: Sequence[Floats], target: Floats, steps: int = 20) -> Floats:
    """Return the network's output nearest to ``target``, by Gauss–Newton steps from the linear estimate."""
    x = _transposes(weights, target)
    image, slope = _with_jacobian(weights, x)
    for _ in range(steps):
        change = np.linalg.lstsq(slope, target - image, rcond=None)[0]
        here, scale = float(np.sum((target - image) ** 2)), 1.0
        while scale > 1e-3:
            following, slope_there = _with_jacobian(weights, x + scale * change)
            if float(np.sum((target - following) ** 2)) < here:
                break
            scale /= 2
        else:
            break
        x, image, slope = x + scale * change, following, slope_there
        if scale * np.linalg.norm(change) < 1e-9:
            break
    return image


def _with_jacobian(weights: Sequence[Floats], x: Floats) -> tuple[Floats, Floats]:
    jacobian = np.eye(len(x))
    for weight in weights:
        z = weight @ x
        x, jacobian = np.maximum(z, 0), (weight @ jacobian) * (z > 0)[:, None]
    return x, jacobian
