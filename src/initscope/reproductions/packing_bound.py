"""Sudakov's minoration and the size of a training set: sizes of ε-nets of data, and the bound by the mean width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.data import load
from initscope.measurement import Packing, packing_numbers
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, line_color, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "PackingBound", "run"]


@dataclass(frozen=True)
class PackingBound(Result):
    """Greedy packings of unit vectors of data, and Sudakov's bound on their logarithm."""

    points: int
    packing: Packing

    def table(self) -> list[dict[str, Any]]:
        """Return one row per ε."""
        return list(self.packing.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the logarithms of both against ε."""
        ax = make_axes(ax)
        ax.plot(self.packing.eps, self.packing.log_numbers, "o-", label=f"points of a net, of {self.points}")
        ax.plot(self.packing.eps, self.packing.log_bounds, "s-", color=line_color(3), label="Sudakov: 1.089 ω²/ε²")
        ax.set(xlabel="ε", ylabel="logarithm of the number", yscale="log")
        ax.legend()
        return ax


def run(
    images: Any = None,
    *,
    spec: str = "fashion-mnist",
    limit: int | None = 5000,
    eps: Sequence[float] = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
    seed: int = 0,
) -> PackingBound:
    """Normalize images to unit vectors and select points at distance ε or more, farthest first."""
    loaded = load(spec, limit=limit) if images is None else images
    rows = np.asarray(getattr(loaded, "images", loaded), dtype=np.float64)
    rows = rows.reshape(len(rows), -1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return PackingBound(len(rows), packing_numbers(rows, eps, limit=len(rows), seed=seed))


REPRODUCTIONS = (
    Declared(
        id="talk-sudakov",
        source="Bronstein 2016, 'Training set size': Sudakov's minoration",
        statement="The logarithm of the size of an ε-net is at most c ω²/ε²; the bound is not tight.",
        produce=run,
        numbers=lambda result: {
            f"log of the net at ε = {eps:g}": Number(value)
            for eps, value in zip(result.packing.eps, result.packing.log_numbers)
        },
        holds=lambda result: all(a <= b for a, b in zip(result.packing.log_numbers, result.packing.log_bounds)),
        small={"spec": "digits", "limit": 500, "eps": (0.3, 0.5, 0.8)},
        data="images",
    ),
)
