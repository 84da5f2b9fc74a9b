"""`Tape`: records what a model computes after its last weights, so that it can run again on other values.

The whole model runs once. The record starts again at each call that multiplies data by trainable weights. What is left
at the end leads from the outputs of the last weights to the output of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from initscope.graph import Inputs, call_name, map_tensors, named_tensors, role_of
from initscope.graph.node import leaves

__all__ = ["Call", "Tail", "Tape"]

_MATRIX_ROLES = frozenset({"weights", "embedding", "recurrent"})
"""Calls with a trainable matrix, to which the matrix can give any output; sums and cosines are not among them."""
_ENDS_IN_WEIGHTS = frozenset({F.multi_head_attention_forward})
"""Calls that combine several ops, the last of which is a product with a trainable matrix."""


@dataclass(eq=False)
class Call:
    """One call of a run; tensors in its arguments are `Ref`s to the calls that returned them.

    Attributes
    ----------
    number : int
        Position in the order of calls.
    made : list of Tensor or None
        Outputs of the last weights, and inputs of the model; None for other calls.
    freed : bool
        Whether it multiplies data by trainable weights, so that its outputs become free variables.
    bounded : bool
        Whether these outputs lie in [-1, 1] whatever the weights are, as those of an LSTM.
    data, trainable : bool
        Whether its outputs depend on the inputs, or only on trainable parameters.
    """

    number: int
    function: Callable[..., Any] | None = None
    args: Any = ()
    kwargs: Any = field(default_factory=dict)
    made: list[Tensor] | None = None
    freed: bool = False
    bounded: bool = False
    data: bool = False
    trainable: bool = False
    writes: bool = False
    gradients: bool = True


@dataclass(frozen=True)
class Ref:
    """One of the tensors that a call returned."""

    call: Call
    position: int = 0


class Tape(TorchFunctionMode):
    """Runs a model once and records, for each tensor in memory, which calls since the last weights produced it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        trainable = [p for p in model.parameters() if p.requires_grad] or list(model.parameters())
        self._model, self._trainable = model, {id(parameter) for parameter in trainable}
        self._refs: Any = WeakIdKeyDictionary()
        self._count = 0

    def run(self, inputs: Inputs) -> Any:
        """Return the model's output. Call it inside of `borrowed`: afterwards no parameter requires a gradient."""
        for parameter in self._model.parameters():
            parameter.requires_grad_(False)
        inputs = inputs.map(torch.clone)
        for tensor in inputs.tensors():
            self._refs[tensor] = Ref(self._next(made=[tensor], data=True))
        with torch.enable_grad(), self:
            return self._model(*inputs.args, **inputs.kwargs)

    def tail(self, outputs: list[Tensor]) -> Tail | None:
        """Return the calls that lead from the last weights to these outputs; None if no call returned an output."""
        refs = [self._refs.get(tensor) for tensor in outputs]
        return None if None in refs else Tail(refs, self._trainable)

    def _next(self, **fields: Any) -> Call:
        self._count += 1
        return Call(self._count, **fields)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [tensor for _, tensor in named_tensors((args, kwargs), "")]
        refs = [self._refs[tensor] for tensor in tensors if tensor in self._refs]
        if not refs and not any(id(tensor) in self._trainable for tensor in tensors):
            return func(*args, **kwargs)
        name = call_name(func) or getattr(func, "__name__", "")
        written = args[0] if args and _writes(func, kwargs) and isinstance(args[0], Tensor) else None
        if written is not None and written not in self._refs:  # replays write into copies of the old values
            self._refs[written] = Ref(self._next(function=torch.clone, args=(written.detach().clone(),)))
        versions = None if written is None else written._version
        arguments = map_tensors((args, kwargs), lambda tensor: self._refs.get(tensor, tensor))
        gradients = torch.is_grad_enabled()
        output = func(*args, **kwargs)
        results = [tensor for _, tensor in named_tensors(output, "")]
        if written is not None and written._version != versions and not any(r is written for r in results):
            results = [written]
        if not results:
            return output
        reads = len({id(ref.call) for ref in refs if ref.call.data})
        weights = [t for t in tensors if t.dim() > 1 and self._is_trainable(t)]
        role = role_of(name, max(1, reads)) if name else "other"
        if reads and weights and (role in _MATRIX_ROLES or func in _ENDS_IN_WEIGHTS):
            values = [result.detach().clone() for result in results]
            bounded = role == "recurrent" and all(bool((value.abs() <= 1).all()) for value in values[:1])
            call = self._next(made=values, freed=True, bounded=bounded, data=True)
        else:
            made_of_weights = not reads and any(map(self._is_trainable, tensors))
            call = self._next(
                function=func,
                args=arguments[0],
                kwargs=arguments[1],
                data=reads > 0,
                trainable=made_of_weights,
                writes=written is not None,
                gradients=gradients,
            )
        if written is not None:
            self._overwrite(written, Ref(call))
        for position, result in enumerate(results):
            self._refs[result] = Ref(call, position)
        return output

    def _overwrite(self, written: Tensor, ref: Ref) -> None:
        """Let calls that later read other views of the tensor read them after the write."""
        memory = _memory(written)
        for tensor, old in list(self._refs.items()):
            if tensor is not written and memory is not None and _memory(tensor) == memory:
                after = self._next(function=_first, args=(old, ref), data=True)
                self._refs[tensor] = Ref(after)

    def _is_trainable(self, tensor: Tensor) -> bool:
        ref = self._refs.get(tensor)
        return id(tensor) in self._trainable if ref is None else ref.call.trainable


