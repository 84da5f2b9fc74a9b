"""The same network wider, narrower or shallower: a copy of it rewritten in place."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.utils import parametrize

from initscope.errors import InputError
from initscope.graph import hidden_sides, is_weight_layer, trace

__all__ = ["halve_depth", "scale_widths"]


def scale_widths(model: nn.Module, factor: float, x: Tensor, generator: torch.Generator) -> None:
    """Multiply the number of all hidden units by ``factor``, in place.

    Units that the input or the output has are not changed.

    Weights are drawn again, Gaussian with each layer's present variance × fan-in; biases and norms are repeated or cut.
    ``x`` is an input for models that branch on their data.
    """
    sides = hidden_sides(trace(model, x[:2]))
    if not any(any(both) and is_weight_layer(module) for module, both in sides.items()):
        raise InputError("it has no hidden Linear or convolution whose width could change")
    with torch.no_grad():
        for module, (reads_hidden, writes_hidden) in sides.items():
            if not (reads_hidden or writes_hidden):
                continue
            if parametrize.is_parametrized(module):
                raise InputError(f"the weights of {type(module).__name__} are parametrized")
            if is_weight_layer(module):
                _resize_weights(module, reads_hidden, writes_hidden, factor, generator)
            else:
                _resize_units(module, factor)


def _resize_weights(
    module: Any, reads_hidden: bool, writes_hidden: bool, factor: float, generator: torch.Generator
) -> None:
    groups = getattr(module, "groups", 1)
    names = ("in_features", "out_features") if isinstance(module, nn.Linear) else ("in_channels", "out_channels")
    before = getattr(module, names[0])
    for name, is_hidden in zip(names, (reads_hidden, writes_hidden), strict=True):
        setattr(module, name, _scaled(getattr(module, name), factor) if is_hidden else getattr(module, name))
    if groups > 1:  # multiply the number of groups, of the size they had
        if not (reads_hidden and writes_hidden):
            raise InputError("hidden units are on only one side of a grouped convolution")
        module.groups = _scaled(groups, factor)
    inputs, outputs = (getattr(module, name) for name in names)
    fan_in_grows = inputs / before if groups == 1 else 1.0
    taps = module.weight.shape[2:]
    shape = (
        (inputs, outputs // getattr(module, "groups", 1), *taps)
        if isinstance(module, _ConvTransposeNd)
        else (outputs, inputs // getattr(module, "groups", 1), *taps)
    )
    deviation = math.sqrt(float(module.weight.var(correction=0)) / fan_in_grows)
    module.weight = nn.Parameter(module.weight.new_empty(shape).normal_(0, deviation, generator=generator))
    if module.bias is not None:
        module.bias = nn.Parameter(_repeated(module.bias, outputs))


def _resize_units(module: Any, factor: float) -> None:
    """Norms, and activations with a parameter for each unit."""
    if isinstance(module, _NormBase):
        module.num_features = count = _scaled(module.num_features, factor)
    elif isinstance(module, nn.GroupNorm):
        module.num_channels = count = _scaled(module.num_channels, factor)
    elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and len(module.normalized_shape) == 1:
        count = _scaled(module.normalized_shape[0], factor)
        module.normalized_shape = (count,)
    elif isinstance(module, nn.PReLU) and module.num_parameters > 1:
        module.num_parameters = count = _scaled(module.num_parameters, factor)
    elif any(parameter.numel() > 1 for parameter in module.parameters()):
        raise InputError(f"the units of nn.{type(module).__name__} are tied to others whose number is fixed")
    else:
        return
    for name, parameter in list(module.named_parameters(recurse=False)):
        setattr(module, name, nn.Parameter(_repeated(parameter, count)))
    for name, buffer in list(module.named_buffers(recurse=False)):
        if buffer.dim():
            setattr(module, name, _repeated(buffer, count))


def _scaled(count: int, factor: float) -> int:
    return max(1, int(count * factor))


def _repeated(values: Tensor, count: int) -> Tensor:
    return values.detach().repeat(-(-count // len(values)))[:count].clone()


def halve_depth(model: nn.Module) -> None:
    """Leave out half of the repeated blocks, in place: runs of equal modules in Sequential and ModuleList."""
    if not _halved(model):
        raise InputError("it has no block that is repeated in an nn.Sequential or nn.ModuleList")


def _halved(module: nn.Module) -> bool:
    """Return whether a repeated block was left out; nothing more is left out inside repeated blocks."""
    if not isinstance(module, (nn.Sequential, nn.ModuleList)):
        return sum(_halved(child) for child in module.children()) > 0
    children = list(module)  # with modules that stand there more than once
    texts = [repr(child) for child in children]
    kept: list[nn.Module] = []
    index, halved = 0, False
    while index < len(children):
        period, repeats = _run_at(texts, index)
        block = children[index : index + period]
        if repeats > 1 and any(_has_weights(child) for child in block):
            kept += children[index : index + period * (repeats - repeats // 2)]
            halved = True
        else:
            period, repeats = 1, 1
            kept.append(children[index])
            halved |= _halved(children[index])
        index += period * repeats
    if len(kept) < len(children):
        _keep(module, kept)
    return halved


def _keep(container: nn.Module, kept: list[nn.Module]) -> None:
    for name in list(container._modules):
        del container._modules[name]
    for index, child in enumerate(kept):
        container.add_module(str(index), child)


def _run_at(texts: list[str], start: int) -> tuple[int, int]:
    """Return period and number of repetitions of the longest run of equal blocks that starts at ``start``."""
    best = (1, 1)
    for period in range(1, (len(texts) - start) // 2 + 1):
        block = texts[start : start + period]
        repeats = 1
        while texts[start + repeats * period : start + (repeats + 1) * period] == block:
            repeats += 1
        if repeats > 1 and period * repeats > best[0] * best[1]:
            best = (period, repeats)
    return best


def _has_weights(module: nn.Module) -> bool:
    return any(is_weight_layer(inner) for inner in module.modules())
