"""Pooling makes features shift invariant: how far they move when the images are shifted, layer by layer of pooling.

Beside random convolutional features stands a small scattering transform: wavelet, modulus, average, twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import data, embed
from initscope._results import Result
from initscope.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ShiftInvariance", "ShiftRow", "run", "scattering"]


@dataclass(frozen=True)
class ShiftRow(Result):
    """Mean distance of shifted images, over the mean distance of different images, in one kind of features."""

    features: str
    shift: int
    distance: float
    standard_error: float


@dataclass(frozen=True)
class ShiftInvariance(Result):
    """Rows by kind of features and shift: 0 is invariant, 1 as far as another image."""

    images: int
    rows: tuple[ShiftRow, ...]

    def table(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Distance against shift."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(layout="constrained").add_subplot()
        for name in dict.fromkeys(row.features for row in self.rows):
            rows = [row for row in self.rows if row.features == name]
            errors = [2 * row.standard_error for row in rows]
            ax.errorbar([row.shift for row in rows], [row.distance for row in rows], errors, fmt="o-", label=name)
        ax.set(xlabel="shift (pixels)", ylabel="distance / distance of different images")
        ax.set_xticks([row.shift for row in self.rows if row.features == self.rows[0].features])
        ax.margins(y=0.06)  # the fully pooled features lie at 0, and should not lie on the frame
        ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        return ax


def run(
    images: data.ImageSet | None = None,
    *,
    shifts: Sequence[int] = (1, 2, 4, 8),
    filters: int = 64,
    seed: int = 0,
) -> ShiftInvariance:
    """Shift images (cyclically, to the right) and compare features: pixels, random filters with pooling, scattering."""
    images = data.load("photos") if images is None else images
    if images.images.ndim != 4:
        raise InputError(f"{images!r} holds no images [N, C, H, W] to shift")
    shape = (images.shape[0], images.shape[1], images.shape[2])
    flat = images.images.reshape(len(images), -1)
    kinds: dict[str, Callable[[np.ndarray], np.ndarray]] = {"pixels": lambda rows: rows}
    for pool in (None, 8, 4, 1):
        layer = embed.ConvFeatures(filters, image_shape=shape, pool=pool, random_state=seed).fit(flat)
        kinds["conv, no pooling" if pool is None else f"conv, {pool}×{pool} cells"] = layer.transform
    kinds["scattering, 4×4 cells"] = lambda rows: scattering(rows.reshape(-1, *shape))
    rows = []
    for name, features in kinds.items():
        base = features(flat)
        other = np.linalg.norm(base - np.roll(base, 1, axis=0), axis=1).mean()
        for shift in shifts:
            moved = features(np.roll(images.images, shift, axis=3).reshape(len(images), -1))
            distances = np.linalg.norm(moved - base, axis=1) / other
            error = distances.std(ddof=1) / np.sqrt(len(distances))
            rows.append(ShiftRow(name, int(shift), float(distances.mean()), float(error)))
    return ShiftInvariance(len(images), tuple(rows))


def scattering(images: np.ndarray, *, scales: int = 3, orientations: int = 4, cells: int = 4) -> np.ndarray:
    r"""Two layers of :math:`|x * \psi|`, each averaged over a grid of cells, after the average of the image itself.

    Wavelets are Gaussians in frequency around octaves :math:`2^{-j}\cdot 0.3` cycles per pixel and equally spaced
    directions; the second layer takes coarser octaves than the first, as in [BrunaMallat2013]_.
    """
    grey = images.mean(axis=1)
    height, width = grey.shape[1:]
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]

    def wavelet(scale: int, number: int) -> np.ndarray:
        centre, angle = 0.3 / 2**scale, np.pi * number / orientations
        away = (fx - centre * np.cos(angle)) ** 2 + (fy - centre * np.sin(angle)) ** 2
        return np.asarray(np.exp(-away / (2 * (0.4 * centre) ** 2)))

    def averaged(maps: np.ndarray) -> np.ndarray:
        parts = maps.reshape(len(maps), cells, height // cells, cells, width // cells)
        return np.asarray(parts.mean(axis=(2, 4)).reshape(len(maps), -1))

    if height % cells or width % cells:
        raise InputError(f"images of {height}×{width} do not divide into {cells}×{cells} cells; crop them")
    pieces = [averaged(grey)]
    spectrum = np.fft.fft2(grey)
    for scale in range(scales):
        for number in range(orientations):
            first = np.abs(np.fft.ifft2(spectrum * wavelet(scale, number)))
            pieces.append(averaged(first))
            again = np.fft.fft2(first)
            pieces += [
                averaged(np.abs(np.fft.ifft2(again * wavelet(coarser, turn))))
                for coarser in range(scale + 1, scales)
                for turn in range(orientations)
            ]
    return np.concatenate(pieces, axis=1)
