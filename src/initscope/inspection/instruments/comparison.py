"""The same trial for several candidates: the effect of a fix, before and after, with ties reported as ties."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from initscope.errors import InputError, check_count
from initscope.graph.borrowing import borrowed, runnable
from initscope.inspection.instruments.batches import SAMPLES, draw_batch
from initscope.inspection.instruments.budget import Clock
from initscope.inspection.instruments.curves import CLEAR, fall_share, recent
from initscope.inspection.instruments.head import examine_head
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.outputs import Loss
from initscope.inspection.instruments.training import Run, Setup, train
from initscope.results import Result

__all__ = ["Candidate", "CandidateScore", "TrialComparison", "compare_trials"]

_STEPS, _REPEATS, _FEWEST_STEPS = 60, 3, 15
_TIE = 0.05
"""Difference of shares below which two candidates count as equal, whatever their noise is."""
_LIKELY = 2.0
"""Standard errors by which two candidates must differ."""
_FEWEST_COMPARED = 5
"""Number of steps before which curves are not compared."""


@dataclass(frozen=True)
class Candidate:
    """A variant to train; a field that is None has the value of the first candidate.

    Attributes
    ----------
    model : nn.Module or callable or None
        A model, or a function of a seed that makes one, for sampled initializations.
    inputs, targets : any
        Other data of the same samples, for instance standardized inputs.
    loss, optimizer, lr
        See `run_trial`.
    """

    model: nn.Module | Callable[[int], nn.Module] | None = None
    inputs: Any = None
    targets: Any = None
    loss: Loss | None = None
    optimizer: Any = None
    lr: float | None = None


@dataclass(frozen=True)
class CandidateScore(Result):
    """The result of a candidate.

    Attributes
    ----------
    name : str
        Name of the candidate.
    share, error : float or None
        Share of the way from the best constant prediction to the lowest loss, at the step where the fastest candidate
        has nearly all of it: mean over the repeats, and standard error. None if nothing was learned because of an
        exception or a loss that is not finite.
    accuracy : float or None
        Final accuracy, for classes.
    shares : tuple of float
        Share of each repeat.
    reason : str
        The exception that was raised.
    """

    name: str
    share: float | None
    error: float | None
    accuracy: float | None = None
    shares: tuple[float, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class TrialComparison(Result):
    """Candidates after the same number of steps on the same batches.

    Attributes
    ----------
    scores : tuple of CandidateScore
        In the given order; the others are compared with the first.
    ranking : tuple of str
        Names, best first; equal ones in the given order.
    ties : tuple of str
        Names that cannot be distinguished from the best, including the best.
    helps : dict
        By name of every candidate but the first: True if it is clearly better than the first, False if clearly worse,
        None for a tie.
    steps, repeats, samples : int
        Steps of each run, runs of each candidate, samples of each batch.
    """

    scores: tuple[CandidateScore, ...]
    ranking: tuple[str, ...] = ()
    ties: tuple[str, ...] = ()
    helps: dict[str, bool | None] = field(default_factory=dict)
    steps: int = 0
    repeats: int = 0
    samples: int = 0

    def __getitem__(self, name: str) -> CandidateScore:
        return next(score for score in self.scores if score.name == name)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per candidate, best first."""
        rows = [self[name] for name in self.ranking]
        return [
            {"candidate": row.name, "share": row.share, "error": row.error, "accuracy": row.accuracy,
             "tied with best": row.name in self.ties, "note": row.reason}
            for row in rows
        ]  # fmt: skip


def compare_trials(
    candidates: Mapping[str, Candidate],
    inputs: Any,
    targets: Any,
    *,
    steps: int = _STEPS,
    repeats: int = _REPEATS,
    samples: int = SAMPLES,
    seconds: float = 30.0,
    seed: int = 0,
) -> TrialComparison:
    """Train every candidate for the same number of steps on the same batches, and rank them.

    Parameters
    ----------
    candidates : mapping of str to Candidate
        By name; the first has a model, and the others are compared with it.
    inputs, targets : any
        Data that all candidates share unless they bring their own; see `run_trial`.
    steps : int
        Steps of each run, fewer if ``seconds`` is too short.
    repeats : int
        Batches and seeds over which differences are averaged.
    samples : int
        Largest number of samples in each batch.
    seconds : float
        Longest wall time, planned from one pass.
    seed : int
        Seed of the first batch.
    """
    if not candidates or next(iter(candidates.values())).model is None:
        raise InputError("candidates: the first needs a model; give {'before': Candidate(model, loss=loss), …}")
    check_count("steps", steps)
    check_count("repeats", repeats)
    base = next(iter(candidates.values()))
    filled = {name: _filled(candidate, base, inputs, targets) for name, candidate in candidates.items()}
    steps, repeats = _affordable(filled, steps, repeats, samples, seconds, seed)
    runs = {
        name: [_run(candidate, steps, samples, seed + k) for k in range(repeats)] for name, candidate in filled.items()
    }
    scores = _scores(runs)
    ranking = sorted(scores, key=lambda score: -float("inf") if score.share is None else score.share, reverse=True)
    ties = tuple(score.name for score in scores if _better(ranking[0], score) is None)
    before = scores[0].name
    pairs = {name: _scores({before: runs[before], name: runs[name]}) for name in list(runs)[1:]}
    helps = {name: _better(after, first) for name, (first, after) in pairs.items()}
    count = max((curve.samples for curves in runs.values() for curve in curves), default=0)
    return TrialComparison(scores, tuple(score.name for score in ranking), ties, helps, steps, repeats, count)


