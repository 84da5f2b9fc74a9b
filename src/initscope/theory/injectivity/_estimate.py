"""A number with its error bar and the statement it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from initscope.results import Result

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate(Result):
    """A value, the error it carries (numerical or statistical, as ``method`` says) and where it comes from."""

    value: float
    error: float
    method: str

    def __float__(self) -> float:
        return self.value
