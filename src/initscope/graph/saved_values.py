"""What modules hold, and how it is put back: values of tensors and containers, and the states of generators."""

from __future__ import annotations

import ctypes
import mmap
import operator
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["Held"]

_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WORTH_MAPPING = 1 << 24  # bytes, as the next two
_ALIGNED, _SPARE = 64, 1 << 20
_CONTAINERS = {dict, OrderedDict, list, set}
_PLAIN = {type(None), bool, int, float, str}  # most attributes, which hold nothing


class Held:
    """Contents of tensors and containers, and of what is in these, each once.

    Values of parameters are copied up to ``parameter_bytes`` in all; of the rest is known only whether they changed.
    """

    def __init__(self, parameter_bytes: int = 0) -> None:
        self._left = parameter_bytes
        self._room = _Room(parameter_bytes)
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is given again
        self._tensors: list[_Values] = []
        self._containers: list[tuple[Any, Any]] = []
        self._states: list[Callable[[], Any]] = []

    def hold(self, value: Any) -> None:
        """Remember what ``value`` holds now. Modules keep their own."""
        if id(value) in self._seen:
            return
        if type(value) in _CONTAINERS and not value:  # most of what a module has: no hooks
            self._containers.append((value, ()))
            return
        items: Iterable[Any] = ()
        if isinstance(value, (dict, list, set, deque)):
            items = value.values() if isinstance(value, dict) else value
            self._containers.append((value, dict(value) if isinstance(value, dict) else list(value)))
        elif isinstance(value, tuple):
            items = value
        elif isinstance(value, Tensor):
            if not value.is_meta:
                self._tensors.append(self._values(value))
        elif not isinstance(value, nn.Module) and (state := _state(value)) is not None:
            self._states.append(state)
        else:
            return
        self._seen.add(id(value))
        self._kept.append(value)
        for item in items:
            if type(item) not in _PLAIN:
                self.hold(item)

    def _values(self, tensor: Tensor) -> _Values:
        if tensor.is_inference():  # outside of its mode nothing can write it
            return _Values(tensor, None)
        memory = tensor.detach()
        if not isinstance(tensor, nn.Parameter):
            return _Values(tensor, memory.clone())
        size = memory.numel() * memory.element_size()
        if size > self._left:
            return _Values(tensor, None)
        self._left -= size
        return _Values(tensor, self._room.copy(memory, size))

    def restore(self) -> list[Tensor]:
        """Put it back; nothing is written where nothing has changed. Returns what changed and could not be put back."""
        lost = [values.tensor for values in self._tensors if not values.restore()]
        for container, content in self._containers:
            if not _same(container, content):
                container.clear()
                (container.extend if isinstance(container, (list, deque)) else container.update)(content)
        for restore in self._states:
            restore()
        return lost


@dataclass
class _Values:
    """A tensor as it was: where its memory is, what stands there, whether it is a leaf that asks for gradients."""

    tensor: Tensor
    copy: Tensor | None

    def __post_init__(self) -> None:
        tensor = self.tensor
        self._memory = tensor.detach()
        self._version = None if tensor.is_inference() else tensor._version
        self._needs_gradient, self._leaf = tensor.requires_grad, tensor.grad_fn is None

    def restore(self) -> bool:
        """False if the values changed and there is no copy."""
        tensor = self.tensor
        if self._leaf and tensor.grad_fn is not None:  # written while gradients were recorded
            tensor.detach_() if not tensor._is_view() else tensor.set_(self._memory)  # type: ignore[call-overload]
        if tensor.layout is torch.strided and _place(tensor) != _place(self._memory):
            tensor.data = self._memory
        if self._leaf and tensor.requires_grad != self._needs_gradient:
            with torch.inference_mode(tensor.is_inference()):
                tensor.requires_grad_(self._needs_gradient)
        if self.copy is None:
            return self._version is None or tensor._version == self._version
        if not _same_bits(self._memory, self.copy):
            _write(self._memory, self.copy)
        return True


class _Room:
    """Memory for copies in one piece, which the system is asked to give in large pages.

    Taken from the heap it would come page by page, which takes longer than the copying, and the outputs of the model,
    which have their place there, would be driven to fresh pages too.
    """

    def __init__(self, size: int) -> None:
        self._memory = _mapped(size + _SPARE) if size >= _WORTH_MAPPING else None
        self._taken = 0

    def copy(self, values: Tensor, size: int) -> Tensor:
        """``values``, of ``size`` bytes, in the room if they are dense and fit, else in memory of their own."""
        start = -(-self._taken // _ALIGNED) * _ALIGNED
        if self._memory is None or start + size > len(self._memory) or not values.is_cpu or not values.is_contiguous():
            return values.clone()
        self._taken = start + size
        return self._memory[start : start + size].view(values.dtype).view(values.shape).copy_(values)


def _mapped(size: int) -> Tensor | None:
    """Bytes that are mapped for themselves, or None where the system has no large pages to ask for."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without them, or no memory left
        return None
    return torch.frombuffer(memory, dtype=torch.uint8)


def _state(value: Any) -> Callable[[], Any] | None:
    """What puts the state of a random generator, or the values of an array, back."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    if isinstance(value, np.random.Generator):
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype != object:
        return partial(np.copyto, value, value.copy())
    return None


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.data_ptr()


def _same_bits(tensor: Tensor, values: Tensor) -> bool:
    """Whether both hold the same values, NaN and signed zeros included."""
    whole = _WHOLE_NUMBERS.get(tensor.element_size())
    if tensor.layout is not torch.strided or tensor.is_quantized or whole is None:
        return tensor.layout is torch.strided and torch.equal(tensor, values)
    if tensor.dim() == 0:
        tensor, values = tensor[None], values[None]  # a view as another type needs an axis
    plain = type(tensor) is type(values) is Tensor and tensor.is_cpu
    if plain and tensor.is_contiguous() and values.is_contiguous():
        return np.array_equal(_bytes(tensor), _bytes(values))  # many at a time, where torch goes one by one
    return torch.equal(tensor.view(whole), values.view(whole))


def _bytes(tensor: Tensor) -> Any:
    """The memory of a contiguous tensor. ``Tensor.numpy`` would forbid for good that the tensor is ever resized."""
    size = tensor.numel() * tensor.element_size()
    memory = memoryview((ctypes.c_byte * size).from_address(tensor.data_ptr())) if size else b""
    return np.frombuffer(memory, np.uint8 if size % 8 else np.uint64)  # few large words compare faster


def _write(tensor: Tensor, values: Tensor) -> None:
    """Copy ``values``; of a tensor that is expanded, and refuses to be written, the part that has memory of its own."""
    if tensor.layout is torch.strided:
        own = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        tensor, values = tensor[own], values[own]
    tensor.copy_(values)


def _same(container: Any, content: Any) -> bool:
    """Whether both hold the very same objects in the same order, so that nothing needs to be written."""
    if not container and not content:
        return True
    if len(container) != len(content) or not all(map(operator.is_, container, content)):
        return False
    return not isinstance(container, dict) or all(map(operator.is_, container.values(), content.values()))
