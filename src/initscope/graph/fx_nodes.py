"""Which nodes of a symbolic trace hold data."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch import fx

from initscope.graph.ops import DATA_ATTRIBUTES, OPS, SIZES

__all__ = ["CONSTANT_OPS", "data_nodes", "is_named_tuple"]

CONSTANT_OPS = frozenset(name for name, op in OPS.items() if op.traits.constant)
"""Calls that read no values of their argument, only its size and type."""


def data_nodes(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """Return the nodes whose value depends on the values of the inputs: neither parameters nor sizes.

    Parameters
    ----------
    nodes : iterable of fx.Node
        All nodes of a graph, in order.

    Returns
    -------
    set of fx.Node
    """
    data: set[fx.Node] = set()
    for node in nodes:
        if node.op == "placeholder" or (
            node.op not in ("output", "get_attr") and not data.isdisjoint(node.all_input_nodes) and _makes_data(node)
        ):
            data.add(node)
    return data


def _makes_data(node: fx.Node) -> bool:
    """Return whether a call that reads data returns data: not a size, and not a value that ignores its input."""
    if node.op == "call_method":
        return node.target not in SIZES and node.target not in CONSTANT_OPS
    if getattr(node.target, "__name__", "") in CONSTANT_OPS:
        return False
    if node.target is getattr:
        return node.args[1] in DATA_ATTRIBUTES
    return node.target not in (len, torch.numel, torch.is_tensor, isinstance, operator.is_, operator.is_not)


def is_named_tuple(target: object) -> bool:
    """Return whether a call only puts values into a named tuple, as a model's output; such a call has no row.

    Parameters
    ----------
    target : object
        What is called.

    Returns
    -------
    bool
    """
    return isinstance(target, type) and issubclass(target, tuple) and hasattr(target, "_fields")
