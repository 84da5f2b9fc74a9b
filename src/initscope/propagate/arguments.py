"""States in nested arguments of a model's calls: found, replaced by one side or one replicate, put together again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from initscope.propagate.called_weights import Uncovered
from initscope.propagate.moments import InputValues, MomentMaps, NotCovered
from initscope.propagate.routed import RoutedTokens
from initscope.propagate.units import SampledUnits, UnitView

__all__ = [
    "Replicates",
    "attribute_of",
    "holds_several",
    "kept",
    "of_replicate",
    "several",
    "shaped_like",
    "side_of",
    "states_in",
    "tells_places",
    "zeros_like",
]


@dataclass(frozen=True)
class Replicates:
    """Instead of a state: one for each replicate, behind a step that was sampled."""

    states: tuple[Any, ...]


def kept(value: Any, *, origin: bool, law: bool) -> Any:
    """A value without its note, and without what nobody will read."""
    if isinstance(value, Replicates):
        return Replicates(tuple(kept(state, origin=origin, law=law) for state in value.states))
    if type(value) is tuple:
        return tuple(kept(item, origin=origin, law=law) for item in value)
    if isinstance(value, (UnitView, RoutedTokens)):
        return replace(value, note="", base=kept(value.base, origin=origin, law=law))
    if not isinstance(value, MomentMaps):
        return value
    return replace(
        value, note="", origin=value.origin if origin else None, distribution=value.distribution if law else None
    )


def holds_several(value: Any) -> bool:
    """Whether there is one for each replicate among them."""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, Replicates) or (isinstance(value, (tuple, list)) and any(map(holds_several, value)))


def of_replicate(value: Any, index: int) -> Any:
    """Nested arguments with the states of one replicate."""
    if isinstance(value, Replicates):
        return value.states[index]
    if isinstance(value, dict):
        return {key: of_replicate(item, index) for key, item in value.items()}
    return type(value)(of_replicate(item, index) for item in value) if type(value) in (tuple, list) else value


def tells_places(value: Any) -> bool:
    """Whether a value knows where its samples are."""
    if isinstance(value, Replicates):
        return all(map(tells_places, value.states))
    return (
        all(map(tells_places, value))
        if type(value) is tuple
        else isinstance(value, (UnitView, SampledUnits, RoutedTokens))
    )


def several(values: list[Any]) -> Any:
    """The values of all replicates as one; what is no state is the same in all."""
    missing = next((value for value in values if isinstance(value, Uncovered)), None)
    if missing is not None:
        return missing
    if type(values[0]) is tuple:
        if any(len(value) != len(values[0]) for value in values):
            return Uncovered("it has more results in one draw than in another")
        return tuple(several(list(items)) for items in zip(*values, strict=True))
    return (
        Replicates(tuple(values))
        if isinstance(values[0], (InputValues, MomentMaps, UnitView, RoutedTokens))
        else values[0]
    )


def states_in(value: Any) -> list[Any]:
    """All states, and reasons why there is none, in nested arguments; each once."""
    if isinstance(value, (InputValues, MomentMaps, UnitView, RoutedTokens, Uncovered)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    found: list[Any] = []
    if isinstance(value, (tuple, list)):
        for item in value:
            found += [state for state in states_in(item) if not any(state is other for other in found)]
    return found


def side_of(value: Any, side: str) -> Any:
    """Arguments with x or y of every given value, in copies, which the call may write into."""
    if isinstance(value, InputValues):
        return getattr(value, side).clone()
    if isinstance(value, dict):
        return {key: side_of(item, side) for key, item in value.items()}
    return type(value)(side_of(item, side) for item in value) if type(value) in (tuple, list) else value


def shaped_like(state: MomentMaps | UnitView) -> Tensor:
    """A tensor of the state's shape without memory."""
    if isinstance(state, UnitView):
        return torch.empty(state.source.shape, dtype=state.base.kxx.dtype, device="meta")
    return torch.empty((len(state.kxx), *state.shape), dtype=state.kxx.dtype, device="meta")


def zeros_like(state: MomentMaps | UnitView) -> Tensor:
    """Zeros of the state's shape, in the memory of one."""
    like = shaped_like(state)
    device = (state.base if isinstance(state, UnitView) else state).kxx.device
    return torch.zeros((1,), dtype=like.dtype, device=device).expand(like.shape)


def attribute_of(state: Any, name: str) -> Any:
    """An attribute of the tensor that a state stands for."""
    if not isinstance(state, (MomentMaps, UnitView)):
        return getattr(state, name)
    if name in ("dtype", "device"):
        return getattr(state.base.kxx if isinstance(state, UnitView) else state.kxx, name)
    if name in ("shape", "ndim", "is_cuda", "requires_grad"):
        return getattr(shaped_like(state), name)
    raise NotCovered(f"its attribute {name} has no rule")
