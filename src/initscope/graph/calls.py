"""Calls of functions, methods and operators: their names, and the module that a call amounts to.

``F.relu(x)``, ``torch.relu(x)``, ``x.relu()`` and ``x.relu_()`` are all the module ``nn.ReLU``: one rule, one role.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from initscope.graph.activations import ACTIVATIONS, ActivationRow, activation_row
from initscope.graph.ops import OPS

__all__ = ["OPERATORS", "STANDS_FOR", "UNCHANGED", "as_module", "call_name", "called_activation"]

STANDS_FOR: dict[str, type[nn.Module]] = {
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
"""Modules, apart from activations, whose constructors take what the function takes after its input."""
UNCHANGED = frozenset(name for name, op in OPS.items() if op.traits.keeps_values and op.name != "identity")
"""Calls that leave the values as they are; dropout is off wherever geometry is looked at."""
OPERATORS = {
    getattr(operator, f"i{name}"): name
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
}
"""``a += b`` and its kind, with the name of the operation."""

_TORCH = (torch, F, torch.special, torch.Tensor, operator)
_NAMES: dict[Any, str] = {
    getattr(F, name): name for name in (*STANDS_FOR, *(row.name for row in ACTIVATIONS)) if hasattr(F, name)
}
"""Of functions that do not know their names: boolean_dispatch hides those of pooling."""
_OTHER_ARGUMENTS = frozenset({"identity", "rrelu"})
"""Activations whose function, if there is one, is not called as their module is built."""


def call_name(target: Any) -> str:
    """Return the name of a function, method or operator of torch, without the underscore of its in-place form.

    Otherwise "".

    Parameters
    ----------
    target : callable or str
        The called object: a function, an operator, or the name of a method.

    Returns
    -------
    str

    >>> call_name(torch.relu_), call_name("add_"), call_name(operator.iadd), call_name(print)
    ('relu', 'add', 'add', '')
    """
    if isinstance(target, str):
        name = target
    elif target in _NAMES:
        return _NAMES[target]
    elif target in OPERATORS:
        name = OPERATORS[target]
    else:
        name = getattr(target, "__name__", "")
        if not any(getattr(module, name, None) is target for module in _TORCH) and target is not getattr:
            return ""
    if name.startswith("__"):
        name = name.strip("_")
    return "div" if name == "truediv" else name.rstrip("_")


def as_module(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> nn.Module | None:
    """Return the module that is equivalent to a call with these further arguments, if there is one.

    Parameters
    ----------
    name : str
        The name that `call_name` returns.
    args, kwargs
        The arguments after the input.

    Returns
    -------
    nn.Module or None
    """
    if name in UNCHANGED:
        return nn.Identity()
    kwargs = {key: value for key, value in kwargs.items() if key not in ("inplace", "antialias")}
    if name in _BUILT_OTHERWISE:
        return _BUILT_OTHERWISE[name](*args, **kwargs)
    if name in STANDS_FOR:
        return STANDS_FOR[name](*args, **kwargs)
    row = called_activation(name)
    if row is None or name in _OTHER_ARGUMENTS:
        return None
    return row.build() if row.module is None else row.module(*args, **kwargs)


def called_activation(name: str) -> ActivationRow | None:
    """Return the row of the activation that torch's function or method of that name applies.

    >>> called_activation("relu").name, called_activation("linear")
    ('relu', None)
    """
    row = activation_row(name)
    return row if row is not None and row.name == name and name != "identity" else None


def _layer_norm(normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> nn.Module:
    module = nn.LayerNorm(tuple(normalized_shape), eps=eps, elementwise_affine=weight is not None)
    if weight is not None:
        module.weight.data = weight
        if bias is not None:
            module.bias.data = bias
    return module


def _prelu(weight: torch.Tensor) -> nn.Module:
    module = nn.PReLU(weight.numel())
    module.weight.data = weight.detach().reshape(-1)
    return module


def _flatten(start_dim: int = 0, end_dim: int = -1) -> nn.Module:
    return nn.Flatten(start_dim, end_dim)


_BUILT_OTHERWISE: dict[str, Callable[..., nn.Module]] = {
    "flatten": _flatten,
    "layer_norm": _layer_norm,
    "prelu": _prelu,
}
