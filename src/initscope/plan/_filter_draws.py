"""Pairs of images under random filters: what `initscope.plan.filters` and its check draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import conv2d, pad

from initscope.data import check_pairs
from initscope.errors import check_count

__all__ = ["filter_statistics", "image_pairs", "patch_ratio"]

_CHUNK_VALUES = 1 << 24
"""Outputs held at once, in numbers."""


def image_pairs(x: Any, y: Any, kernel_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both images, or batches of them, as checked (pairs, channels, height, width) tensors of float32."""
    first, second = (
        torch.as_tensor(image if isinstance(image, torch.Tensor) else np.ascontiguousarray(image)) for image in (x, y)
    )
    first, second = (image.detach().reshape((1,) * (4 - image.ndim) + tuple(image.shape)) for image in (first, second))
    check_pairs(first, second, ndim=4)
    check_count(
        "kernel_size", kernel_size, most=min(first.shape[-2:]), hint="a filter is at most as large as the image"
    )
    return first.to(torch.float32), second.to(torch.float32)


def _wrap(image: torch.Tensor, kernel_size: int) -> torch.Tensor:
    return pad(image, (0, kernel_size - 1, 0, kernel_size - 1), mode="circular") if kernel_size > 1 else image


def patch_ratio(images: torch.Tensor, kernel_size: int) -> float:
    """Largest norm of a patch over the norm of its image: the R of corollary 1."""
    energy = (images.double() ** 2).sum(dim=1, keepdim=True)
    box = torch.ones(1, 1, kernel_size, kernel_size, dtype=energy.dtype)
    patches = conv2d(_wrap(energy, kernel_size), box)
    return float((patches.amax(dim=(1, 2, 3)) / energy.sum(dim=(1, 2, 3))).max().sqrt())


def filter_statistics(
    x: torch.Tensor, y: torch.Tensor, kernel_size: int, count: int, *, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw ``count`` Gaussian filters: each one's output inner product and both squared norms, after ReLU."""
    generator = torch.Generator().manual_seed(seed)
    both = _wrap(torch.stack([x, y]), kernel_size)
    chunk = max(1, _CHUNK_VALUES // (2 * x.shape[-1] * x.shape[-2]))
    parts = []
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        weights = torch.randn(size, x.shape[0], kernel_size, kernel_size, generator=generator)
        one, other = conv2d(both, weights).relu_().flatten(2)
        parts.append(torch.stack([(one * other).sum(1), (one * one).sum(1), (other * other).sum(1)]).double())
    inner, norm_x, norm_y = torch.cat(parts, dim=1).numpy()
    return inner, norm_x, norm_y
