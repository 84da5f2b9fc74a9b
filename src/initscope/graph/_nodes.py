"""Which nodes of a symbolic trace hold data, and which only hold those that do."""

from __future__ import annotations

import operator

import torch
from torch import fx

__all__ = ["MADE_ANEW", "carries_data", "is_named_tuple", "is_step"]

MADE_ANEW = frozenset({
    "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "empty_like", "zeros_like", "ones_like",
    "full_like", "rand_like", "randn_like", "randint_like",
})  # fmt: skip
"""Calls that read no values of their argument, only its size and type."""

_SIZES = frozenset({"size", "dim", "ndimension", "numel", "nelement", "stride", "get_device", "type", "element_size"})
_SIZES |= frozenset({"is_contiguous", "is_floating_point", "is_complex", "item", "tolist"})
_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


def carries_data(node: fx.Node) -> bool:
    """Whether the node's value is made of the inputs' values: neither a parameter nor a size."""
    if "carries_data" not in node.meta:
        node.meta["carries_data"] = _carries_data(node)
    return bool(node.meta["carries_data"])


def _carries_data(node: fx.Node) -> bool:
    if node.op == "placeholder":
        return True
    if node.op in ("output", "get_attr") or not any(carries_data(parent) for parent in node.all_input_nodes):
        return False
    if node.op == "call_method":
        return node.target not in _SIZES and node.target not in MADE_ANEW
    if node.op == "call_function" and getattr(node.target, "__name__", "") in MADE_ANEW:
        return False
    if node.target is getattr:
        return node.args[1] in _TENSOR_ATTRIBUTES
    return node.target not in (len, torch.numel, torch.is_tensor, isinstance, operator.is_, operator.is_not)


def is_step(node: fx.Node) -> bool:
    """Whether the node makes new data."""
    return carries_data(node) and not is_named_tuple(node.target)


def is_named_tuple(target: object) -> bool:
    """Whether a call only puts values into a named tuple, as a model's output: that is no step."""
    return isinstance(target, type) and issubclass(target, tuple) and hasattr(target, "_fields")
