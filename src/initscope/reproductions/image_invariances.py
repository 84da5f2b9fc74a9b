"""Deeper networks are invariant to more complex transformations [Bronstein2016]_: shifts, rotations, deformations.

The network is random, convolutional, with pooling. The measure is the distance of the features of an image and its
transformed copy, divided by the distance of different images: 0 is invariant, 1 is as far as another image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import ndimage

from initscope import data
from initscope.errors import InputError, check_count
from initscope.initializers import He
from initscope.measurement import measure
from initscope.models import load_model
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared

__all__ = ["REPRODUCTIONS", "TRANSFORMATIONS", "run"]


def _rotated(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(ndimage.rotate(image, 10, axes=(1, 2), reshape=False, order=1, mode="reflect"))


def _scaled(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = image.shape[1:]
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    positions = [(grid - side / 2) / 1.15 + side / 2 for grid, side in ((rows, height), (columns, width))]
    return _resampled(image, positions)


def _deformed(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Deform an image by a smooth random field of at most two pixels."""
    shape = image.shape[1:]
    fields = [ndimage.gaussian_filter(rng.standard_normal(shape), 4, mode="wrap") for _ in range(2)]
    rows, columns = np.meshgrid(*(np.arange(side) for side in shape), indexing="ij")
    return _resampled(image, [grid + 2 * move / np.abs(move).max() for grid, move in zip((rows, columns), fields)])


def _resampled(image: np.ndarray, positions: list[np.ndarray]) -> np.ndarray:
    return np.stack([ndimage.map_coordinates(channel, positions, order=1, mode="reflect") for channel in image])


TRANSFORMATIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "shift by 2 pixels": lambda image, rng: np.roll(image, 2, axis=2),
    "rotation by 10°": _rotated,
    "scaling by 15 %": _scaled,
    "small deformation": _deformed,
}
"""Transformations of an image ``[channels, height, width]``."""


def run(
    images: Any = None,
    *,
    spec: str = "photos:crop=64",
    limit: int = 40,
    blocks: int = 4,
    filters: int = 64,
    draws: int = 4,
    seed: int = 0,
) -> Curves:
    """Measure invariance after random blocks of 3×3 convolution, ReLU and average pooling; images are centered."""
    check_count("draws", draws, least=2, hint="a standard error needs at least two")
    loaded = data.load(spec, limit=limit) if images is None else images
    originals = np.asarray(getattr(loaded, "images", loaded), dtype=np.float64)
    if originals.ndim != 4 or min(originals.shape[2:]) % 2**blocks:
        raise InputError(f"images of shape {originals.shape} must be [N, C, H, W] with sides divisible by 2^{blocks}")
    originals = originals - originals.mean(axis=(2, 3), keepdims=True)
    model = load_model(f"conv3x3x{filters}-relu-avgpool2*{blocks}", input_shape=originals.shape[1:], seed=seed)
    rng = np.random.default_rng(seed)
    rows = []
    others = _distances(model, originals, np.roll(originals, 1, axis=0), blocks, draws, seed)
    for name, transform in TRANSFORMATIONS.items():
        moved = np.stack([transform(image, rng) for image in originals])
        ratios = _distances(model, originals, moved, blocks, draws, seed) / others
        for depth, (ratio, error) in enumerate(zip(*mean_and_error(ratios))):
            rows.append(Point(name, depth, float(ratio), float(error)))
    return Curves(tuple(rows), "blocks of convolution, ReLU, pooling", "distance / distance of different images")


def _distances(model: Any, x: np.ndarray, y: np.ndarray, blocks: int, draws: int, seed: int) -> np.ndarray:
    """Return the mean relative distance of x and y after each block (0: the images), one column per draw."""
    columns = []
    for draw in range(draws):
        result = measure(model, x.astype(np.float32), y.astype(np.float32), initializer=He(), draws=1, seed=seed + draw)
        cosine, norm = (
            np.asarray(values)[[3 * block for block in range(blocks + 1)]]
            for values in (result.cosine, result.norm_ratio)
        )
        # ‖u - v‖² from the cosine, for vectors of about equal norms: a measurement has only cosines and norm ratios.
        columns.append((norm * np.sqrt(np.maximum(2 - 2 * cosine, 0))).mean(axis=1) / norm.mean(axis=1))
    return np.array(columns).T


def _holds(result: Curves) -> bool:
    """Return whether each transformation changes features after the last block less than at the input."""
    return all(result.curve(kind)[-1].measured < result.curve(kind)[0].measured for kind in result.kinds())


REPRODUCTIONS = (
    Declared(
        id="talk-invariances",
        source="Bronstein 2016, 'Role of pooling': deeper networks",
        statement="Deeper networks are invariant to more complex transformations; shown for random weights.",
        produce=run,
        numbers=lambda result: result.numbers(ends=True),
        holds=_holds,
        small={"spec": "photos:crop=32", "limit": 16, "blocks": 3, "filters": 32, "draws": 2},
        data="images",
    ),
)