def _filled(candidate: Candidate, base: Candidate, inputs: Any, targets: Any) -> Candidate:
    def first(*values: Any) -> Any:
        return next((value for value in values if value is not None), None)

    return Candidate(
        first(candidate.model, base.model),
        first(candidate.inputs, inputs),
        first(candidate.targets, targets),
        first(candidate.loss, base.loss),
        first(candidate.optimizer, base.optimizer),
        candidate.lr if candidate.lr is not None or candidate.optimizer is not None else base.lr,
    )


def _affordable(
    candidates: dict[str, Candidate], steps: int, repeats: int, samples: int, seconds: float, seed: int
) -> tuple[int, int]:
    """Return the steps and repeats that fit into the time, from one pass of each candidate."""
    clock = Clock()
    measured = [_run(candidate, 3, samples, seed, judged=False).run.seconds for candidate in candidates.values()]
    per_pass = sum(passed for passed in measured if passed < float("inf"))
    passes = max(1, int((seconds - clock()) / max(per_pass, 1e-9)))
    repeats = max(1, min(repeats, passes // steps))
    return max(min(steps, passes // repeats), min(steps, _FEWEST_STEPS)), repeats


@dataclass(frozen=True)
class _Curve:
    """A run, the two losses between which its share is measured, and the number of samples in its batch."""

    run: Run
    constant: float | None = None
    lowest: float | None = None
    samples: int = 0

    def share(self, end: int) -> float | None:
        """Return the share after ``end`` steps."""
        if self.run.failed or not self.run.losses:
            return None
        return fall_share(recent(self.run.losses[:end]), self.constant, self.lowest)

    @property
    def clear(self) -> int:
        """Return the number of steps after which it clearly learns; infinity if it never does."""
        steps = range(_FEWEST_COMPARED, len(self.run.losses))
        return next((end for end in steps if (self.share(end) or 0.0) >= CLEAR), sys.maxsize)


def _run(candidate: Candidate, steps: int, samples: int, seed: int, *, judged: bool = True) -> _Curve:
    """Train a candidate until it clearly learns; comparisons do not use the curve after that step.

    If it is not ``judged``, only the time per step is measured.
    """
    made = candidate.model
    try:
        model = runnable(made if isinstance(made, nn.Module) else made(seed) if made is not None else None)
        with borrowed(model):
            batch = draw_batch(model, candidate.inputs, candidate.targets, samples, seed)
            spec = OptimizerSpec(candidate.optimizer, candidate.lr)
            setup = Setup(model, batch, candidate.loss, spec, seed)
            if not judged:
                return _Curve(train(setup, steps))
            head = examine_head(model, batch.inputs, batch.targets, candidate.loss, samples=max(1, len(batch)))
            constant, lowest = head.levels

            def clear(losses: list[float]) -> bool:
                level = losses[0] if constant is None else constant
                share = fall_share(recent(losses[:-1]), level, lowest)
                return len(losses) > _FEWEST_COMPARED and (share or 0.0) >= CLEAR

            run = train(setup, steps, stop=clear)
    except Exception as error:  # a candidate that cannot run is a result
        return _Curve(Run(failed=f"{type(error).__name__}: {error}".splitlines()[0]))
    first = run.losses[0] if run.losses else None
    return _Curve(run, first if constant is None else constant, lowest, len(batch))


def _scores(runs: Mapping[str, list[_Curve]]) -> tuple[CandidateScore, ...]:
    """Return the scores of each repeat at the step at which the fastest candidate has learned."""
    ends = [min(curve.clear for curve in repeat) for repeat in zip(*runs.values(), strict=True)]
    return tuple(_score(name, curves, ends) for name, curves in runs.items())


def _score(name: str, curves: list[_Curve], ends: list[int]) -> CandidateScore:
    values = [curve.share(end) for curve, end in zip(curves, ends, strict=True)]
    shares = [share for share in values if share is not None and np.isfinite(share)]
    accuracies = [curve.run.accuracies[1] for curve in curves if curve.run.accuracies is not None]
    accuracy = float(np.mean(accuracies)) if accuracies else None
    reason = next((curve.run.failed for curve in curves if curve.run.failed), "")
    if len(shares) < len(curves):  # a candidate that fails or diverges even once is not better than one that never does
        return CandidateScore(name, None, None, accuracy, tuple(shares), reason or "the loss is not finite")
    error = float(np.std(shares, ddof=1) / len(shares) ** 0.5) if len(shares) > 1 else _noise(curves[0].run)
    return CandidateScore(name, float(np.mean(shares)), error, accuracy, tuple(shares))


def _noise(run: Run) -> float:
    """Return the standard error of a curve: the noise of its last third around a line, over the first loss."""
    values = np.asarray(run.losses[-max(3, len(run.losses) // 3) :])
    times = np.arange(len(values))
    residuals = values - np.polyval(np.polyfit(times, values, 1), times)
    return float(residuals.std()) / max(1e-12, abs(run.losses[0]))


def _better(score: CandidateScore, other: CandidateScore) -> bool | None:
    """Return whether a score is better than another; None for a tie."""
    if score.share is None or other.share is None:
        return None if score.share is other.share else score.share is not None
    if len(score.shares) == len(other.shares) > 1:  # on the same batches the differences vary less
        differences = np.subtract(score.shares, other.shares)
        error = float(differences.std(ddof=1)) / len(differences) ** 0.5
    else:
        error = float(np.hypot(score.error or 0.0, other.error or 0.0))
    difference = score.share - other.share
    return None if abs(difference) <= max(_TIE, _LIKELY * error) else difference > 0
