"""Pooling makes features shift invariant: change of features when images are shifted, by degree of pooling.

Random convolutional features are compared with a small scattering transform (wavelet, modulus, average, twice). Images
are centered, because a shift does not change brightness, which would dominate distances between images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import euclidean_distances

from initscope import data, embed
from initscope.errors import InputError, check_count
from initscope.reproductions._figures import Rows, draw_lines
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "ShiftInvariance", "ShiftRow", "cell_averages", "run", "scattering", "wavelets"]

Features = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ShiftRow(Result):
    """Mean distance of shifted images divided by the mean distance of different images, for one kind of features.

    The standard error is over images, and for random filters also over draws.
    """

    features: str
    shift: int
    distance: float
    standard_error: float


@dataclass(frozen=True)
class ShiftInvariance(Rows):
    """Rows by kind of features and shift: 0 is invariant, 1 is as far as another image."""

    images: int
    rows: tuple[ShiftRow, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the distance against the shift."""
        ax = make_axes(ax, figsize=(7.5, 4.5))
        draw_lines(ax, self.rows, by="features", x="shift", y="distance")
        ax.set(xlabel="shift (pixels)", ylabel="distance / distance of different images")
        ax.set_xticks([row.shift for row in self.rows if row.features == self.rows[0].features])
        ax.margins(y=0.06)  # fully pooled features are at 0, which should not coincide with the frame
        ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        return ax


