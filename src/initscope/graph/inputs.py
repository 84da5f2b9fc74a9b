"""Conversion of one item of a user's data to the arguments of ``forward``."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initscope.errors import InputError
from initscope.graph.borrowing import borrowed
from initscope.graph.nested_tensors import map_tensors, named_tensors
from initscope.graph.signature import Signature, Whole, position_name, required_parameters

# fmt: off
__all__ = [
    "BatchArgs", "Inputs", "Whole", "bind", "map_tensors", "named_tensors", "refuse_different_lengths",
    "required_parameters",
]
# fmt: on

_LABELS = ("label", "labels", "target", "targets")


BatchArgs = str | int | Sequence[str | int] | None
"""Which arguments carry samples along their first axis: names of parameters, or positions. None: all tensors."""


@dataclass(frozen=True)
class Inputs:
    """Arguments of one call of a model; tensors may be nested in tuples, lists and dicts.

    ``carries`` says for each tensor whether its first axis is the sample axis; other tensors are passed unchanged to
    every call. None: the tensors whose first axis is as long as that of the first tensor with an axis.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    carries: tuple[bool, ...] | None = None

    def tensors(self) -> list[Tensor]:
        """Return all tensors, in order."""
        return list(self._tensors)

    @cached_property
    def _tensors(self) -> tuple[Tensor, ...]:
        tensors: list[Tensor] = []
        map_tensors((self.args, self.kwargs), tensors.append)
        return tuple(tensors)

    def map(self, function: Callable[[Tensor], Any]) -> Inputs:
        """Return the same arguments with ``function`` applied to every tensor."""
        return Inputs(map_tensors(self.args, function), map_tensors(self.kwargs, function), self.carries)

    @cached_property
    def batched(self) -> tuple[bool, ...]:
        """For each tensor, whether its first axis is the sample axis."""
        if self.carries is not None:
            return self.carries
        tensors = self.tensors()
        size = next((len(tensor) for tensor in tensors if tensor.dim()), None)
        return tuple(tensor.dim() > 0 and len(tensor) == size for tensor in tensors)

    @cached_property
    def samples(self) -> int:
        """Number of samples."""
        lengths = [len(tensor) for tensor, carries in zip(self.tensors(), self.batched, strict=True) if carries]
        if not lengths:
            raise InputError("the data holds no tensors with samples; give arrays, tensors, a Dataset or a DataLoader")
        return lengths[0]

    def sample_tensors(self) -> list[Tensor]:
        """Return the tensors that carry samples."""
        return [tensor for tensor, carries in zip(self.tensors(), self.batched, strict=True) if carries]

    def map_samples(self, function: Callable[[Tensor], Tensor]) -> Inputs:
        """Return the same arguments with ``function`` applied to the tensors that carry samples."""
        carries = self.batched
        remaining = iter(carries)
        mapped = self.map(lambda tensor: function(tensor) if next(remaining) else tensor)
        return replace(mapped, carries=carries)

    def pick(self, index: Tensor | slice | list[int]) -> Inputs:
        """Return the samples at ``index``."""
        return self.map_samples(lambda tensor: tensor[index])

    def joined(self, *others: Inputs) -> Inputs:
        """Concatenate these samples and those of ``others``."""
        columns = iter(list(zip(*(other.sample_tensors() for other in others), strict=True)))
        return self.map_samples(lambda tensor: torch.cat([tensor, *next(columns)]))

    def refused(self, error: Exception) -> InputError:
        """Return the message for the user when the model raised ``error`` on these arguments."""
        if isinstance(error, InputError):
            return error
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in self.tensors())
        message = str(error).partition("While executing %")[0].strip()  # what follows is torch.fx's
        cause = self._misfit(error) or f"{type(error).__name__}: {message}"
        return InputError(f"the model fails on inputs of shape {shapes}: {cause}")

    def refuse_misfits(self, model: nn.Module) -> None:
        """Raise if a layer refuses its input; other exceptions of ``model`` are ignored."""
        try:
            with borrowed(model):
                model(*self.args, **self.kwargs)
        except Exception as error:  # whatever the model raises
            if self._misfit(error):
                raise self.refused(error) from error

    def _misfit(self, error: Exception) -> str:
        """Return the layer that these inputs do not fit, and what would fit; empty for any other failure."""
        return _where_it_failed(error) or self._at_a_table(error) or self._tokens_as_numbers(error)

    def _at_a_table(self, error: Exception) -> str:
        """Return why an embedding has no row for an index of the inputs; empty for any other failure."""
        raised = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        table = next((module for module in reversed(raised) if isinstance(module, nn.Embedding)), None)
        whole = [tensor for tensor in self.tensors() if not tensor.is_floating_point() and tensor.numel()]
        if table is None:
            return ""
        words = f"{table.num_embeddings} words (0 … {table.num_embeddings - 1})"
        if not whole:
            return f"an embedding of {words} looks up whole numbers; give tokens of int64 (--data text, or a file)"
        if not isinstance(error, IndexError) or "out of range" not in str(error):
            return ""
        least, most = min(int(t.min()) for t in whole), max(int(t.max()) for t in whole)
        return f"its tokens go from {least} to {most}, beyond the vocabulary of {words}; check the tokenizer"

    def _tokens_as_numbers(self, error: Exception) -> str:
        """Return the layer for real numbers that got token indices; empty for any other failure."""
        if "dtype" not in str(error) or any(tensor.is_floating_point() for tensor in self.tensors()):
            return ""
        return "it computes with numbers and got tokens (whole numbers); give data of numbers, or an --input-shape"

    def names(self, model: nn.Module) -> list[str]:
        """Return a name for every tensor: the parameter of ``forward``, with the key or index inside it."""
        prefixes = [position_name(model, index) for index in range(len(self.args))]
        return [
            name
            for prefix, value in [*zip(prefixes, self.args, strict=True), *self.kwargs.items()]
            for name, _ in named_tensors(value, prefix)
        ]


