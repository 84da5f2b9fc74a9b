"""The layer theorem of the talk, measured: ω² of a low-dimensional set before and after random layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import embed, mean_width
from initscope.errors import check_count
from initscope.reproductions._figures import Rows, draw_lines
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "LayerTheorem", "LayerTheoremRow", "run"]


@dataclass(frozen=True)
class LayerTheoremRow(Result):
    """Layers of one size: number of outputs m and the ratio of ω² after and before the layer, mean over draws.

    Layers preserve norms. The standard error is over layers and directions, and includes that of the input width.
    """

    kind: str
    outputs: int
    outputs_per_squared_width: float
    ratio: float
    standard_error: float


@dataclass(frozen=True)
class LayerTheorem(Rows):
    """Rows by kind and size of layer. With the weights N(0, 1/m) of the talk every ratio is halved."""

    squared_width: float
    rows: tuple[LayerTheoremRow, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the ratio of ω² against the number of outputs."""
        ax = make_axes(ax)
        draw_lines(ax, self.rows, by="kind", x="outputs", y="ratio")
        ax.axvline(10 * self.squared_width, linestyle="--", color="gray", label="m = 10 ω²")
        ax.set(xscale="log", xlabel="outputs m", ylabel="ω² after / before", ylim=(0, None))
        ax.legend()
        return ax


def run(
    points: Any = None,
    *,
    widths: Sequence[int] = (1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000),
    filters: Sequence[int] = (1, 4, 16, 64),
    side: int = 16,
    layers: int = 10,
    draws: int = 128,
    seed: int = 0,
) -> LayerTheorem:
    """Measure mean widths before and after random ReLU layers of many sizes.

    Source: [Bronstein2016]_, 'Low dimension in – low dimension out'; the theorem is in [Giryes2016]_.

    Parameters
    ----------
    points
        Rows ``[N, side²]``; by default 2,000 unit vectors of ten random 5-dimensional subspaces (smooth images).
    widths, filters
        Sizes of the dense and of the 3×3 convolutional layers (``filters · side²`` outputs).
    layers
        Number of random layers of each size, at least two.
    draws, seed
        Options of `initscope.mean_width` (every layer uses other directions), and seed of the layers.
    """
    check_count("layers", layers, least=2, hint="a standard error needs at least two")
    points = _subspaces(side, seed) if points is None else np.asarray(points)
    input_width = mean_width(points, draws=draws * layers, seed=seed)
    squared = input_width.value**2
    sizes: list[tuple[str, Any]] = [("dense", embed.ReLUFeatures(m)) for m in widths]
    sizes += [("convolution 3×3", embed.ConvFeatures(n, image_shape=(1, side, side))) for n in filters]
    rows = []
    for kind, layer in sizes:
        ratios = []
        for draw in range(1, layers + 1):
            features = layer.set_params(random_state=seed + draw).fit_transform(points)
            ratios.append(mean_width(features, draws=draws, seed=seed + draw).value ** 2 / squared)
        ratio, error = map(float, mean_and_error(ratios))
        common = 2 * ratio * input_width.standard_error / input_width.value
        outputs = features.shape[1]
        rows.append(LayerTheoremRow(kind, outputs, outputs / squared, ratio, math.hypot(error, common)))
    return LayerTheorem(float(squared), tuple(rows))


def _subspaces(side: int, seed: int) -> np.ndarray:
    """Return unit vectors in a union of ten 5-dimensional subspaces of smoothed images."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((10, 5, side, side))
    basis = np.sum([np.roll(basis, (dy, dx), axis=(2, 3)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)], axis=0)
    rows = np.einsum("snk,skd->snd", rng.standard_normal((10, 200, 5)), basis.reshape(10, 5, -1)).reshape(2000, -1)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _holds(result: LayerTheorem) -> bool:
    """Return whether the ratio is one constant for m > 10 ω², and clearly smaller for m < ω²/10."""
    large = [row for row in result.rows if row.outputs_per_squared_width > 10]
    dense = [Number(row.ratio, row.standard_error) for row in large if row.kind == "dense"]
    preserved = all(0.25 < row.ratio < 1 + 4 * row.standard_error for row in large)
    constant = not any(first.exceeds(second) for first in dense for second in dense)
    few = [Number(row.ratio, row.standard_error) for row in result.rows if row.outputs_per_squared_width < 0.1]
    return preserved and constant and all(dense[-1].exceeds(number) for number in few)


REPRODUCTIONS = (
    Declared(
        id="talk-layer-theorem",
        source="Bronstein 2016, 'Stability of random layers': mean width",
        statement="A random layer with m ≳ ω² outputs preserves the mean width of its input up to a constant; with far "
        "fewer outputs it does not.",
        produce=run,
        numbers=lambda result: {
            f"{row.kind}, m = {row.outputs}": Number(row.ratio, row.standard_error) for row in result.rows
        },
        holds=_holds,
        small={"widths": (1, 30, 1000, 2000), "filters": (1, 16), "side": 8, "layers": 3, "draws": 32},
        data="points",
    ),
)
