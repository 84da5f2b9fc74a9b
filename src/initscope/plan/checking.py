"""`check`: simulate a plan many times and count the failures.

The simulation uses no formula of `initscope.theory`, only Gaussian weights, ReLU and norms. Gaussian weights are
rotation invariant, so a layer is sampled only on the span of its inputs, which is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count, check_seed
from initscope.plan._base import Plan
from initscope.results import Result

__all__ = ["Check", "check"]

_LARGEST_DRAW = 1 << 27
"""Largest number of values in one trial, 1 GB."""


@dataclass(frozen=True)
class Check(Result):
    """`initscope.plan.check`: the observed failure rate with its 95 % interval, compared with the promised ``delta``.

    ``predicted`` is the exact failure probability at this size, if the plan gives one. It is a little below the
    promise because sizes are whole numbers. ``holds``: the simulation does not contradict the promise. ``sharp``: the
    interval contains the prediction (or promise) and lies within a factor of two of it.
    """

    planner: str
    answer: str
    size: int
    trials: int
    failures: int
    observed: float
    low: float
    high: float
    promise: float
    predicted: float | None
    holds: bool
    sharp: bool

    def table(self) -> list[dict[str, Any]]:
        """Return one row, with the result as a word."""
        return [
            {
                "size": self.size,
                "failed": f"{self.failures}/{self.trials}",
                "rate": round(self.observed, 4),
                "low": round(self.low, 4),
                "high": round(self.high, 4),
                "promise": self.promise,
                "predicted": None if self.predicted is None else round(self.predicted, 4),
                "result": self._result(),
            }
        ]

    def _result(self) -> str:
        if self.sharp or not self.holds:
            return "sharp" if self.sharp else "violated"
        aim = self.promise if self.predicted is None else self.predicted
        return f"undecided at {self.trials} trials" if self.low <= aim <= self.high else "holds"


def check(
    plan: Plan, *, answer: str | None = None, trials: int = 2000, seed: int = 0, images: tuple[Any, Any] | None = None
) -> Check:
    """Simulate ``plan`` and compare the observed failure rate, with its 95 % interval, with the promise.

    Parameters
    ----------
    answer
        Which of the plan's numbers to simulate, for example ``"paper"``; by default its best.
    trials
        Number of independent networks, layers or codes.
    images
        The images ``(x, y)`` of a plan for filters; the plan does not store them.

    The inputs are random directions. For several samples the promise is a union bound, so expect far fewer failures.
    """
    check_count("trials", trials, least=10)
    check_seed("seed", seed)
    answer = plan.best if answer is None else answer
    if answer not in plan.answers:
        raise InputError(f"answer = {answer!r} is not an answer of this plan; choose one of {', '.join(plan.answers)}")
    size = plan.answers[answer]
    if size < 1:
        raise InputError(
            f"the plan's answer {answer!r} is {size}, so there is nothing to simulate; use a larger eps or delta"
        )
    if plan.numbers(size) > _LARGEST_DRAW:
        raise InputError(
            f"one trial of size {size} holds {plan.numbers(size):.2g} numbers, more than {_LARGEST_DRAW:.2g}; "
            "check a plan for fewer samples, fewer pairs or a larger eps, which uses the same formula"
        )
    failures = plan.failures(size, trials, np.random.default_rng(seed), images)
    low, high = _clopper_pearson(failures, trials)
    predicted = getattr(plan, "failure", None) if answer == "exact" else None
    aim = plan.delta if predicted is None else predicted
    return Check(
        planner=plan.planner,
        answer=answer,
        size=size,
        trials=trials,
        failures=failures,
        observed=failures / trials,
        low=low,
        high=high,
        promise=plan.delta,
        predicted=predicted,
        holds=low <= plan.delta,
        sharp=aim / 2 <= low <= aim <= high <= 2 * aim,
    )


def _clopper_pearson(failures: int, trials: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(failures, trials - failures + 1, 0.025)) if failures else 0.0
    high = float(betaincinv(failures + 1, trials - failures, 0.975)) if failures < trials else 1.0
    return low, high
