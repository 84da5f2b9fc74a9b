"""Symbolic tracing with `torch.fx`: nothing is run; it fails if ``forward`` needs values.

fx sees the calls of modules by replacing two methods of `nn.Module`, for the whole
process. Here these functions do something only in the thread that traces, and interrupts wait until they are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn
from torch.fx._symbolic_trace import _autowrap_check, _new_patcher, _patch_wrapped_functions

from initscope.graph.calls import OPERATORS
from initscope.graph.fx_nodes import data_nodes, is_named_tuple
from initscope.graph.in_place import follow_writes
from initscope.graph.inputs import Inputs, required_parameters
from initscope.graph.interrupts import pass_on, uninterrupted
from initscope.graph.node import Node, kind_of, make_node, mapped_nodes
from initscope.graph.random_layers import RandomCalls, random_notes
from initscope.graph.row_names import RowNames

__all__ = ["NodeCallback", "Traced", "attribute", "execute_nodes", "nodes_in", "symbolic_trace"]

NodeCallback = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""Called with (node, args, kwargs, output) right after a node; a result that is not None replaces the output."""


class _Proxy(fx.Proxy):
    """Keeps ``a += b`` in place, which fx writes as a new value: the other names of ``a`` see it too."""


def _operate(function: Callable[..., Any]) -> Callable[[fx.Proxy, Any], Any]:
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


for _function in OPERATORS:
    setattr(_Proxy, f"__{_function.__name__}__", _operate(_function))


class _Tracer(fx.Tracer):
    """Makes one placeholder for each tensor of ``inputs``; missing arguments keep their defaults."""

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
        """Do the same as ``fx.Tracer.trace``, but observe only this thread."""
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
    """Let ``tracer`` observe which modules this thread calls, and which parameters it reads from them."""
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


@dataclass(frozen=True)
class Traced:
    """Result of a symbolic trace: all its nodes in order, and the output in terms of them."""

    calls: tuple[Node, ...]
    output: Any
    constants: dict[str, Any]
    """Values of parameters, buffers and other tensors that the trace reads, by path."""

    @cached_property
    def last_uses(self) -> dict[Node, list[Node]]:
        """Return for every node the nodes that no later node reads."""
        last = {parent: node for node in self.calls for parent in (*node.inputs, node)}
        returned = set(nodes_in(self.output))
        uses: dict[Node, list[Node]] = {node: [] for node in self.calls}
        for used, reader in last.items():
            if used not in returned:
                uses[reader].append(used)
        return uses


