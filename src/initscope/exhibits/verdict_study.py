"""Are the verdicts right? Small networks at good and bad starts are judged first, then trained.

A network fails if training brings it less than half of the gain over chance that the best start of its architecture
reaches. Thresholds are chosen on one half of the architectures; the other half, which has no part in that, is judged
with them. `run` does all of it; the networks are in ``_study_networks``, their training in ``_study_training``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from initscope.exhibits._statistics import Share, rank_correlation, share
from initscope.exhibits._study_networks import CLASSES, Architecture, Network, architectures, networks
from initscope.exhibits._study_training import RATES, STEPS, splits, train_all, train_best
from initscope.exhibits.protocol import Declared, Number
from initscope.inspection import Report, Thresholds, inspect, judge
from initscope.inspection.evidence import Evidence
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXHIBITS", "Judged", "Score", "VerdictStudy", "run"]

FACTORS = (1e-3, 1e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 1e2, 1e3)
"""Thresholds that are tried: the library's own times these."""
HALF = 0.5
"""Share of the best start's gain over chance below which a network counts as failed."""
_PRECISE = 0.9
_SAMPLES = 64


@dataclass(frozen=True)
class Judged(Result):
    """One network: what was said of its start, and what became of it.

    Attributes
    ----------
    reached : float
        Its gain over chance, at the best of the rates, over that of the best start of its architecture.
    kept : float
        Angle of pairs at the end, before the head, over the input's.
    named : dict
        Factor on the thresholds → the faults that are named then; 1 is the library as it is.
    chosen_on : bool
        Whether its architecture is of the half on which thresholds are chosen.
    """

    network: str
    kind: str
    start: str
    accuracy: float
    reached: float
    kept: float
    named: dict[float, tuple[str, ...]]
    chosen_on: bool

    @property
    def failed(self) -> bool:
        """Whether training failed."""
        return self.reached < HALF


@dataclass(frozen=True)
class Score(Result):
    """How often a verdict was right, on the half that was not used for choosing; ``any`` is any fault at all."""

    verdict: str
    threshold: float
    said: int
    right: int
    failures: int
    precision: Share
    recall: Share

    def to_row(self) -> dict[str, Any]:
        """One line of the table."""
        row = {"verdict": self.verdict, "threshold": self.threshold, "said": self.said, "right": self.right}
        for name, value in (("precision", self.precision), ("recall", self.recall)):
            row |= {name: value.value, f"{name} from": value.low, f"{name} to": value.high}
        return row


