"""Random filters on pairs of images: the samples of `initscope.plan.filters` and of its check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import conv2d, pad

from initscope._utils.randomness import torch_generator
from initscope.data import check_pairs
from initscope.errors import check_between, check_count
from initscope.theory.activations import Activation, activation as named_activation
from initscope.theory.images._windows import Windows

__all__ = ["ConvLayer", "filter_statistics", "image_pairs"]

_CHUNK_VALUES = 1 << 24
"""Largest number of outputs in memory."""


@dataclass(frozen=True)
class ConvLayer:
    """A random convolutional layer of a plan: filters, padding and stride, activation, variance of the weights."""

    windows: Windows
    activation: Activation
    variance: float

    @classmethod
    def read(
        cls,
        size: Sequence[int],
        *,
        kernel_size: int,
        activation: Any,
        padding: str | int,
        stride: int,
        weight_variance: float | None,
    ) -> ConvLayer:
        """Return the layer for images of this height and width; the default variance preserves expected norms."""
        sigma = named_activation(activation)
        windows = Windows.read(tuple(size), kernel_size, padding=padding, stride=stride)
        variance = sigma.gain**2 / windows.taps if weight_variance is None else weight_variance
        return cls(windows, sigma, check_between("weight_variance", variance, 0.0, math.inf))

    @property
    def options(self) -> dict[str, Any]:
        """Return the layer as options of `initscope.theory.images`, for images that are already padded."""
        windows = self.windows
        return {
            "kernel_size": windows.kernel_size,
            "stride": windows.stride,
            "padding": "valid",
            "activation": self.activation,
            "weight_variance": self.variance,
        }

    def outputs(self, images: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        """Return σ of the convolution of padded images, ``[images, filters, positions]``."""
        rows, columns = self.windows.stride
        sums = conv2d(images, filters, stride=(rows, columns), dilation=self.windows.dilation)
        if self.activation.name == "relu":
            return sums.relu_().flatten(2)
        values = np.asarray(self.activation(sums.numpy()))  # a user's function may use NumPy
        return torch.from_numpy(values).flatten(2)

    def padded(self, images: torch.Tensor) -> torch.Tensor:
        """Return the padded images."""
        widths = [amount for sides in reversed(self.windows.padding) for amount in sides]
        mode = {"zeros": "constant"}.get(self.windows.padding_mode, self.windows.padding_mode)
        return pad(images, widths, mode=mode) if any(widths) else images

    def positions(self, size: torch.Size) -> int:
        """Return the number of positions of the filter on images of this height and width."""
        return math.prod(self.windows.sum(np.zeros(tuple(size))).shape)


def image_pairs(x: Any, y: Any, kernel_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both images, or batches of them, as checked float32 tensors (pairs, channels, height, width)."""
    first, second = (
        torch.as_tensor(image if isinstance(image, torch.Tensor) else np.ascontiguousarray(image)) for image in (x, y)
    )
    first, second = (image.detach().reshape((1,) * (4 - image.ndim) + tuple(image.shape)) for image in (first, second))
    check_pairs(first, second, ndim=4)
    check_count(
        "kernel_size", kernel_size, most=min(first.shape[-2:]), hint="a filter is at most as large as the image"
    )
    return first.to(torch.float32), second.to(torch.float32)


def filter_statistics(
    x: torch.Tensor, y: torch.Tensor, layer: ConvLayer, count: int, *, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw ``count`` Gaussian filters; return the inner product and both squared norms of the outputs of each."""
    generator = torch_generator(seed, "filters")
    both = layer.padded(torch.stack([x, y]))
    chunk = max(1, _CHUNK_VALUES // (2 * layer.positions(x.shape[-2:])))
    scale = math.sqrt(layer.variance)
    parts = []
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        weights = scale * torch.randn(size, x.shape[0], *layer.windows.kernel_size, generator=generator)
        first, second = layer.outputs(both, weights)
        parts.append(torch.stack([(first * second).sum(1), (first**2).sum(1), (second**2).sum(1)]).double())
    inner, norm_x, norm_y = torch.cat(parts, dim=1).numpy()
    return inner, norm_x, norm_y
