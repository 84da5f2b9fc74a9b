"""Parameters of ``forward``: which there are, and their names."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn

__all__ = ["Signature", "Whole", "position_name", "required_parameters"]

_POSITIONAL_ONLY, _POSITIONAL_OR_KEYWORD = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
_VAR_POSITIONAL, _VAR_KEYWORD = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class Whole(nn.Module):
    """A bare layer as a model of one step, because tracing would otherwise trace into it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.add_module(type(layer).__name__, layer)
        self.train(layer.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the layer."""
        (layer,) = self.children()
        return layer(*args, **kwargs)


def required_parameters(model: nn.Module) -> list[str]:
    """Return names of the arguments that ``forward`` cannot do without."""
    return [p.name for p in _parameters(model) if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]


def _parameters(model: nn.Module) -> list[inspect.Parameter]:
    if isinstance(model, Whole):
        (model,) = model.children()
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):  # a compiled forward shows no signature
        return []


def position_name(model: nn.Module, index: int) -> str:
    """Return the name of a positional argument: of its parameter, or as ``args[2]``."""
    for index_of_parameter, parameter in enumerate(_parameters(model)):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"{parameter.name}[{index - index_of_parameter}]"
        if index_of_parameter == index and parameter.kind is not parameter.KEYWORD_ONLY:
            return parameter.name
    return str(index)


@dataclass(frozen=True)
class Signature:
    """What ``forward`` takes.

    Attributes
    ----------
    named : frozenset of str
        Arguments that can be given by name.
    required, required_keywords : tuple of str
        Those without a default: by position or name, by name only.
    positions : int
        Number of parameters that can be passed by position, apart from ``*args``.
    any_position, any_name : bool
        Whether it takes ``*args``, ``**kwargs``.
    """

    named: frozenset[str]
    required: tuple[str, ...]
    required_keywords: tuple[str, ...]
    positions: int
    any_position: bool
    any_name: bool

    @classmethod
    def of(cls, model: nn.Module) -> Signature:
        """Return the signature of a model's ``forward``."""
        parameters = _parameters(model)
        kinds = [p.kind for p in parameters]
        return cls(
            named=frozenset(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)),
            required=tuple(required_parameters(model)),
            required_keywords=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty),
            positions=sum(kind in (_POSITIONAL_ONLY, _POSITIONAL_OR_KEYWORD) for kind in kinds),
            any_position=_VAR_POSITIONAL in kinds,
            any_name=_VAR_KEYWORD in kinds,
        )
