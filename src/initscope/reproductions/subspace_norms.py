"""Lemma 3 of [ArpitBengio2019]_: the width at which a layer preserves the norms of a whole subspace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.norms import gordon_width, lemma3_width

__all__ = ["REPRODUCTIONS", "extremes", "run"]


def extremes(weight: np.ndarray, *, steps: int = 60, restarts: int = 8, seed: int = 0) -> tuple[float, float]:
    """Search for the smallest and largest ‖ReLU(Wu)‖ over unit vectors u by power iterations on the active rows.

    >>> low, high = extremes(np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.0, -2.0]]))
    >>> round(low, 6), round(high, 6)
    (1.0, 2.0)
    """
    rng = np.random.default_rng(seed)
    bounds = []
    for sign in (-1.0, 1.0):
        best = -sign * math.inf
        for _ in range(restarts):
            u: Any = rng.standard_normal(weight.shape[1])
            for _ in range(steps):
                u /= np.linalg.norm(u)
                part = weight[weight @ u > 0]
                gram = part.T @ part
                size = float(np.linalg.norm(gram, 2))
                u = gram @ u if sign > 0 else (1.01 * size * u - gram @ u)
            u /= np.linalg.norm(u)
            value = float(np.linalg.norm(np.maximum(weight @ u, 0)))
            best = max(best, value) if sign > 0 else min(best, value)
        bounds.append(best)
    return bounds[0], bounds[1]


def run(
    *, dims: Sequence[int] = (2, 5, 10, 20), eps: float = 0.3, delta: float = 0.05, draws: int = 10, seed: int = 0
) -> Curves:
    """Compute the largest distortion of norms over a d-dimensional subspace at Gordon's width for ``eps``.

    By rotation invariance, a layer on a subspace of dimension d is a layer on R^d.
    """
    check_count("draws", draws, least=2)
    rng = np.random.default_rng(seed)
    rows = []
    for dim in dims:
        width = gordon_width(math.sqrt(dim), eps, delta, squared=False)
        worst = []
        for draw in range(draws):
            low, high = extremes(rng.standard_normal((width, dim)) * np.sqrt(2 / width), seed=seed + draw)
            worst.append(max(1 - low, high - 1))
        mean, error = mean_and_error(worst)
        rows.append(Point("distortion at Gordon's width", dim, float(mean), float(error)))
        rows.append(Point("promised", dim, predicted=eps))
        rows.append(Point("width, Gordon, / 1000", dim, predicted=width / 1000))
        rows.append(Point("width, lemma 3, / 1000", dim, predicted=lemma3_width(dim, eps, delta, squared=False) / 1000))
    return Curves(tuple(rows), "dimension of the subspace", "distortion of norms; width / 1000", "y")


REPRODUCTIONS = (
    Declared(
        id="norms-lemma-3",
        source="Arpit, Bengio 2019, lemma 3",
        statement="A wide enough layer preserves the norms of a whole subspace; "
        "the width of the lemma is far too large.",
        produce=run,
        numbers=lambda result: {
            name: Number(n.value, n.error) for name, n in result.numbers().items() if "promised" not in name
        },
        holds=lambda result: all(
            row.measured < limit.predicted
            for row, limit in zip(result.curve("distortion at Gordon's width"), result.curve("promised"))
            if limit.predicted is not None
        ),
        small={"dims": (2, 5), "draws": 3},
    ),
)
