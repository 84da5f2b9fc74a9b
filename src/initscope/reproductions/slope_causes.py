"""Dependence of the slope in figure 1 of [Nachum2022]_ on filter size, resolution, centering and depth.

The slope is that of the least-squares line of cosines after against cosines before the layer. It is predicted by
theory and measured with random filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import InputError
from initscope.initializers import He
from initscope.measurement import measure
from initscope.models import load_model
from initscope.propagate import predict
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import fit_line, mean_and_error
from initscope.reproductions.protocol import Declared

__all__ = ["REPRODUCTIONS", "by_centering", "by_depth", "by_filter", "by_resolution"]

_FULL, _SMALL = "imagenet-sample:resolution=224", "photos:crop=32"


def _pairs(data: Any, spec: str, pairs: int, limit: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y, _ = random_pairs(load(spec, limit=limit) if data is None else data, pairs, seed)
    if x.ndim != 4:
        raise InputError(f"data of shape {x.shape} must be images [N, channels, height, width]")
    return np.asarray(x), np.asarray(y)


def _slopes(
    x: Any, y: Any, text: str, layers: Sequence[int], draws: int, seed: int
) -> list[tuple[float, float, float]]:
    """Return the slope after each of ``layers``: measured, its standard error over draws, and predicted."""
    model = load_model(text, input_shape=x.shape[1:], seed=seed)
    expected = predict(model, x, y, He()).cosine
    drawn = [measure(model, x, y, initializer=He(), draws=1, seed=seed + draw).cosine for draw in range(draws)]
    slopes = []
    for layer in layers:
        row = 2 * layer  # a convolution and its ReLU
        flat = [fit_line(cosine[0], cosine[row], np.zeros(len(x))).slope for cosine in drawn]
        mean, error = mean_and_error(flat)
        slopes.append((float(mean), float(error), fit_line(expected[0], expected[row], np.zeros(len(x))).slope))
    return slopes


def _curves(
    positions: Sequence[float], slopes: Sequence[tuple[float, float, float]], xlabel: str, kind: str = ""
) -> Curves:
    rows = tuple(Point(kind, float(x), *slope) for x, slope in zip(positions, slopes))
    return Curves(rows, xlabel, "slope of cosine after against before")


def by_filter(
    images: Any = None,
    *,
    spec: str = _FULL,
    sizes: Sequence[int] = (3, 5, 7, 11),
    pairs: int = 100,
    filters: int = 100,
    draws: int = 4,
    limit: int = 240,
    seed: int = 0,
) -> Curves:
    """Compute the slope by filter size; larger patches are less monochrome."""
    x, y = _pairs(images, spec, pairs, limit, seed)
    slopes = [_slopes(x, y, f"conv{r}x{r}x{filters}-relu", [1], draws, seed)[0] for r in sizes]
    return _curves(sizes, slopes, "side of the filter")


def by_resolution(
    images: Any = None,
    *,
    spec: str = _FULL,
    factors: Sequence[int] = (1, 2, 4, 8),
    kernel_size: int = 5,
    pairs: int = 100,
    filters: int = 100,
    draws: int = 4,
    limit: int = 240,
    seed: int = 0,
) -> Curves:
    """Compute the slope for the same images at lower resolutions: blocks of ``factor``² pixels are averaged."""
    x, y = _pairs(images, spec, pairs, limit, seed)
    slopes, sides = [], []
    for factor in factors:
        if x.shape[2] % factor or x.shape[3] % factor:
            raise InputError(
                f"images of {x.shape[2]}×{x.shape[3]} do not divide into blocks of side {factor}; crop them"
            )
        small = [_blocks(side, factor) for side in (x, y)]
        slopes += _slopes(small[0], small[1], f"conv{kernel_size}x{kernel_size}x{filters}-relu", [1], draws, seed)
        sides.append(x.shape[2] // factor)
    return _curves(sides, slopes, "side of the image (pixels)")


def _blocks(images: np.ndarray, factor: int) -> np.ndarray:
    count, channels, height, width = images.shape
    parts = images.reshape(count, channels, height // factor, factor, width // factor, factor)
    return np.ascontiguousarray(parts.mean(axis=(3, 5)))


def by_centering(
    images: Any = None,
    *,
    spec: str = _FULL,
    shares: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    kernel_size: int = 3,
    pairs: int = 100,
    filters: int = 100,
    draws: int = 4,
    limit: int = 240,
    seed: int = 0,
) -> Curves:
    """Compute the slope after subtracting a fraction of the mean of each channel.

    Section 4.2 says that removing the mean makes the contraction stronger.
    """
    x, y = _pairs(images, spec, pairs, limit, seed)
    mean = (x.mean(axis=(0, 2, 3), keepdims=True) + y.mean(axis=(0, 2, 3), keepdims=True)) / 2
    text = f"conv{kernel_size}x{kernel_size}x{filters}-relu"
    slopes = [_slopes(x - share * mean, y - share * mean, text, [1], draws, seed)[0] for share in shares]
    return _curves(shares, slopes, "fraction of the mean removed")


def by_depth(
    images: Any = None,
    *,
    spec: str = _FULL,
    depth: int = 8,
    kernel_size: int = 3,
    pairs: int = 60,
    filters: int = 100,
    draws: int = 4,
    limit: int = 240,
    seed: int = 0,
) -> Curves:
    """Compute the slope after each layer of a deep network."""
    x, y = _pairs(images, spec, pairs, limit, seed)
    layers = list(range(1, depth + 1))
    slopes = _slopes(x, y, f"conv{kernel_size}x{kernel_size}x{filters}-relu*{depth}", layers, draws, seed)
    return _curves(layers, slopes, "layers")


def _falling(result: Curves, *, upwards: bool = False) -> bool:
    """Return whether the predicted slope falls (or rises) from the first to the last point, and measurements agree."""
    slopes = [point.predicted for point in result.rows]
    steps = sorted(zip([point.x for point in result.rows], slopes))
    change = steps[-1][1] - steps[0][1]
    return (change > 0 if upwards else change < 0) and result.agree(errors=4, bias=0.03)


_SOURCE = "Nachum et al. 2022, figure 1"
_SIZES: dict[str, Any] = {"spec": _SMALL, "pairs": 30, "filters": 100, "draws": 3, "limit": 60}

REPRODUCTIONS = (
    Declared(
        id="cnn-slope-filter",
        source=f"{_SOURCE}: what the slope depends on",
        statement="For larger filters the slope of figure 1 is farther from 1.",
        produce=by_filter,
        numbers=Curves.numbers,
        holds=_falling,
        small=_SIZES | {"sizes": (3, 7)},
        data="images",
    ),
    Declared(
        id="cnn-slope-resolution",
        source=f"{_SOURCE} and theorem 5: what the slope depends on",
        statement="At higher resolution of the same images the slope is closer to 1.",
        produce=by_resolution,
        numbers=Curves.numbers,
        holds=lambda result: _falling(result, upwards=True),
        small=_SIZES | {"factors": (1, 2, 4)},
        data="images",
    ),
    Declared(
        id="cnn-slope-centering",
        source=f"{_SOURCE} and section 4.2: what the slope depends on",
        statement="Removing the mean of the data makes the contraction stronger: the slope decreases.",
        produce=by_centering,
        numbers=Curves.numbers,
        holds=_falling,
        small=_SIZES | {"shares": (0.0, 0.5, 1.0), "filters": 64},
        data="images",
    ),
    Declared(
        id="cnn-slope-depth",
        source=f"{_SOURCE} and section 4.2: what the slope depends on",
        statement="The contraction becomes stronger with each layer.",
        produce=by_depth,
        numbers=Curves.numbers,
        holds=lambda result: (
            [row.predicted for row in result.rows] == sorted((row.predicted for row in result.rows), reverse=True)
        ),
        small=_SIZES | {"depth": 4, "filters": 64},
        data="images",
    ),
)
