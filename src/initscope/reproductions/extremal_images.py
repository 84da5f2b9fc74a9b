"""Remark 2 of [Nachum2022]_: images that attain the bounds of theorem 3, and photographs between the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from initscope.data import load, random_pairs
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared
from initscope.theory.images import cosine, expected_cosine, extremal_pair, relu_cosine_bounds

__all__ = ["REPRODUCTIONS", "run"]


def run(
    images: Any = None,
    *,
    cosines: Sequence[float] = tuple(np.linspace(-1, 1, 21).tolist()),
    kernel_size: int = 3,
    pairs: int = 40,
    seed: int = 0,
) -> Curves:
    """Return expected cosines after a layer for the images of remark 2, the bounds (lines), and photographs."""
    rows = []
    for bound, side in (("lower", 0), ("upper", 1)):
        for rho in cosines:
            pair = extremal_pair(rho, bound, kernel_size=kernel_size)
            after_layer = (
                round(float(expected_cosine(*pair, kernel_size=kernel_size)[0]), 12) + 0.0
            )  # without rounding errors and -0
            name = f"images of remark 2, {bound} bound"
            rows.append(Point(name, rho, after_layer, predicted=float(relu_cosine_bounds(rho)[side])))
    x, y, _ = random_pairs(load("photos", crop=32, limit=40) if images is None else images, pairs, seed)
    before, after = (np.asarray(values) for values in (cosine(x, y), expected_cosine(x, y, kernel_size=kernel_size)))
    rows += [Point("photographs", float(a), float(b)) for a, b in sorted(zip(before, after))]
    return Curves(tuple(rows), "cosine before", "expected cosine after", loose=("photographs",))


def _holds(result: Curves) -> bool:
    """Return whether the images attain the bounds up to rounding, and photographs lie between them."""
    between = all(
        float(low) - 1e-6 <= row.measured <= float(high) + 1e-6
        for row in result.curve("photographs")
        for low, high in [relu_cosine_bounds(row.x)]
    )
    return result.agree(errors=0, bias=1e-9) and between


REPRODUCTIONS = (
    Declared(
        id="cnn-remark-2",
        source="Nachum et al. 2022, theorem 3 and remark 2",
        statement="The mean cosine after a ReLU layer lies between max(ρ, 0) and (1 + ρ)/2, and both are attained.",
        produce=run,
        numbers=lambda result: {
            name: number for name, number in result.numbers().items() if name.endswith((" 0", " -0.5", " 0.5"))
        },
        holds=_holds,
        small={"cosines": (-1.0, -0.5, 0.0, 0.5, 1.0), "pairs": 12},
        data="images",
    ),
)
