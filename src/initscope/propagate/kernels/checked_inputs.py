"""Checks of the arguments of kernels: models without batch statistics, inputs without NaN, infinity and zeros."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.errors import InputError
from initscope.graph import Inputs, bind
from initscope.graph.batch import real_tensor
from initscope.graph.borrowing import runnable

__all__ = ["bound_inputs", "checked_model", "on_device"]

Device = str | torch.device | None


def checked_model(model: nn.Module, kind: str) -> nn.Module:
    """Return the model as it can be run; refuses unknown kinds of kernel and batch norm in training mode."""
    if kind not in ("nngp", "ntk"):
        raise InputError(f"kind = {kind!r} must be 'nngp' or 'ntk'")
    model = runnable(model, values=False)
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        raise InputError("batch norm in training mode mixes the samples of a batch; call model.eval() first")
    return model


def bound_inputs(model: nn.Module, images: Any, name: str) -> Inputs:
    """Return the checked inputs; errors call them ``name``."""
    tensor = images if isinstance(images, Tensor) and not images.is_floating_point() else real_tensor(images)
    if tensor.dim() < 2 or len(tensor) == 0:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; give at least one input, shaped [N, ...]")
    if tensor.is_floating_point():
        squares = tensor.double().flatten(1).square().sum(dim=1)
        bad = ~torch.isfinite(squares) | (squares == 0)
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            what = "is zero" if float(squares[first]) == 0 else "holds NaN or infinity"
            raise InputError(f"{name}[{first}] {what}: its cosines are not defined; leave it out")
    return bind(model, tensor)


def on_device(model: nn.Module, device: Device, *values: Any) -> tuple[Any, ...]:
    """Return the model, copied to another device if needed, and the arrays as tensors there."""
    if device is None:
        return model, *values
    try:
        target = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:  # torch asserts that it was built for CUDA
        reason = str(error).splitlines()[0]
        raise InputError(f"device = {device!r}: {reason}; give 'cpu', or a device that torch finds here") from error
    if any(tensor.device != target for tensor in (*model.parameters(), *model.buffers())):
        model = copy.deepcopy(model).to(target)
    moved = [None if value is None else torch.as_tensor(value).to(target) for value in values]
    return model, *moved