@uninterrupted
def symbolic_trace(root: nn.Module, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> Traced:
    """Trace ``root``, and let later nodes that read the input of an in-place node read that node instead."""
    with RandomCalls() as drawn:
        graph = _Tracer(inputs, is_leaf).trace(root)
    if drawn.names:
        raise fx.proxy.TraceError(
            f"forward draws random numbers ({', '.join(sorted(drawn.names))}), which a trace would record as constants"
        )
    modules = dict(root.named_modules())
    follow_writes(graph, modules)
    names = None if inputs is None else inputs.names(root)
    traced = _converted(graph, root, modules, names)
    pass_on()
    return traced


def _converted(
    graph: fx.Graph, root: nn.Module, modules: dict[str, nn.Module], input_names: list[str] | None
) -> Traced:
    """Convert the nodes of an fx graph to nodes of this package."""
    fx_nodes = list(graph.nodes)
    data = data_nodes(fx_nodes)
    rows = [node for node in fx_nodes if node in data and not is_named_tuple(node.target)]
    index = {node: number for number, node in enumerate(rows)}
    names, notes = _row_names(rows, input_names), random_notes(fx_nodes, rows)
    any_constants = any([node.op == "get_attr" for node in fx_nodes])  # noqa: C419  (no call for each)
    weights = {name for name, parameter in root.named_parameters() if parameter.dim() > 1} if any_constants else set()
    nodes: dict[fx.Node, Node] = {}
    constants: dict[str, Any] = {}
    output: Any = None
    for node in fx_nodes:
        parents = node.all_input_nodes
        if set(map(type, node.args)) == {fx.Node}:
            args = tuple(map(nodes.__getitem__, node.args))
        else:
            args = mapped_nodes(node.args, nodes.__getitem__, fx.Node)
        kwargs = mapped_nodes(node.kwargs, nodes.__getitem__, fx.Node) if node.kwargs else {}
        if node.op == "output":
            output = args[0]
            continue
        if node.op == "get_attr":
            constants[str(node.target)] = attribute(root, str(node.target))
        weight_names: tuple[str, ...] = ()
        if any_constants and node.op != "call_module":
            weight_names = tuple(str(p.target) for p in parents if p.op == "get_attr" and p.target in weights)
        nodes[node] = make_node(
            index[node] if node in names else -1,
            names.get(node, node.name),
            node.op,
            node.target,
            args,
            kwargs,
            module=modules[str(node.target)] if node.op == "call_module" else None,
            path=_path(node),
            inputs=tuple(map(nodes.__getitem__, parents)),
            weight_names=weight_names,
            note=notes.get(node, ""),
            no_grad=bool(node.meta.get("no_grad")),
        )
    return Traced(tuple(nodes.values()), output, constants)


def _path(node: fx.Node) -> str:
    """Return the path of the module that a node is, or that calls it."""
    if node.op == "call_module":
        return str(node.target)
    stack = list(node.meta.get("nn_module_stack", {}).values())
    return str(stack[-1][0]) if stack else ""


def _row_names(rows: list[fx.Node], inputs: list[str] | None) -> dict[fx.Node, str]:
    names, result = RowNames(), dict[fx.Node, str]()
    placeholders = [node for node in rows if node.op == "placeholder"]
    result.update(zip(placeholders, RowNames.inputs(inputs or [str(p.target) for p in placeholders]), strict=True))
    for node in rows[len(placeholders) :]:
        if node.op == "call_module":
            result[node] = names.unique(str(node.target))
        else:
            result[node] = names.function(_path(node), kind_of(node.op, node.target, None))
    return result


def attribute(root: Any, path: str) -> Any:
    """Return the object at a dotted path in a module."""
    for name in path.split("."):
        root = getattr(root, name)
    return root


def execute_nodes(traced: Traced, root: nn.Module, inputs: Inputs, watch: NodeCallback) -> Any:
    """Run traced nodes one after the other; a node's value is freed after its last use.

    Parameters
    ----------
    traced : Traced
        The nodes.
    root : nn.Module
        The model that was traced: parameters and buffers are read from it.
    inputs : Inputs
        Arguments of the model.
    watch : callable
        Called with (node, args, kwargs, output) right after every node with a row; a result that is not None replaces
        the output.

    Returns
    -------
    object
        The model's output.
    """
    values: dict[Node, Any] = {}
    tensors, last_uses = iter(inputs.tensors()), traced.last_uses
    fill = values.__getitem__
    for node in traced.calls:
        if node.op == "placeholder":
            output = next(tensors)
            args: tuple[Any, ...] = ()
            kwargs: dict[str, Any] = {}
        elif node.op == "get_attr":
            values[node] = _constant(traced, root, str(node.target))
            continue
        else:
            if set(map(type, node.args)) == {Node}:
                args = tuple(map(fill, node.args))
            else:
                args = mapped_nodes(node.args, fill, Node)
            kwargs = mapped_nodes(node.kwargs, fill, Node) if node.kwargs else {}
            output = None
        with torch.no_grad() if node.no_grad else nullcontext():
            if node.module is not None:
                output = node.module(*args, **kwargs)
            elif node.op == "call_method":
                output = getattr(args[0], node.target)(*args[1:], **kwargs)
            elif node.op == "call_function":
                output = node.target(*args, **kwargs)
            if node.row:
                replaced = watch(node, args, kwargs, output)
                output = output if replaced is None else replaced
        values[node] = output
        del args, kwargs, output
        for used in last_uses[node]:
            values.pop(used, None)
    return mapped_nodes(traced.output, fill, Node)


def nodes_in(value: Any) -> list[Node]:
    """Return the nodes in nested tuples, lists and dicts."""
    nodes: list[Node] = []
    mapped_nodes(value, nodes.append, Node)
    return nodes


def _constant(traced: Traced, root: nn.Module, path: str) -> Any:
    """Return a parameter or buffer as the model has it now, or the recorded one if only the trace has it."""
    try:
        return attribute(root, path)
    except AttributeError:
        return traced.constants[path]
