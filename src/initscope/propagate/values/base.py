"""`Value`: knowledge about the output of an op for a batch of pairs, and values in nested arguments of calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from initscope.geometry import Status
from initscope.propagate.totals import NotCovered, Totals

if TYPE_CHECKING:
    from initscope.propagate.bases import Factor, Pair
    from initscope.propagate.context import Context
    from initscope.propagate.values.moment_maps import MomentMaps
    from initscope.propagate.values.unit_view import UnitView

__all__ = [
    "Value", "is_maps", "is_random", "is_routed", "is_sampled", "is_uncovered", "is_value", "is_view", "map_values",
    "side_of", "values_in",
]  # fmt: skip


class Value:
    """Knowledge about the output of one op; each subclass represents it in its own way.

    Whoever reads a value asks it by these methods and never for its class. A kind that cannot answer raises
    `NotCovered` with the reason, and the op is sampled.
    """

    status: Status
    note: str
    entropy: float = math.nan
    """Mean entropy of the weights of an attention, where the value is made by one."""
    axis: int | None = None
    """Where channels stand in the shape of a sample, if these are maps."""
    random = True
    """Whether it depends on weights in a way that only moments describe."""
    sampled = False
    """Whether these are values of units that were drawn."""
    replicated = False
    """Whether there is one value for each replicate of what was sampled."""
    view = routed = uncovered = False
    """Whether it is units at other positions, tokens sent to experts, or only a reason."""
    knows_samples = False
    """Whether it is known which sample each entry belongs to, wherever samples lie."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output for one input."""
        raise NotCovered("its output has no shape")

    @property
    def replicates(self) -> tuple[Value, ...]:
        """Return the value in every replicate of sampled steps; only one if nothing was sampled."""
        return (self,)

    def replicate(self, index: int) -> Value:
        """Return the value in one replicate."""
        return self

    def totals(self) -> Totals:
        """Sums over all units."""
        raise NotCovered("its output is not one value per unit")

    def token_cosine(self, context: Context) -> float:
        """Return the mean cosine of the tokens of a sample, over x and y.

        NaN if there are no tokens, or if it is unknown.
        """
        return math.nan

    def moments(self, axis: int, groups: int = 1) -> MomentMaps:
        """Return second moments of units whose channels are on ``axis`` of a sample."""
        raise NotCovered("its second moments are not known")

    def means(self) -> Pair:
        """E x and E y of a unit."""
        raise NotCovered("the mean of its input is not known")

    def gram(self, context: Context) -> Tensor:
        """E of the products of a unit at every two positions of x and y: ``[pairs, blocks, 2P, 2P]``."""
        raise NotCovered("it reads covariances between positions that are not known")

    def samples(self, context: Context) -> Value:
        """Return values of all units, drawn once: all readers get the same values."""
        return self

    def units(self) -> UnitView:
        """Return all units at their own positions, for ops that move them by number."""
        raise NotCovered("its input is not known as tokens with channels")

    def run(self, function: Callable[[Tensor], Any]) -> Any:
        """A fixed function of the values themselves."""
        raise NotCovered("its values are not known")

    def moved(self, operation: Callable[[Tensor], Any]) -> Any:
        """The value after an operation that only moves, copies or drops units, or fills in zeros.

        Returns a tuple of values if the operation has several results.
        """
        raise NotCovered("its units cannot be moved")

    def scaled(self, x: Factor, y: Factor | None = None) -> Value:
        """The value times ``x``, for the second inputs times ``y`` if that differs."""
        raise NotCovered("its units cannot be scaled")

    def through(self, layer: Callable[[Any], MomentMaps]) -> Value:
        """Return the value after weights that read all channels of every position: ``layer`` of the value itself."""
        return layer(self)

    def released(self, *, origin: bool, distribution: bool) -> Value:
        """Return the same value without its note, and without origin and distribution unless a later op reads them."""
        return self

    def moment_maps(self) -> tuple[MomentMaps, ...]:
        """Return the second moments that the value rests on."""
        return ()

    def whole_moments(self) -> MomentMaps:
        """The second moments, if every unit is there once."""
        raise NotCovered("its values per unit are not known")

    def placeholder(self) -> Tensor:
        """A tensor of the value's shape and type without memory, samples included."""
        raise NotCovered("its output has no shape")

    def attribute(self, name: str) -> Any:
        """Return an attribute of the tensor that the value represents."""
        like = self.placeholder()
        if name == "device":
            return self.moment_maps()[0].kxx.device
        if name in ("dtype", "shape", "ndim", "is_cuda", "requires_grad"):
            return getattr(like, name)
        raise NotCovered(f"its attribute {name} has no rule")


def is_value(argument: Any) -> bool:
    """Return whether an argument is a value, not a constant."""
    return isinstance(argument, Value)


def is_random(argument: Any) -> bool:
    """Return whether an argument is a value of random units."""
    return is_value(argument) and argument.random


def is_sampled(argument: Any) -> bool:
    """Return whether an argument is values of units that were drawn."""
    return is_value(argument) and argument.sampled


def is_maps(argument: Any) -> bool:
    """Return whether an argument is maps of second moments."""
    return is_value(argument) and argument.axis is not None


def is_view(argument: Any) -> bool:
    """Return whether an argument is units at other positions than those of their maps."""
    return is_value(argument) and argument.view


def is_routed(argument: Any) -> bool:
    """Return whether an argument is tokens that were sent to experts."""
    return is_value(argument) and argument.routed


def is_uncovered(argument: Any) -> bool:
    """Return whether an argument is a reason why nothing is known."""
    return is_value(argument) and argument.uncovered


def map_values(function: Callable[[Value], Any], arguments: Any) -> Any:
    """Nested arguments, with every value replaced by ``function(value)``."""
    if is_value(arguments):
        return function(arguments)
    if type(arguments) is dict:
        return {key: map_values(function, item) for key, item in arguments.items()}
    if type(arguments) in (tuple, list):
        return type(arguments)([map_values(function, item) for item in arguments])
    return arguments


def values_in(arguments: Any) -> list[Any]:
    """Return all values in nested arguments, each once, in order."""
    values: dict[int, Any] = {}
    waiting = [arguments]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Value):
            values.setdefault(id(item), item)
        elif isinstance(item, (tuple, list)):
            waiting.extend(reversed(item))
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
    return list(values.values())


def side_of(arguments: Any, side: str, *, copies: bool = False) -> Any:
    """Return nested arguments with x or y of every known value, in ``copies`` if the call may write into them."""

    def read(value: Any) -> Tensor:
        tensor: Tensor = getattr(value, side)
        return tensor.clone() if copies else tensor

    return map_values(read, arguments)
