"""Ops that write into their input: who later reads that tensor, or another view of it, reads what was written."""

from __future__ import annotations

import inspect
import operator
from typing import Any

from torch import fx, nn

from initscope.graph.calls import OPERATORS
from initscope.graph.fx_nodes import carries_data
from initscope.graph.ops import OPS, op_of_module

__all__ = ["follow_writes", "overwritten"]


def overwritten(values: Any, writer: Any) -> Any:
    """A tensor into which ``writer`` wrote through another view of it: an op of its own, after which it is read."""
    return values


def follow_writes(graph: fx.Graph, root: nn.Module) -> None:
    """Let the nodes after an in-place one read from it, and through other views of the tensor from `overwritten`."""
    nodes: list[fx.Node] = list(graph.nodes)
    views: dict[fx.Node, list[fx.Node]] = {}  # of one tensor, itself among them
    for index, node in enumerate(nodes):
        target = _written(node, root)
        source = _viewed(node, root) if target is None else target
        views[node] = [] if source is None else views[source]
        if target is not None:
            later = set(nodes[index + 1 :])
            target.replace_all_uses_with(node, later.__contains__)
            for view in [one for one in views[node] if not later.isdisjoint(one.users)]:
                with graph.inserting_after(node):
                    behind = graph.call_function(overwritten, (view, node))
                behind.meta = {key: value for key, value in node.meta.items() if key == "nn_module_stack"}
                view.replace_all_uses_with(behind, later.__contains__)
                views[behind] = views[node]
                views[node].append(behind)
        views[node].append(node)


def _written(node: fx.Node, root: nn.Module) -> fx.Node | None:
    """The value that an op writes into, if it does."""
    into = node.kwargs.get("out", node.args[0] if node.args and _in_place(node, root) else None)
    return into if isinstance(into, fx.Node) else None


def _in_place(node: fx.Node, root: nn.Module) -> bool:
    if node.op == "call_module":
        return bool(getattr(_module(node, root), "inplace", False))
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
    if node.op == "call_function" and (node.target in OPERATORS or getattr(operator, name, None) is node.target):
        return node.target in OPERATORS and carries_data(node)  # sizes are numbers
    if name.endswith("_") and not name.endswith("__"):
        return True
    return node.op == "call_function" and bool(_argument(node, "inplace"))


def _argument(node: fx.Node, name: str) -> Any:
    """An argument of a function by its name, however it was passed."""
    try:
        return inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get(name)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # functions in C show no signature
        return node.kwargs.get(name)


def _viewed(node: fx.Node, root: nn.Module) -> fx.Node | None:
    """The value that an op's result may share its memory with; whether it does may depend on the values' layout."""
    if node.op == "call_module":
        op = op_of_module(_module(node, root))
    elif node.target is getattr:
        op = OPS.get(str(node.args[1]))
    else:
        op = OPS.get(str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", ""))
    source = node.args[0] if node.args and op is not None and op.may_alias else None
    return source if isinstance(source, fx.Node) else None


def _module(node: fx.Node, root: nn.Module) -> nn.Module:
    return root.get_submodule(str(node.target))