class Tail:
    """The calls that lead from the outputs of the last weights, and from parameters after them, to the model's outputs.

    Attributes
    ----------
    freed : list of Call
        The calls of the last weights.
    parameters : list of Tensor
        Trainable parameters that are used after the last weights.
    """

    def __init__(self, outputs: list[Ref], trainable: set[int]) -> None:
        self._outputs = outputs
        calls: dict[int, Call] = {}
        waiting = [ref.call for ref in outputs]
        while waiting:
            call = waiting.pop()
            if call.number not in calls:
                calls[call.number] = call
                waiting += [leaf.call for leaf in leaves((call.args, call.kwargs)) if isinstance(leaf, Ref)]
        self._calls = [calls[number] for number in sorted(calls)]
        self.freed = [call for call in self._calls if call.freed]
        constants = [leaf for call in self._calls for leaf in leaves((call.args, call.kwargs))]
        parameters = {id(leaf): leaf for leaf in constants if isinstance(leaf, Tensor) and id(leaf) in trainable}
        self.parameters = list(parameters.values())
        self._fixed: dict[int, list[Tensor]] = {}
        self._fix()

    def _fix(self) -> None:
        """Run once the calls that depend on neither free values nor parameters."""
        parameters, moving = {id(parameter) for parameter in self.parameters}, set[int]()
        for call in self._calls:
            arguments = list(leaves((call.args, call.kwargs)))
            reads = {leaf.call.number for leaf in arguments if isinstance(leaf, Ref)}
            if call.freed or reads & moving or any(id(leaf) in parameters for leaf in arguments):
                moving.add(call.number)
            elif call.made is not None:
                self._fixed[call.number] = call.made
            else:
                self._fixed[call.number] = self._results(call, self._fixed, {})
        self._calls = [call for call in self._calls if call.number in moving]

    def run(self, freed: list[list[Tensor]], parameters: list[Tensor]) -> list[Tensor]:
        """Return the outputs for these values of the last weights' outputs and these parameters."""
        values = dict(self._fixed)
        for call, made in zip(self.freed, freed, strict=True):
            values[call.number] = [torch.clone(tensor) for tensor in made]  # later calls may write into them
        replaced = {id(old): new for old, new in zip(self.parameters, parameters, strict=True)}
        for call in self._calls:
            if not call.freed:
                values[call.number] = self._results(call, values, replaced)
        return [values[ref.call.number][ref.position] for ref in self._outputs]

    def _results(self, call: Call, values: dict[int, list[Tensor]], replaced: dict[int, Tensor]) -> list[Tensor]:
        def value_of(leaf: Any) -> Any:
            if isinstance(leaf, Ref):
                return values[leaf.call.number][leaf.position]
            return replaced.get(id(leaf), leaf) if isinstance(leaf, Tensor) else leaf

        args, kwargs = _map_leaves(call.args, value_of), _map_leaves(call.kwargs, value_of)
        first = call.args[0] if call.args else None
        if call.writes and isinstance(first, Ref) and first.call.number in self._fixed:
            args = (args[0].clone(), *args[1:])
        assert call.function is not None
        with nullcontext() if call.gradients else torch.no_grad():
            output = call.function(*args, **kwargs)
        results = [tensor for _, tensor in named_tensors(output, "")]
        return results or [args[0]]


def _first(tensor: Tensor, writer: Tensor) -> Tensor:
    """Return a tensor that ``writer`` changed in place through another view of it."""
    return tensor


def _writes(func: Any, kwargs: dict[str, Any]) -> bool:
    """Return whether a call writes into its first argument."""
    name = getattr(func, "__name__", "")
    in_place = name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    return name == "__setitem__" or in_place or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs


def _memory(tensor: Tensor) -> int | None:
    """Return the memory address of a tensor's values, or None if it has no memory to share."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.numel() == 0:
        return None
    return tensor.untyped_storage().data_ptr()


def _map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _map_leaves(item, function) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_map_leaves(item, function) for item in value)
    return function(value)
