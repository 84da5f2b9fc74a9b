r"""Norms of each sample's weight gradient, without ever holding the gradients of all samples.

A weight layer multiplies patches u_t of its input (one t per position; a single one for a dense layer) and gets the
gradients δ_t back, so the gradient of one sample is :math:`G = \sum_t \delta_t u_t^T`. For two samples

.. math:: \langle G, G'\rangle = \sum_{t,t'} \langle\delta_t, \delta'_{t'}\rangle\langle u_t, u'_{t'}\rangle

With T positions, D values per patch and O outputs, this Gram form costs 3T²(D+O) for the three products of a pair, and
the gradients themselves cost 2TDO: `weight_gradient_norms` uses the cheaper form, a few pairs at a time.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

__all__ = ["called_layer", "patches", "weight_gradient_norms"]

_MODERATE = (1e-5, 1e5)  # largest values between these need no rescaling
_CHUNK_VALUES = 1 << 21  # values of patches or gradients that are held at once


_FUNCTIONS: dict[Any, tuple[type[nn.Module], tuple[str, ...]]] = {
    F.linear: (nn.Linear, ("input", "weight", "bias")),
    **{
        function: (kind, ("input", "weight", "bias", "stride", "padding", "dilation", "groups"))
        for function, kind in ((F.conv1d, nn.Conv1d), (F.conv2d, nn.Conv2d), (F.conv3d, nn.Conv3d))
    },
    **{
        function: (kind, ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation"))
        for function, kind in (
            (F.conv_transpose1d, nn.ConvTranspose1d),
            (F.conv_transpose2d, nn.ConvTranspose2d),
            (F.conv_transpose3d, nn.ConvTranspose3d),
        )
    },
}


def called_layer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[nn.Module, Tensor] | None:
    """Return the layer and input of a call of ``F.linear`` or ``F.conv…`` with a parameter as weight.

    The layer has the sizes of the call and no values. Return None for other calls, and for computed weights, because
    training does not change these directly.
    """
    if function not in _FUNCTIONS:
        return None
    kind, names = _FUNCTIONS[function]
    given = dict(zip(names, args, strict=False)) | kwargs
    inputs, weight = given.pop("input", None), given.pop("weight", None)
    given.pop("bias", None)
    if not isinstance(inputs, Tensor) or not isinstance(weight, nn.Parameter):
        return None
    if kind is nn.Linear:
        return nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta"), inputs
    if inputs.dim() != weight.dim():  # a single image
        return None
    groups = given.get("groups", 1)
    sizes = (weight.shape[0], weight.shape[1] * groups)
    channels = sizes if issubclass(kind, _ConvTransposeNd) else sizes[::-1]
    return kind(*channels, tuple(weight.shape[2:]), bias=False, device="meta", **given), inputs


def weight_gradient_norms(module: Any, inputs: Tensor, delta: Tensor) -> Tensor:
    """Return ‖G_x‖, ‖G_y‖ and ‖G_x - G_y‖ of every pair, ``[3, pairs]`` in float64.

    Parameters
    ----------
    module : Linear or convolution
        The layer.
    inputs, delta : Tensor
        Input, and gradient of the loss with respect to the output; the first half of the samples are the x, the second
        half the y of the pairs.
    """
    pairs = len(inputs) // 2
    (inputs, delta), scale = _within_range(inputs, delta)
    positions, patch, outputs, groups = _sizes(module, inputs, delta)
    gram = 3 * positions * (patch + outputs) < 2 * patch * outputs
    product = 2 * positions**2 if gram else patch * outputs
    held = (positions * (patch + outputs) + product) * groups  # by one sample
    step = max(1, _CHUNK_VALUES // (2 * held))
    result = []
    for start in range(0, pairs, step):
        stop = min(pairs, start + step)
        sides = slice(start, stop), slice(pairs + start, pairs + stop)
        both = [_factors(module, inputs[side], delta[side]) for side in sides]
        result.append(_by_gram(both) if gram else _by_gradients(both))
    return scale * torch.cat(result, dim=1).sqrt()


def _within_range(*values: Tensor) -> tuple[list[Tensor], float]:
    """Return values whose products fit into single precision, and by what their products are to be multiplied."""
    scaled, scale = [], 1.0
    for tensor in values:
        # Not the maximum norm, which torch takes value by value.
        least, most = map(float, torch.aminmax(tensor)) if tensor.numel() else (-1.0, 1.0)
        largest = max(abs(least), abs(most))
        extreme = 0 < largest < math.inf and not _MODERATE[0] < largest < _MODERATE[1]
        scaled.append(tensor / largest if extreme else tensor)
        scale *= largest if extreme else 1.0
    return scaled, scale


def _sizes(module: Any, inputs: Tensor, delta: Tensor) -> tuple[int, int, int, int]:
    """Return positions, values of a patch, outputs (the latter two per group), groups."""
    if isinstance(module, nn.Linear):
        return math.prod(inputs.shape[1:-1]), module.in_features, module.out_features, 1
    taps, groups = math.prod(module.kernel_size), module.groups
    seen, other = (delta, inputs) if isinstance(module, _ConvTransposeNd) else (inputs, delta)
    return math.prod(other.shape[2:]), seen.shape[1] // groups * taps, other.shape[1] // groups, groups


def _factors(module: Any, inputs: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``[n, groups, outputs, positions]`` and ``[n, groups, patch, positions]``, factors of the gradient."""
    if isinstance(module, nn.Linear):
        back, read = delta.reshape(len(delta), -1, delta.shape[-1]), inputs.reshape(len(inputs), -1, inputs.shape[-1])
        return back.mT[:, None], read.mT[:, None]
    seen, other = (delta, inputs) if isinstance(module, _ConvTransposeNd) else (inputs, delta)
    return _grouped(other.flatten(2), module.groups), _grouped(patches(module, seen, other.shape[2:]), module.groups)


