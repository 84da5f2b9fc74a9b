"""Pooling makes features shift invariant: how far they move when the images are shifted, layer by layer of pooling.

Beside random convolutional features stands a small scattering transform: wavelet, modulus, average, twice. Images are
compared less their own means: no shift changes brightness, and as a distance between images it would hide the rest.
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
    """Mean distance of shifted images, over the mean distance of different images, in one kind of features.

    The standard error is over images, and for random filters over their draws too.
    """

    features: str
    shift: int
    distance: float
    standard_error: float


@dataclass(frozen=True)
class ShiftInvariance(Rows):
    """Rows by kind of features and shift: 0 is invariant, 1 as far as another image."""

    images: int
    rows: tuple[ShiftRow, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Distance against shift."""
        ax = make_axes(ax, figsize=(7.5, 4.5))
        draw_lines(ax, self.rows, by="features", x="shift", y="distance")
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
    draws: int = 5,
    seed: int = 0,
) -> ShiftInvariance:
    """Shift images (cyclically, to the right) and compare features: pixels, random filters with pooling, scattering.

    Source: [Bronstein2016]_, 'Role of pooling'; scattering as in [BrunaMallat2013]_.

    The filters are drawn ``draws`` times, at least twice.
    """
    check_count("draws", draws, least=2, hint="two are the least that give a standard error")
    images = data.load("photos") if images is None else images
    if images.images.ndim != 4:
        raise InputError(f"{images!r} holds no images [N, C, H, W] to shift")
    check_count("images", len(images), least=3, hint="three are the least that give a standard error")
    shape = (images.shape[0], images.shape[1], images.shape[2])
    centred = images.images - images.images.mean(axis=(2, 3), keepdims=True)
    kinds: dict[str, list[Features]] = {"pixels": [_flat]}
    for pool in (None, 8, 4, 1):
        layers = [
            embed.ConvFeatures(filters, image_shape=shape, pool=pool, random_state=seed + draw).fit(_flat(centred))
            for draw in range(draws)
        ]
        name = "conv, no pooling" if pool is None else f"conv, {pool}×{pool} cells"
        kinds[name] = [lambda maps, layer=layer: layer.transform(_flat(maps)) for layer in layers]  # type: ignore[misc]
    kinds["grey, 4×4 cells"] = [lambda maps: cell_averages(maps.mean(axis=1), 4)]
    kinds["scattering, 4×4 cells"] = [scattering]
    rows = []
    for name, drawn in kinds.items():
        moves = np.array([_moves(features, centred, shifts) for features in drawn])
        for shift, (distances, errors) in zip(shifts, moves.transpose(2, 1, 0)):
            between = mean_and_error(distances)[1] if len(drawn) > 1 else 0.0
            rows.append(ShiftRow(name, int(shift), float(distances.mean()), float(np.hypot(errors.mean(), between))))
    return ShiftInvariance(len(images), tuple(rows))


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def _moves(features: Features, images: np.ndarray, shifts: Sequence[int]) -> tuple[list[float], list[float]]:
    """For each shift the mean distance that features move over their mean distance between images.

    Their standard errors are those of leaving out one image at a time.
    """
    base, count = features(images), len(images)
    apart = euclidean_distances(base).sum(axis=1)  # of each image, summed over the others
    apart_of_rest = (apart.sum() - 2 * apart) / ((count - 1) * (count - 2))
    distances, errors = [], []
    for shift in shifts:
        moved = np.linalg.norm(features(np.roll(images, shift, axis=3)) - base, axis=1)
        of_rest = (moved.sum() - moved) / (count - 1) / apart_of_rest
        distances.append(float(moved.mean() / apart.sum() * count * (count - 1)))
        errors.append(float(np.sqrt((count - 1) * of_rest.var())))
    return distances, errors


def scattering(images: np.ndarray, *, scales: int = 3, orientations: int = 4, cells: int = 4) -> np.ndarray:
    r"""Bands of two layers of :math:`|x * \psi|` of grey images, each averaged over a grid of cells.

    The second layer takes coarser octaves than the first, as in [BrunaMallat2013]_. The averages of the image itself
    are left out (`cell_averages` gives them): a constant image has no bands. Times the root of the number of pixels in
    a cell, distances are never larger than those of the images.
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
    r"""Morlet wavelets in frequency, ``[scales, orientations, height, width]``.

    .. math:: \hat\psi(f) \propto e^{-|f-c|^2/2\sigma^2} - e^{-|c|^2/2\sigma^2}\,e^{-|f|^2/2\sigma^2},
              \qquad \sigma = 0.4\,|c|

    around octaves :math:`|c| = 0.3\cdot 2^{-j}` cycles per pixel and equally spaced directions: zero at frequency zero.
    Scaled so that together they keep at most half of a real image's energy: two layers then keep at most ½ + ¼.
    """
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]
    centre = 0.3 / 2.0 ** np.arange(scales)[:, None, None, None]
    angle = np.pi * np.arange(orientations)[:, None, None] / orientations
    spread = 2 * (0.4 * centre) ** 2
    bumps = np.exp(-((fx - centre * np.cos(angle)) ** 2 + (fy - centre * np.sin(angle)) ** 2) / spread)
    bank = bumps - np.exp(-(centre**2) / spread) * np.exp(-(fx**2 + fy**2) / spread)
    energy = (bank**2).sum(axis=(0, 1))
    mirrored = np.roll(energy[::-1, ::-1], (1, 1), axis=(0, 1))  # at -f, which a real image holds as much of
    return np.asarray(bank / np.sqrt((energy + mirrored).max()))


def cell_averages(maps: np.ndarray, cells: int) -> np.ndarray:
    """Means of maps ``[N, height, width]`` over a grid of cells, flattened."""
    height, width = maps.shape[1:]
    parts = maps.reshape(len(maps), cells, height // cells, cells, width // cells)
    return np.asarray(parts.mean(axis=(2, 4)).reshape(len(maps), -1))


def _pooled(result: ShiftInvariance) -> dict[str, Number]:
    """Distances at the smallest shift."""
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
