"""Linear regions of deep folding networks: counted, by the formula of [Montufar2014]_, and those of one layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared
from initscope.reproductions.tessellation import cells
from initscope.theory.regions import arrangement_regions, montufar_regions

__all__ = ["REPRODUCTIONS", "folding_layers", "run"]


def folding_layers(width: int, depth: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return a network on [0, 1] that attains the formula for one input: each layer folds it ``width`` times."""
    positions = np.arange(width)
    signs = np.where(positions == 0, 1.0, 2.0 * (-1.0) ** positions)  # a zigzag of slopes ±width
    first = (np.full((width, 1), float(width)), -positions.astype(float))
    again = (float(width) * np.tile(signs, (width, 1)), -positions.astype(float))
    last = (np.tile(signs, (width, 1)) if depth > 1 else np.ones((width, 1)), -(positions + 0.5) / width)
    return [first, *[again] * (depth - 2), last] if depth > 1 else [last]


def run(*, width: int = 3, depths: Sequence[int] = (1, 2, 3, 4, 5, 6), points: int = 40) -> Curves:
    """Count the cells on a fine grid of [0, 1], ``points`` per expected cell, and give the maximum of one layer."""
    rows = []
    for depth in depths:
        expected = montufar_regions(1, [width] * depth)
        line = (np.arange(points * expected) + 0.5)[:, None] / (points * expected)
        result = int(cells(folding_layers(width, depth), line).max()) + 1
        rows.append(Point("built to fold", depth, float(result), predicted=float(expected)))
        rows.append(
            Point(
                "one layer with the same number of units", depth, predicted=float(arrangement_regions(1, width * depth))
            )
        )
    return Curves(tuple(rows), "layers", "cells", "y")


REPRODUCTIONS = (
    Declared(
        id="talk-regions",
        source="Bronstein 2016, 'Representation power': Montúfar et al. 2014",
        statement="Deep networks built to fold divide the input into exponentially more cells than "
        "shallow ones with the same number of units.",
        produce=run,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "fold" in name},
        holds=lambda result: result.agree(errors=0, bias=0.0),
        small={"depths": (1, 2, 3, 4)},
    ),
)
