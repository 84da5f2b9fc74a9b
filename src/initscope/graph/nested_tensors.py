"""Tensors in nested tuples, lists, dicts and dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

from torch import Tensor

__all__ = ["map_tensors", "named_tensors"]


def map_tensors(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """Return ``value`` with ``function`` applied to every tensor in nested tuples, lists and dicts.

    Parameters
    ----------
    value : object
        Tensors, nested or not.
    function : callable
        Takes a tensor.

    Returns
    -------
    object
        Of the same structure.
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, function) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        mapped = tuple(map_tensors(item, function) for item in value)
        try:
            return type(value)(*mapped)
        except Exception:  # a packed sequence takes nothing but tensors
            return mapped
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(item, function) for item in value)
    return value


def named_tensors(value: Any, prefix: str) -> list[tuple[str, Tensor]]:
    """Return every tensor in nested tuples, lists, dicts and dataclasses with a name like ``batch[image]``.

    Parameters
    ----------
    value : object
        Tensors, nested or not.
    prefix : str
        Name of the whole.

    Returns
    -------
    list of (str, Tensor)
        In order.
    """
    if isinstance(value, Tensor):
        return [(prefix, value)]
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (tuple, list)):
        items = list(enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        items = list(vars(value).items())
    else:
        return []
    return [named for key, item in items for named in named_tensors(item, f"{prefix}[{key}]")]
