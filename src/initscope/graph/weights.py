"""Layers whose weights are drawn: Linear and convolutions, transposed ones too."""

from __future__ import annotations

from typing import Any, TypeGuard

from torch import nn
from torch.nn.modules.conv import _ConvNd

__all__ = ["WeightLayer", "is_convolution", "is_weight_layer", "unit_axis"]

WeightLayer = nn.Linear | _ConvNd


def is_weight_layer(module: Any) -> TypeGuard[WeightLayer]:
    """Whether it is a Linear or a convolution of any number of dimensions, transposed or not."""
    return isinstance(module, (nn.Linear, _ConvNd))


def is_convolution(module: Any) -> TypeGuard[_ConvNd]:
    """Whether it is a convolution of any number of dimensions, transposed or not."""
    return isinstance(module, _ConvNd)


def unit_axis(module: Any) -> int | None:
    """Axis of one sample's output along which a layer's units lie; None if it has no weights that say so."""
    if isinstance(module, nn.Linear):
        return -1
    return 0 if isinstance(module, _ConvNd) else None
