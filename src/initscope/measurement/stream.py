"""Batches of inputs from any source of a user's data; one pass, with one batch and the pairs in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from initscope._utils.randomness import generator
from initscope.errors import InputError
from initscope.graph import (
    Batch,
    BatchArgs,
    Inputs,
    as_pairs,
    bind,
    map_tensors,
    named_tensors,
    refuse_different_lengths,
)
from initscope.measurement.endless import with_an_end
from initscope.results import counted

__all__ = ["BATCH", "batches", "gather_pairs", "given_pairs", "moved"]

BATCH = 64  # samples of one batch where the data does not come in batches


def batches(
    model: nn.Module,
    data: Any,
    targets: Any = None,
    *,
    seed: int = 0,
    shuffle: bool = True,
    batch_args: BatchArgs = None,
) -> Iterator[Batch]:
    """Yield batches of ``data`` as inputs of ``model``, on its device.

    Arrays, tensors, tuples and dicts of them, and a ``Dataset`` with a length are read in random order, unless
    ``shuffle`` is False; a ``DataLoader`` and any other iterable of batches keep their order. ``batch_args`` names the
    arguments that carry samples. With ``targets``, all members of a tuple are inputs.
    """

    def bound(columns: Any) -> Inputs:
        return bind(model, columns, batch_args, unlabeled=targets is not None)

    for item, wanted in _items(data, targets, _Order(seed, shuffle), bound):
        inputs = bound(_as_tensors(item))
        if wanted is None and isinstance(item, (tuple, list)) and len(item) > len(inputs.args):
            wanted = item[len(inputs.args)]
        elif wanted is None and isinstance(item, Mapping):
            wanted = next((item[key] for key in ("labels", "label", "targets", "target") if key in item), None)
        batch = Batch(inputs.map(_placed(model, inputs)), None if wanted is None else _placed_target(wanted, model))
        if len(batch):
            yield batch


@dataclass(frozen=True)
class _Order:
    """Return the order in which samples of arrays are read."""

    seed: int
    shuffle: bool

    def of(self, length: int) -> Tensor:
        """Yield indices of the samples, one after the other."""
        if not self.shuffle:
            return torch.arange(length)
        return torch.as_tensor(generator(self.seed, "order of samples").permutation(length))


def _items(data: Any, targets: Any, order: _Order, arguments: Callable[[Any], Inputs]) -> Iterator[tuple[Any, Any]]:
    """Yield (item, targets) for each batch, before binding; ``arguments`` determines how binding treats columns."""
    data = getattr(data, "images", data)
    if isinstance(data, (str, bytes)):
        raise InputError(f"data = {data!r} is a name; load the data first: initscope.data.load({data!r})")
    if isinstance(data, list) and data and not isinstance(data[0], (Tensor, np.ndarray, list, tuple, Mapping)):
        raise InputError(f"a list of {type(data[0]).__name__} is not data; give a list of batches or an array")
    if isinstance(data, list) and data and isinstance(data[0], list):
        data = torch.as_tensor(np.asarray(data))
    if isinstance(data, (Tensor, np.ndarray, tuple, Mapping)):
        yield from _columns(data, targets, order, arguments)
        return
    if targets is not None:
        raise InputError("targets= goes with arrays; let the Dataset or DataLoader yield (inputs, targets) instead")
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        length = len(data)  # type: ignore[arg-type]
        data = DataLoader(data, batch_size=BATCH, sampler=order.of(length).tolist())
    elif isinstance(data, IterableDataset):
        data = DataLoader(data, batch_size=BATCH)
    elif not isinstance(data, Iterable):
        raise InputError(
            f"{type(data).__name__} is not data; give arrays, tensors, a Dataset, a DataLoader, or batches of these"
        )
    for item in with_an_end(data):
        yield item, None


def _columns(data: Any, targets: Any, order: _Order, arguments: Callable[[Any], Inputs]) -> Iterator[tuple[Any, Any]]:
    """Rows of arrays, a few at a time: they are copied, so that a read-only array (a mapped file) is not changed."""
    columns = _as_tensors(data, shared=True)
    said = arguments(columns)
    several = isinstance(targets, (tuple, Mapping))
    wanted = _as_tensors(targets) if several or targets is None else torch.as_tensor(targets)
    everything = Batch(said if said.carries else Inputs((columns,)), wanted)
    length = len(everything)
    lengths = {len(tensor) for tensor in everything.inputs.tensors() if tensor.dim()} if not said.carries else {length}
    answers = {len(tensor) for _, tensor in named_tensors(wanted, "") if tensor.dim()}
    if len(lengths) == len(answers) == 1 and lengths != answers:
        raise InputError(f"there are {min(answers)} targets for {min(lengths)} samples; give one for each sample")
    lengths |= answers
    if len(lengths) > 1:
        raise InputError(
            f"the arrays have different lengths {sorted(lengths)}; every sample needs all of them, or name the "
            "arguments that carry samples: batch_args='x'"
        )
    index = order.of(length)
    for start in range(0, length, BATCH):
        part = everything.pick(index[start : start + BATCH])
        yield part.inputs if said.carries else part.inputs.args[0], part.targets


def _as_tensors(value: Any, *, shared: bool = False) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            raise InputError(f"an array of {value.dtype} is not data; give numbers")
        if not value.flags.writeable:
            value = np.asarray(_Shared(value)) if shared else value.copy()
        return torch.from_numpy(value)
    if isinstance(value, Mapping):
        return {key: _as_tensors(item, shared=shared) for key, item in value.items()}
    if isinstance(value, Inputs):
        return Inputs(_as_tensors(value.args), _as_tensors(value.kwargs), value.carries)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_as_tensors(item, shared=shared) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_as_tensors(item, shared=shared) for item in value)
    return value


class _Shared:
    """A read-only array for torch, which has no read-only tensors: do not write to it."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # kept alive by the one that shares its memory
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _placed(model: nn.Module, inputs: Inputs) -> Callable[[Tensor], Tensor]:
    """Moves tensors to the model's device as `moved` does, and refuses values that are not finite."""
    move = moved(model, inputs)

    def checked(tensor: Tensor) -> Tensor:
        placed = move(tensor)
        real = placed.is_floating_point()
        if real and not bool(torch.isfinite(placed.sum())) and not bool(torch.isfinite(placed).all()):
            raise InputError("the data holds NaN or infinite values; clean it first")
        return placed

    return checked


