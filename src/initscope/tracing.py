"""A model as a list of steps: what prediction walks and what measurement runs, so that both have the same rows.

Tracing is symbolic (`torch.fx`): the model is not run and not changed. Modules of ``torch.nn`` and modules for which a
rule is registered stay whole; containers and users' modules are looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx, nn

from initscope.errors import InputError

__all__ = ["Trace", "kind_of", "trace"]


@dataclass(frozen=True)
class Trace:
    """The traced model: ``steps`` are the nodes that have a row, the first of them the input."""

    model: nn.Module
    graph_module: fx.GraphModule
    steps: tuple[fx.Node, ...]

    def module(self, node: fx.Node) -> nn.Module | None:
        """The module that a node calls, if it calls one."""
        return self.graph_module.get_submodule(str(node.target)) if node.op == "call_module" else None

    def name(self, node: fx.Node) -> str:
        """Name of a node's row: the module's path, or the function's name with fx's running number."""
        if node.op == "placeholder":
            return "input"
        return str(node.target) if node.op == "call_module" else node.name

    def kind(self, node: fx.Node) -> str:
        """What a node does: the module's class, the function's or the method's name."""
        return kind_of(node, self.module(node))


def kind_of(node: fx.Node, module: nn.Module | None) -> str:
    """Class of the called module, or name of the called function."""
    if node.op == "placeholder":
        return "input"
    if module is not None:
        return type(module).__name__
    return str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))


class _Tracer(fx.Tracer):
    def __init__(self, is_leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self._is_leaf = is_leaf

    def is_leaf_module(self, module: nn.Module, qualified_name: str) -> bool:
        return self._is_leaf(module) or super().is_leaf_module(module, qualified_name)


def trace(model: nn.Module, *, is_leaf: Callable[[nn.Module], bool] = lambda module: False) -> Trace:
    """Trace ``model``; raises `InputError` with the cause where it branches on its data."""
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    root = model if not _is_whole(model) else nn.Sequential(model)
    try:
        graph = _Tracer(is_leaf).trace(root)
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} cannot be traced ({type(error).__name__}: {error}); "
            "its forward branches on its data: make the branch static, or inspect its parts one by one"
        ) from error
    graph_module = fx.GraphModule(root, graph)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise InputError(f"{type(model).__name__}.forward takes {len(inputs)} inputs; one is supported")
    steps = tuple(
        node for node in graph.nodes if node.op in ("placeholder", "call_module", "call_function", "call_method")
    )
    return Trace(model, graph_module, steps)


def _is_whole(model: nn.Module) -> bool:
    """A bare layer would be traced into its functional call; wrapped it stays a step."""
    return type(model).__module__.startswith("torch.nn") and not isinstance(model, nn.Sequential)
