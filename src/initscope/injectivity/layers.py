"""Weights and bias of one layer as a matrix: from a state dict or array file, or from a torch model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.tensors import read_tensors
from initscope.errors import InputError
from initscope.injectivity._layer import Floats, as_layer

if TYPE_CHECKING:
    import torch

__all__ = ["layer_from_file", "layer_from_model", "module_matrix"]

LARGEST_MATRIX = 50_000_000


def layer_from_file(path: str | os.PathLike[str], layer: str | None = None) -> tuple[Floats, Floats | None]:
    """Return weights and bias of ``layer`` from a torch state dict (``.pt``, ``.pth``), ``.npz`` or ``.npy`` file.

    Without ``layer`` the file must hold a single matrix.
    """
    path = Path(path)
    arrays = _read(path)
    matrices = [name for name, value in arrays.items() if value.ndim >= 2]
    if not matrices:
        shapes = ", ".join(f"{name} of shape {tuple(value.shape)}" for name, value in arrays.items())
        raise InputError(f"{path.name} holds no weight matrix (outputs × inputs), only {shapes}")
    if layer is None:
        if len(matrices) != 1:
            raise InputError(
                f"{path.name} holds {len(matrices)} weights; choose one with --layer: {', '.join(_layers(matrices))}"
            )
        name = matrices[0]
    else:
        name = next((name for name in (f"{layer}.weight", layer) if name in matrices), "")
        if not name:
            raise InputError(
                f"layer {layer!r} is not in {path.name}; its layers are: {', '.join(_layers(matrices)) or 'none'}"
            )
    weight = arrays[name]
    if weight.ndim != 2:
        raise InputError(
            f"{name} has shape {weight.shape}, which is a convolution; the file does not hold its stride and padding,"
            " so give the MODEL too, with --input-shape"
        )
    stem = name.removesuffix("weight")
    bias = arrays.get(f"{stem}bias") if name.endswith("weight") else arrays.get("bias")
    return as_layer(weight, bias)


def _layers(names: list[str]) -> list[str]:
    return [name.removesuffix(".weight") for name in names]


def _read(path: Path) -> dict[str, Any]:
    state = read_tensors(path, hint="save a matrix, or a state dict by torch.save(model.state_dict(), FILE)")
    if hasattr(state, "ndim"):
        state = {"W": state}
    for inner in ("state_dict", "model"):  # checkpoints that wrap the state dict
        if isinstance(state, dict) and isinstance(state.get(inner), dict):
            state = state[inner]
    tensors = (
        {name: value for name, value in state.items() if hasattr(value, "ndim")} if isinstance(state, dict) else {}
    )
    if not tensors:
        raise InputError(
            f"{path.name} holds no tensors; it should be a state dict (torch.save(model.state_dict(), ...))"
        )
    return tensors


def layer_from_model(
    model: torch.nn.Module, layer: str | None, input_shape: tuple[int, ...] | None = None
) -> tuple[Floats, Floats | None]:
    """Return the matrix and bias of the Linear or Conv layer called ``layer`` (if None, the only one) of a torch model.

    A convolution becomes the matrix of its action on one input; ``input_shape`` is the model's input without the batch.
    """
    import torch

    kinds = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    modules = {name: module for name, module in model.named_modules() if isinstance(module, kinds)}
    if layer is None and len(modules) == 1:
        layer = next(iter(modules))
    if not modules:
        raise InputError("the model has no Linear or Conv layer, so there is nothing to decide")
    if layer is None:
        raise InputError(f"the model has {len(modules)} layers; choose one with --layer: {', '.join(modules)}")
    if layer not in modules:
        known = ", ".join(modules)
        raise InputError(f"layer {layer!r} is not a Linear or Conv layer of the model; choose from: {known}")
    module = modules[layer]
    if isinstance(module, torch.nn.Linear):
        return as_layer(module.weight, module.bias)
    if input_shape is None:
        raise InputError(
            f"layer {layer!r} is a convolution, whose matrix depends on the input shape; give --input-shape 3x32x32"
        )
    return module_matrix(module, _shape_at(model, module, input_shape))


def _shape_at(model: torch.nn.Module, module: torch.nn.Module, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one input of ``module`` if the model gets zeros of ``input_shape``; its mode is restored."""
    import torch

    seen: list[tuple[int, ...]] = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape[1:])))
    modes = {part: part.training for part in model.modules()}
    try:
        with torch.no_grad():
            model.eval()(torch.zeros(1, *input_shape))
    except RuntimeError as error:
        raise InputError(
            f"the model does not take an input of shape {input_shape}: {str(error).splitlines()[0]}"
        ) from error
    finally:
        handle.remove()
        for part, training in modes.items():
            part.training = training
    if not seen:
        raise InputError("the model's forward pass does not call this layer; choose another one with --layer")
    return seen[0]


def module_matrix(module: torch.nn.Module, shape: tuple[int, ...]) -> tuple[Floats, Floats | None]:
    """Return matrix and bias of an affine module on inputs of ``shape``: columns are the images of the unit inputs."""
    import torch

    inputs = int(np.prod(shape))
    parameter = next(module.parameters())
    with torch.no_grad():
        offset = module(torch.zeros(1, *shape, dtype=parameter.dtype))
        if inputs * offset.numel() > LARGEST_MATRIX:
            raise InputError(
                f"the layer's matrix would be {offset.numel()} × {inputs}, more than {LARGEST_MATRIX:,} entries;"
                " use a smaller --input-shape"
            )
        units = torch.eye(inputs, dtype=parameter.dtype).reshape(inputs, *shape)
        images = torch.cat([module(units[at : at + 256]) - offset for at in range(0, inputs, 256)])
    return as_layer(images.reshape(inputs, -1).T, offset.reshape(-1))