def _where_it_failed(error: Exception) -> str:
    """Return the layer of torch that refused a shape, and that shape; empty for any other failure."""
    if "shape" not in str(error) and "channels" not in str(error) and "size" not in str(error):
        return ""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        module, given = frame.f_locals.get("self"), frame.f_locals.get("input")
        if not (isinstance(module, nn.Module) and isinstance(given, Tensor)):
            continue
        if type(module).__module__.startswith("torch.nn.") and next(module.children(), None) is None:
            return f"{module} got a tensor of shape {tuple(given.shape)}; {_what_would_fit(module, given)}"
    return ""


def _what_would_fit(module: nn.Module, given: Tensor) -> str:
    """Return advice for a layer that refuses the shape of its input."""
    sample = given.shape[1:]
    if isinstance(module, nn.Linear) and len(sample) > 1 and sample.numel() == module.in_features:
        return "put torch.nn.Flatten() before it"
    if isinstance(module, _ConvNd) and given.dim() == module.weight.dim() and given.shape[-1] == module.in_channels:
        order = ", ".join(str(axis) for axis in (0, given.dim() - 1, *range(1, given.dim() - 1)))
        return f"channels come before positions: give x.permute({order})"
    return "change the layer, or the shape of the data"


def bind(model: nn.Module, item: Any, batch_args: BatchArgs = None, *, unlabeled: bool = False) -> Inputs:
    """Return arguments for ``model`` from one batch of data.

    A tensor is the first argument. From a tuple or list, as data loaders yield it, the first members are inputs, as
    many as ``forward`` requires (at least one); the rest are labels. A dict or named tuple whose keys are parameters of
    ``forward`` is passed by name, without labels and unknown keys, also to ``forward(*args, **kwargs)``; any other dict
    is passed as one argument. ``batch_args`` names the arguments that carry samples, and with it a tuple for
    ``forward(*args)`` is passed with all its members. ``unlabeled``: targets come from elsewhere. All members of a
    tuple are then inputs, as many as ``forward`` accepts, and so are labels in a dict if ``forward`` has a parameter
    for them.

    Parameters
    ----------
    model : nn.Module
        Its ``forward`` determines the arguments.
    item : Inputs, tensor, tuple, list, dict or named tuple
        One batch.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples.
    unlabeled : bool
        Whether targets come from elsewhere.

    Returns
    -------
    Inputs
    """
    if isinstance(item, Inputs):
        return item if batch_args is None else _said_to_carry(model, item, batch_args)
    bound = _bound(model, item, everything=batch_args is not None, unlabeled=unlabeled)
    return bound if batch_args is None else _said_to_carry(model, bound, batch_args)


