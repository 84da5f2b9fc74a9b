"""Compressed tomography: one image reconstructed from 1:2 to 1:32 of its projections.

The talk shows scattering tomography without giving its model; here rays are straight, over a limited arc.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from initscope._utils.libraries import library
from initscope.errors import InputError
from initscope.invert.images import psnr, ssim
from initscope.invert.sensing import make_sensing
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "CompressedTomography", "TomographyRow", "run"]


@dataclass(frozen=True)
class TomographyRow(Result):
    """One ratio of measurements to pixels and one solver: PSNR in dB and structural similarity (SSIM)."""

    ratio: float
    measurements: int
    solver: str
    psnr: float
    ssim: float


@dataclass(frozen=True)
class CompressedTomography(Rows):
    """Rows by ratio and solver, the original image, and its reconstructions in the order of the rows."""

    rows: tuple[TomographyRow, ...]
    original: np.ndarray = field(repr=False)
    reconstructions: tuple[np.ndarray, ...] = field(repr=False)

    def best(self) -> list[int]:
        """Return the index of the row with the highest PSNR for each ratio."""
        ratios = dict.fromkeys(row.ratio for row in self.rows)
        positions = range(len(self.rows))
        return [max((i for i in positions if self.rows[i].ratio == r), key=lambda i: self.rows[i].psnr) for r in ratios]

    def figure(self) -> Figure:
        """Plot the original image and the best reconstruction at each ratio."""
        shown = self.best()
        axes = make_grid(1, len(shown) + 1, (1.7 * (len(shown) + 1), 2.4))[0]
        titles = [
            "original",
            *(f"1:{self.rows[i].ratio:g}, {self.rows[i].psnr:.1f} dB\n{self.rows[i].solver}" for i in shown),
        ]
        for ax, image, title in zip(axes, (self.original, *(self.reconstructions[i] for i in shown)), titles):
            ax.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            ax.set_title(title, fontsize=8)
        return axes.flat[0].figure  # type: ignore[no-any-return]


def run(
    images: Any = None,
    *,
    side: int = 64,
    ratios: Sequence[float] = (2, 4, 8, 16, 32),
    arc: float = 120.0,
    seed: int = 0,
) -> CompressedTomography:
    """Project a phantom, or your first image in gray, over ``arc`` degrees and reconstruct it with every solver."""
    original = _phantom(side) if images is None else _gray(images)
    rows, reconstructions = [], []
    image = torch.from_numpy(original.astype(np.float32))[None, None]
    for ratio in ratios:
        measurement = make_sensing("tomography", len(original), int(original.size / ratio), arc=arc, seed=seed)
        for solver, answer in measurement.reconstructions(measurement.measure(image)[0]).items():
            quality = psnr(original[None], answer), ssim(original[None], np.clip(answer, 0, 1))
            rows.append(TomographyRow(float(ratio), measurement.outputs, solver, *quality))
            reconstructions.append(answer[0])
    return CompressedTomography(tuple(rows), original, tuple(reconstructions))


def _phantom(side: int) -> np.ndarray:
    """Return the Shepp–Logan phantom of scikit-image."""
    full = library("skimage.data").shepp_logan_phantom()
    smaller = library("skimage.transform").resize(full, (side, side), anti_aliasing=True)
    return np.asarray(np.clip(smaller, 0, 1), dtype=np.float32)


def _gray(images: Any) -> np.ndarray:
    stack = np.asarray(getattr(images, "images", images), dtype=np.float32)
    if stack.ndim != 4 or stack.shape[2] != stack.shape[3]:
        raise InputError(f"images of shape {stack.shape} must be [N, C, H, W] and square")
    return np.asarray(stack[0].mean(axis=0))


def _numbers(result: CompressedTomography) -> dict[str, Number]:
    best = [result.rows[position] for position in result.best()]
    return {f"1:{row.ratio:g}: dB, {row.solver}": Number(row.psnr) for row in best}


def _holds(result: CompressedTomography) -> bool:
    """Return whether the PSNR at the largest number of measurements exceeds that at the smallest by 3 dB."""
    best = [result.rows[position].psnr for position in result.best()]
    return best[0] > best[-1] + 3 and all(math.isfinite(value) for value in best)


REPRODUCTIONS = (
    Declared(
        id="talk-compressed-tomography",
        source="Bronstein 2016, 'Compressed scattering tomography'",
        statement="Reconstructions become worse as the number of measurements falls from 1:2 to 1:32.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"side": 24},
        data="images",
        incomparable="the talk gives neither its model of scattering nor its phantom: straight rays over 120° here",
    ),
)
