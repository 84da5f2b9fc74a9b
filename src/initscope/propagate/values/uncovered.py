"""`Uncovered`: the reason why an op's output is unknown; `RandomMatrix`: weights by which a call multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from torch import nn

from initscope.initializers._matrices import Matrix
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.base import Value

__all__ = ["RANDOM_WEIGHTS", "RandomMatrix", "Uncovered"]


@dataclass(frozen=True)
class Uncovered(Value):
    """The output is unknown, for this reason."""

    reason: str
    uncovered = True

    def totals(self) -> Totals:
        """None, for the reason."""
        self._refuse()

    def whole_moments(self) -> NoReturn:
        """None, for the reason."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotCovered(self.reason)


RANDOM_WEIGHTS = Uncovered("it computes with weights that are drawn at random, as a function of its own")


@dataclass(frozen=True)
class RandomMatrix(Uncovered):
    """Stacked matrices of random weights by which one of the model's own calls multiplies."""

    parameters: tuple[nn.Parameter, ...]
    layers: tuple[nn.Linear, ...]
    transposed: bool = False
    experts: bool = False
    """Whether they are one matrix for each expert, along an axis of their own, and not one above the other."""

    @classmethod
    def of(cls, parts: list[Matrix], *, turned: bool = False) -> RandomMatrix:
        """Return the weights with the Linear that is equivalent to each of the matrices."""
        layers, first = tuple(part.layer() for part in parts), parts[0]
        experts = first.parameters[0].dim() == 3 and len(parts) == len(first.parameters[0])
        return cls(RANDOM_WEIGHTS.reason, tuple(first.parameters), layers, first.transposed != turned, experts)

    @property
    def bias(self) -> bool:
        """Whether something is added."""
        return self.layers[0].bias is not None
