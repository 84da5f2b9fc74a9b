"""State of modules, and how it is restored: attributes, values of tensors and containers, states of generators.

Buffers and other tensors of modules are replaced by copies while the model is used. The user's own tensors are then
never written, and their version counters stay, so that a backward pass that began earlier still works. Tensors that
cannot be replaced (parameters, members of tuples, tensors that share memory) are written back if they changed, with
their version.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["SavedState", "ask_for_gradient"]

_WHOLE_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WORTH_MAPPING = 1 << 24  # bytes, as the next two
_ALIGNED, _SPARE = 64, 1 << 20
_DICTS = (dict, OrderedDict)
_NOTHING_INSIDE = {type(None), bool, int, float, str}  # most attributes


class SavedState:
    """Contents of modules, and of the tensors and containers that they hold, each once.

    Values of parameters are copied up to ``parameter_bytes`` in total; for the rest it is only known whether they
    changed. ``swap`` replaces other tensors by copies until `restore`. ``containers`` are dicts, lists or sets outside
    of modules.
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        parameter_bytes: int = 0,
        *,
        swap: bool = False,
        containers: Iterable[Any] = (),
    ) -> None:
        self._left = parameter_bytes
        self._memory = _CopyMemory(parameter_bytes)
        self._seen: set[int] = set()
        self._kept: list[Any] = []  # so that no id is given again
        self._empty: list[Any] = []
        self._containers: list[list[Any]] = []  # [container, its content outside, its content inside]
        self._in_place: list[_SavedTensor] = []
        self._swappable: list[tuple[Any, Any, Tensor]] = []  # (container, key or index, tensor)
        self._swapped: list[tuple[Tensor, Tensor]] = []  # (the user's, the copy)
        self._states: list[Callable[[], Any]] = []
        self._slots: list[tuple[nn.Module, str, Any]] = []
        modules = list(modules)
        slots: dict[type, list[str]] = {}
        for module in modules:
            if vars(module).get("max_norm") is not None and isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
                self._hold_all([module.weight])  # which looking up rescales: its copy comes first
            if type(module) not in slots:
                slots[type(module)] = _slots(type(module))
            for name in slots[type(module)]:
                self._slots.append((module, name, getattr(module, name, _MISSING)))
        self._hold_all([*(vars(module) for module in modules), *containers])
        self._hold_all([value for _, _, value in self._slots])
        self._settle(swap)

    def _hold_all(self, values: list[Any]) -> None:
        """Save the present content of values, and of values inside them. Modules keep their own.

        One loop without a call for each value: models have thousands of attributes.
        """
        waiting = values
        while waiting:
            value = waiting.pop()
            if id(value) in self._seen:
                continue
            inside: list[tuple[Any, Any]] = []
            if isinstance(value, (dict, list, set, deque)):
                content: Any = dict(value) if isinstance(value, dict) else list(value)
                self._containers.append([value, content, content])
                inside = list(content.items()) if isinstance(value, dict) else list(enumerate(content))
            elif isinstance(value, tuple):
                inside = list(enumerate(value))
            elif isinstance(value, Tensor):
                if not value.is_meta:
                    self._in_place.append(self._saved(value))
            elif isinstance(value, np.ndarray) and value.dtype == object:
                inside = list(enumerate(value.ravel().tolist()))
                self._states.append(partial(_refill, value, [item for _, item in inside]))
            elif isinstance(value, nn.Module) or (state := _state(value)) is None:
                continue
            else:
                self._states.append(state)
            self._seen.add(id(value))
            self._kept.append(value)
            for key, item in inside:
                kind = type(item)
                if kind in _NOTHING_INSIDE:
                    continue
                if kind in _DICTS and not item:
                    self._empty.append(item)  # no hooks
                elif kind is Tensor and isinstance(value, (dict, list, deque)):
                    self._swappable.append((value, key, item))
                elif not isinstance(item, nn.Module):
                    waiting.append(item)

    def _settle(self, swap: bool) -> None:
        """Replace tensors by copies where possible; the others are written back in place."""
        tensors = {id(tensor): tensor for _, _, tensor in self._swappable if id(tensor) not in self._seen}
        alone = {key for key, tensor in tensors.items() if swap and _can_be_replaced(tensor)}
        if alone:
            held = [*tensors.values(), *(saved.tensor for saved in self._in_place)]
            memory = Counter(_memory_of(tensor) for tensor in held)
            alone = {key for key in alone if memory[_memory_of(tensors[key])] == 1}
        copies = {key: _copy_of(tensors[key]) for key in alone}
        self._swapped = [(tensors[key], copy) for key, copy in copies.items()]
        self._in_place += [self._saved(tensor) for key, tensor in tensors.items() if key not in alone]
        for container, key, tensor in self._swappable:
            if id(tensor) in copies:
                container[key] = copies[id(tensor)]
        self.note_inside()

    def _saved(self, tensor: Tensor) -> _SavedTensor:
        if tensor.is_inference() or tensor.is_meta:  # outside of its mode nothing can write it
            return _SavedTensor(tensor, None)
        if not isinstance(tensor, nn.Parameter):
            return _SavedTensor(tensor, tensor.detach().clone())
        size = tensor.numel() * tensor.element_size()
        if size > self._left:
            return _SavedTensor(tensor, None)
        self._left -= size
        return _SavedTensor(tensor, self._memory.copy(tensor.detach(), size))

    def note_inside(self) -> None:
        """Let `reset` restore the present content of containers."""
        for entry in self._changed(1):
            entry[2] = dict(entry[0]) if isinstance(entry[0], dict) else list(entry[0])

    def _changed(self, which: int) -> list[list[Any]]:
        """Return containers whose objects or their order differ from those outside (1) or inside (2)."""
        changed = []
        same = operator.is_
        for entry in self._containers:
            container, content = entry[0], entry[which]
            if (
                len(container) != len(content)
                or not all(map(same, container, content))
                or (isinstance(container, dict) and not all(map(same, container.values(), content.values())))
            ):
                changed.append(entry)
        return changed

    def restore(self) -> list[Tensor]:
        """Restore everything; values that did not change are not written. May be called again and again.

        Returns
        -------
        list of Tensor
            What changed and could not be put back.
        """
        lost = [saved.tensor for saved in self._in_place if not saved.restore()]
        self._refill(1)
        return lost

    def reset(self) -> None:
        """Restore everything except values of parameters to its state at the beginning, with the copies in use."""
        for saved in self._in_place:
            if not isinstance(saved.tensor, nn.Parameter) or saved.was_moved():
                saved.restore()
        self._refill(2)
        self.reset_copies()

    def reset_copies(self) -> None:
        """Write the user's values into the copies of buffers that have changed."""
        for original, copy in self._swapped:
            if copy.grad_fn is not None:  # written while gradients were recorded
                copy.detach_()
            if copy.shape != original.shape or copy.stride() != original.stride():
                copy.data = _copy_of(original).detach()
            elif not _same_bits(copy.detach(), original.detach()):
                _write(copy.data, original.detach())

    def _refill(self, which: int) -> None:
        """Put the contents of containers, slots and generators back: 1 as they were outside, 2 inside."""
        for container in self._empty:
            if container:
                container.clear()
        for container in self._changed(which):
            content = container[which]
            container[0].clear()
            (container[0].extend if isinstance(container[0], (list, deque)) else container[0].update)(content)
        for module, name, value in self._slots:
            if value is not _MISSING:
                setattr(module, name, value)
            elif hasattr(module, name):
                delattr(module, name)
        for restore in self._states:
            restore()


