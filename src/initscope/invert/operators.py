"""`Affine`: the affine part of a layer as an operator, with products by it and by its adjoint but without its matrix.

These are Linear, convolutions of one to three dimensions (any padding, stride, dilation, groups) and their transposes,
batch norm in evaluation mode, average pooling and reshapes: modules that torch runs as affine maps, one after the
other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from initscope.errors import InputError

__all__ = ["AFFINE_MODULES", "Affine", "infer_input_shape"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
AVERAGES = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
SAME_SHAPE = (*BATCH_NORMS, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
AFFINE_MODULES = (
    nn.Linear,
    *CONVOLUTIONS,
    *TRANSPOSED,
    *SAME_SHAPE,
    *AVERAGES,
    nn.Flatten,
    nn.Unflatten,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.ZeroPad2d,
)
"""Modules that are affine in evaluation mode."""

_FULL_VECTOR = 12
"""Output channels from which a convolution on a CPU runs at full speed; fewer leave its vector registers empty."""


class Affine:
    """An affine map of inputs of one shape, through torch modules in evaluation mode.

    ``parts`` are functions or modules applied in order, without hidden state; ``linear`` and ``adjoint`` take and
    return single samples.
    """

    def __init__(
        self, parts: Sequence[Callable[[Tensor], Tensor]], input_shape: Sequence[int], dtype: torch.dtype
    ) -> None:
        self.parts, self.input_shape, self.dtype = tuple(parts), tuple(input_shape), dtype
        try:
            with torch.no_grad():
                self.offset = self(torch.zeros(self.input_shape, dtype=dtype))
        except (RuntimeError, ValueError, IndexError) as error:
            raise InputError(
                f"the layer does not take an input of shape {self.input_shape}: {str(error).splitlines()[0]}; "
                "give the right input_shape"
            ) from error
        self.output_shape = tuple(self.offset.shape)
        self._has_offset = bool(self.offset.any())
        if 0 in self.output_shape:
            raise InputError(f"an input of shape {self.input_shape} has an empty output of shape {self.output_shape}")

    def __call__(self, x: Tensor) -> Tensor:
        """Return the affine map itself."""
        batch = x[None]
        for part in self.parts:
            batch = part(batch)
        return batch[0]

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return math.prod(self.input_shape)

    @property
    def is_dense(self) -> bool:
        """Whether the map is one linear layer on vectors, so that its matrix is available."""
        return len(self.input_shape) == 1 and any(isinstance(part, nn.Linear) for part in self.parts)

    def linear(self, x: Tensor) -> Tensor:
        """Return the product with the matrix, without the offset."""
        return self(x) - self.offset if self._has_offset else self(x)

    def matrix(self) -> NDArray[np.float64]:
        """Return the matrix, from the images of the unit inputs; for dense layers only."""
        with torch.no_grad():
            batch = torch.eye(self.size, dtype=self.dtype).reshape(self.size, *self.input_shape)
            for part in self.parts:
                batch = part(batch)
            columns = (batch - self.offset).reshape(self.size, -1)
        return np.asarray(columns.T.double().numpy())

    def adjoint(self, u: Tensor) -> Tensor:
        """The product with the transpose: the reverse pass of one recorded forward pass, which is not run again."""
        if self._packed is not None:
            return self._packed(u)
        source, image = self._recorded
        (product,) = torch.autograd.grad(image, source, u, retain_graph=True)
        return product

    @cached_property
    def _recorded(self) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            source = torch.zeros(self.input_shape, dtype=self.dtype, requires_grad=True)
            return source, self(source)

    @cached_property
    def _packed(self) -> Callable[[Tensor], Tensor] | None:
        """Return a faster adjoint for convolutions of few input channels, or None if torch's own is as fast."""
        if len(self.parts) == 1 and isinstance(self.parts[0], nn.Conv2d):
            return _packed_adjoint(self.parts[0], self.input_shape)
        return None


