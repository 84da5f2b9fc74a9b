"""`Replicates`: an op's values in independent draws of everything that is sampled; their spread is the error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from initscope.propagate.values.base import Value, is_uncovered, is_value
from initscope.propagate.values.uncovered import Uncovered

__all__ = ["Replicates", "replicated"]


@dataclass(frozen=True)
class Replicates(Value):
    """One value for each replicate, after an op that was sampled."""

    values: tuple[Any, ...]
    replicated = True

    @property
    def replicates(self) -> tuple[Value, ...]:
        """The values."""
        return self.values

    def replicate(self, index: int) -> Value:
        """Return one of the values."""
        value: Value = self.values[index]
        return value

    @property
    def knows_samples(self) -> bool:  # type: ignore[override]
        """Whether all values do."""
        return all(value.knows_samples for value in self.values)

    def released(self, *, origin: bool, distribution: bool) -> Replicates:
        """Each of the values."""
        return Replicates(tuple(value.released(origin=origin, distribution=distribution) for value in self.values))


def replicated(values: list[Any]) -> Any:
    """Return the values of all replicates as one; objects that are not values are the same in all."""
    first = values[0]
    uncovered = next((value for value in values if is_uncovered(value)), None)
    if uncovered is not None:
        return uncovered
    if type(first) is not tuple:
        return Replicates(tuple(values)) if is_value(first) else first
    if any(len(value) != len(first) for value in values):
        return Uncovered("it has more results in one draw than in another")
    return tuple(replicated(list(items)) for items in zip(*values, strict=True))
