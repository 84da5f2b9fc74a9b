"""`check`: draw what was planned, many times, and count the failures.

The draws know nothing of the laws in `initscope.theory`: Gaussian weights, ReLU, norms. What makes them cheap is only
that Gaussian weights look alike from every direction: a layer needs to be drawn on the span of its inputs, not on the
whole space.
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
"""Numbers of one draw, a gigabyte of them."""


@dataclass(frozen=True)
class Check(Result):
    """`initscope.plan.check`: failures observed in simulation, with their 95 % interval, beside the promise.

    ``predicted`` is the exact probability at the drawn size where the plan knows it: whole numbers keep a little more
    than they promise. ``kept``: the promise is not refuted. ``sharp``: the prediction (or promise) lies in the
    interval, and the interval within a factor of two of it; a wider one leaves it undecided.
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
    kept: bool
    sharp: bool

    def table(self) -> list[dict[str, Any]]:
        """One row, with the verdict in a word."""
        return [
            {
                "size": self.size,
                "failed": f"{self.failures}/{self.trials}",
                "rate": round(self.observed, 4),
                "low": round(self.low, 4),
                "high": round(self.high, 4),
                "promise": self.promise,
                "predicted": None if self.predicted is None else round(self.predicted, 4),
                "verdict": self._verdict(),
            }
        ]

    def _verdict(self) -> str:
        if self.sharp or not self.kept:
            return "sharp" if self.sharp else "broken"
        aim = self.promise if self.predicted is None else self.predicted
        return f"undecided at {self.trials} trials" if self.low <= aim <= self.high else "kept"


def check(
    plan: Plan, *, answer: str | None = None, trials: int = 2000, seed: int = 0, images: tuple[Any, Any] | None = None
) -> Check:
    """Simulate ``plan`` and set the observed rate of failure, with its 95 % interval, beside the promise.

    Parameters
    ----------
    answer
        Which of the plan's numbers to draw, for example ``"paper"``; by default its best.
    trials
        Independent networks, layers or codes.
    images
        The images ``(x, y)`` of a plan for filters, which does not keep them.

    The inputs are random directions; for several samples the promise is a union bound, so far fewer failures are
    normal.
    """
    check_count("trials", trials, least=10)
    check_seed("seed", seed)
    answer = plan.best if answer is None else answer
    if answer not in plan.answers:
        raise InputError(f"answer = {answer!r} is not one of this plan's: {', '.join(plan.answers)}")
    size = plan.answers[answer]
    if size < 1:
        raise InputError(f"the plan's answer {answer!r} is {size}: there is nothing to draw")
    if plan.numbers(size) > _LARGEST_DRAW:
        raise InputError(
            f"one draw of size {size} holds {plan.numbers(size):.2g} numbers, more than {_LARGEST_DRAW:.2g}; "
            "check a plan for fewer samples, fewer pairs or a larger eps: the law is the same"
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
        kept=low <= plan.delta,
        sharp=aim / 2 <= low <= aim <= high <= 2 * aim,
    )


def _clopper_pearson(failures: int, trials: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(failures, trials - failures + 1, 0.025)) if failures else 0.0
    high = float(betaincinv(failures + 1, trials - failures, 0.975)) if failures < trials else 1.0
    return low, high
