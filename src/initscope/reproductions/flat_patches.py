"""Explanation of figure 1 of [Nachum2022]_: the flatness of patches gives a tight bound on the change of the cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import InputError
from initscope.reproductions._figures import Rows, data_title
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.images import cosine, excess_bound, expected_cosine, flatness_bound, relu_cosine_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "FlatPatches", "FlatRow", "run"]


@dataclass(frozen=True)
class FlatRow(Result):
    """Mean change of the cosine over pairs of a data set: the true value with its standard error, and bounds."""

    data: str
    pairs: int
    truth: float
    standard_error: float
    flatness: float
    excess: float
    theorem_3: float
    violations: int
    truths: np.ndarray
    bounds: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the pairs."""
        return {name: value for name, value in super().to_dict().items() if not isinstance(value, list)}


@dataclass(frozen=True)
class FlatPatches(Rows):
    """One row per data set."""

    rows: tuple[FlatRow, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the bound of every pair against the true change; no pair lies below the line."""
        ax = make_axes(ax)
        for row in self.rows:
            ax.plot(row.truths, row.bounds, "o", markersize=3, alpha=0.6, mew=0, label=data_title(row.data))
        ends = [min(row.truths.min() for row in self.rows), max(row.bounds.max() for row in self.rows)]
        ax.plot(ends, ends, color="0.4", linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel="change of the cosine", ylabel="bound from the flatness of patches")
        ax.legend(fontsize="small")
        return ax


def run(
    images: Any = None,
    *,
    specs: Sequence[str] = ("fashion-mnist", "cifar10", "imagenet-sample:resolution=224"),
    pairs: int = 180,
    kernel_size: int = 3,
    limit: int | None = 1000,
    seed: int = 0,
) -> FlatPatches:
    """Compare the change of the cosine by one ReLU layer with three bounds: flat patches, `excess_bound`, theorem 3.

    Images are converted to gray. [Nachum2022]_ explains its figure 1 by "approximately monochromatic patches" and asks,
    in section 4.1, for an extension to gray images.
    """
    rows = []
    for name in specs if images is None else ("your images",):
        x, y, _ = random_pairs(load(name, limit=limit) if images is None else images, pairs, seed)
        if np.ndim(x) != 4:
            raise InputError(f"images of shape {np.shape(x)[1:]} must be [n, channels, height, width]")
        x, y = (np.asarray(side, dtype=np.float64).mean(axis=1, keepdims=True) for side in (x, y))
        before = np.asarray(cosine(x, y))
        truths = np.asarray(expected_cosine(x, y, kernel_size=kernel_size)) - before
        bounds = np.asarray(flatness_bound(x, y, kernel_size=kernel_size).cosine)
        mean, error = mean_and_error(truths)
        rows.append(
            FlatRow(
                data=name,
                pairs=len(truths),
                truth=float(mean),
                standard_error=float(error),
                flatness=float(bounds.mean()),
                excess=float(excess_bound(x, y, kernel_size=kernel_size).cosine.mean()),
                theorem_3=float((relu_cosine_bounds(before)[1] - before).mean()),
                violations=int(np.count_nonzero(truths > bounds + 1e-12)),
                truths=truths,
                bounds=bounds,
            )
        )
    return FlatPatches(tuple(rows))


def _numbers(result: FlatPatches) -> dict[str, Number]:
    numbers = {}
    for row in result.rows:
        numbers[f"{row.data}: change"] = Number(row.truth, row.standard_error)
        numbers[f"{row.data}: at most"] = Number(row.flatness)
    return numbers


REPRODUCTIONS = (
    Declared(
        id="cnn-flat-patches",
        source="Nachum et al. 2022, section 1: approximately monochromatic patches; section 4.1: gray images",
        statement="A layer nearly preserves cosines of images with large, nearly "
        "flat patches: the flatness bounds the change.",
        produce=run,
        numbers=_numbers,
        holds=lambda result: all(row.violations == 0 and row.flatness < row.excess for row in result.rows),
        small={"specs": ("photos:crop=48", "digits"), "pairs": 40, "limit": 80},
        data="images",
    ),
)
