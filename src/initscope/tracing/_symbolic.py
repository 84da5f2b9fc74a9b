"""Symbolic tracing with `torch.fx`: nothing is run; fails where ``forward`` asks for values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx, nn

from initscope.layers.calls import OPERATORS
from initscope.tracing._in_place import follow_writes
from initscope.tracing._inputs import Inputs, required_parameters
from initscope.tracing._nodes import carries_data

__all__ = ["Watch", "run_graph", "symbolic_graph"]

Watch = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""Called with (step, args, kwargs, output) right after a step; a result that is not None replaces the output."""


class _Proxy(fx.Proxy):
    """Keeps ``a += b`` in place, which fx writes as a new value: the other names of ``a`` see it too."""


def _operate(function: Callable[..., Any]) -> Callable[[fx.Proxy, Any], Any]:
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


for _function in OPERATORS:
    setattr(_Proxy, f"__{_function.__name__}__", _operate(_function))


class _Tracer(fx.Tracer):
    """Makes one placeholder for each tensor of ``inputs``; arguments that are not given keep their defaults."""

    def __init__(self, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self._inputs, self._is_leaf = inputs, is_leaf

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self._is_leaf(m)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

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
    follow_writes(module)
    return module


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
