"""The linear part of a layer: dense products on NumPy or a torch device, local (convolutional) rows, patch sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count

__all__ = ["image_shape_of", "linear", "local_rows", "orthonormal_groups", "patch_sums", "to_images"]

Shape = tuple[int, int, int]


def linear(block: np.ndarray, weights: np.ndarray, thresholds: np.ndarray | None, device: str | None) -> np.ndarray:
    """Return ``block @ weights.T - thresholds``, computed on a torch device if one is given."""
    if device is None:
        scores = block @ weights.T
        if thresholds is not None:
            scores -= thresholds
        return np.asarray(scores)
    import torch

    with torch.no_grad():
        product = torch.as_tensor(block, device=device) @ torch.as_tensor(weights, device=device).T
        if thresholds is not None:
            product -= torch.as_tensor(thresholds, device=device)
        return np.asarray(product.cpu().numpy())


def image_shape_of(shape: Any, features: int) -> Shape:
    """Check ``(channels, height, width)`` against the length of a row; None means one channel, square if it can be."""
    if shape is None:
        side = math.isqrt(features)
        return (1, side, side) if side * side == features else (1, 1, features)
    sizes = tuple(check_count("image_shape", size) for size in shape)
    if len(sizes) != 3 or math.prod(sizes) != features:
        raise InputError(
            f"image_shape = {tuple(shape)} has {math.prod(sizes)} entries, a row has {features}; "
            "give (channels, height, width)"
        )
    return sizes[0], sizes[1], sizes[2]


def kernel_shape(kernel_size: int, shape: Shape) -> tuple[int, int]:
    """Return height and width of the filter: square, or a line if the image is a line."""
    side = check_count("kernel_size", kernel_size, most=max(shape[1:]), hint="no larger than the image")
    return min(side, shape[1]), min(side, shape[2])


def local_rows(rng: np.random.Generator, rows: int, kernel_size: int, shape: Shape) -> np.ndarray:
    """Return rows of a cyclic convolution: a Gaussian filter each, at a random position each, zero elsewhere."""
    channels, height, width = shape
    tall, wide = kernel_shape(kernel_size, shape)
    weights = np.zeros((rows, channels, height, width))
    filters = rng.standard_normal((rows, channels, tall, wide))
    top, left = rng.integers(height, size=rows), rng.integers(width, size=rows)
    lines = (top[:, None] + np.arange(tall)) % height
    columns = (left[:, None] + np.arange(wide)) % width
    at = np.arange(rows)[:, None, None, None]
    weights[at, np.arange(channels)[:, None, None], lines[:, None, :, None], columns[:, None, None, :]] = filters
    return weights.reshape(rows, -1)


def orthonormal_groups(rows: np.ndarray) -> np.ndarray:
    """Orthonormalize Gaussian rows in groups as large as they are long; each group is uniform (Haar)."""
    groups = []
    for start in range(0, len(rows), rows.shape[1]):
        q, r = np.linalg.qr(rows[start : start + rows.shape[1]].T)
        groups.append((q * np.sign(np.diag(r))).T)  # fixing the signs makes QR uniform (Haar)
    return np.concatenate(groups)


def patch_sums(maps: np.ndarray, kernel: tuple[int, int]) -> np.ndarray:
    """Return sums over every cyclic patch of maps ``[N, height, width]``."""
    for axis, taps in ((1, kernel[0]), (2, kernel[1])):
        maps = sum((np.roll(maps, -shift, axis=axis) for shift in range(1, taps)), start=maps)
    return maps


def to_images(rows: np.ndarray, shape: Shape) -> np.ndarray:
    """Return rows as images ``[N, channels, height, width]``."""
    return rows.reshape(len(rows), *shape)