_MISSING = object()


def _slots(kind: type) -> list[str]:
    """Return names in the ``__slots__`` of a class of modules and its bases."""
    names: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


@dataclass
class _SavedTensor:
    """Saved state of a tensor: its memory, its values, whether it is a leaf that requires a gradient."""

    tensor: Tensor
    copy: Tensor | None

    def __post_init__(self) -> None:
        tensor = self.tensor
        self._memory = tensor.detach()
        self._version = None if tensor.is_inference() else tensor._version
        self._needs_gradient, self._leaf = tensor.requires_grad, tensor.grad_fn is None

    def was_moved(self) -> bool:
        """Return whether its memory was exchanged, or it became part of a gradient graph."""
        tensor = self.tensor
        moved = tensor.layout is torch.strided and tensor.data_ptr() != self._memory.data_ptr()
        return moved or (tensor.grad_fn is None) != self._leaf

    def restore(self) -> bool:
        """Put it back; False if the values changed and there is no copy."""
        tensor = self.tensor
        if self._leaf and tensor.grad_fn is not None:  # written while gradients were recorded
            tensor.detach_() if not tensor._is_view() else tensor.set_(self._memory)  # type: ignore[call-overload]
        if tensor.layout is torch.strided and _address(tensor) != _address(self._memory):
            tensor.data = self._memory
        if self._leaf and tensor.requires_grad != self._needs_gradient:
            ask_for_gradient(tensor, self._needs_gradient)
        if self._version is None:
            return True
        if self.copy is None:
            return tensor._version == self._version
        if not _same_bits(self._memory, self.copy):
            _write(self._memory, self.copy)
        if tensor._version != self._version:  # the values are the same again, bit by bit
            _set_version(tensor, self._version)
        return True


