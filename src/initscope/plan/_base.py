"""What a planner returns, a frozen `Plan`, and what planners share: checks of what is asked, counting of failures.

A plan says which statement each of its numbers rests on: `answers` are the numbers in the order of the table, from the
source's bound to the exact answer; `best` is the one to use; `failures` draws what was planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from initscope._utils.progress import steps
from initscope.errors import InputError, check_between
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIXED", "WIDEST", "Plan", "check_delta", "check_width", "count_failures"]

FIXED = "inputs fixed before the weights are drawn"
WIDEST = 10**9
"""Widths beyond are refused: the exact laws sum over some 40 √width active units."""
_LEAST_EPS = 1e-30
_LEAST_DELTA = 1e-290
"""Probabilities below have no room left for a union over layers and samples."""
_CHUNK_VALUES = 1 << 22


@dataclass(frozen=True)
class Plan(Result):
    """Base of all plans: the distortion ``eps``, the probability of failure ``delta``, the answers of the subclass."""

    planner: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    statements: ClassVar[dict[str, str]] = {}
    best: ClassVar[str] = "exact"

    eps: float
    delta: float
    assumptions: tuple[str, ...]

    @property
    def answers(self) -> dict[str, int]:
        """The numbers by name, as in `statements`."""
        return {name: getattr(self, name) for name in self.statements}

    @property
    def aim(self) -> dict[str, Any]:
        """What the answers are for, beside ``eps`` and ``delta``: in the title, and in every row of the table."""
        return {}

    @property
    def title(self) -> str:
        """The question in one line."""
        aims = "".join(f", {name} {value}" for name, value in self.aim.items())
        return f"plan {self.planner}: eps = {self.eps:g}, delta = {self.delta:g}{aims}"

    def table(self) -> list[dict[str, Any]]:
        """One row per answer: its name, the number, what it is for and the statement it rests on."""
        return [
            {"answer": name, self.unit: number} | self.aim | {"rests on": self.statements[name]}
            for name, number in self.answers.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """All fields, and the planner's name and statements."""
        return {"planner": self.planner, **super().to_dict(), "statements": dict(self.statements)}

    def numbers(self, size: int) -> int:
        """How many numbers one draw of `failures` at that size holds at once."""
        return size

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Draw ``trials`` times what the plan is about, at ``size``, and count how often the promise fails."""
        raise InputError(f"{type(self).__name__} has no simulation")

    def plot(self, ax: Axes | None = None) -> Axes:
        """The answers as bars on a logarithmic axis."""
        ax = make_axes(ax, figsize=(6, 0.6 + 0.5 * len(self.answers)))
        bars = ax.barh(list(self.answers), list(self.answers.values()))
        ax.bar_label(bars, fmt="{:,.0f}", padding=3)
        ax.set_xscale("log")
        ax.margins(x=0.2)
        ax.set_xlabel(self.unit)
        ax.invert_yaxis()
        return ax


def check_delta(delta: float) -> None:
    """Refuse what is no probability of failure."""
    check_between("delta", delta, _LEAST_DELTA, 1.0, hint="a probability of failure, for example 0.05")


def check_eps(eps: float, hint: str) -> None:
    """Refuse distortions that no plan can promise, and those whose square is no number."""
    check_between("eps", eps, _LEAST_EPS, 1.0, hint=hint)


def check_width(width: float, aim: str) -> None:
    """Refuse an aim that asks for more than the exact laws can sum over."""
    if width > WIDEST:
        raise InputError(f"{aim} ask for a width of about {width:.1g}, more than {WIDEST:.0g}; use a larger eps")


def count_failures(trials: int, values: int, failed: Callable[[int], Any]) -> int:
    """Sum of ``failed(chunk)`` over chunks of about _CHUNK_VALUES numbers; one trial at a time if values is 1."""
    chunk = 1 if values == 1 else max(1, min(trials, _CHUNK_VALUES // values))
    starts = steps(range(0, trials, chunk), "drawing trials")
    return sum(int(np.sum(failed(min(chunk, trials - start)))) for start in starts)
