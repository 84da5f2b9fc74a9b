"""Synthetic data from a seed: Gaussian pairs with a given correlation, and binary shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from initscope.data.image_set import ImageSet
from initscope.data.pairs import gaussian_pairs
from initscope.errors import check_count, check_seed

__all__ = ["SHAPE_KINDS", "gaussian", "shapes"]

SHAPE_KINDS = ("disc", "rectangle", "union", "noise")


def gaussian(
    *, limit: int | None = None, rho: float = 0.5, shape: int | tuple[int, ...] = (1, 32, 32), seed: int = 0
) -> ImageSet:
    """Standard Gaussian images in pairs: images 2k and 2k+1 have entrywise correlation ``rho`` and share label k.

    ``limit`` is the number of images (default 400, that is 200 pairs); values are not limited to [0, 1]. Get the pairs
    by `initscope.data.within_class_pairs`, or directly by `initscope.data.gaussian_pairs`.
    """
    count = check_count("limit", 400 if limit is None else limit, least=2, hint="the images come in pairs")
    x, y = gaussian_pairs(-(-count // 2), rho, shape=shape, seed=seed)
    images = np.stack([x, y], axis=1).reshape(-1, *x.shape[1:])
    step = f"standard normal values; images 2k and 2k+1 have correlation {rho:g}"
    return ImageSet(images, np.arange(len(images)) // 2, name="gaussian", steps=(step,)).take(count)


def shapes(*, limit: int | None = None, size: int = 64, seed: int = 0) -> ImageSet:
    """Binary shapes, values 0 and 1, ``1×size×size``: disc, rectangle, union of up to four of these, independent noise.

    The four kinds are the classes, in turn; ``limit`` is the number of images (default 200). Discs have radius
    size/10 … size/3, rectangles half-sides of the same range, and centers lie anywhere in the image. Noise pixels are 1
    with a probability drawn from [0.2, 0.8]. No shape is empty.
    """
    count = check_count("limit", 200 if limit is None else limit)
    size = check_count("size", size, least=8)
    rng = np.random.default_rng(check_seed("seed", seed))
    images = np.stack([_body(SHAPE_KINDS[index % 4], size, rng) for index in range(count)])
    return ImageSet(images[:, None], np.arange(count) % 4, SHAPE_KINDS, name="shapes", steps=("values 0 and 1",))


def _body(kind: str, size: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    if kind == "noise":
        body = rng.random((size, size)) < rng.uniform(0.2, 0.8)
        body[rng.integers(size), rng.integers(size)] = True
        return body
    if kind == "union":
        parts = [_body(SHAPE_KINDS[rng.integers(2)], size, rng) for _ in range(rng.integers(2, 5))]
        return np.asarray(np.any(parts, axis=0))
    row, column = rng.integers(0, size, 2)
    down, right = np.abs(np.arange(size) - row)[:, None], np.abs(np.arange(size) - column)[None, :]
    half = rng.uniform(size / 10, size / 3, 2)
    if kind == "disc":
        return np.asarray(down**2 + right**2 <= half[0] ** 2)
    return np.asarray((down <= half[0]) & (right <= half[1]))
