"""Functions, methods and operators: which module a call stands for, and the rules of those that read several values.

``F.relu(x)``, ``torch.relu(x)``, ``x.relu()`` and ``x.relu_()`` are all the module ``nn.ReLU``; there is one rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from initscope._modules import ActivationLayer
from initscope.tracing import OPERATORS

__all__ = ["as_module", "find_operation", "name_of", "operation"]

Operation = Callable[..., Any]
AnyOperation = TypeVar("AnyOperation", bound=Operation)
_OPERATIONS: dict[str, Operation] = {}

_SAME_ARGUMENTS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "celu": nn.CELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "logsigmoid": nn.LogSigmoid,
    "hardtanh": nn.Hardtanh,
    "hardsigmoid": nn.Hardsigmoid,
    "hardswish": nn.Hardswish,
    "hardshrink": nn.Hardshrink,
    "softshrink": nn.Softshrink,
    "tanhshrink": nn.Tanhshrink,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "threshold": nn.Threshold,
    "avg_pool1d": nn.AvgPool1d,
    "avg_pool2d": nn.AvgPool2d,
    "avg_pool3d": nn.AvgPool3d,
    "max_pool1d": nn.MaxPool1d,
    "max_pool2d": nn.MaxPool2d,
    "max_pool3d": nn.MaxPool3d,
    "adaptive_avg_pool1d": nn.AdaptiveAvgPool1d,
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "adaptive_avg_pool3d": nn.AdaptiveAvgPool3d,
    "interpolate": nn.Upsample,
    "upsample": nn.Upsample,
    "layer_norm": nn.LayerNorm,
}
_ELEMENTWISE = ("abs", "sin", "cos", "exp", "erf", "sign")
_NOTHING = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
    "contiguous", "clone", "detach", "float", "double", "to", "type_as", "cpu",
}  # fmt: skip
_TORCH = (torch, F, torch.special, torch.Tensor, operator)
# boolean_dispatch hides the names of the pooling functions
_NAMES: dict[Any, str] = {getattr(F, name): name for name in _SAME_ARGUMENTS if hasattr(F, name)}


def name_of(target: Any) -> str:
    """Name of a function, method or operator of torch, without the underscore of its in-place form; else empty."""
    if isinstance(target, str):
        name = target
    elif target in _NAMES:
        return _NAMES[target]
    elif target in OPERATORS:
        name = OPERATORS[target]
    else:
        name = getattr(target, "__name__", "")
        if not any(getattr(place, name, None) is target for place in _TORCH) and target is not getattr:
            return ""
    if name.startswith("__"):
        name = name.strip("_")
    return "div" if name == "truediv" else name.rstrip("_")


def as_module(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> nn.Module | None:
    """The module that a call with these further arguments stands for, if there is one."""
    if name in _NOTHING:
        return nn.Identity()
    if name in _ELEMENTWISE:
        return ActivationLayer(name)
    if name not in _SAME_ARGUMENTS:
        return None
    kwargs = {key: value for key, value in kwargs.items() if key not in ("inplace", "antialias")}
    if name == "layer_norm":
        return _layer_norm(*args, **kwargs)
    return _SAME_ARGUMENTS[name](*args, **kwargs)


def _layer_norm(normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> nn.Module:
    module = nn.LayerNorm(tuple(normalized_shape), eps=eps, elementwise_affine=weight is not None)
    if weight is not None:
        module.weight.data = weight
        if bias is not None:
            module.bias.data = bias
    return module


def operation(*names: str) -> Callable[[AnyOperation], AnyOperation]:
    """Register the decorated function, of ``(context, *args, **kwargs)`` with states among them, for these names."""

    def register(function: AnyOperation) -> AnyOperation:
        for name in names:
            _OPERATIONS[name] = function
        return function

    return register


def find_operation(name: str) -> Operation | None:
    """The rule of a function, method or operator by its name."""
    return _OPERATIONS.get(name)
