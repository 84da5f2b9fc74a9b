"""A measuring tool leaves no trace: whatever runs inside these contexts, the user's model is as before afterwards."""

from __future__ import annotations

import copy
import operator
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from initscope.errors import InputError

__all__ = ["NoDropoutCalls", "copy_of", "leaves_no_trace", "runnable", "snapshot", "without_dropout"]

_DROPOUTS = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout}

_guarded: set[int] = set()  # models inside the context: to guard them again would only cost time


def runnable(model: Any) -> nn.Module:
    """``model`` as it is to be run: a module whose parameters have values, without the wrapper of `torch.compile`.

    Compilers look into the hooks and modes through which a run is watched, and compile or refuse these too.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    if any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()]):
        raise InputError(
            "the model is on the meta device, where weights have no values; build it on a device, or move it by "
            "model.to_empty(device='cpu') and fill it: initscope.initializers.he_(model)"
        )
    original: nn.Module = getattr(model, "_orig_mod", model)
    return original


def copy_of(model: nn.Module) -> nn.Module:
    """A copy to draw weights in."""
    try:
        return copy.deepcopy(model)
    except Exception as error:  # modules may hold anything: locks, files, tensors inside of a graph
        cause = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{type(model).__name__} cannot be copied to draw weights in it; measure the weights it has (draws=0), "
            f"or build it anew. The cause: {cause}"
        ) from error


@contextmanager
def leaves_no_trace(model: nn.Module) -> Iterator[None]:
    """Run the model freely inside, without gradients; afterwards, also after an exception, it is as before.

    Kept: attributes, hooks and modes of modules, values of buffers and of tensors, lists, dicts and sets that are
    attributes, ``requires_grad`` and ``grad`` of parameters, the random states of torch, NumPy and Python. Values of
    parameters are not copied: what runs inside must not write them (weights are drawn in a copy). Neither is what
    attributes of other kinds hold.
    """
    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        raise InputError(
            f"{type(model).__name__} holds lazy layers, which have no weights yet; run it once on a batch: model(batch)"
        )
    if id(model) in _guarded:
        with torch.no_grad():
            yield
        return
    restores = [snapshot(model), _random_states()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.is_cuda})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        _guarded.add(id(model))
        try:
            yield
        finally:
            _guarded.remove(id(model))
            for restore in restores:
                restore()


def _random_states() -> Callable[[], None]:
    """Puts the random states of Python and NumPy back."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  (the state users may rely on)

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002

    return restore


def snapshot(model: nn.Module) -> Callable[[], None]:
    """What puts back all that `leaves_no_trace` keeps of the model itself; may be called again and again."""
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    held = _Held()
    for module in model.modules():
        held.hold(vars(module))

    def restore() -> None:
        held.restore()
        for parameter, needed, gradient in parameters:
            parameter.requires_grad_(needed)
            parameter.grad = gradient

    return restore


class _Held:
    """Contents of tensors and containers, and of what is in these, each once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self._containers: list[tuple[Any, Any]] = []

    def hold(self, value: Any) -> None:
        """Remember what ``value`` holds now. Parameters and modules keep their own."""
        if isinstance(value, nn.Parameter) or id(value) in self._seen:
            return
        if isinstance(value, Tensor):
            if not value.is_inference() and not value.is_meta:  # which nothing can write
                self._tensors.append((value, value.detach().clone()))
        elif isinstance(value, (dict, list, set, deque)):
            self._containers.append((value, dict(value) if isinstance(value, dict) else list(value)))
        elif not isinstance(value, tuple):
            return
        self._seen.add(id(value))
        for item in value.values() if isinstance(value, dict) else () if isinstance(value, Tensor) else value:
            self.hold(item)

    def restore(self) -> None:
        """Put it back; nothing is written where nothing has changed."""
        for tensor, values in self._tensors:
            if not (tensor.layout is torch.strided and torch.equal(tensor, values)):
                _write(tensor, values)
        for container, content in self._containers:
            if not _same(container, content):
                container.clear()
                (container.extend if isinstance(container, (list, deque)) else container.update)(content)


def _write(tensor: Tensor, values: Tensor) -> None:
    """Copy ``values``; of a tensor that is expanded, and refuses to be written, the part that has memory of its own."""
    if tensor.shape != values.shape:
        tensor.data = values
        return
    if tensor.layout is torch.strided:
        own = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        tensor, values = tensor[own], values[own]
    tensor.detach().copy_(values)


def _same(container: Any, content: Any) -> bool:
    """Whether both hold the very same objects in the same order, so that nothing needs to be written."""
    if len(container) != len(content) or not all(map(operator.is_, container, content)):
        return False
    return not isinstance(container, dict) or all(map(operator.is_, container.values(), content.values()))


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Run the model without dropout, whether modules do it or ``forward`` calls it, in any mode."""
    inside = [m for m in model.modules() if isinstance(m, (_DropoutNd, nn.MultiheadAttention, nn.RNNBase))]
    modes = [module.training for module in inside]
    for module in inside:
        module.training = False
    try:
        with NoDropoutCalls():
            yield
    finally:
        for module, mode in zip(inside, modes, strict=True):
            module.training = mode


class NoDropoutCalls(TorchFunctionMode):
    """Calls of dropout as a function return their input."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            args, kwargs = (
                args[:4],
                {**dict(zip(("dropout_p", "is_causal"), args[4:])), **(kwargs or {}), "dropout_p": 0.0},
            )
        return func(*args, **(kwargs or {}))
