"""Injectivity of compositions: how often two and three random layers map different inputs to the same output.

With two inputs the composition is linear on sectors of the plane, so collisions are decided exactly.
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
    """Compute the fraction of compositions without a collision, for layers of 2α units and two inputs.

    Marks are at 2 L log L, which is sufficient for large L according to [Maillard2022]_.
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
            share, smoothed = sum(kept) / draws, (sum(kept) + 1) / (draws + 2)  # so that the error is never zero
            error = math.sqrt(smoothed * (1 - smoothed) / draws)
            expected = probability(m, 2).value if depth == 1 else math.nan
            rows.append(Point(f"{depth} layers" if depth > 1 else "1 layer", m / 2, share, error, expected))
    marks = {f"2 L log L, L = {depth}": 2 * depth * math.log(depth) for depth in depths if depth > 1}
    return Curves(tuple(rows), "width of each layer / inputs", "fraction without a collision", marks=marks)


def sufficient(depths: Sequence[int] = (3, 4, 6, 8, 12, 16, 24, 32)) -> Curves:
    """Return the sufficient expansivity for depth L, 2 L log L, and that of one layer."""
    rows = [Point("2 L log L", depth, predicted=deep_expansivity(depth)) for depth in depths]
    rows += [Point("one layer, union bound", depth, predicted=union_threshold().value) for depth in depths]
    return Curves(tuple(rows), "layers L", "sufficient width / inputs")


def mirrored(sizes: Sequence[int] = (2, 4, 8, 16, 32), *, draws: int = 10, seed: int = 0) -> Curves:
    """Return the fraction proved injective of layers [V; -V] (α = 2) and of Gaussian layers with 2n and 3n - 2 rows."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in sizes:
        for kind in ("[V; -V], m = 2n", "Gaussian, m = 2n", "Gaussian, m = 3n - 2"):
            injective = []
            for _ in range(draws):
                top = rng.standard_normal((n, n))
                weight = (
                    np.vstack([top, -top])
                    if "V" in kind
                    else rng.standard_normal((2 * n if "2n" in kind else 3 * n - 2, n))
                )
                injective.append(injectivity.decide(weight, budget=5).injective is True)
            rows.append(Point(kind, n, float(np.mean(injective))))
    return Curves(tuple(rows), "inputs n", "fraction proved injective", "x")


def _deeper_is_rarer(result: Curves) -> bool:
    """Return whether one layer agrees with the exact probability and more layers are injective less often."""
    curves = [result.curve(kind) for kind in result.kinds()]
    fewer = all(
        after.measured <= before.measured + 4 * np.hypot(after.standard_error, before.standard_error)
        for upper, lower in pairwise(curves)
        for before, after in zip(upper, lower)
    )
    return fewer and result.agree(errors=4.5, bias=1e-3)


REPRODUCTIONS = (
    Declared(
        id="injectivity-depth",
        source="Maillard et al. 2022, outlook: deep networks",
        statement="A composition of layers of equal width needs a larger expansivity than one layer.",
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
        numbers=lambda result: {f"L = {row.x:g}": Number(row.predicted) for row in result.curve("2 L log L")},
        incomparable="the source gives a formula and no numbers",
    ),
    Declared(
        id="injectivity-general-weights",
        source="Maillard et al. 2022, 'Injectivity of ReLU networks': general weights",
        statement="α = 2 suffices for chosen weights, such as [V; -V]; random layers need m ≥ 3n - 1.",
        produce=mirrored,
        numbers=lambda result: result.numbers(ends=True),
        holds=lambda result: all(row.measured == (1.0 if "V" in row.kind else 0.0) for row in result.rows),
        small={"sizes": (2, 4, 8), "draws": 4},
    ),
)