def _packed_adjoint(conv: nn.Conv2d, shape: Sequence[int]) -> Callable[[Tensor], Tensor] | None:
    """Return the adjoint as a convolution that computes several neighboring pixels as channels.

    A transposed convolution to three channels would be two to three times slower than the forward pass, because the
    vector units of a CPU run over output channels. Shifted copies of the filters fill the unused channels.
    """
    plain = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1 and conv.padding_mode == "zeros"
    small = conv.in_channels < _FULL_VECTOR and not isinstance(conv.padding, str)
    if not plain or not small or conv.kernel_size[0] * conv.kernel_size[1] < 25:
        return None
    (height, width), channels = conv.kernel_size, conv.in_channels
    pads: Any = conv.padding
    up, left = (side - 1 - int(pad) for side, pad in zip(conv.kernel_size, pads))
    shifts = -(-_FULL_VECTOR // channels)
    flipped = conv.weight.detach().flip(2, 3).transpose(0, 1)
    filters = flipped.new_zeros(shifts * channels, conv.out_channels, height, width + shifts - 1)
    for shift in range(shifts):
        filters[shift * channels : (shift + 1) * channels, :, :, shift : shift + width] = flipped
    right = left + (-shape[-1]) % shifts

    def adjoint(u: Tensor) -> Tensor:
        # Padding inside the convolution avoids a copy of the outputs; asymmetric padding needs one.
        padded, around = (u[None], (up, left)) if right == left else (F.pad(u[None], (left, right, up, up)), (0, 0))
        columns = F.conv2d(padded, filters, stride=(1, shifts), padding=around)[0]
        rows, across = columns.shape[1:]
        pixels = columns.reshape(shifts, channels, rows, across).permute(1, 2, 3, 0).reshape(channels, rows, -1)
        return pixels[:, :, : shape[-1]]

    return adjoint


def infer_input_shape(parts: Sequence[object], output_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of one input from that of one output; `InputError` if it is ambiguous.

    A strided convolution gives the same output for several sizes of input.
    """
    shape = tuple(output_shape)
    for part in reversed(parts):
        shape = _shape_before(part, shape)
    return shape


def _shape_before(part: object, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(part, nn.Linear):
        return (*shape[:-1], part.in_features)
    if isinstance(part, CONVOLUTIONS):
        sides = [_side_before(part, axis, side) for axis, side in enumerate(shape[1:])]
        return (part.in_channels, *sides)
    if isinstance(part, TRANSPOSED):
        return (part.in_channels, *(_side_before_transposed(part, axis, side) for axis, side in enumerate(shape[1:])))
    if isinstance(part, SAME_SHAPE) or getattr(part, "elementwise", False):
        return shape
    name = type(part).__name__ if isinstance(part, nn.Module) else getattr(part, "__name__", str(part))
    raise InputError(f"the shape of the input does not follow from that of the output through {name}; give input_shape")


def _side_before(conv: nn.Module, axis: int, side: int) -> int:
    stride, dilation, kernel = (int(getattr(conv, key)[axis]) for key in ("stride", "dilation", "kernel_size"))
    padding: Any = conv.padding
    if padding == "same":
        return side
    pad = 0 if padding == "valid" else int(padding[axis])
    least = (side - 1) * stride + dilation * (kernel - 1) + 1 - 2 * pad
    if stride > 1:
        raise InputError(
            f"stride {stride}: inputs of sides {least} to {least + stride - 1} have {side} outputs each; "
            "give input_shape, such as (3, 32, 32)"
        )
    return least


def _side_before_transposed(conv: nn.Module, axis: int, side: int) -> int:
    keys = ("stride", "dilation", "kernel_size", "padding", "output_padding")
    stride, dilation, kernel, pad, extra = (int(getattr(conv, key)[axis]) for key in keys)
    steps, rest = divmod(side - 1 - extra + 2 * pad - dilation * (kernel - 1), stride)
    if rest:
        raise InputError(f"a side of {side} is not an output size of this transposed convolution; check the shapes")
    return steps + 1
