"""The frozen `Plan` that a planner returns, and helpers of planners: argument checks, counting of failures.

`answers` are the numbers in the order of the table, from the bound of the paper to the exact answer. `statements` says
which theorem each number follows from, `best` names the number to use, and `failures` simulates the plan.
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
"""Larger widths are refused: the exact distributions sum over about 40 √width numbers of active units."""
_FAR = 100
"""Ratio of two answers from which `Plan.conclusion` explains it."""
_LEAST_EPS = 1e-30
_LEAST_DELTA = 1e-290
"""Smaller probabilities underflow in a union bound over layers and samples."""
_CHUNK_VALUES = 1 << 22


@dataclass(frozen=True)
class Plan(Result):
    """Base class of plans: the distortion ``eps``, the failure probability ``delta``; subclasses add the answers."""

    planner: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    statements: ClassVar[dict[str, str]] = {}
    best: ClassVar[str] = "exact"
    why_more: ClassVar[str] = "it is proven by inequalities that hold in the worst case"
    """Why the answers of theorems can be far above the best one."""

    eps: float
    delta: float
    assumptions: tuple[str, ...]

    @property
    def answers(self) -> dict[str, int]:
        """Return the numbers by name, as in `statements`."""
        return {name: getattr(self, name) for name in self.statements}

    @property
    def aim(self) -> dict[str, Any]:
        """Return the settings other than ``eps`` and ``delta``, for the title and for every row of the table."""
        return {}

    @property
    def title(self) -> str:
        """Return the question in one line."""
        aims = "".join(f", {name} {value}" for name, value in self.aim.items())
        return f"plan {self.planner}: eps = {self.eps:g}, delta = {self.delta:g}{aims}"

    @property
    def conclusion(self) -> str:
        """Return the number to use, and why another answer is far above it, if one is."""
        best = self.answers[self.best]
        name, most = max(self.answers.items(), key=lambda answer: answer[1] or 0)
        text = f"Answer ({self.best}): {self.unit} = {best:,}."
        if most and best and most > _FAR * best:
            times = float(f"{most / best:.2g}")
            text += f" The answer {name!r} is {times:,.0f} times as large, because {self.why_more}."
        return text

    def table(self) -> list[dict[str, Any]]:
        """Return one row per answer: its name, the number, the settings and the statement it follows from."""
        return [
            {"answer": name, self.unit: number} | self.aim | {"rests on": self.statements[name]}
            for name, number in self.answers.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, and the planner's name and statements."""
        return {"planner": self.planner, **super().to_dict(), "statements": dict(self.statements)}

    def numbers(self, size: int) -> int:
        """Return how many numbers one trial of `failures` at that size holds in memory."""
        return size

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Simulate the plan at ``size`` in ``trials`` trials and count the failures."""
        raise InputError(f"{type(self).__name__} has no simulation")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the answers as bars on a logarithmic axis."""
        ax = make_axes(ax, figsize=(6, 0.6 + 0.5 * len(self.answers)))
        bars = ax.barh(list(self.answers), list(self.answers.values()))
        ax.bar_label(bars, fmt="{:,.0f}", padding=3)
        ax.set_xscale("log")
        ax.margins(x=0.2)
        ax.set_xlabel(self.unit)
        ax.invert_yaxis()
        return ax


def check_delta(delta: float) -> None:
    """Raise `InputError` unless ``delta`` is a probability of failure."""
    check_between("delta", delta, _LEAST_DELTA, 1.0, hint="a probability of failure, for example 0.05")


def check_eps(eps: float, hint: str) -> None:
    """Raise `InputError` unless 0 < ``eps`` < 1 and its square does not underflow."""
    check_between("eps", eps, _LEAST_EPS, 1.0, hint=hint)


def check_width(width: float, aim: str) -> None:
    """Raise `InputError` if the width is too large for the sums of the exact distributions."""
    if width > WIDEST:
        raise InputError(f"{aim} need a width of about {width:.1g}, more than {WIDEST:.0g}; use a larger eps")


def count_failures(trials: int, values: int, failed: Callable[[int], Any]) -> int:
    """Sum ``failed(chunk)`` over chunks of about _CHUNK_VALUES numbers; one trial at a time if ``values`` is 1."""
    chunk = 1 if values == 1 else max(1, min(trials, _CHUNK_VALUES // values))
    offsets = steps(range(0, trials, chunk), "drawing trials")
    return sum(int(np.sum(failed(min(chunk, trials - offset)))) for offset in offsets)