def moved(model: nn.Module, inputs: Inputs | None = None) -> Callable[[Tensor], Tensor]:
    """Moves tensors to the model's device and gives numbers its floating type, if it has one.

    Indices of embeddings keep their type, and so do integers next to real numbers: lengths, edges or time steps.
    """
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = None if parameter is None else parameter.device
    indices = any([isinstance(module, (nn.Embedding, nn.EmbeddingBag)) for module in model.modules()])  # noqa: C419
    indices |= inputs is not None and any(tensor.is_floating_point() for tensor in inputs.tensors())

    def move(tensor: Tensor) -> Tensor:
        keep = not tensor.is_floating_point() and (indices or tensor.dtype == torch.bool)
        if tensor.is_complex():
            raise InputError("complex inputs are not supported; give real tensors")
        if keep or (parameter is None and tensor.is_floating_point()):
            return tensor.detach().to(device)
        return tensor.detach().to(device, torch.get_default_dtype() if parameter is None else parameter.dtype)

    return move


def _placed_target(target: Any, model: nn.Module) -> Any:
    parameter = next(model.parameters(), None)
    target = _as_tensors(target)
    return target if parameter is None else map_tensors(target, lambda tensor: tensor.to(parameter.device))


def given_pairs(model: nn.Module, x: Any, y: Any, batch_args: BatchArgs = None) -> Batch:
    """Return pairs as inputs of ``model``, on its device: the x, then the y; several inputs as a tuple or a dict.

    Several inputs come as a tuple or as a dict.
    """
    bound = [bind(model, _one_side(side), batch_args) for side in (x, y)]
    left, right = (side.map(moved(model, side)) for side in bound)
    others = right.tensors()
    if len(left.tensors()) != len(others):
        raise InputError(f"x holds {len(left.tensors())} tensors and y {len(others)}; give both the same")
    refuse_different_lengths(model, left)
    single = all(tensor.dim() < 2 for tensor in left.tensors())  # with others, an input may be one number per sample
    for a, b, carries in zip(left.tensors(), others, left.batched, strict=True):
        if carries and a.is_floating_point() and (a.dim() > 1 or single):
            as_pairs(a, b)
        elif a.shape != b.shape:
            raise InputError(f"x has shape {tuple(a.shape)} and y {tuple(b.shape)}; pairs need equal shapes")
        elif not carries and not torch.equal(a, b):
            raise InputError(f"an input of shape {tuple(a.shape)} carries no samples, yet differs between x and y")
    if left.samples == 0:
        raise InputError("the inputs hold no pairs; give at least one")
    return Batch(left.joined(right))


def _one_side(values: Any) -> Any:
    """Return one side of the pairs as tensors, in the same tuple, dict or list as the arrays."""
    several = isinstance(values, list) and bool(values) and all(isinstance(v, (Tensor, np.ndarray)) for v in values)
    if several or isinstance(values, (Tensor, Inputs, Mapping, tuple)):
        return _as_tensors(values)
    return _as_tensors(np.asarray(values))


def gather_pairs(stream: Iterator[Batch], pairs: int, seed: int, *, shuffle: bool = True) -> tuple[Batch, list[Batch]]:
    """Return the first 2·``pairs`` samples of the stream, in random order if requested, and the rest of their batch.

    The first half of the result are the x, the second half the y of the pairs.
    """
    parts: list[Batch] = []
    count = 0
    while count < 2 * pairs and (batch := next(stream, None)) is not None:
        parts.append(batch)
        count += len(batch)
    if count < 2:
        raise InputError(f"the data has {counted(count, 'sample')}; pairs need at least two")
    pool = _joined(parts)
    size = min(2 * pairs, count - count % 2)
    order: Tensor | slice = slice(0, size)
    if shuffle:
        order = torch.as_tensor(generator(seed, "pairs of samples").permutation(size))
    return pool.pick(order), [pool.pick(slice(size, None))] if size < count else []


def _joined(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    columns = [part.inputs.sample_tensors() for part in parts]
    shapes = {tuple(tuple(tensor.shape[1:]) for tensor in tensors) for tensors in columns}
    if len(shapes) > 1:
        raise InputError(f"samples have different shapes {sorted(shapes)}; resize or pad them to one")
    targets, wanted = None, [[tensor for _, tensor in named_tensors(part.targets, "")] for part in parts]
    if wanted[0] and len({len(tensors) for tensors in wanted}) == 1:
        columns_of = zip(*wanted, strict=True)
        targets = map_tensors(parts[0].targets, lambda _: torch.cat(next(columns_of)))
    return Batch(parts[0].inputs.joined(*(part.inputs for part in parts[1:])), targets)
