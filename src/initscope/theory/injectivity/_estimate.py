"""A number with its error bar and the statement it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from initscope.results import Result

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate(Result):
    """A value, its error (numerical or statistical, as ``method`` says) and its source."""

    value: float
    error: float
    method: str

    def __float__(self) -> float:
        return self.value
