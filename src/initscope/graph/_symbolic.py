"""Symbolic tracing with `torch.fx`: nothing is run; fails where ``forward`` asks for values.

fx sees the calls of modules by putting functions of its own in the place of two methods of `nn.Module`, for the whole
process. Here these functions do something only in the thread that traces, and interrupts wait until they are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import fx, nn
from torch.fx._symbolic_trace import _autowrap_check, _new_patcher, _patch_wrapped_functions

from initscope.graph._in_place import follow_writes
from initscope.graph._inputs import Inputs, required_parameters
from initscope.graph._interrupts import pass_on, uninterrupted
from initscope.graph._nodes import is_step
from initscope.graph._randomness import RandomCalls
from initscope.graph.calls import OPERATORS

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

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        node.meta["no_grad"] = not torch.is_grad_enabled()
        return node

    def trace(self, root: nn.Module, concrete_args: Any = None) -> fx.Graph:  # type: ignore[override]
        """What ``fx.Tracer.trace`` does, seen by this thread alone."""
        self.root, self.graph = root, fx.Graph(tracer_cls=type(self))
        self.root_module_name = type(root).__name__
        self.submodule_paths = {module: name for name, module in root.named_modules()}
        self.tensor_attrs = {
            value: f"{path}.{name}" if path else name
            for path, module in root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, torch.Tensor)
        }
        forward = type(root).forward
        with torch.enable_grad(), _new_patcher() as patcher, _seen_by(self, patcher):
            call, args = self.create_args_for_root(forward, True)
            _patch_wrapped_functions(patcher)
            for scope in (getattr(forward, "__globals__", {}), *map(vars, self._autowrap_search)):
                _autowrap_check(patcher, scope, self._autowrap_function_ids)
            self.create_node("output", "output", (self.create_arg(call(*args)),), {})
        self.submodule_paths = None
        return self.graph

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


@contextmanager
def _seen_by(tracer: _Tracer, patcher: Any) -> Iterator[None]:
    """Let ``tracer`` see which modules this thread calls, and which parameters it asks them for."""
    call, attribute = nn.Module.__call__, nn.Module.__getattr__
    ours, cache = threading.get_ident(), dict[str, fx.Proxy]()

    def seen_call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != ours:
            return call(self, *args, **kwargs)
        scope = getattr(getattr(self, "forward", self), "__globals__", {})
        _autowrap_check(patcher, scope, tracer._autowrap_function_ids)
        return tracer.call_module(self, lambda *given, **named: call(self, *given, **named), args, kwargs)

    def seen_attribute(self: nn.Module, name: str) -> Any:
        value = attribute(self, name)
        return value if threading.get_ident() != ours else tracer.getattr(name, value, cache)

    nn.Module.__call__, nn.Module.__getattr__ = seen_call, seen_attribute  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__, nn.Module.__getattr__ = call, attribute  # type: ignore[method-assign]


class _Interpreted(fx.GraphModule):
    """Is run node by node, so that no code is made of it, which torch would keep for ever."""

    def recompile(self) -> Any:
        """Nothing."""


@uninterrupted
def symbolic_graph(root: nn.Module, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> fx.GraphModule:
    """Trace ``root`` and let later steps read from an in-place step what they would have read from its input."""
    with RandomCalls() as drawn:
        graph = _Tracer(inputs, is_leaf).trace(root)
    if drawn.names:
        raise fx.proxy.TraceError(f"forward draws numbers ({', '.join(sorted(drawn.names))}), which a trace would keep")
    module = _Interpreted(root, graph)
    follow_writes(module)
    pass_on()
    return module


class _Watched(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, watch: Watch) -> None:
        super().__init__(module)
        self._watch = watch

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad() if n.meta.get("no_grad") else nullcontext():
            if not is_step(n):
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            output = getattr(self, n.op)(n.target, args, kwargs)
            replaced = self._watch(n, args, kwargs, output)
        return output if replaced is None else replaced


def run_graph(module: fx.GraphModule, inputs: Inputs, watch: Watch) -> Any:
    """Run the traced model node by node; a node's value is freed after its last use."""
    return _Watched(module, watch).run(*inputs.tensors())
