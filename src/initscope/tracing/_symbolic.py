"""Symbolic tracing with `torch.fx`: nothing is run; fails where ``forward`` asks for values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from initscope.tracing._inputs import Inputs, required_parameters

__all__ = ["Watch", "carries_data", "run_graph", "symbolic_graph"]

Watch = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""Called with (step, args, kwargs, output) right after a step; a result that is not None replaces the output."""

_SIZES = frozenset({"size", "dim", "ndimension", "numel", "nelement", "stride", "get_device", "type", "element_size"})
_SIZES |= frozenset({"is_contiguous", "is_floating_point", "is_complex", "item", "tolist"})
_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


class _Tracer(fx.Tracer):
    """Makes one placeholder for each tensor of ``inputs``; arguments that are not given keep their defaults."""

    def __init__(self, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self._inputs, self._is_leaf = inputs, is_leaf

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self._is_leaf(m) or super().is_leaf_module(m, module_qualified_name)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        given = self._inputs
        if given is None:
            return root_fn, [self.root, *map(self._placeholder, required_parameters(self.root))]
        proxies = iter([self._placeholder(name) for name in given.names(self.root)])
        symbolic = given.map(lambda tensor: next(proxies))
        return (lambda root: root_fn(root, *symbolic.args, **symbolic.kwargs)), [self.root]

    def _placeholder(self, name: str) -> fx.Proxy:
        identifier = "".join(letter if letter.isalnum() else "_" for letter in name).strip("_")
        return self.create_proxy("placeholder", identifier, (), {})


def symbolic_graph(root: nn.Module, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> fx.GraphModule:
    """Trace ``root`` and let later steps read from an in-place step what they would have read from its input."""
    graph = _Tracer(inputs, is_leaf).trace(root)
    module = fx.GraphModule(root, graph)
    nodes = list(module.graph.nodes)
    for index, node in enumerate(nodes):
        if _writes_in_place(node, module) and node.args and isinstance(node.args[0], fx.Node):
            later = set(nodes[index + 1 :])
            node.args[0].replace_all_uses_with(node, later.__contains__)
    return module


def _writes_in_place(node: fx.Node, module: fx.GraphModule) -> bool:
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        return bool(node.kwargs.get("inplace", False)) or (name.endswith("_") and not name.endswith("__"))
    return False


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
        return node.target not in _SIZES
    if node.target is getattr:
        return node.args[1] in _TENSOR_ATTRIBUTES
    return node.target not in (len, torch.numel, torch.is_tensor, isinstance, operator.is_, operator.is_not)


class _Watched(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, watch: Watch) -> None:
        super().__init__(module)
        self._watch = watch

    def run_node(self, n: fx.Node) -> Any:
        if not carries_data(n):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        output = getattr(self, n.op)(n.target, args, kwargs)
        replaced = self._watch(n, args, kwargs, output)
        return output if replaced is None else replaced


def run_graph(module: fx.GraphModule, inputs: Inputs, watch: Watch) -> Any:
    """Run the traced model node by node; a node's value is freed after its last use."""
    return _Watched(module, watch).run(*inputs.tensors())