def _grouped(values: Tensor, groups: int) -> Tensor:
    return values.reshape(len(values), groups, -1, values.shape[-1])


def patches(module: Any, values: Tensor, positions: tuple[int, ...]) -> Tensor:
    """Return the patch at each of ``positions``, ``[n, channels · taps, positions]``, for any number of axes."""
    axes = len(module.kernel_size)
    transposed = isinstance(module, _ConvTransposeNd)
    padded = _padded(module, values, transposed)
    for axis, (size, stride, dilation) in enumerate(
        zip(module.kernel_size, module.stride, module.dilation, strict=True)
    ):
        windows = padded.unfold(2 + axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
        padded = windows.narrow(2 + axis, 0, positions[axis])
    # now [n, channels, *positions, *taps]
    order = [0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)]
    return padded.permute(order).reshape(len(values), -1, math.prod(positions))


def _padded(module: Any, values: Tensor, transposed: bool) -> Tensor:
    if not transposed and module.padding_mode != "zeros":
        return F.pad(values, module._reversed_padding_repeated_twice, mode=module.padding_mode)
    if isinstance(module.padding, str):
        widths = list(module._reversed_padding_repeated_twice)
    else:
        widths = [width for size in reversed(module.padding) for width in (size, size)]
    return F.pad(values, widths) if any(widths) else values


def _by_gradients(both: list[tuple[Tensor, Tensor]]) -> Tensor:
    x, y = (torch.matmul(values, seen.mT).flatten(1) for values, seen in both)
    return _squares(x, y)


def _squares(x: Tensor, y: Tensor) -> Tensor:
    norms = [torch.linalg.vector_norm(values, dim=1).double().square() for values in (x, y, x - y)]
    return torch.stack(norms)


def _by_gram(both: list[tuple[Tensor, Tensor]]) -> Tensor:
    x, y = both
    xx, yy, xy = [
        ((values.mT @ others) * (seen.mT @ seen_others)).flatten(1).sum(dim=1, dtype=torch.float64)
        for (values, seen), (others, seen_others) in ((x, x), (y, y), (x, y))
    ]
    return torch.stack([xx, yy, (xx + yy - 2 * xy).clamp_min(0)])