def ask_for_gradient(tensor: Tensor, needs_gradient: bool) -> None:
    """Set ``requires_grad``, also of a tensor that was made in inference mode."""
    with torch.inference_mode(tensor.is_inference()):
        tensor.requires_grad_(needs_gradient)


def _set_version(tensor: Tensor, version: int) -> None:
    """Set the version counter, by which autograd knows whether a tensor was written since a forward pass."""
    setter = getattr(torch._C._autograd, "_unsafe_set_version_counter", None)
    if setter is not None:
        setter((tensor,), (version,))


def _can_be_replaced(tensor: Tensor) -> bool:
    """Return whether a copy can replace a tensor: it has dense memory of its own and is not the result of a graph."""
    plain = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested and not tensor.is_meta
    return plain and tensor.grad_fn is None and not tensor.is_inference()


def _memory_of(tensor: Tensor) -> int:
    """Return a key that is equal for tensors that share memory; a tensor without memory has its own key."""
    if tensor.layout is not torch.strided or tensor.is_meta or not tensor.numel():
        return -id(tensor)
    return tensor.untyped_storage().data_ptr()


def _copy_of(tensor: Tensor) -> Tensor:
    """Return a copy with the same strides; expanded values are copied once."""
    stored = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    copy = tensor.detach()[stored].clone().expand(tensor.shape) if 0 in tensor.stride() else tensor.detach().clone()
    return copy.requires_grad_(tensor.requires_grad)


class _CopyMemory:
    """Memory for copies in one block, for which the system is asked to use large pages.

    On the heap, the memory would be allocated page by page, which takes longer than the copying. The outputs of the
    model, which stay on the heap, would also be moved to new pages.
    """

    def __init__(self, size: int) -> None:
        self._memory = _mapped(size + _SPARE) if size >= _WORTH_MAPPING else None
        self._taken = 0

    def copy(self, values: Tensor, size: int) -> Tensor:
        """Return ``values``, of ``size`` bytes, in this memory if they are dense and fit, otherwise elsewhere."""
        start = -(-self._taken // _ALIGNED) * _ALIGNED
        if self._memory is None or start + size > len(self._memory) or not values.is_cpu or not values.is_contiguous():
            return values.clone()
        self._taken = start + size
        return self._memory[start : start + size].view(values.dtype).view(values.shape).copy_(values)


def _mapped(size: int) -> Tensor | None:
    """Return separately mapped bytes, or None if the system has no large pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without them, or no memory left
        return None
    return torch.frombuffer(memory, dtype=torch.uint8)


def _state(value: Any) -> Callable[[], Any] | None:
    """Return a function that restores the state of a random generator, or the values of an array."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    if isinstance(value, np.random.Generator):
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    if isinstance(value, np.ndarray) and value.flags.writeable:
        return partial(np.copyto, value, value.copy())
    if isinstance(value, bytearray):
        return partial(value.__setitem__, slice(None), bytes(value))
    return None


def _refill(array: Any, elements: list[Any]) -> None:
    """Put the very same objects back into an array of objects."""
    for index, element in enumerate(elements):
        if array.flat[index] is not element:
            array.flat[index] = element


def _address(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.data_ptr()


def _same_bits(tensor: Tensor, values: Tensor) -> bool:
    """Return whether both hold the same values, NaN and signed zeros included."""
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
    """Return the memory of a contiguous tensor; ``Tensor.numpy`` would forbid permanently that it is resized.

    ``Tensor.numpy`` would forbid for good that the tensor is ever resized.
    """
    size = tensor.numel() * tensor.element_size()
    memory = memoryview((ctypes.c_byte * size).from_address(tensor.data_ptr())) if size else b""
    return np.frombuffer(memory, np.uint8 if size % 8 else np.uint64)  # few large words compare faster


def _write(tensor: Tensor, values: Tensor) -> None:
    """Copy ``values``; of an expanded tensor, which refuses to be written, only the part that has memory of its own."""
    if tensor.layout is torch.strided:
        stored = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
        tensor, values = tensor[stored], values[stored]
    tensor.copy_(values)
