"""How one item of a user's data becomes the arguments of ``forward``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from torch import Tensor, nn

from initscope.errors import InputError

__all__ = ["Inputs", "Whole", "bind", "map_tensors", "named_tensors", "required_parameters"]

_LABELS = ("label", "labels", "target", "targets")


@dataclass(frozen=True)
class Inputs:
    """Arguments of one call of a model; tensors may be nested in tuples, lists and dicts."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[Tensor]:
        """All tensors, in order."""
        found: list[Tensor] = []
        self.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return found

    def map(self, function: Callable[[Tensor], Any]) -> Inputs:
        """The same arguments with ``function`` applied to every tensor."""
        return Inputs(map_tensors(self.args, function), map_tensors(self.kwargs, function))

    def refused(self, error: Exception) -> InputError:
        """What to tell the user when the model raised ``error`` on these arguments."""
        if isinstance(error, InputError):
            return error
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in self.tensors())
        return InputError(f"the model fails on inputs of shape {shapes}: {type(error).__name__}: {error}")

    def names(self, model: nn.Module) -> list[str]:
        """A name for every tensor: the parameter of ``forward``, with the key or index inside it."""
        parameters = _parameters(model)
        positional = [
            parameters[index].name if index < len(parameters) else str(index) for index in range(len(self.args))
        ]
        return [
            name
            for prefix, value in [*zip(positional, self.args, strict=True), *self.kwargs.items()]
            for name, _ in named_tensors(value, prefix)
        ]


def bind(model: nn.Module, item: Any) -> Inputs:
    """Arguments for ``model`` from one batch of data.

    A tensor is the first argument. Of a tuple or list, as data loaders yield, as many members are taken as ``forward``
    requires (at least one): the rest are labels. A dict whose keys are parameters of ``forward`` is passed by name
    (labels and what ``forward`` does not know are left out); any other dict is passed whole.
    """
    if isinstance(item, Inputs):
        return item
    parameters = _parameters(model)
    required = required_parameters(model)
    if isinstance(item, Mapping):
        known = {p.name for p in parameters}
        if set(required) <= set(item) and known & set(item):
            return Inputs((), {k: v for k, v in item.items() if k in known and (k in required or k not in _LABELS)})
        return Inputs((dict(item),))
    if isinstance(item, (list, tuple)):
        wanted = max(1, len(required))
        if len(item) < wanted:
            raise InputError(
                f"{type(model).__name__}.forward needs {wanted} inputs ({', '.join(required)}) and the data has "
                f"{len(item)}; give tuples of {wanted}, or dicts with these keys"
            )
        return Inputs(tuple(item[:wanted]))
    return Inputs((item,))


class Whole(nn.Module):
    """A bare layer as a model of one step, which tracing would otherwise look into."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.add_module(type(layer).__name__, layer)
        self.train(layer.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer does."""
        (layer,) = self.children()
        return layer(*args, **kwargs)


def required_parameters(model: nn.Module) -> list[str]:
    """Names of the arguments that ``forward`` cannot do without."""
    return [p.name for p in _parameters(model) if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


def _parameters(model: nn.Module) -> list[inspect.Parameter]:
    if isinstance(model, Whole):
        (model,) = model.children()
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):  # a compiled forward shows no signature
        return []


def map_tensors(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """``value`` with ``function`` applied to every tensor in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, function) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, function) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(item, function) for item in value)
    return value


def named_tensors(value: Any, prefix: str) -> list[tuple[str, Tensor]]:
    """Every tensor in nested tuples, lists, dicts and dataclasses with a name like ``batch[image]``."""
    if isinstance(value, Tensor):
        return [(prefix, value)]
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (tuple, list)):
        items = list(enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        items = list(vars(value).items())
    else:
        return []
    return [found for key, item in items for found in named_tensors(item, f"{prefix}[{key}]")]