def run(
    images: data.ImageSet | None = None,
    *,
    shifts: Sequence[int] = (1, 2, 4, 8),
    filters: int = 64,
    draws: int = 5,
    seed: int = 0,
) -> ShiftInvariance:
    """Shift images circularly to the right and compare features: pixels, random filters with pooling, scattering.

    Source: [Bronstein2016]_, 'Role of pooling'; scattering as in [BrunaMallat2013]_.

    Filters are sampled ``draws`` times, at least twice.
    """
    check_count("draws", draws, least=2, hint="a standard error needs at least two")
    images = data.load("photos") if images is None else images
    if images.images.ndim != 4:
        raise InputError(f"{images!r} has no images [N, C, H, W] to shift")
    check_count("images", len(images), least=3, hint="a standard error needs at least three")
    shape = (images.shape[0], images.shape[1], images.shape[2])
    centered = images.images - images.images.mean(axis=(2, 3), keepdims=True)
    kinds: dict[str, list[Features]] = {"pixels": [_flat]}
    for pool in (None, 8, 4, 1):
        layers = [
            embed.ConvFeatures(filters, image_shape=shape, pool=pool, random_state=seed + draw).fit(_flat(centered))
            for draw in range(draws)
        ]
        name = "conv, no pooling" if pool is None else f"conv, {pool}×{pool} cells"
        kinds[name] = [lambda maps, layer=layer: layer.transform(_flat(maps)) for layer in layers]  # type: ignore[misc]
    kinds["gray, 4×4 cells"] = [lambda maps: cell_averages(maps.mean(axis=1), 4)]
    kinds["scattering, 4×4 cells"] = [scattering]
    rows = []
    for name, drawn in kinds.items():
        moves = np.array([_moves(features, centered, shifts) for features in drawn])
        for shift, (distances, errors) in zip(shifts, moves.transpose(2, 1, 0)):
            between = mean_and_error(distances)[1] if len(drawn) > 1 else 0.0
            rows.append(ShiftRow(name, int(shift), float(distances.mean()), float(np.hypot(errors.mean(), between))))
    return ShiftInvariance(len(images), tuple(rows))


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def _moves(features: Features, images: np.ndarray, shifts: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return, for each shift, the mean change of features divided by their mean distance between images.

    Standard errors are from the jackknife over images.
    """
    base, count = features(images), len(images)
    apart = euclidean_distances(base).sum(axis=1)  # sum of distances to all other images
    apart_of_rest = (apart.sum() - 2 * apart) / ((count - 1) * (count - 2))
    distances, errors = [], []
    for shift in shifts:
        moved = np.linalg.norm(features(np.roll(images, shift, axis=3)) - base, axis=1)
        of_rest = (moved.sum() - moved) / (count - 1) / apart_of_rest
        distances.append(float(moved.mean() / apart.sum() * count * (count - 1)))
        errors.append(float(np.sqrt((count - 1) * of_rest.var())))
    return distances, errors


def scattering(images: np.ndarray, *, scales: int = 3, orientations: int = 4, cells: int = 4) -> np.ndarray:
    r"""Return two layers of :math:`|x * \psi|` of gray images, each averaged over a grid of cells.

    The second layer uses coarser octaves than the first, as in [BrunaMallat2013]_. Averages of the image itself are
    left out (see `cell_averages`), so a constant image has zero features. Distances times the square root of the number
    of pixels in a cell are at most those of the images.
    """
    gray = images.mean(axis=1)
    height, width = gray.shape[1:]
    if height % cells or width % cells:
        raise InputError(f"images of {height}×{width} do not divide into {cells}×{cells} cells; crop them")
    bank = wavelets(height, width, scales=scales, orientations=orientations)

    def moduli(maps: np.ndarray, first_scale: int) -> list[tuple[int, np.ndarray]]:
        spectrum = np.fft.fft2(maps)
        return [
            (scale, np.abs(np.fft.ifft2(spectrum * wavelet)))
            for scale in range(first_scale, scales)
            for wavelet in bank[scale]
        ]

    pieces = []
    for scale, first in moduli(gray, 0):
        pieces.append(cell_averages(first, cells))
        pieces += [cell_averages(second, cells) for _, second in moduli(first, scale + 1)]
    return np.concatenate(pieces, axis=1)


def wavelets(height: int, width: int, *, scales: int, orientations: int) -> np.ndarray:
    r"""Return Morlet wavelets in the frequency domain, ``[scales, orientations, height, width]``.

    .. math:: \hat\psi(f) \propto e^{-|f-c|^2/2\sigma^2} - e^{-|c|^2/2\sigma^2}\,e^{-|f|^2/2\sigma^2},
              \qquad \sigma = 0.4\,|c|

    around octaves :math:`|c| = 0.3\cdot 2^{-j}` cycles per pixel and equally spaced directions: zero at frequency zero.
    They are scaled to preserve at most half of the energy of a real image; two layers preserve at most ½ + ¼.
    """
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]
    center = 0.3 / 2.0 ** np.arange(scales)[:, None, None, None]
    angle = np.pi * np.arange(orientations)[:, None, None] / orientations
    spread = 2 * (0.4 * center) ** 2
    bumps = np.exp(-((fx - center * np.cos(angle)) ** 2 + (fy - center * np.sin(angle)) ** 2) / spread)
    bank = bumps - np.exp(-(center**2) / spread) * np.exp(-(fx**2 + fy**2) / spread)
    energy = (bank**2).sum(axis=(0, 1))
    mirrored = np.roll(energy[::-1, ::-1], (1, 1), axis=(0, 1))  # at -f, where a real image has the same energy
    return np.asarray(bank / np.sqrt((energy + mirrored).max()))


def cell_averages(maps: np.ndarray, cells: int) -> np.ndarray:
    """Return the means of maps ``[N, height, width]`` over a grid of cells, flattened."""
    height, width = maps.shape[1:]
    parts = maps.reshape(len(maps), cells, height // cells, cells, width // cells)
    return np.asarray(parts.mean(axis=(2, 4)).reshape(len(maps), -1))


def _pooled(result: ShiftInvariance) -> dict[str, Number]:
    """Return the distances at the smallest shift."""
    least = min(row.shift for row in result.rows)
    return {row.features: Number(row.distance, row.standard_error) for row in result.rows if row.shift == least}


REPRODUCTIONS = (
    Declared(
        id="talk-pooling",
        source="Bronstein 2016, 'Pooling'",
        statement="Pooling makes the features of a convolutional layer nearly invariant to shifts.",
        produce=run,
        numbers=_pooled,
        holds=lambda result: _pooled(result)["conv, 1×1 cells"].value < _pooled(result)["conv, no pooling"].value,
        small={"filters": 8, "draws": 2, "shifts": (1, 4)},
        data="images",
    ),
)
