"""Ops of one run of a model, for models that branch on their data: every call is recorded as it happens."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from initscope.errors import InputError
from initscope.graph.borrowing import at_leaving
from initscope.graph.calls import OPERATORS
from initscope.graph.fx_nodes import CONSTANT_OPS
from initscope.graph.in_place import overwritten
from initscope.graph.inputs import Inputs, map_tensors, named_tensors
from initscope.graph.node import Node, leaves, make_node, mapped_nodes
from initscope.graph.opened_modules import is_loop, joined_states, opened_attention, recurrent_layers
from initscope.graph.ops import draws_numbers
from initscope.graph.random_layers import random_reason
from initscope.graph.row_names import RowNames
from initscope.graph.single_ops import hides_steps

__all__ = ["Recording", "tensor_shapes"]

_IN_PLACE = frozenset(f"__{function.__name__}__" for function in OPERATORS)


@dataclass(eq=False)
class _Call:
    """One call of a recorded run; tensors in its arguments are replaced by the calls that made them.

    Parameters and constants in the arguments are not changed. A call without a ``row`` occurs only in arguments: masks
    and indices made from data, and values computed from parameters.
    """

    name: str
    op: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    row: bool = True
    path: str = ""
    output_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    note: str = ""

    def reads_rows(self) -> bool:
        """Return whether it reads a call with a row, directly or through calls without one."""
        return any(isinstance(leaf, _Call) for leaf in _leaves((self.args, self.kwargs)))


def _leaves(value: Any) -> Iterator[Any]:
    """Return everything in nested arguments, with calls without a row replaced by what they read."""
    if isinstance(value, _Call) and not value.row:
        value = (value.args, value.kwargs)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


class Recording(TorchFunctionMode):
    """Runs a model and observes every call: whole modules through global hooks, functions through torch itself.

    The model itself gets no hook. ``watch(name, args, kwargs, output)`` is called after each op; its return value
    replaces the output, unless it is None.
    """

    def __init__(
        self,
        model: nn.Module,
        is_leaf: Callable[[nn.Module], bool],
        watch: Callable[[str, Any, Any, Any], Any] | None = None,
        *,
        opened: bool = False,
    ) -> None:
        super().__init__()
        self._opened = opened
        self.model, self.is_leaf, self.watch = model, is_leaf, watch
        self.calls: list[_Call] = []
        self._names = RowNames()
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._stack: list[nn.Module] = []
        self._hooks: list[Any] = []
        self._inside: nn.Module | None = None  # the whole module that runs: what happens in it is its own affair
        self._data: Any = WeakIdKeyDictionary()  # the call that made a tensor, as long as the tensor lives
        self._drawn: Any = WeakIdKeyDictionary()  # names of the random calls that a tensor was made by
        self._before: Any = WeakIdKeyDictionary()  # constants as they were before data were written into them
        self._versions: Any = WeakIdKeyDictionary()  # to detect later writes into the tensor

    def run(self, inputs: Inputs) -> Any:
        """Return the model's output on ``inputs``."""
        labels = iter(RowNames.inputs(inputs.names(self.model)))
        watched = inputs.map(lambda tensor: self._made(next(labels), "placeholder", "input", (), {}, None, tensor))
        self._thread = threading.get_ident()
        at_leaving(self._unhook)
        try:
            self._hooks.append(global_hooks.register_module_forward_pre_hook(self._enter))
            self._hooks.append(global_hooks.register_module_forward_hook(self._leave, with_kwargs=True))
            with self:
                return self.model(*watched.args, **watched.kwargs)
        finally:
            self._unhook()

    def nodes(self, output: Any) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """Return the nodes with a row, in the order in which they ran, and those that made the tensors of an output."""
        weights = {id(value): name for name, value in self.model.named_parameters() if value.dim() > 1}
        nodes: dict[_Call, Node] = {}

        def node_of(call: _Call) -> Node:
            if call not in nodes:
                args, kwargs = (mapped_nodes(value, node_of, _Call) for value in (call.args, call.kwargs))
                arguments = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, (Node, torch.Tensor))]
                nodes[call] = make_node(
                    index[call] if call.row else -1,
                    call.name,
                    call.op,
                    call.target,
                    args,
                    kwargs,
                    module=call.module,
                    path=call.path,
                    inputs=tuple(dict.fromkeys(leaf for leaf in arguments if isinstance(leaf, Node))),
                    weight_names=tuple(weights[id(leaf)] for leaf in arguments if id(leaf) in weights),
                    note=call.note,
                    output_shapes=call.output_shapes,
                )
            return nodes[call]

        index = {call: number for number, call in enumerate(self.calls)}
        rows = tuple(map(node_of, self.calls))
        made = [self._data.get(tensor) for _, tensor in named_tensors(output, "")]
        made = [call.args[0] if call is not None and _is_item(call) else call for call in made]
        return rows, tuple(dict.fromkeys(nodes[call] for call in made if call is not None and call.row))

    def _unhook(self) -> None:
        for hook in self._hooks:
            hook.remove()
            global_hooks._global_forward_hooks_with_kwargs.pop(hook.id, None)  # which torch forgets
        self._hooks = []

    def _enter(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._stack.append(module)
        if self._inside is None and self.is_leaf(module):
            self._inside = module

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if threading.get_ident() != self._thread:
            return None
        entered = len(self._stack) - 1 - self._stack[::-1].index(module)
        abandoned = self._stack[entered + 1 :]  # modules that raised, and were caught, never leave
        del self._stack[entered:]
        if self._inside in abandoned:
            self._inside = None
        if self._inside is not module:
            return None
        path = self._paths.get(id(module), type(module).__name__)
        made = self._made(self._names.unique(path), "call_module", path, args, kwargs, module, output)
        self._inside = None  # only now: what the watch computes is no op either
        return made

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._inside is not None:
            return func(*args, **kwargs)
        if self._opened and func is F.multi_head_attention_forward:
            with self:
                return opened_attention()(*args, **kwargs)
        if self._opened and is_loop(func, args):
            return self._loop(func, args)
        return self._call(func, args, kwargs)

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that no single op calls, and note it.

        It is an op with a row if it makes real values of data. It is a value without a row if it makes masks or
        indices, or uses only parameters. Values made from constants are not recorded.
        """
        tensors = [tensor for _, tensor in named_tensors((args, kwargs), "")]
        made_of = [] if _name_of(func) in CONSTANT_OPS else [self._data[t] for t in tensors if t in self._data]
        if made_of and _writes(func) and isinstance(args[0], torch.Tensor) and args[0] not in self._data:
            self._keep_constant(args[0])
        output = func(*args, **kwargs)
        drawn = self._drawn_for(func, tensors)
        if drawn and not made_of:
            map_tensors(output, lambda tensor: self._drawn.__setitem__(tensor, drawn))
        if not made_of and not any(isinstance(tensor, nn.Parameter) for tensor in tensors):
            return output
        written = args[0] if func is torch.Tensor.__setitem__ else output
        if _holds_values(written) and any(call.row or call.reads_rows() for call in made_of):
            made = self._note_op(func, args, kwargs, written, drawn)
            return output if output is None else made
        self._note_value(func, args, kwargs, written)
        return output

    def _drawn_for(self, func: Any, tensors: list[torch.Tensor]) -> set[str]:
        """Return names of the random calls that a call is, or reads results of."""
        names = {name for tensor in tensors for name in self._drawn.get(tensor, ())}
        return names | {_name_of(func)} if draws_numbers(_name_of(func)) else names

    def _note_op(self, func: Any, args: Any, kwargs: Any, written: Any, drawn: set[str]) -> Any:
        """Record a call with a row; return its output, or the replacement."""
        op, target = _op_and_target(func)
        name = self._projection(func, args) or self._function_name(OPERATORS.get(target) or _name_of(func))
        index = len(self.calls)
        made = self._made(name, op, target, args, kwargs, None, written)
        if drawn:
            self.calls[index].note = random_reason(drawn)
        return made

    def _note_value(self, func: Any, args: Any, kwargs: Any, written: Any) -> None:
        """Record a call without a row, which occurs in the arguments of its readers."""
        op, target = _op_and_target(func)
        call = _Call(_name_of(func), op, target, self._symbolic(args), self._symbolic(kwargs), row=False)
        for item, tensor in _items(call, written):
            self._data[tensor] = item

    def _loop(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Run the layers of a recurrent loop one by one: one op for each layer, and one for its gates."""
        layers, outputs, replaced = recurrent_layers(func, args), list[tuple[torch.Tensor, ...]](), None
        with suppress(StopIteration):
            while True:
                layer = layers.send(replaced)
                name, given = self._function_name(f"l{layer.number}"), (layer.inputs, args[1])
                index = len(self.calls)
                replaced = self._made(name, "call_function", func, given, {}, None, layer.output)
                made, step = replaced or layer.output, self.calls[index]
                outputs.append(made)
                if layer.gates is not None:
                    name = self._function_name(f"l{layer.number}.gates")
                    self._made(name, "call_function", layer.bounded_by, given[:1], {}, None, layer.gates)
        output = joined_states(outputs)
        map_tensors(output, lambda tensor: self._keep(tensor, step))
        return output

    def _projection(self, func: Any, args: tuple[Any, ...]) -> str:
        """Return the name of a projection inside of an opened attention, after its weights."""
        if not (self._opened and func is F.linear and self._stack and hides_steps(self._stack[-1]) and len(args) > 1):
            return ""
        named = {id(parameter): name for name, parameter in self._stack[-1].named_parameters()}
        name = named.get(id(args[1]), "")
        return self._function_name(name.removesuffix("weight").rstrip("._")) if name else ""

    def _path(self) -> str:
        return self._paths.get(id(self._stack[-1]), "") if self._stack else ""

    def _function_name(self, function: str) -> str:
        return self._names.function(self._path(), function)

    def _made(
        self, name: str, op: str, target: Any, args: Any, kwargs: Any, module: nn.Module | None, output: Any
    ) -> Any:
        """Note an op and the tensors that it made, or wrote into through another view; returns its output."""
        _refuse_vmap(output)
        path = str(target) if op == "call_module" else self._path()
        shapes = tensor_shapes(output) if self.watch is None else {}
        symbolic = self._symbolic(args), self._symbolic(kwargs)
        step = _Call(name, op, target, *symbolic, module, path=path, output_shapes=shapes)
        self.calls.append(step)
        if self.watch is not None:
            replaced = self.watch(name, args, kwargs, output)
            output = output if replaced is None else replaced
        for call, tensor in _items(step, output):
            self._keep(tensor, call)
        for tensor in [seen for seen, version in self._versions.items() if seen._version != version]:
            self._versions[tensor] = tensor._version
            name = self._function_name(overwritten.__name__)
            self._made(name, "call_function", overwritten, (tensor, output), {}, None, tensor)
        return output

    def _keep(self, tensor: torch.Tensor, step: _Call) -> None:
        self._data[tensor], self._versions[tensor] = step, tensor._version

    def _keep_constant(self, tensor: torch.Tensor) -> None:
        """Let the calls so far read the value of a constant before data are written into it."""
        if isinstance(tensor, nn.Parameter):
            return
        self._before[tensor] = tensor.detach().clone()
        for step in self.calls:
            _read_instead(step, tensor, self._before[tensor])

    def _symbolic(self, value: Any) -> Any:
        return map_tensors(value, lambda tensor: self._data.get(tensor, self._before.get(tensor, tensor)))


def _refuse_vmap(output: Any) -> None:
    """Refuse `torch.vmap`, because the tensors inside it are not those that it returns."""
    if any(torch._C._functorch.is_batchedtensor(tensor) for _, tensor in named_tensors(output, "")):
        raise InputError(
            "the model calls torch.vmap in its forward, whose steps cannot be followed; "
            "give one of the models that it stacks"
        )


def tensor_shapes(output: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of an output by their name inside it; nested and sparse tensors have none."""
    tensors = named_tensors(output, "")
    return {name: tuple(t.shape) for name, t in tensors if t.layout == torch.strided and not t.is_nested}


def _items(step: _Call, output: Any) -> Iterator[tuple[_Call, torch.Tensor]]:
    """Return the tensors of an output; a reader of one of several results reads an item of the call."""
    several = isinstance(output, (tuple, list)) and len(output) > 1  # torch names the items of its own tuples
    for index, item in enumerate(output) if several else ((0, output),):
        call = _Call("getitem", "call_function", operator.getitem, (step, index), row=False) if several else step
        for _, tensor in named_tensors(item, ""):
            yield call, tensor


def _read_instead(step: _Call, tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Replace a constant that a call, or one of its arguments, reads."""

    def put(value: Any) -> Any:
        if isinstance(value, _Call):
            if not value.row:
                _read_instead(value, tensor, values)
            return value
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return type(value)(map(put, value)) if type(value) in (tuple, list) else values if value is tensor else value

    step.args, step.kwargs = put(step.args), put(step.kwargs)


def _writes(func: Any) -> bool:
    """Return whether a call writes into its first argument."""
    name = _name_of(func)
    return name in ("__setitem__", *_IN_PLACE) or (name.endswith("_") and not name.endswith("__"))


def _is_item(step: _Call) -> bool:
    """Return whether a call only represents one of several results of another."""
    return not step.row and step.target is operator.getitem and isinstance(step.args[0], _Call) and step.args[0].row


def _holds_values(output: Any) -> bool:
    """Return whether a call made real-valued tensors; sizes, masks and indices are no rows."""
    return any(tensor.is_floating_point() or tensor.is_complex() for _, tensor in named_tensors(output, ""))


def _name_of(func: Any) -> str:
    name = getattr(func, "__name__", str(func))
    return getattr(func.__self__, "__name__", name) if name == "__get__" else name  # x.T and other attributes


def _op_and_target(func: Any) -> tuple[str, Any]:
    """Return the call as fx would write it: operators and functions as objects, methods of tensors by name."""
    name = _name_of(func)
    if name.startswith("__"):
        return "call_function", getattr(operator, name.strip("_"), func)
    if getattr(torch.Tensor, name, None) is func:
        return "call_method", name
    return "call_function", func
