"""The talk's layer theorem measured: ω² of a low-dimensional set before and after random layers of many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import embed, mean_width
from initscope._results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LayerTheorem", "LayerTheoremRow", "run"]


@dataclass(frozen=True)
class LayerTheoremRow(Result):
    """One layer: m outputs, the output's ω² over the input's (norm-preserving scale), and its standard error."""

    kind: str
    outputs: int
    outputs_per_squared_width: float
    ratio: float
    standard_error: float


@dataclass(frozen=True)
class LayerTheorem(Result):
    """Rows by layer. Weights N(0, 1/m), the talk's scale, halve every ratio."""

    squared_width: float
    rows: tuple[LayerTheoremRow, ...]

    def table(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Ratio of ω² against the number of outputs."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(layout="constrained").add_subplot()
        for kind in dict.fromkeys(row.kind for row in self.rows):
            rows = [row for row in self.rows if row.kind == kind]
            errors = [2 * row.standard_error for row in rows]
            ax.errorbar([row.outputs for row in rows], [row.ratio for row in rows], errors, fmt="o-", label=kind)
        ax.axvline(10 * self.squared_width, linestyle="--", color="gray", label="m = 10 ω²")
        ax.set(xscale="log", xlabel="outputs m", ylabel="ω² after / before", ylim=(0, None))
        ax.legend()
        return ax


def run(
    points: Any = None,
    *,
    widths: Sequence[int] = (10, 30, 100, 300, 1000, 3000, 10_000),
    filters: Sequence[int] = (1, 4, 16, 64),
    side: int = 16,
    draws: int = 128,
    seed: int = 0,
) -> LayerTheorem:
    """Mean widths through one random ReLU layer of many sizes.

    Parameters
    ----------
    points
        Rows ``[N, side²]``; by default 2,000 unit vectors of ten random 5-dimensional subspaces (smooth images).
    widths, filters
        Sizes of the dense and of the 3×3 convolutional layers (``filters · side²`` outputs).
    draws, seed
        Of `initscope.mean_width` and of the layers.
    """
    points = _subspaces(side, seed) if points is None else np.asarray(points)
    start = mean_width(points, draws=draws, seed=seed)
    squared = start.value**2
    layers: list[tuple[str, Any]] = [("dense", embed.ReLUFeatures(m, random_state=seed)) for m in widths]
    layers += [
        ("convolution 3×3", embed.ConvFeatures(n, image_shape=(1, side, side), random_state=seed)) for n in filters
    ]
    rows = []
    for kind, layer in layers:
        features = layer.fit_transform(points)
        width = mean_width(features, draws=draws, seed=seed + 1)
        ratio = width.value**2 / squared
        relative = 2 * np.hypot(width.standard_error / width.value, start.standard_error / start.value)
        rows.append(
            LayerTheoremRow(kind, features.shape[1], features.shape[1] / squared, float(ratio), float(ratio * relative))
        )
    return LayerTheorem(float(squared), tuple(rows))


def _subspaces(side: int, seed: int) -> np.ndarray:
    """Unit vectors in a union of ten 5-dimensional subspaces of images, smoothed so that neighbours are alike."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((10, 5, side, side))
    basis = np.sum([np.roll(basis, (dy, dx), axis=(2, 3)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)], axis=0)
    rows = np.einsum("snk,skd->snd", rng.standard_normal((10, 200, 5)), basis.reshape(10, 5, -1)).reshape(2000, -1)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