def _bound(model: nn.Module, item: Any, *, everything: bool, unlabeled: bool) -> Inputs:
    """Return the arguments for an item of data, by its type."""
    signature = Signature.of(model)
    fields = item._asdict() if hasattr(item, "_fields") else item
    if isinstance(fields, Mapping):
        by_name = _by_name(signature, fields, unlabeled=unlabeled)
        if by_name is not None:
            return by_name
        if fields is item or len(signature.required) == 1:
            return Inputs((dict(item) if fields is item else item,))
    if isinstance(item, (list, tuple)):
        return _by_position(model, signature, item, everything=everything, unlabeled=unlabeled)
    if not signature.required and signature.required_keywords:
        return Inputs((), {signature.required_keywords[0]: item})
    return Inputs((item,))


def _by_name(signature: Signature, fields: Mapping[str, Any], *, unlabeled: bool) -> Inputs | None:
    """Return arguments by name, without labels and unknown keys; None if the keys are not parameter names.

    Labels are passed if ``forward`` requires them, or if targets come from elsewhere (``unlabeled``).
    """
    if not signature.named and signature.any_name:
        return Inputs((), {key: value for key, value in fields.items() if key not in _LABELS})
    required = {*signature.required, *signature.required_keywords}
    if not required <= set(fields) or signature.named.isdisjoint(fields):
        return None
    labels = set() if unlabeled else set(_LABELS) - required
    return Inputs((), {key: value for key, value in fields.items() if key in signature.named and key not in labels})


def _by_position(
    model: nn.Module, signature: Signature, item: Sequence[Any], *, everything: bool, unlabeled: bool
) -> Inputs:
    """Return the first members of a tuple, as many as ``forward`` requires or, if ``unlabeled``, accepts."""
    wanted = max(1, len(signature.required))
    if (everything or unlabeled) and signature.any_position:
        wanted = len(item)
    elif unlabeled:
        wanted = max(wanted, min(len(item), signature.positions))
    if len(item) < wanted:
        raise InputError(
            f"{type(model).__name__}.forward needs {wanted} inputs ({', '.join(signature.required)}) and the data has "
            f"{len(item)}; give tuples of {wanted}, or dicts with these keys"
        )
    return Inputs(tuple(item[:wanted]))


def _said_to_carry(model: nn.Module, inputs: Inputs, batch_args: BatchArgs) -> Inputs:
    """Return ``inputs`` in which the tensors that the user names carry samples."""
    given = [batch_args] if isinstance(batch_args, (str, int)) else list(batch_args or ())
    wanted = [position_name(model, name) if isinstance(name, int) else name for name in given]
    names, tensors = inputs.names(model), inputs.tensors()
    unknown = [name for name in wanted if not any(_is_part(known, name) for known in names)]
    if unknown or not wanted:
        raise InputError(f"batch_args = {batch_args!r}: no input has this name; available inputs: {', '.join(names)}")
    carries = tuple(any(_is_part(known, name) for name in wanted) for known in names)
    lengths = {
        name: len(tensor) if tensor.dim() else 0
        for name, tensor, carried in zip(names, tensors, carries, strict=True)
        if carried
    }
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise InputError(
            f"batch_args = {batch_args!r}: these inputs hold {lengths} samples; give them the same number, at least one"
        )
    return replace(inputs, carries=carries)


def _is_part(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}[")


def refuse_different_lengths(model: nn.Module, inputs: Inputs) -> None:
    """Raise an error that explains how to name the arguments that carry samples, if their lengths are ambiguous.

    Parameters
    ----------
    model : nn.Module
        Model whose parameter names are used.
    inputs : Inputs
        Its arguments.
    """
    if inputs.carries is not None:
        return
    named = zip(inputs.names(model), inputs.tensors(), strict=True)
    lengths = {name: len(tensor) for name, tensor in named if tensor.dim()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"the inputs have different lengths {lengths}; give all the same number of samples or pairs, or name "
            f"those that carry samples: batch_args={next(iter(lengths))!r}; the others are then passed unchanged"
        )
