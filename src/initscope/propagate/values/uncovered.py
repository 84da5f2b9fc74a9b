"""`Uncovered`: the reason why nothing is known of an op's output; `RandomMatrix`: weights that a call multiplies by."""

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
    """Nothing is known, for this reason."""

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
    """Matrices of random weights, one above the other, which one of the model's own calls multiplies by."""

    parameters: tuple[nn.Parameter, ...]
    layers: tuple[nn.Linear, ...]
    transposed: bool = False
    experts: bool = False
    """Whether they are one matrix for each expert, along an axis of their own, and not one above the other."""

    @classmethod
    def of(cls, parts: list[Matrix], *, turned: bool = False) -> RandomMatrix:
        """With the Linear that each of the matrices amounts to."""
        layers, first = tuple(part.layer() for part in parts), parts[0]
        experts = first.parameters[0].dim() == 3 and len(parts) == len(first.parameters[0])
        return cls(RANDOM_WEIGHTS.reason, tuple(first.parameters), layers, first.transposed != turned, experts)

    @property
    def bias(self) -> bool:
        """Whether something is added."""
        return self.layers[0].bias is not None
