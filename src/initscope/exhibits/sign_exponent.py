"""Stable embedding by signs: the largest deviation over a set against bits, beside the theorem's m^(-1/6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import embed
from initscope._results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SignExponent", "run"]


@dataclass(frozen=True)
class SignExponent(Result):
    """Largest |d_H - θ/π| over all pairs of a set, mean over layers, and the exponent fitted to it."""

    points: int
    dimension: int
    bits: tuple[int, ...]
    largest: tuple[float, ...]
    standard_errors: tuple[float, ...]
    cell_diameters: tuple[float, ...]
    exponent: float
    theorem_exponent: float

    def table(self) -> list[dict[str, Any]]:
        """One row per number of bits; the cell diameter is the largest angle (over π) between equal codes."""
        columns = zip(self.bits, self.largest, self.standard_errors, self.cell_diameters)
        return [
            {"bits": bits, "largest_deviation": largest, "standard_error": error, "cell_diameter": cell}
            for bits, largest, error, cell in columns
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Largest deviation against bits, with lines of slope -1/2 and -1/6."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(layout="constrained").add_subplot()
        bits = np.array(self.bits, dtype=np.float64)
        ax.errorbar(bits, self.largest, 2 * np.array(self.standard_errors), fmt="o", label=f"slope {self.exponent:.3f}")
        for slope, name in ((-1 / 2, "slope -1/2"), (-1 / 6, "the theorem's slope -1/6")):
            ax.plot(bits, self.largest[0] * (bits / bits[0]) ** slope, "--", label=name)
        ax.set(xscale="log", yscale="log", xlabel="bits", ylabel="largest |Hamming - angle/π|")
        ax.legend()
        return ax


def run(
    *,
    bits: Sequence[int] = (16, 32, 64, 128, 256, 512, 1024, 2048),
    points: int = 400,
    dimension: int = 10,
    layers: int = 20,
    seed: int = 0,
) -> SignExponent:
    """All pairs of random unit vectors of a space of this dimension, under so many random layers each."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((points, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.triu_indices(points, 1)
    share = np.arccos(np.clip((rows[left] * rows[right]).sum(axis=1), -1, 1)) / np.pi
    largest, cells = np.empty((2, len(bits), layers))
    for place, length in enumerate(bits):
        for layer in range(layers):
            codes = embed.SignHash(length, random_state=seed + layer).fit_transform(rows)
            distance = embed.hamming_distance(codes[left], codes[right]) / length
            largest[place, layer] = np.abs(distance - share).max()
            cells[place, layer] = share[distance == 0].max(initial=0.0)
    means = largest.mean(axis=1)
    return SignExponent(
        points=points,
        dimension=dimension,
        bits=tuple(bits),
        largest=tuple(means.tolist()),
        standard_errors=tuple((largest.std(axis=1, ddof=1) / np.sqrt(layers)).tolist()),
        cell_diameters=tuple(cells.mean(axis=1).tolist()),
        exponent=float(np.polyfit(np.log(bits), np.log(means), 1)[0]),
        theorem_exponent=-1 / 6,
    )
