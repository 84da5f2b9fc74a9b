"""Stable embedding by signs: the largest deviation over a set against the bits m, and the bound m^(-1/6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import embed
from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import fit_line, mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "SignExponent", "diameters", "run"]


@dataclass(frozen=True)
class SignExponent(Result):
    """Largest |d_H - θ/π| over all pairs of a set, mean over layers, and the exponent fitted to it.

    Every length uses other layers, so that the points of the fit are independent; errors are over layers.
    """

    points: int
    dimension: int
    bits: tuple[int, ...]
    largest: tuple[float, ...]
    standard_errors: tuple[float, ...]
    cell_diameters: tuple[float, ...]
    cell_diameter_errors: tuple[float, ...]
    exponent: float
    exponent_error: float
    theorem_exponent: float

    def table(self) -> list[dict[str, Any]]:
        """Return one row per number of bits; the cell diameter is the largest angle / π between equal codes."""
        columns = {
            "bits": self.bits,
            "largest_deviation": self.largest,
            "standard_error": self.standard_errors,
            "cell_diameter": self.cell_diameters,
            "cell_diameter_error": self.cell_diameter_errors,
        }
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the largest deviation against bits, with lines of slope -1/2 and -1/6."""
        from matplotlib.ticker import LogLocator, NullFormatter

        ax = make_axes(ax)
        bits = np.array(self.bits, dtype=np.float64)
        label = f"measured, slope {self.exponent:.3f} ± {self.exponent_error:.1g}"
        ax.errorbar(bits, self.largest, 2 * np.array(self.standard_errors), fmt="o", capsize=2, label=label)
        for slope, name in ((-1 / 2, "slope -1/2"), (-1 / 6, "slope -1/6 of the theorem")):
            ax.plot(bits, self.largest[0] * (bits / bits[0]) ** slope, "--", label=name)
        ax.set(xlabel="bits", ylabel="largest |Hamming - angle/π|", yscale="log")
        ax.set_xscale("log", base=2)
        ax.set_xticks(bits, [f"{length:,}" for length in self.bits])
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(NullFormatter())
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
    """Compute the largest deviation over all pairs of random unit vectors, for several random layers per length.

    Source: [Bronstein2016]_, 'Stable embedding' and 'Tessellation of the input space'.
    """
    check_count("layers", layers, least=2, hint="a standard error needs at least two")
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((points, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.triu_indices(points, 1)
    share = np.arccos(np.clip((rows[left] * rows[right]).sum(axis=1), -1, 1)) / np.pi
    largest, cells = np.empty((2, len(bits), layers))
    for index, length in enumerate(bits):
        for layer in range(layers):
            # A new seed for each length: layers with the same seed are nested.
            codes = embed.SignHash(length, random_state=int(rng.integers(2**31))).fit_transform(rows)
            distance = embed.hamming_distance(codes[left], codes[right]) / length
            largest[index, layer] = np.abs(distance - share).max()
            cells[index, layer] = share[distance == 0].max(initial=0.0)
    means, errors = mean_and_error(largest)
    diameters, diameter_errors = mean_and_error(cells)
    line = fit_line(np.log(bits), np.log(means), errors / means)
    return SignExponent(
        points=points,
        dimension=dimension,
        bits=tuple(bits),
        largest=tuple(means.tolist()),
        standard_errors=tuple(errors.tolist()),
        cell_diameters=tuple(diameters.tolist()),
        cell_diameter_errors=tuple(diameter_errors.tolist()),
        exponent=line.slope,
        exponent_error=line.slope_error,
        theorem_exponent=-1 / 6,
    )


def diameters(*, seed: int = 0, **options: Any) -> Curves:
    """Return the largest angle / π in one cell and the largest distortion against the bits; options of `run`.

    Points with equal codes are in one cell of the tessellation, whose diameter [Bronstein2016]_ bounds by δ.
    """
    result = run(seed=seed, **options)
    cells = zip(result.bits, result.cell_diameters, result.cell_diameter_errors)
    rows = [Point("diameter of a cell", *values) for values in cells]
    rows += [
        Point("largest distortion δ", *values) for values in zip(result.bits, result.largest, result.standard_errors)
    ]
    return Curves(tuple(rows), "bits", "angle / π", "xy")


REPRODUCTIONS = (
    Declared(
        id="talk-sign-embedding",
        source="Bronstein 2016, 'Stable embedding I'",
        statement="Signs of a random layer embed stably; the bound of the theorem is m^(-1/6), the true rate m^(-1/2).",
        produce=run,
        numbers=lambda result: {"exponent": Number(result.exponent, result.exponent_error)},
        holds=lambda result: result.exponent + 3 * result.exponent_error < result.theorem_exponent,
        small={"bits": (16, 64, 256, 1024), "points": 80, "layers": 4},
    ),
    Declared(
        id="talk-cell-diameter",
        source="Bronstein 2016, 'Tessellation of the input space'",
        statement="Points that share all signs are close: the diameter of a cell decreases with the number of bits.",
        produce=diameters,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "diameter" in name},
        holds=lambda result: (
            all(
                cell.measured <= largest.measured
                for cell, largest in zip(result.curve("diameter of a cell"), result.curve("largest distortion δ"))
            )
            and result.rows[0].measured > result.curve("diameter of a cell")[-1].measured
        ),
        small={"bits": (8, 16, 32, 64), "points": 150, "dimension": 3, "layers": 4},
        full={"bits": (8, 16, 32, 64, 128, 256), "points": 1000, "dimension": 3, "layers": 20},
    ),
)
