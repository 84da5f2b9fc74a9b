"""Angle and distance distortion of a random ReLU layer, drawn: the talk's ψ beside measured layers."""

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
    """Two unit vectors at this angle, in a random plane."""
    basis = np.linalg.qr(rng.standard_normal((inputs, 2)))[0].T
    return np.stack([basis[0], np.cos(theta) * basis[0] + np.sin(theta) * basis[1]])


def _images(
    degrees: Sequence[float], inputs: int, width: int, layers: int, seed: int
) -> list[tuple[float, np.ndarray]]:
    """Each angle with the images of such pairs, ``[layers, 2, width]``, at the scale that keeps norms."""
    check_count("layers", layers, least=2, hint="two are the least that give a standard error")
    rng = np.random.default_rng(seed)
    found = []
    for angle in degrees:
        images = [
            ReLUFeatures(width, random_state=seed + layer).fit_transform(_pair(np.radians(angle), inputs, rng))
            for layer in range(layers)
        ]
        found.append((float(angle), np.array(images)))
    return found


def angles(
    *,
    degrees: Sequence[float] = tuple(range(10, 181, 10)),
    widths: Sequence[int] = (100, 1000),
    inputs: int = 50,
    layers: int = 100,
    seed: int = 0,
) -> Curves:
    """Angle after a layer against the angle before, mean over layers of each width, and the limit cos θ + ψ(θ)."""
    rows = [
        Point("cos θ + ψ(θ)", float(angle), predicted=float(np.degrees(relu_angle(np.radians(angle)))))
        for angle in degrees
    ]
    for width in widths:
        for angle, images in _images(degrees, inputs, width, layers, seed):
            u, v = images[:, 0], images[:, 1]
            cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
            # The mean cosine, not the mean angle, is what the theorem speaks of.
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
    """Squared distance after a layer of the talk's scale N(0, 1/m), of unit vectors, against their angle."""
    rows = []
    for width in widths:
        for angle, images in _images(degrees, inputs, width, layers, seed):
            # The layer keeps norms (variance 2/m); the talk's variance 1/m halves squares.
            mean, error = mean_and_error(((images[:, 0] - images[:, 1]) ** 2).sum(axis=1) / 2)
            expected = float(squared_distance(1.0, 1.0, np.radians(angle)))
            rows.append(Point(f"width {width}", angle, float(mean), float(error), expected))
    return Curves(tuple(rows), "angle before (degrees)", "squared distance after")


def _follows(found: Curves) -> bool:
    """The widest layers follow the limit within four errors and a degree."""
    limit = {row.x: row.predicted for row in found.curve("cos θ + ψ(θ)")}
    widest = found.curve(found.kinds()[-1])
    return all(abs(row.measured - limit[row.x]) < 4 * row.standard_error + 1 for row in widest)


_SMALL = {"degrees": (20, 60, 90, 120, 180), "widths": (100, 400), "layers": 30}

REPRODUCTIONS = (
    Declared(
        id="talk-angle-distortion",
        source="Bronstein 2016, 'Angle distortion'",
        statement="The cosine after a random ReLU layer concentrates around cos θ + ψ(θ).",
        produce=angles,
        numbers=lambda found: {name: n for name, n in found.numbers().items() if "width" in name},
        holds=_follows,
        small=_SMALL,
    ),
    Declared(
        id="talk-distance-distortion",
        source="Bronstein 2016, 'Distance distortion'",
        statement="The squared distance after a random ReLU layer concentrates around ½‖u - v‖² less or plus "
        "‖u‖‖v‖ψ(θ): close points come closer. The talk prints a plus; the expectation has a minus.",
        produce=distances,
        numbers=Curves.numbers,
        holds=lambda found: found.agree(errors=4.5, bias=1e-6),
        small=_SMALL,
    ),
)
