"""The table of one set: counts, shares and exact intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from evaluation.programs import EvaluationSet
from evaluation.running import Outcome, named


@dataclass(frozen=True)
class Rate:
    """A count of successes with the exact (Clopper–Pearson) 95 % interval of its rate."""

    label: str
    count: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return both ends of the interval."""
        bounds = binomtest(self.count, self.total).proportion_ci(0.95, method="exact")
        return float(bounds.low), float(bounds.high)

    def __str__(self) -> str:
        low, high = self.interval
        share = self.count / self.total
        return f"{self.label:44s} {self.count:4d} of {self.total:<4d} {share:6.1%}   {low:6.1%} to {high:6.1%}"


def rates(part: EvaluationSet, outcomes: Sequence[Outcome]) -> list[Rate]:
    """Return the rates of a set, those without programs left out; a failed inspection detects nothing."""
    faulty = [outcome for outcome in outcomes if outcome.version == "faulty"]
    hurting = [outcome for outcome in faulty if part.cases[outcome.name].hurts]
    fixed = [outcome for outcome in outcomes if outcome.version == "fixed"]
    healthy = [outcome for outcome in outcomes if outcome.version == "healthy"]
    results = [
        Rate("bugs that hurt: detected", sum(_detected(part, outcome) for outcome in hurting), len(hurting)),
        Rate("bugs that hurt: named", sum(named(part, outcome) for outcome in hurting), len(hurting)),
        Rate("all bugs: detected", sum(_detected(part, outcome) for outcome in faulty), len(faulty)),
        Rate("all bugs: named", sum(named(part, outcome) for outcome in faulty), len(faulty)),
        Rate("fixed versions without error", sum(_clean(outcome) for outcome in fixed), len(fixed)),
        Rate("healthy models with a false error", sum(outcome.detected for outcome in healthy), len(healthy)),
        Rate("inspections that failed", sum(failed(part, outcome) for outcome in outcomes), len(outcomes)),
    ]
    return [rate for rate in results if rate.total]


def table(part: EvaluationSet, outcomes: Sequence[Outcome]) -> str:
    """Return the table as text."""
    seconds = [outcome.seconds for outcome in outcomes]
    lines = [f"{part.name:44s} {'count':>12s} {'share':>6s}   95 % interval", *map(str, rates(part, outcomes))]
    if seconds:
        lines.append(f"CPU time of an inspection: median {statistics.median(seconds):.1f} s, most {max(seconds):.1f} s")
    return "\n".join(lines)


def line(part: EvaluationSet, outcome: Outcome) -> str:
    """Return one line about one program."""
    if failed(part, outcome):
        state = "FAILED"
    elif outcome.version == "faulty":
        state = "named" if named(part, outcome) else "detected" if outcome.detected else "MISSED"
    else:
        state = "FALSE ERROR" if outcome.detected else "no error"
    found = ", ".join(f"{code or name} at {layer}" if layer else code or name for code, name, layer in outcome.errors)
    last = outcome.failure.strip().rsplit("\n", 1)[-1]
    return f"{outcome.name:40s} {outcome.version:8s} {state:12s} {outcome.seconds:6.1f} s  {found or last}"


def _detected(part: EvaluationSet, outcome: Outcome) -> bool:
    return outcome.detected or (outcome.refused and named(part, outcome))


def _clean(outcome: Outcome) -> bool:
    return not outcome.detected and not outcome.failure


def failed(part: EvaluationSet, outcome: Outcome) -> bool:
    """Return whether there is no report, and the case does not say that it is refused."""
    return bool(outcome.failure) and not (outcome.version == "faulty" and named(part, outcome))
