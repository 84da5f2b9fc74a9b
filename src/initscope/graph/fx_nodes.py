"""Which nodes of a symbolic trace hold data, and which only hold those that do."""

from __future__ import annotations

import operator

import torch
from torch import fx

from initscope.graph.ops import DATA_ATTRIBUTES, OPS, SIZES

__all__ = ["MADE_ANEW", "carries_data", "is_named_tuple", "is_row"]

MADE_ANEW = frozenset(name for name, op in OPS.items() if op.traits.constant)
"""Calls that read no values of their argument, only its size and type."""


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
        return node.target not in SIZES and node.target not in MADE_ANEW
    if node.op == "call_function" and getattr(node.target, "__name__", "") in MADE_ANEW:
        return False
    if node.target is getattr:
        return node.args[1] in DATA_ATTRIBUTES
    return node.target not in (len, torch.numel, torch.is_tensor, isinstance, operator.is_, operator.is_not)


def is_row(node: fx.Node) -> bool:
    """Whether the node has a row: it makes new data."""
    return carries_data(node) and not is_named_tuple(node.target)


def is_named_tuple(target: object) -> bool:
    """Whether a call only puts values into a named tuple, as a model's output: that has no row."""
    return isinstance(target, type) and issubclass(target, tuple) and hasattr(target, "_fields")
