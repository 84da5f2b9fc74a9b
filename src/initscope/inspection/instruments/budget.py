"""How much a trial may cost, and how it is planned: one step is measured, then the rest is planned."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from torch import nn

from initscope.errors import InputError

__all__ = ["Budget", "Clock", "Cost", "affordable_samples", "cost_of", "plan_budget"]

_FAST = ((2e-3, 200, 3000), (5e-3, 150, 1000), (2e-2, 100, 300))
"""For passes of at most ``seconds``: the number of passes while a curve still falls, and of a long plateau."""

_BUSY = 4.0
"""Largest ratio of wall time to processor time on a busy machine; beyond it, wall time limits the trial."""

_LONG_SHARE = 0.05
"""Share of the time that a long plateau may take."""


@dataclass(frozen=True)
class Budget:
    """Bounds of a trial.

    Attributes
    ----------
    seconds : float
        Longest time for everything except the current pass, as a `Clock` counts it.
    passes : int
        Forward and backward passes for the first question: does the model learn at the given rate?
    samples : int
        Largest number of samples in the batch.
    fewest_samples, fewest_passes : int
        If a pass takes long, the batch is reduced to at least so few samples; the fewest passes that show anything.
    more_passes, long_passes : int or None
        Passes while a loss still falls, and those of a long plateau; None: from the time per pass. With both set and
        enough seconds, a trial does not depend on the clock.
    """

    seconds: float = 30.0
    passes: int = 40
    samples: int = 64
    fewest_samples: int = 8
    fewest_passes: int = 15
    more_passes: int | None = None
    long_passes: int | None = None


@dataclass(frozen=True)
class Cost:
    """The expected cost of a trial, from one measured pass.

    Attributes
    ----------
    pass_seconds : float
        Time of one forward and backward pass.
    samples : int
        Samples of the batch.
    passes : int
        Passes for the first question.
    more_passes : int
        Largest number of passes for a model that trains fast, while its loss still falls.
    long_passes : int
        Passes of a long plateau, if a pass is fast and other rates do not explain the plateau; 0: none.
    seconds : float
        Longest expected time of the first question.
    """

    pass_seconds: float
    samples: int
    passes: int
    more_passes: int
    long_passes: int
    seconds: float


class Clock:
    """Seconds since its creation, unaffected by other programs on the machine.

    For a model on the CPU it counts processor time of the calling thread: a busy machine must not change what a trial
    finds. It never counts less than a quarter of the wall time, so that a model that waits or sleeps is bounded too.
    For a model on another device it counts wall time.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        self._on_cpu = model is None or all(parameter.device.type == "cpu" for parameter in model.parameters())
        self._wall, self._processor = time.perf_counter(), time.thread_time()

    def __call__(self) -> float:
        """Return the seconds so far."""
        wall = time.perf_counter() - self._wall
        return max(time.thread_time() - self._processor, wall / _BUSY) if self._on_cpu else wall


def plan_budget(budget: Budget | Literal["long"] | float | None) -> Budget:
    """Return the budget for an option: None, ``"long"``, a number of seconds, or a budget."""
    if isinstance(budget, Budget):
        return budget
    if budget is None:
        return Budget()
    if budget == "long":
        return Budget(seconds=600.0, passes=400)
    if isinstance(budget, (int, float)) and not isinstance(budget, bool) and budget > 0:
        return Budget(seconds=float(budget))
    raise InputError(f"budget = {budget!r} must be a positive number of seconds, 'long', a Budget or None")


def affordable_samples(budget: Budget, pass_seconds: float, samples: int) -> int:
    """Return the number of samples with which twice the fewest passes fit into the time."""
    wanted, passes = budget.samples, 2 * budget.fewest_passes
    while wanted > budget.fewest_samples and passes * pass_seconds * wanted / samples > budget.seconds:
        wanted //= 2
    return wanted


def cost_of(budget: Budget, pass_seconds: float, samples: int) -> Cost:
    """Return the plan: fewer passes if the time is too short, more if passes are fast."""
    fitting = int(budget.seconds / max(1e-9, pass_seconds))
    passes = min(budget.passes, fitting)
    more, long = next(((more, long) for limit, more, long in _FAST if pass_seconds <= limit), (passes, 0))
    more = more if budget.more_passes is None else budget.more_passes
    long = min(long, int(_LONG_SHARE * fitting)) if budget.long_passes is None else budget.long_passes
    return Cost(pass_seconds, samples, passes, max(passes, min(more, fitting)), long, passes * pass_seconds)
