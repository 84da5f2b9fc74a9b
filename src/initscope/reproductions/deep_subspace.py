"""Theorem 2 of [ArpitBengio2019]_: norms of a whole subspace in all layers, and the step of the proof that fails."""

from __future__ import annotations

import math

import numpy as np

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared
from initscope.theory.norms import theorem2_width

__all__ = ["REPRODUCTIONS", "run"]

_NORMS, _PROMISED, _SPAN, _CLAIMED = (
    "largest distortion of norms, per layer",
    "promised: ε",
    "dimension of the span of the image",
    "claimed in the proof: 2",
)
_VISIBLE = 0.01
"""Singular values of the image above this share of the largest count as a dimension."""


def run(
    *, eps: float = 0.7, delta: float = 0.05, depth: int = 5, points: int = 600, draws: int = 5, seed: int = 0
) -> Curves:
    """Map a circle, all directions of a plane, through layers of the width of the theorem.

    By rotation invariance, the first layer maps the plane like a layer with two inputs. The distortion is that of the
    l-th root of the ratio of norms, because the theorem allows (1 ± ε)^l.
    """
    check_count("draws", draws, least=2)
    width = theorem2_width(2, eps, delta, depth=depth, squared=False)
    angles = 2 * np.pi * np.arange(points) / points
    norms, spans = np.empty((depth, draws)), np.empty((depth, draws))
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        image = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
        for layer in range(depth):
            weight = rng.standard_normal((image.shape[1], width), dtype=np.float32) * math.sqrt(2 / width)
            image = np.maximum(image @ weight, 0)
            roots = np.linalg.norm(image, axis=1) ** (1 / (layer + 1))
            norms[layer, draw] = np.abs(roots - 1).max()
            sizes = np.sqrt(np.maximum(np.linalg.eigvalsh((image @ image.T).astype(float)), 0))
            spans[layer, draw] = np.count_nonzero(sizes > _VISIBLE * sizes[-1])
    rows = []
    for name, values, expected, compared in ((_NORMS, norms, eps, _PROMISED), (_SPAN, spans, 2, _CLAIMED)):
        means, errors = mean_and_error(values)
        rows += [Point(name, layer, float(m), float(e)) for layer, (m, e) in enumerate(zip(means, errors), 1)]
        rows += [Point(compared, layer, predicted=expected) for layer in range(1, depth + 1)]
    return Curves(tuple(rows), "layer", f"distortion; dimension (width {width})", "y")


def _holds(result: Curves) -> bool:
    """Return whether norms are within the promise in all layers, where the image has more dimensions than claimed."""
    within = all(row.measured < limit.predicted for row, limit in _pairs(result, _NORMS, _PROMISED))
    return within and all(row.measured > 2 * limit.predicted for row, limit in _pairs(result, _SPAN, _CLAIMED))


def _pairs(result: Curves, first: str, second: str) -> list[tuple[Point, Point]]:
    return list(zip(result.curve(first), result.curve(second)))


REPRODUCTIONS = (
    Declared(
        id="norms-theorem-2",
        source="Arpit, Bengio 2019, theorem 2",
        statement="Layers of the width of the theorem preserve the norms of a whole plane up to (1 ± ε)^l. The image "
        "of the plane is not in a plane, as the proof says: it spans more dimensions.",
        produce=run,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if name.startswith((_NORMS, _SPAN))},
        holds=_holds,
        small={"eps": 0.9, "depth": 3, "points": 200, "draws": 2},
    ),
)
