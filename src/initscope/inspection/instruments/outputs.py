"""Outputs of models in any container (tuples, dicts, dataclasses, Hugging Face), and the value of a loss on them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor

from initscope.errors import InputError
from initscope.graph import named_tensors

__all__ = ["Loss", "loss_value", "own_loss", "real_tensors", "replace_tensors", "with_tensors"]

Loss = Callable[[Any, Any], Any]


def real_tensors(output: Any) -> list[Tensor]:
    """Return all floating-point tensors of an output, in order."""
    return [tensor for _, tensor in named_tensors(_opened(output), "") if tensor.is_floating_point()]


def with_tensors(output: Any, pairs: list[tuple[Tensor, Tensor]]) -> Any:
    """Return the output with the first tensor of each pair replaced by the second."""
    replacements = {id(old): new for old, new in pairs}
    return replace_tensors(output, lambda tensor: replacements.get(id(tensor), tensor))


def replace_tensors(value: Any, replace: Callable[[Tensor], Tensor]) -> Any:
    """Return a copy of ``value`` of the same types, with ``replace`` applied to every tensor inside."""
    if isinstance(value, Tensor):
        return replace(value)
    if isinstance(value, (tuple, list)):
        items = [replace_tensors(item, replace) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):  # Hugging Face's outputs are mappings that also have attributes
        result: Any = copy.copy(value)
        for key, item in value.items():
            result[key] = replace_tensors(item, replace)
        return result
    if _has_tensors(value):
        result = copy.copy(value)
        for name, item in vars(value).items():
            object.__setattr__(result, name, replace_tensors(item, replace))
        return result
    return value


def own_loss(output: Any) -> Tensor | None:
    """Return the loss that a model computes itself, as Hugging Face models do if they get labels, else None."""
    value = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return value if isinstance(value, Tensor) and value.numel() == 1 else None


def loss_value(loss: Loss | None, output: Any, targets: Any) -> Tensor:
    """Return the scalar to minimize: ``loss(output, targets)`` or, without a loss, the model's own loss.

    If a loss returns a tuple, its first member counts; in a dict, the entry ``loss``.
    """
    value = own_loss(output) if loss is None else loss(output, targets)
    if loss is None and value is None:
        raise InputError("no loss is given and the model returns none of its own; pass loss=")
    if isinstance(value, (tuple, list)) and value:
        value = value[0]
    elif isinstance(value, Mapping) and "loss" in value:
        value = value["loss"]
    if not isinstance(value, Tensor):
        raise InputError(f"the loss returns {type(value).__name__}; return a tensor with one value")
    if value.numel() != 1:
        raise InputError(f"the loss returns a tensor of shape {tuple(value.shape)}; reduce it to one value: .mean()")
    return value.reshape(())


def _has_tensors(value: Any) -> bool:
    """Return whether an object that is not a container has tensors in its attributes."""
    fields = getattr(value, "__dict__", None)
    if not fields or isinstance(value, (type, torch.nn.Module)):
        return False
    return is_dataclass(value) or any(isinstance(item, Tensor) for item in fields.values())


def _opened(output: Any) -> Any:
    return vars(output) if not isinstance(output, (Tensor, Mapping)) and _has_tensors(output) else output
