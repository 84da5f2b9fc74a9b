"""How much a trial may cost, and what it will: one step is measured, then the rest is planned."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from torch import nn

from initscope.errors import InputError

__all__ = ["Budget", "Clock", "Cost", "affordable_samples", "cost_of", "plan_budget"]

_FAST = ((2e-3, 200, 3000), (5e-3, 150, 1000), (2e-2, 100, 300))
"""For passes that take at most ``seconds``: those while a curve still falls, and those of a long plateau."""

_BUSY = 4.0
"""Wall time over processor time of the busiest machine that is waited for."""

_LONG_SHARE = 0.05
"""Share of the time that a long plateau may take."""


@dataclass(frozen=True)
class Budget:
    """Bounds of a trial.

    Attributes
    ----------
    seconds : float
        Time of everything, at most, besides the current pass, as a `Clock` counts it.
    passes : int
        Forward and backward passes for the first question: does it learn at the rate that is given?
    samples : int
        Samples of the batch at most.
    fewest_samples, fewest_passes : int
        Samples that the batch is reduced to, at least, where a pass takes long; passes that tell anything.
    more_passes, long_passes : int or None
        Passes while a loss still falls, and those of a long plateau; None: by the time that a pass takes. With both and
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
    """What a trial is expected to cost, from one pass.

    Attributes
    ----------
    pass_seconds : float
        Time of one forward and backward pass.
    samples : int
        Samples of the batch.
    passes : int
        Passes for the first question.
    more_passes : int
        Passes up to which a model that is fast to train goes on while its loss still falls.
    long_passes : int
        Passes that a long plateau is given, where a pass is fast and other rates do not explain it; 0: none.
    seconds : float
        Expected time of the first question, at most.
    """

    pass_seconds: float
    samples: int
    passes: int
    more_passes: int
    long_passes: int
    seconds: float


class Clock:
    """Seconds since it was made, which other programs on the machine do not change.

    For a model on the CPU it counts processor time of the calling thread: a busy machine must not change what a trial
    finds. It never counts less than a quarter of the wall time, so that a model that waits or sleeps is bounded too.
    For a model on another device it counts wall time.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        self._on_cpu = model is None or all(parameter.device.type == "cpu" for parameter in model.parameters())
        self._wall, self._processor = time.perf_counter(), time.thread_time()

    def __call__(self) -> float:
        """Seconds so far."""
        wall = time.perf_counter() - self._wall
        return max(time.thread_time() - self._processor, wall / _BUSY) if self._on_cpu else wall


def plan_budget(budget: Budget | Literal["long"] | float | None) -> Budget:
    """A budget from what users say: None, ``long``, seconds, or a budget."""
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
    """Samples of which twice the fewest passes fit into the time, where passes of ``samples`` take so long."""
    wanted, passes = budget.samples, 2 * budget.fewest_passes
    while wanted > budget.fewest_samples and passes * pass_seconds * wanted / samples > budget.seconds:
        wanted //= 2
    return wanted


def cost_of(budget: Budget, pass_seconds: float, samples: int) -> Cost:
    """The plan for passes that take so long: fewer where the time would not last, more where they are fast."""
    fitting = int(budget.seconds / max(1e-9, pass_seconds))
    passes = min(budget.passes, fitting)
    more, long = next(((more, long) for limit, more, long in _FAST if pass_seconds <= limit), (passes, 0))
    more = more if budget.more_passes is None else budget.more_passes
    long = min(long, int(_LONG_SHARE * fitting)) if budget.long_passes is None else budget.long_passes
    return Cost(pass_seconds, samples, passes, max(passes, min(more, fitting)), long, passes * pass_seconds)
