"""Geometry of the image of random ReLU networks, with formulas: lengths, volumes, bends, turning angles and reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point, panels
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result
from initscope.theory.trajectories import (
    angular_length_factor,
    expected_breakpoints,
    length_factor,
    scale_reach,
    turning_angle_tail,
    volume_moment,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "ImageGeometry", "run"]

Floats = npt.NDArray[np.float64]
_TURNS = (0.05, 0.1, 0.2, 0.4, 0.8)
_ANGLES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0)
_WIDE = 2000


@dataclass(frozen=True)
class ImageGeometry(Result):
    """Result of `run`: four comparisons of measured values with formulas."""

    factors: Curves
    breakpoints: Curves
    turns: Curves
    reach: Curves

    @property
    def panels(self) -> tuple[Curves, ...]:
        """Return the four comparisons."""
        return self.factors, self.breakpoints, self.turns, self.reach

    def table(self) -> list[dict[str, Any]]:
        """Return the points of all comparisons."""
        return [row for panel in self.panels for row in panel.table()]

    def numbers(self) -> dict[str, Number]:
        """Return the measured values by name."""
        return {name: number for panel in self.panels for name, number in panel.numbers().items()}

    def figure(self) -> Figure:
        """Plot the four comparisons."""
        return panels(*(panel.plot for panel in self.panels))


def run(
    width: int = 20, *, depths: Sequence[int] = (1, 2, 4, 8, 16), draws: int = 2000, points: int = 600, seed: int = 0
) -> ImageGeometry:
    """Measure images of half a circle around 0 in random networks with two inputs, and compare them with the formulas.

    Lengths and breakpoints are those of a polygon through ``points`` images. The reach at a scale belongs to infinitely
    wide layers and is measured in ten networks of 2,000 units for each depth. [Maillard2022]_, outlook: 'Geometry of
    the image of the network?'.

    Parameters
    ----------
    width : int
        Units of each layer.
    depths : sequence of int
        Numbers of layers at which the images are measured.
    draws : int
        Networks.
    points : int
        Points of the curve.
    seed : int
        Seed of the weights.
    """
    width, draws = check_count("width", width, least=2), check_count("draws", draws, least=2)
    rng = np.random.default_rng(seed)
    angles = np.linspace(0, math.pi, points)
    measured: dict[tuple[str, int], list[float]] = {}
    for _ in range(draws):
        hidden, tangent = np.stack([np.cos(angles), np.sin(angles)]), np.eye(2)
        breaks = 0
        for depth in range(1, max(depths) + 1):
            weight = rng.standard_normal((width, len(hidden))) * math.sqrt(2 / width)
            before = weight @ hidden
            breaks += int((before[:, 1:] * before[:, :-1] < 0).sum())
            hidden = np.maximum(before, 0)
            tangent = (before[:, :1] > 0) * (weight @ tangent)
            if depth in depths:
                for name, value in _shape(hidden, tangent).items():
                    measured.setdefault((name, depth), []).append(value)
                measured.setdefault(("breakpoints", depth), []).append(breaks)
    formulas: dict[str, Callable[[int], float]] = {
        "length": lambda depth: length_factor([width] * depth),
        "angular length": lambda depth: angular_length_factor([width] * depth),
        "area of a small disk": lambda depth: volume_moment([width] * depth, 2),
    }
    factors, bends = [], []
    for depth in depths:
        for name, formula in formulas.items():
            mean, error = mean_and_error(measured[name, depth])
            factors.append(Point(name, depth, float(mean), float(error), formula(depth)))
        mean, error = mean_and_error(measured["breakpoints", depth])
        expected = expected_breakpoints([width] * depth, math.pi)
        bends.append(Point(f"{width} units in each layer", depth, float(mean), float(error), expected))
    return ImageGeometry(
        Curves(tuple(factors), "layers", "image / input, mean", "x"),
        Curves(tuple(bends), "layers", "breakpoints on half a circle, mean", "xy"),
        _turns((width, 10 * width), max(2, draws // 4), rng),
        _reach((1, 2, 4), rng),
    )


def _shape(hidden: Floats, tangent: Floats) -> dict[str, float]:
    """Return length and angular length of a polygon through images, over π, and the area factor of a Jacobian."""
    steps = np.linalg.norm(np.diff(hidden, axis=1), axis=0)
    sizes = np.linalg.norm(hidden, axis=0)
    units = hidden / np.where(sizes > 0, sizes, 1.0)
    turned = 2 * np.arcsin(np.minimum(np.linalg.norm(np.diff(units, axis=1), axis=0) / 2, 1.0))
    turned[(sizes[1:] == 0) | (sizes[:-1] == 0)] = 0.0
    area = math.sqrt(max(0.0, float(np.linalg.det(tangent.T @ tangent))))
    return {"length": steps.sum() / math.pi, "angular length": turned.sum() / math.pi, "area of a small disk": area}


def _turns(widths: Sequence[int], draws: int, rng: np.random.Generator) -> Curves:
    """Compute the shares of bends of the image of a circle that turn by more than an angle, after one layer."""
    rows = []
    for width in widths:
        shares = np.empty((len(_TURNS), draws))
        for draw in range(draws):
            weight = rng.standard_normal((width, 2))
            zeros = np.stack([-weight[:, 1], weight[:, 0]]) / np.linalg.norm(weight, axis=1)
            speeds = weight @ np.stack([-zeros[1], zeros[0]])
            products = weight @ zeros
            np.fill_diagonal(products, 0.0)
            others = np.linalg.norm(np.where(products > 0, speeds, 0.0), axis=0)
            turns = np.arctan2(np.abs(np.diag(speeds)), others)
            shares[:, draw] = [(turns > turn).mean() for turn in _TURNS]
        means, errors = mean_and_error(shares)
        for turn, mean, error in zip(_TURNS, means, errors, strict=True):
            expected = float(turning_angle_tail(turn, width))
            rows.append(Point(f"{width} units", turn, float(mean), float(error), expected))
    return Curves(tuple(rows), "turning angle", "share of bends that turn by more", "x")


def _reach(depths: Sequence[int], rng: np.random.Generator) -> Curves:
    """Compute the reach that pairs at an angle show, in wide networks, with tangents from the Jacobian."""
    at = np.array([0.0, *_ANGLES])
    values = np.empty((len(depths), len(_ANGLES), 10))
    for draw in range(values.shape[2]):
        hidden, tangent = np.stack([np.cos(at), np.sin(at)]), np.array([0.0, 1.0])
        for depth in range(1, max(depths) + 1):
            weight = rng.standard_normal((_WIDE, len(hidden))) * math.sqrt(2 / _WIDE)
            before = weight @ hidden
            hidden, tangent = np.maximum(before, 0), (before[:, 0] > 0) * (weight @ tangent)
            if depth in depths:
                chords = hidden[:, 1:] - hidden[:, :1]
                direction = tangent / np.linalg.norm(tangent)
                distances = np.linalg.norm(chords - np.outer(direction, direction @ chords), axis=0)
                values[depths.index(depth), :, draw] = (chords**2).sum(axis=0) / (2 * distances)
    means, errors = mean_and_error(values)
    rows = [
        Point(
            f"{depth} layers" if depth > 1 else "1 layer",
            angle,
            float(means[i, j]),
            float(errors[i, j]),
            scale_reach(angle, depth),
        )
        for i, depth in enumerate(depths)
        for j, angle in enumerate(_ANGLES)
    ]
    return Curves(tuple(rows), "angle θ between two inputs", "reach r(θ), radius 1 before", "xy")


def _holds(result: ImageGeometry) -> bool:
    """Return whether values are within four standard errors, plus .5 % for polygons and 3 % for finite width."""
    exact = (result.factors, result.turns)
    tight = all(panel.agree(errors=4.0, bias=0.005) for panel in exact)
    most = max(point.predicted for point in result.breakpoints.rows)
    gaps = [(abs(row.measured - row.predicted), row) for row in result.reach.rows]
    wide = all(gap < 4 * row.standard_error + 0.03 * row.predicted for gap, row in gaps)
    return tight and result.breakpoints.agree(errors=4.0, bias=0.005 * most) and wide


REPRODUCTIONS = (
    Declared(
        id="injectivity-image-geometry",
        source="Maillard et al. 2022, outlook: 'Geometry of the image of the network?'",
        statement="Random ReLU networks preserve the expected length of curves up to 5/(8m) for each layer of m units, "
        "and their angular length almost exactly. The number of bends is linear in the number of units, and the reach "
        "of the image is 0.",
        produce=run,
        numbers=ImageGeometry.numbers,
        holds=_holds,
        small={"depths": (1, 4), "draws": 100},
    ),
)
