"""Angle and distance distortion of a random ReLU layer: the function ψ of the talk and measured layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from initscope.embed import ReLUFeatures
from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared
from initscope.theory.angles import relu_angle, squared_distance

__all__ = ["REPRODUCTIONS", "angles", "distances"]


def _pair(theta: float, inputs: int, rng: np.random.Generator) -> np.ndarray:
    """Return two unit vectors at this angle in a random plane."""
    basis = np.linalg.qr(rng.standard_normal((inputs, 2)))[0].T
    return np.stack([basis[0], np.cos(theta) * basis[0] + np.sin(theta) * basis[1]])


def _images(
    degrees: Sequence[float], inputs: int, width: int, layers: int, seed: int
) -> list[tuple[float, np.ndarray]]:
    """Return each angle with the outputs of random layers for such a pair, ``[layers, 2, width]``, norms preserved."""
    check_count("layers", layers, least=2, hint="a standard error needs at least two")
    rng = np.random.default_rng(seed)
    result = []
    for angle in degrees:
        images = [
            ReLUFeatures(width, random_state=seed + layer).fit_transform(_pair(np.radians(angle), inputs, rng))
            for layer in range(layers)
        ]
        result.append((float(angle), np.array(images)))
    return result


def angles(
    *,
    degrees: Sequence[float] = tuple(range(10, 181, 10)),
    widths: Sequence[int] = (100, 1000),
    inputs: int = 50,
    layers: int = 100,
    seed: int = 0,
) -> Curves:
    """Return the mean angle after a layer against the angle at the input, by width, and the limit cos θ + ψ(θ)."""
    rows = [
        Point("cos θ + ψ(θ)", float(angle), predicted=float(np.degrees(relu_angle(np.radians(angle)))))
        for angle in degrees
    ]
    for width in widths:
        for angle, images in _images(degrees, inputs, width, layers, seed):
            u, v = images[:, 0], images[:, 1]
            cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
            # The theorem is about the mean cosine, not the mean angle.
            mean, error = map(float, mean_and_error(cosines))
            slope = float(np.degrees(1 / np.sqrt(max(1 - mean**2, 1e-6))))
            rows.append(
                Point(f"width {width}", angle, float(np.degrees(np.arccos(min(mean, 1)))), float(error * slope))
            )
    return Curves(tuple(rows), "angle before (degrees)", "angle after (degrees)")


def distances(
    *,
    degrees: Sequence[float] = tuple(range(10, 181, 10)),
    widths: Sequence[int] = (100, 1000),
    inputs: int = 50,
    layers: int = 100,
    seed: int = 0,
) -> Curves:
    """Return squared distances of unit vectors after a layer with weights N(0, 1/m) against their angle."""
    rows = []
    for width in widths:
        for angle, images in _images(degrees, inputs, width, layers, seed):
            # The layer preserves norms (variance 2/m); the variance 1/m of the talk halves squares.
            mean, error = mean_and_error(((images[:, 0] - images[:, 1]) ** 2).sum(axis=1) / 2)
            expected = float(squared_distance(1.0, 1.0, np.radians(angle)))
            rows.append(Point(f"width {width}", angle, float(mean), float(error), expected))
    for angle in degrees:
        # With a minus the formula is ½‖u - v‖² - ψ(θ), so the printed plus gives ‖u - v‖² minus the former.
        expected = float(squared_distance(1.0, 1.0, np.radians(angle)))
        printed = 2 - 2 * float(np.cos(np.radians(angle))) - expected
        rows.append(Point("as printed in the talk, with a plus", float(angle), predicted=printed))
    return Curves(tuple(rows), "angle before (degrees)", "squared distance after")


def _follows(result: Curves) -> bool:
    """Return whether the widest layers agree with the limit within four standard errors plus one degree."""
    limit = {row.x: row.predicted for row in result.curve("cos θ + ψ(θ)")}
    widest = result.curve(result.kinds()[-1])
    return all(abs(row.measured - limit[row.x]) < 4 * row.standard_error + 1 for row in widest)


_SMALL = {"degrees": (20, 60, 90, 120, 180), "widths": (100, 400), "layers": 30}

REPRODUCTIONS = (
    Declared(
        id="talk-angle-distortion",
        source="Bronstein 2016, 'Angle distortion'",
        statement="The cosine after a random ReLU layer concentrates around cos θ + ψ(θ).",
        produce=angles,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "width" in name},
        holds=_follows,
        small=_SMALL,
    ),
    Declared(
        id="talk-distance-distortion",
        source="Bronstein 2016, 'Distance distortion'",
        statement="The squared distance after a random ReLU layer concentrates around ½‖u - v‖² less or plus "
        "‖u‖‖v‖ψ(θ): close points come closer. The talk prints a plus; the expectation has a minus.",
        produce=distances,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "width" in name},
        holds=lambda result: result.agree(errors=4.5, bias=1e-6),
        small=_SMALL,
    ),
)