@dataclass(frozen=True)
class VerdictStudy(Result):
    """The study: every network, the thresholds that were chosen, and how often each verdict was right.

    ``own`` are the scores of the library's own thresholds, ``chosen`` those of the ones chosen on the first half; both
    on the second half. ``correlation`` is Spearman's, of the angle kept with what training reaches. ``cured`` is the
    share of the failed networks with a verdict that the recommended start makes train.
    """

    networks: tuple[Judged, ...]
    own: tuple[Score, ...]
    chosen: tuple[Score, ...]
    correlation: Share
    cured: Share | None

    def table(self) -> list[dict[str, Any]]:
        """Scores of the chosen thresholds, then of the library's own."""
        return [{"thresholds": name} | row.to_row() for name in ("chosen", "own") for row in getattr(self, name)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """What training reaches against the angle kept, with those that are called sick marked."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        for sick, colour, label in ((False, "C0", "called healthy"), (True, "C3", "called sick")):
            these = [row for row in self.networks if bool(row.named[1.0]) is sick and np.isfinite(row.kept)]
            ax.scatter(
                [max(row.kept, 1e-6) for row in these], [row.reached for row in these], s=12, c=colour, label=label
            )
        ax.axhline(HALF, linestyle=":", color="0.5")
        ax.set_xscale("log")
        ax.set(xlabel="angle kept at the start", ylabel="gain over chance / that of the best start")
        ax.legend(fontsize="small")
        return ax


def run(
    *,
    small: bool = False,
    path: str | Path | None = None,
    steps: int = STEPS,
    rates: Sequence[float] = RATES,
    cures: int = 40,
    seconds: float = float("inf"),
) -> VerdictStudy:
    """Judge and train the networks.

    Parameters
    ----------
    small : bool
        24 networks on digits in place of all.
    path : str or Path, optional
        A file of runs, a line each: those that it holds are not trained again, new ones are added.
    steps, rates
        Batches of a run, and the learning rates of which the best counts.
    cures : int
        At most so many failed networks, evenly spread, are trained from the recommended start; 0 for none.
    seconds : float
        No run is begun after so many seconds of computing. Architectures that are not trained at every start and rate
        by then are left out: the study can be made in pieces, and looked at before it is whole.
    """
    these = _few() if small else networks()
    runs = train_all(these, path, rates=tuple(rates), steps=steps, seconds=seconds)
    unfinished = {network.architecture for network in these for rate in rates if (network.name, rate) not in runs}
    these = tuple(network for network in these if network.architecture not in unfinished)
    accuracy = {network: max(float(runs[network.name, rate]["accuracy"]) for rate in rates) for network in these}
    reports = {network: _inspected(network) for network in these}
    rows = tuple(_judged(network, report, accuracy) for network, report in reports.items())
    held_out = [row for row in rows if not row.chosen_on]
    factors = _choose([row for row in rows if row.chosen_on])
    own = _scores(held_out, dict.fromkeys(factors, 1.0))
    chosen = _scores(held_out, factors)
    known = [row for row in rows if np.isfinite(row.kept)]
    correlation = rank_correlation([row.kept for row in known], [row.reached for row in known])
    cured = _cured(reports, accuracy, rows, cures, rates=tuple(rates), steps=steps) if cures else None
    return VerdictStudy(rows, own, chosen, correlation, cured)


def _few() -> tuple[Network, ...]:
    """Four shallow architectures at six starts."""
    shapes = (
        Architecture("dense", 10, 32), Architecture("convolutional", 3, 8), Architecture("residual", 2, 8),
        Architecture("transformer", 1, 16, "gelu", "pre"),
    )  # fmt: skip
    starts = ("own", "he", "half", "tenth", "low-bias", "equal")
    return tuple(Network(shape, start) for shape in shapes for start in starts)


def _inspected(network: Network, *, alternatives: bool = False) -> Report:
    """The report on a network as it starts, on images of its training set."""
    images, labels, _, _ = splits(network.architecture.data)
    return inspect(
        network.build(),
        images[:_SAMPLES],
        targets=labels[:_SAMPLES],
        loss=F.cross_entropy,
        pairs=_SAMPLES // 2,
        alternatives=alternatives,
        prediction=False,
    )


def _judged(network: Network, report: Report, accuracy: dict[Network, float]) -> Judged:
    chance = 1 / CLASSES
    best = max(value for other, value in accuracy.items() if other.architecture == network.architecture)
    kept = Evidence(report.observation, report.facts).kept
    known = kept[np.isfinite(kept)]
    return Judged(
        network.name,
        network.architecture.kind,
        network.start,
        accuracy[network],
        (accuracy[network] - chance) / max(best - chance, 1e-9),
        float(known[-1]) if len(known) else float("nan"),
        {factor: _named(report, factor) for factor in FACTORS},
        _chosen_on(network.architecture),
    )


def _named(report: Report, factor: float) -> tuple[str, ...]:
    """Faults that are named when all thresholds are multiplied by ``factor``."""
    limits = Thresholds(**{name: factor * value for name, value in report.thresholds.to_dict().items()})
    found = judge(report.observation, limits, report.facts)
    return tuple(verdict.name for verdict in found if verdict.fault)


def _chosen_on(architecture: Architecture) -> bool:
    """The first half of a fixed order in which neighbours of the list are far apart, so that both halves have all."""
    known = list(architectures())
    if architecture not in known:  # of the small study
        return architecture.kind in ("dense", "residual")
    return known.index(architecture) * 7 % len(known) < len(known) // 2


def _choose(rows: Sequence[Judged]) -> dict[str, float]:
    """For every verdict the factor that finds most failures at a precision of .9; 1, the library's own, if none does.

    Of equals the one nearest to 1 is taken.
    """
    names = sorted({name for row in rows for named in row.named.values() for name in named})
    chosen = {}
    for name in names:
        found = [(0, 0.0, 1.0)]
        for factor in FACTORS:
            said = [row for row in rows if name in row.named[factor]]
            right = sum(row.failed for row in said)
            if right >= _PRECISE * len(said):
                found.append((right, -abs(float(np.log(factor))), factor))
        chosen[name] = max(found)[-1]
    return chosen


def _scores(rows: Sequence[Judged], factors: dict[str, float]) -> tuple[Score, ...]:
    """Precision and recall of every verdict at its factor, and of any of them."""
    defaults = Thresholds().to_dict()
    failures = sum(row.failed for row in rows)
    scores = []
    for name in [*factors, "any"]:
        those = factors if name == "any" else {name: factors[name]}
        said = [row for row in rows if any(each in row.named[factor] for each, factor in those.items())]
        right = sum(row.failed for row in said)
        threshold = defaults.get(name.replace("-", "_"), float("nan")) * factors.get(name, 1.0)
        score = Score(name, threshold, len(said), right, failures, share(right, len(said)), share(right, failures))
        if said or name == "any":
            scores.append(score)
    return tuple(scores)


def _cured(
    reports: dict[Network, Report],
    accuracy: dict[Network, float],
    rows: Sequence[Judged],
    most: int,
    *,
    rates: tuple[float, ...],
    steps: int,
) -> Share:
    """Of failed networks that are called sick, the share that trains from the start that the report recommends."""
    sick = [network for network, row in zip(reports, rows, strict=True) if row.failed and row.named[1.0]]
    picked = [sick[index] for index in np.linspace(0, len(sick) - 1, min(most, len(sick))).round().astype(int)]
    cured = 0
    for network in picked:
        best = max(value for other, value in accuracy.items() if other.architecture == network.architecture)
        reached = train_best(_recommended(network), network, rates=rates, steps=steps)
        cured += reached - 1 / CLASSES >= HALF * (best - 1 / CLASSES)
    return share(cured, len(picked))


def _recommended(network: Network) -> nn.Module:
    """The network at the start that its report recommends, if that is a law of weights."""
    model, table = network.build(), _inspected(network, alternatives=True).what_if
    law = None if table is None else table.best_law
    if law is not None and law.law is not None:
        law.law.fill_(model, generator=torch.Generator().manual_seed(network.seed))
    return model


def _numbers(found: VerdictStudy) -> dict[str, Number]:
    numbers = {"networks": Number(len(found.networks)), "failures": Number(sum(row.failed for row in found.networks))}
    total = found.own[-1]
    for name, value in (("precision", total.precision), ("recall", total.recall), ("correlation", found.correlation)):
        numbers[name] = Number(value.value, value.error)
    if found.cured is not None:
        numbers["cured"] = Number(found.cured.value, found.cured.error)
    return numbers


def _holds(found: VerdictStudy) -> bool:
    """Of all networks, more than half of those called sick fail, more than half of the failures are called sick."""
    sick = [row for row in found.networks if row.named[1.0]]
    right = sum(row.failed for row in sick)
    return right > len(sick) / 2 and 2 * right > sum(row.failed for row in found.networks) and found.correlation.low > 0


EXHIBITS = (
    Declared(
        id="verdict-study",
        source="Nachum et al. 2022, section 4.2: collapse is a bad start; all verdicts of this library",
        statement="What is called sick at the start fails to train, what is called healthy trains, and the less of the "
        "angle is kept the less training reaches.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"small": True, "steps": 40, "rates": (1e-3, 3e-3), "cures": 0},
        full={"path": "verdict-study.jsonl"},
    ),
)
