"""Injectivity of compositions: how often two and three random layers lead different inputs to one output.

With two inputs a chain of layers is linear on sectors of the plane, so that collisions are decided exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from initscope import injectivity
from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import deep_expansivity, probability, union_threshold

__all__ = ["REPRODUCTIONS", "mirrored", "run", "sufficient"]


def run(
    depths: Sequence[int] = (1, 2, 3),
    alphas: Sequence[float] = (3, 4, 5, 6, 8, 10),
    *,
    draws: int = 400,
    seed: int = 0,
) -> Curves:
    """Share of compositions of layers of α·2 units each, on two inputs, without a collision; one layer: exactly.

    Marks: 2 L log L, which [Maillard2022]_ says is enough for large L.
    """
    rng = np.random.default_rng(seed)
    rows = []
    check_count("draws", draws, least=2)
    for depth in depths:
        for alpha in alphas:
            m = round(2 * alpha)
            sizes = [2] + [m] * depth
            kept = [
                injectivity.deep_collision([rng.standard_normal((after, before)) for before, after in pairwise(sizes)])
                is None
                for _ in range(draws)
            ]
            share, smoothed = sum(kept) / draws, (sum(kept) + 1) / (draws + 2)  # an error of none is never zero
            error = math.sqrt(smoothed * (1 - smoothed) / draws)
            expected = probability(m, 2).value if depth == 1 else math.nan
            rows.append(Point(f"{depth} layers" if depth > 1 else "1 layer", m / 2, share, error, expected))
    marks = {f"2 L log L, L = {depth}": 2 * depth * math.log(depth) for depth in depths if depth > 1}
    return Curves(tuple(rows), "width of each layer / inputs", "share without a collision", marks=marks)


def sufficient(depths: Sequence[int] = (3, 4, 6, 8, 12, 16, 24, 32)) -> Curves:
    """The expansivity that suffices for depth L: 2 L log L, beside that of one layer."""
    rows = [Point("2 L log L", depth, predicted=deep_expansivity(depth)) for depth in depths]
    rows += [Point("one layer, union bound", depth, predicted=union_threshold().value) for depth in depths]
    return Curves(tuple(rows), "layers L", "width / inputs that suffices")


def mirrored(sizes: Sequence[int] = (2, 4, 8, 16, 32), *, draws: int = 10, seed: int = 0) -> Curves:
    """Layers [V; -V] of α = 2 beside Gaussian ones of m = 2n and 3n - 2 rows: the share proved injective."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in sizes:
        for kind in ("[V; -V], m = 2n", "Gaussian, m = 2n", "Gaussian, m = 3n - 2"):
            found = []
            for _ in range(draws):
                top = rng.standard_normal((n, n))
                weight = (
                    np.vstack([top, -top])
                    if "V" in kind
                    else rng.standard_normal((2 * n if "2n" in kind else 3 * n - 2, n))
                )
                found.append(injectivity.decide(weight, budget=5).injective is True)
            rows.append(Point(kind, n, float(np.mean(found))))
    return Curves(tuple(rows), "inputs n", "share proved injective", "x")


def _deeper_is_rarer(found: Curves) -> bool:
    """One layer agrees with the exact probability; each further layer has no more injective draws, up to errors."""
    curves = [found.curve(kind) for kind in found.kinds()]
    fewer = all(
        after.measured <= before.measured + 4 * np.hypot(after.standard_error, before.standard_error)
        for upper, lower in pairwise(curves)
        for before, after in zip(upper, lower)
    )
    return fewer and found.agree(errors=4.5, bias=1e-3)


REPRODUCTIONS = (
    Declared(
        id="injectivity-depth",
        source="Maillard et al. 2022, outlook: deep networks",
        statement="Layers of equal width behind each other need a larger expansivity than one.",
        produce=run,
        numbers=Curves.numbers,
        holds=_deeper_is_rarer,
        small={"alphas": (3, 5, 8), "draws": 40},
    ),
    Declared(
        id="injectivity-deep-bound",
        source="Maillard et al. 2022, outlook: α ≥ 2 L log L",
        statement="An expansivity of 2 L log L is enough for L layers, L large.",
        produce=sufficient,
        numbers=lambda found: {f"L = {row.x:g}": Number(row.predicted) for row in found.curve("2 L log L")},
        incomparable="a formula, and what it asks for; nothing is given to compare with",
    ),
    Declared(
        id="injectivity-general-weights",
        source="Maillard et al. 2022, 'Injectivity of ReLU networks': general weights",
        statement="α = 2 suffices for chosen weights, such as [V; -V]; random layers need m ≥ 3n - 1.",
        produce=mirrored,
        numbers=lambda found: found.numbers(ends=True),
        holds=lambda found: all(row.measured == (1.0 if "V" in row.kind else 0.0) for row in found.rows),
        small={"sizes": (2, 4, 8), "draws": 4},
    ),
)
