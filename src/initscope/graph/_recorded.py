"""Steps of one run of a model, for those that branch on their data: whatever is called is recorded as it happens."""

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
from initscope.graph._in_place import overwritten
from initscope.graph._inputs import Inputs, map_tensors, named_tensors
from initscope.graph._names import Names
from initscope.graph._nodes import MADE_ANEW
from initscope.graph._opened import is_loop, joined_states, opened_attention, recurrent_layers
from initscope.graph._randomness import random_reason
from initscope.graph.calls import OPERATORS
from initscope.graph.ops import draws_numbers
from initscope.graph.untouched import at_leaving
from initscope.graph.whole import hides_steps

__all__ = ["Recording", "Step", "tensor_sizes"]

_IN_PLACE = frozenset(f"__{function.__name__}__" for function in OPERATORS)


@dataclass(frozen=True, eq=False)
class Step:
    """One call of a recorded run, with the attributes of an ``fx.Node``; tensors in its arguments are their steps.

    Parameters and constants stay in the arguments as they are. A step without a ``row`` stands only in arguments: masks
    and indices made of data, and what is computed of parameters.
    """

    name: str
    op: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    row: bool = True
    within: str = ""
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the tensors that it returned, by their place in its output."""

    @property
    def all_input_nodes(self) -> list[Step]:
        """The steps with a row whose values this one reads, each once."""
        return list(dict.fromkeys(leaf for leaf in _leaves((self.args, self.kwargs)) if isinstance(leaf, Step)))

    @property
    def constants(self) -> list[torch.Tensor]:
        """The tensors among its arguments, or behind them, that are not made of the inputs."""
        return [leaf for leaf in _leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]

    def __repr__(self) -> str:
        return self.name


def _leaves(value: Any) -> Iterator[Any]:
    """Everything in nested arguments, with what steps without a row read in their place."""
    if isinstance(value, Step) and not value.row:
        value = (value.args, value.kwargs)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


class Recording(TorchFunctionMode):
    """Runs a model and sees every call: of whole modules through global hooks, of functions through torch itself.

    The model gets no hook of its own. ``watch(name, args, kwargs, output)`` is called after each step, and what it
    returns, unless None, takes the output's place.
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
        self.steps: list[Step] = []
        self._names = Names()
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._stack: list[nn.Module] = []
        self._hooks: list[Any] = []
        self._inside: nn.Module | None = None  # the whole module that runs: what happens in it is its own affair
        self._data: Any = WeakIdKeyDictionary()  # the step that made a tensor, as long as the tensor lives
        self._drawn: Any = WeakIdKeyDictionary()  # names of the random calls that a tensor was made by
        self.notes: dict[Any, str] = {}
        self._before: Any = WeakIdKeyDictionary()  # constants as they were before data were written into them
        self._versions: Any = WeakIdKeyDictionary()  # tells whether it was written into since

    def run(self, inputs: Inputs) -> Any:
        """The model's output on ``inputs``."""
        labels = iter(Names.inputs(inputs.names(self.model)))
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

    def made_by(self, output: Any) -> tuple[Step, ...]:
        """The steps that made the tensors of an output."""
        steps = [self._data.get(tensor) for _, tensor in named_tensors(output, "")]
        steps = [step.args[0] if step is not None and _is_item(step) else step for step in steps]
        return tuple(dict.fromkeys(step for step in steps if step is not None and step.row))

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
        self._inside = None  # only now: what the watch computes is no step either
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
        """Call a function outside of all steps: it is one itself if it makes values of data or of parameters."""
        tensors = [tensor for _, tensor in named_tensors((args, kwargs), "")]
        sources = [self._data[tensor] for tensor in tensors if tensor in self._data]
        if sources and _writes(func) and isinstance(args[0], torch.Tensor) and args[0] not in self._data:
            self._keep_constant(args[0])
        output = func(*args, **kwargs)
        drawn = {name for tensor in tensors for name in self._drawn.get(tensor, ())}
        drawn |= {_name_of(func)} if draws_numbers(_name_of(func)) else set()
        if _name_of(func) in MADE_ANEW:
            sources = []
        if drawn and not sources:
            map_tensors(output, lambda tensor: self._drawn.__setitem__(tensor, drawn))
        if not sources and not any(isinstance(tensor, nn.Parameter) for tensor in tensors):
            return output
        op, target = _op_and_target(func)
        written = args[0] if func is torch.Tensor.__setitem__ else output
        if not _holds_values(written) or not any(step.row or step.all_input_nodes for step in sources):
            step = Step(_name_of(func), op, target, self._symbolic(args), self._symbolic(kwargs), row=False)
            for one, tensor in _items(step, written):
                self._data[tensor] = one
            return output
        name = self._projection(func, args) or self._function_name(OPERATORS.get(target) or _name_of(func))
        index = len(self.steps)
        made = self._made(name, op, target, args, kwargs, None, written)
        if drawn:
            self.notes[self.steps[index]] = random_reason(drawn)
        return output if output is None else made

    def _loop(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Run the layers of a loop over time one by one: a step for each, and one for what its gates are."""
        layers, outputs, replaced = recurrent_layers(func, args), list[tuple[torch.Tensor, ...]](), None
        with suppress(StopIteration):
            while True:
                layer = layers.send(replaced)
                name, given = self._function_name(f"l{layer.number}"), (layer.inputs, args[1])
                index = len(self.steps)
                replaced = self._made(name, "call_function", func, given, {}, None, layer.output)
                made, step = replaced or layer.output, self.steps[index]
                outputs.append(made)
                if layer.gates is not None:
                    name = self._function_name(f"l{layer.number}.gates")
                    self._made(name, "call_function", layer.bounded_by, given[:1], {}, None, layer.gates)
        output = joined_states(outputs)
        map_tensors(output, lambda tensor: self._keep(tensor, step))
        return output

    def _projection(self, func: Any, args: tuple[Any, ...]) -> str:
        """Name of a projection inside of an opened attention, after its weights."""
        if not (self._opened and func is F.linear and self._stack and hides_steps(self._stack[-1]) and len(args) > 1):
            return ""
        named = {id(parameter): name for name, parameter in self._stack[-1].named_parameters()}
        name = named.get(id(args[1]), "")
        return self._function_name(name.removesuffix("weight").rstrip("._")) if name else ""

    def _within(self) -> str:
        return self._paths.get(id(self._stack[-1]), "") if self._stack else ""

    def _function_name(self, function: str) -> str:
        return self._names.function(self._within(), function)

    def _made(
        self, name: str, op: str, target: Any, args: Any, kwargs: Any, module: nn.Module | None, output: Any
    ) -> Any:
        """Note a step and the tensors that it made, or wrote into through another view; returns its output."""
        _refuse_vmap(output)
        within = str(target) if op == "call_module" else self._within()
        sizes = tensor_sizes(output) if self.watch is None else {}
        symbolic = self._symbolic(args), self._symbolic(kwargs)
        step = Step(name, op, target, *symbolic, module, within=within, sizes=sizes)
        self.steps.append(step)
        if self.watch is not None:
            replaced = self.watch(name, args, kwargs, output)
            output = output if replaced is None else replaced
        for one, tensor in _items(step, output):
            self._keep(tensor, one)
        for tensor in [one for one, version in self._versions.items() if one._version != version]:
            self._versions[tensor] = tensor._version
            name = self._function_name(overwritten.__name__)
            self._made(name, "call_function", overwritten, (tensor, output), {}, None, tensor)
        return output

    def _keep(self, tensor: torch.Tensor, step: Step) -> None:
        self._data[tensor], self._versions[tensor] = step, tensor._version

    def _keep_constant(self, tensor: torch.Tensor) -> None:
        """Let the steps so far read what a constant was before data are written into it."""
        if isinstance(tensor, nn.Parameter):
            return
        self._before[tensor] = tensor.detach().clone()
        for step in self.steps:
            _read_instead(step, tensor, self._before[tensor])

    def _symbolic(self, value: Any) -> Any:
        return map_tensors(value, lambda tensor: self._data.get(tensor, self._before.get(tensor, tensor)))


def _refuse_vmap(output: Any) -> None:
    """Tensors inside of `torch.vmap` are not those that come out, so that no step behind it reads what it made."""
    if any(torch._C._functorch.is_batchedtensor(tensor) for _, tensor in named_tensors(output, "")):
        raise InputError(
            "the model calls torch.vmap in its forward, whose steps cannot be followed; "
            "give one of the models that it stacks"
        )


def tensor_sizes(output: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the tensors of an output, by place; nested and sparse ones have none."""
    tensors = named_tensors(output, "")
    return {place: tuple(t.shape) for place, t in tensors if t.layout == torch.strided and not t.is_nested}


def _items(step: Step, output: Any) -> Iterator[tuple[Step, torch.Tensor]]:
    """The tensors of an output; who reads one of several results reads an item of the step."""
    several = isinstance(output, (tuple, list)) and len(output) > 1  # torch names the items of its own tuples
    for index, item in enumerate(output) if several else ((0, output),):
        one = Step("getitem", "call_function", operator.getitem, (step, index), row=False) if several else step
        for _, tensor in named_tensors(item, ""):
            yield one, tensor


def _read_instead(step: Step, tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Put other values in the place of a constant that a step, or one among its arguments, reads."""

    def put(value: Any) -> Any:
        if isinstance(value, Step):
            if not value.row:
                _read_instead(value, tensor, values)
            return value
        if isinstance(value, dict):
            return {key: put(item) for key, item in value.items()}
        return type(value)(map(put, value)) if type(value) in (tuple, list) else values if value is tensor else value

    object.__setattr__(step, "args", put(step.args))
    object.__setattr__(step, "kwargs", put(step.kwargs))


def _writes(func: Any) -> bool:
    """Whether a call writes into its first argument."""
    name = _name_of(func)
    return name in ("__setitem__", *_IN_PLACE) or (name.endswith("_") and not name.endswith("__"))


def _is_item(step: Step) -> bool:
    """Whether a step only stands for one of several results of another."""
    return not step.row and step.target is operator.getitem and isinstance(step.args[0], Step) and step.args[0].row


def _holds_values(output: Any) -> bool:
    """Whether a call made real-valued tensors; sizes, masks and indices are no rows."""
    return any(tensor.is_floating_point() or tensor.is_complex() for _, tensor in named_tensors(output, ""))


def _name_of(func: Any) -> str:
    name = getattr(func, "__name__", str(func))
    return getattr(func.__self__, "__name__", name) if name == "__get__" else name  # x.T and other attributes


def _op_and_target(func: Any) -> tuple[str, Any]:
    """How fx would write the call: operators and functions by themselves, methods of tensors by name."""
    name = _name_of(func)
    if name.startswith("__"):
        return "call_function", getattr(operator, name.strip("_"), func)
    if getattr(torch.Tensor, name, None) is func:
        return "call_method", name
    return "call_function", func
