"""Ops that write into their input: later readers of that tensor, or of another view of it, read the new values."""

from __future__ import annotations

import inspect
import operator
from typing import Any

from torch import fx, nn

from initscope.graph.calls import OPERATORS
from initscope.graph.fx_nodes import data_nodes
from initscope.graph.ops import OPS, module_op

__all__ = ["follow_writes", "overwritten"]


def overwritten(values: Any, writer: Any) -> Any:
    """Return a tensor into which ``writer`` wrote through another view of it; it counts as a separate op.

    Parameters
    ----------
    values : Tensor
        The tensor.
    writer : object
        The result of the op that wrote into it.

    Returns
    -------
    Tensor
        ``values``.
    """
    return values


def follow_writes(graph: fx.Graph, modules: dict[str, nn.Module]) -> None:
    """Let the nodes after an in-place op read from it, and those that use other views of the tensor from `overwritten`.

    Parameters
    ----------
    graph : fx.Graph
        Changed in place.
    modules : dict
        The modules that it calls, by path.
    """
    nodes: list[fx.Node] = list(graph.nodes)
    data = data_nodes(nodes)
    views: dict[fx.Node, list[fx.Node]] = {}  # of one tensor, itself among them
    for index, node in enumerate(nodes):
        target, source = _shared(node, modules[str(node.target)] if node.op == "call_module" else None, data)
        views[node] = [] if source is None else views[source]
        if target is not None:
            later = set(nodes[index + 1 :])
            target.replace_all_uses_with(node, later.__contains__)
            for view in [view for view in views[node] if not later.isdisjoint(view.users)]:
                with graph.inserting_after(node):
                    written = graph.call_function(overwritten, (view, node))
                written.meta = {key: value for key, value in node.meta.items() if key == "nn_module_stack"}
                view.replace_all_uses_with(written, later.__contains__)
                views[written] = views[node]
                views[node].append(written)
        views[node].append(node)


def _shared(node: fx.Node, module: nn.Module | None, data: set[fx.Node]) -> tuple[fx.Node | None, fx.Node | None]:
    """Return the value that an op writes into, or None; and the value whose memory its result may share, or None.

    Whether a view shares memory may depend on the values' layout.
    """
    first = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
    into = node.kwargs.get("out")
    if module is not None:
        op, writes = module_op(type(module)), bool(getattr(module, "inplace", False))
    else:
        name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
        op, writes = OPS.get(str(node.args[1]) if node.target is getattr else name), _in_place(node, name, data)
    if isinstance(into, fx.Node) or (writes and first is not None):
        written = into if isinstance(into, fx.Node) else first
        return written, written
    return None, first if op is not None and op.may_alias else None


def _in_place(node: fx.Node, name: str, data: set[fx.Node]) -> bool:
    """Return whether a function or method writes into its first argument."""
    if node.op not in ("call_function", "call_method"):
        return False
    if node.op == "call_function" and (node.target in OPERATORS or getattr(operator, name, None) is node.target):
        return node.target in OPERATORS and node in data  # sizes are numbers
    if name.endswith("_") and not name.endswith("__"):
        return True
    return node.op == "call_function" and bool(_argument(node, "inplace"))


def _argument(node: fx.Node, name: str) -> Any:
    """Return an argument of a function by its name, however it was passed."""
    try:
        return inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get(name)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # functions in C show no signature
        return node.kwargs.get(name)
