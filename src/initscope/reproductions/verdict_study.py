"""Are the verdicts right? Small networks at good and bad starts are judged first, then trained.

A network fails if training brings it less than half of the gain over chance that the best start of its architecture
reaches. Thresholds, and the score by which the what-if table ranks, were chosen on one part of the architectures; the
others, which had no part in that, are judged with them. `run` does all of it; the networks are in ``_study_networks``,
their training in ``_study_training``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from initscope.inspection import Report, Thresholds, inspect, judge
from initscope.inspection.alternatives import start_score, what_is_kept
from initscope.inspection.evidence import Evidence
from initscope.reproductions._statistics import Share, jackknife, rank_correlation, share
from initscope.reproductions._study_networks import CLASSES, Architecture, Network, architectures, networks
from initscope.reproductions._study_training import RATES, STEPS, splits, train_all, train_best
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Cure", "Judged", "Score", "VerdictStudy", "run"]

FACTORS = (1e-3, 1e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 1e2, 1e3)
"""Thresholds that are tried: the library's own times these."""
HALF = 0.5
"""Share of the best start's gain over chance below which a network counts as failed."""
HARMED = 0.8
"""Share below which it counts as harmed."""
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
    score : float
        By which the what-if table ranks starts that are alike in faults.
    named : dict
        Factor on the thresholds → the faults that are named then; 1 is the library as it is.
    chosen_on : bool
        Whether its architecture is of the half on which thresholds are chosen.
    """

    network: str
    architecture: str
    start: str
    accuracy: float
    reached: float
    kept: float
    score: float
    named: dict[float, tuple[str, ...]]
    chosen_on: bool

    @property
    def failed(self) -> bool:
        """Whether training failed."""
        return self.reached < HALF


@dataclass(frozen=True)
class Score(Result):
    """How often a verdict was right; ``any`` is any fault at all. ``harmed`` of those that got it lost a fifth."""

    verdict: str
    threshold: float
    said: int
    right: int
    harmed: int
    failures: int
    precision: Share
    recall: Share

    def to_row(self) -> dict[str, Any]:
        """One line of the table."""
        row = {"verdict": self.verdict, "threshold": self.threshold, "said": self.said, "right": self.right}
        row |= {"harmed": self.harmed}
        for name, value in (("precision", self.precision), ("recall", self.recall)):
            row |= {name: value.value, f"{name} from": value.low, f"{name} to": value.high}
        return row


@dataclass(frozen=True)
class Cure(Result):
    """A failed network that is called sick, trained again from the start that its report recommends."""

    network: str
    law: str
    before: float
    reached: float
    chosen_on: bool

    @property
    def trains(self) -> bool:
        """Whether it does now."""
        return self.reached >= HALF


@dataclass(frozen=True)
class VerdictStudy(Result):
    """The study: every network, how often each verdict was right, and what the recommended starts reach.

    Attributes
    ----------
    choosing, held_out : tuple of Score
        Scores of the library's thresholds on the architectures that they were chosen on, and on the others.
    thresholds : dict
        What the rule of choice, most failures found at a precision of .9, takes on the first of these parts.
    correlation : Share
        Spearman's, of the angle kept with what training reaches, over all networks.
    ranking : Share
        Spearman's, of the order in which the what-if table would put the starts of an architecture with what training
        reaches, as a mean over the architectures that are held out.
    cures : tuple of Cure
        Those that were tried; ``cured`` is the share of them that trains.

    The intervals of both correlations are of independent architectures (jackknife), those of shares of independent
    networks (Clopper and Pearson).
    """

    networks: tuple[Judged, ...]
    choosing: tuple[Score, ...]
    held_out: tuple[Score, ...]
    thresholds: dict[str, float]
    correlation: Share
    ranking: Share
    cures: tuple[Cure, ...] = ()

    @property
    def cured(self) -> Share:
        """Of the cures that were tried, the share that trains."""
        return share(sum(cure.trains for cure in self.cures), len(self.cures))

    def table(self) -> list[dict[str, Any]]:
        """Scores on the architectures that are held out, then on the others."""
        return [{"part": name} | row.to_row() for name in ("held_out", "choosing") for row in getattr(self, name)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """What training reaches against the angle kept, with those that are called sick marked."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        for sick, color, label in ((False, "C0", "called healthy"), (True, "C3", "called sick")):
            these = [row for row in self.networks if bool(row.named[1.0]) is sick and np.isfinite(row.kept)]
            ax.scatter(
                [max(row.kept, 1e-6) for row in these], [row.reached for row in these], s=12, c=color, label=label
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
    cures: int = 30,
    seconds: float = float("inf"),
    workers: int = 1,
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
        Of each part at most so many failed networks, evenly spread, are trained from the recommended start.
    seconds : float
        No run is begun after so many seconds of computing. Architectures that are not trained at every start and rate
        by then are left out: the study can be made in pieces, and looked at before it is whole.
    workers : int
        Processes that train, those of sweeps; 1: this one.
    """
    these = _few() if small else networks()
    rates = tuple(rates)
    runs = train_all(these, path, rates=rates, steps=steps, seconds=seconds, workers=workers)
    unfinished = {network.architecture for network in these for rate in rates if (network.name, rate) not in runs}
    these = tuple(network for network in these if network.architecture not in unfinished)
    accuracy = {network: max(float(runs[network.name, rate]["accuracy"]) for rate in rates) for network in these}
    rows = {network: _judged(network, _inspected(network), accuracy) for network in these}
    parts = [[row for row in rows.values() if row.chosen_on is chosen_on] for chosen_on in (True, False)]
    defaults = {name.replace("_", "-"): value for name, value in Thresholds().to_dict().items()}
    factors = _choose(parts[0])

    def best(name: str, build: Callable[[], nn.Module], network: Network) -> float:
        return train_best(name, build, network, rates=rates, steps=steps, runs=runs, path=path)

    return VerdictStudy(
        tuple(rows.values()),
        _scores(parts[0]),
        _scores(parts[1]),
        {name: factor * defaults[name] for name, factor in factors.items() if name in defaults},
        jackknife(_of_angles, _by_architecture(rows.values())),
        jackknife(_of_ranking, _by_architecture(parts[1])),
        tuple(_cure(network, rows[network], accuracy, best) for network in _patients(rows, cures)),
    )


def _few_shapes() -> tuple[Architecture, ...]:
    return (
        Architecture("dense", 10, 32), Architecture("convolutional", 3, 8), Architecture("residual", 2, 8),
        Architecture("transformer", 1, 16, "gelu", "pre"),
    )  # fmt: skip


def _few() -> tuple[Network, ...]:
    """Four shallow architectures at six starts."""
    starts = ("own", "he", "half", "tenth", "low-bias", "equal")
    return tuple(Network(shape, start) for shape in _few_shapes() for start in starts)


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


def _reached(result: float, network: Network, accuracy: dict[Network, float]) -> float:
    """Gain over chance over that of the best start of the network's architecture."""
    chance = 1 / CLASSES
    best = max(value for other, value in accuracy.items() if other.architecture == network.architecture)
    return (result - chance) / max(best - chance, 1e-9)


def _judged(network: Network, report: Report, accuracy: dict[Network, float]) -> Judged:
    kept = Evidence(report.observation, report.facts).kept
    known = kept[np.isfinite(kept)]
    return Judged(
        network.name,
        network.architecture.name,
        network.initialization,
        accuracy[network],
        _reached(accuracy[network], network, accuracy),
        float(known[-1]) if len(known) else float("nan"),
        start_score(*what_is_kept(report.observation)),
        {factor: _named(report, factor) for factor in FACTORS},
        _chosen_on(network.architecture),
    )


def _named(report: Report, factor: float) -> tuple[str, ...]:
    """Errors that are found when all thresholds are multiplied by ``factor``."""
    limits = Thresholds(**{name: factor * value for name, value in report.thresholds.to_dict().items()})
    result = judge(report.observation, limits, report.facts)
    return tuple(finding.name for finding in result if finding.level == "error")


def _chosen_on(architecture: Architecture) -> bool:
    """Whether it is of the part on which thresholds and ranking were chosen."""
    if architecture in _few_shapes():
        return architecture.kind in ("dense", "residual")
    return architecture in architectures()


def _choose(rows: Sequence[Judged]) -> dict[str, float]:
    """For every verdict the factor that finds most failures at a precision of .9; 1, the library's own, if none does.

    Of equals the one nearest to 1 is taken.
    """
    names = sorted({name for row in rows for named in row.named.values() for name in named})
    chosen = {}
    for name in names:
        result = [(0, 0.0, 1.0)]
        for factor in FACTORS:
            said = [row for row in rows if name in row.named[factor]]
            right = sum(row.failed for row in said)
            if right >= _PRECISE * len(said):
                result.append((right, -abs(float(np.log(factor))), factor))
        chosen[name] = max(result)[-1]
    return chosen


def _scores(rows: Sequence[Judged]) -> tuple[Score, ...]:
    """Precision and recall of every verdict, and of any of them, at the library's thresholds."""
    defaults = Thresholds().to_dict()
    failures = sum(row.failed for row in rows)
    scores = []
    for name in [*sorted({name for row in rows for name in row.named[1.0]}), "any"]:
        said = [row for row in rows if name in row.named[1.0] or (name == "any" and row.named[1.0])]
        right, harmed = sum(row.failed for row in said), sum(row.reached < HARMED for row in said)
        threshold = defaults.get(name.replace("-", "_"), float("nan"))
        shares = share(right, len(said)), share(right, failures)
        scores.append(Score(name, threshold, len(said), right, harmed, failures, *shares))
    return tuple(scores)


def _by_architecture(rows: Iterable[Judged]) -> list[list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for row in rows:
        groups.setdefault(row.architecture, []).append(row)
    return list(groups.values())


def _of_angles(groups: list[list[Judged]]) -> float:
    """Correlation of the angle kept with what training reaches, over all networks."""
    known = [row for group in groups for row in group if np.isfinite(row.kept)]
    return rank_correlation([row.kept for row in known], [row.reached for row in known])


def _of_ranking(groups: list[list[Judged]]) -> float:
    """Correlation of the what-if table's order with what training reaches, within architectures: those without a fault
    come first, then those of higher score."""
    orders = [[row.score - bool(row.named[1.0]) for row in group] for group in groups]
    each = [
        rank_correlation(order, [row.reached for row in group]) for order, group in zip(orders, groups, strict=True)
    ]
    return float(np.mean(each))


def _patients(rows: dict[Network, Judged], most: int) -> list[Network]:
    """Failed networks that are called sick, of each part at most so many, evenly spread."""
    picked = []
    for chosen_on in (True, False):
        sick = [n for n, row in rows.items() if row.failed and row.named[1.0] and row.chosen_on is chosen_on]
        indices = np.linspace(0, len(sick) - 1, min(most, len(sick))).round().astype(int)
        picked += [sick[index] for index in indices]
    return picked


def _cure(
    network: Network,
    row: Judged,
    accuracy: dict[Network, float],
    best: Callable[[str, Callable[[], nn.Module], Network], float],
) -> Cure:
    """Train a network from the weights that its report recommends; as it is, where that has none to recommend."""
    fixes = _inspected(network, alternatives=True).fixes
    result = next((fix for fix in fixes if fix.law is not None), None)
    law = None if result is None else result.law

    def build() -> nn.Module:
        model = network.build()
        return model if law is None else law.fill_(model, generator=torch.Generator().manual_seed(network.seed))

    name = "as it is" if result is None else result.name
    reached = _reached(best(f"{network.name} by {name}", build, network), network, accuracy)
    return Cure(network.name, name, row.reached, reached, row.chosen_on)


def _numbers(result: VerdictStudy) -> dict[str, Number]:
    numbers = {"networks": Number(len(result.networks)), "failures": Number(sum(row.failed for row in result.networks))}
    total = result.held_out[-1]
    shares = {"precision": total.precision, "recall": total.recall, "correlation": result.correlation}
    shares |= {"ranking": result.ranking} | ({"cured": result.cured} if result.cures else {})
    return numbers | {name: Number(value.value, value.error) for name, value in shares.items()}


def _holds(result: VerdictStudy) -> bool:
    """Of all networks, more than half of those called sick fail, more than half of the failures are called sick."""
    sick = [row for row in result.networks if row.named[1.0]]
    right = sum(row.failed for row in sick)
    return (
        right > len(sick) / 2 and 2 * right > sum(row.failed for row in result.networks) and result.correlation.low > 0
    )


REPRODUCTIONS = (
    Declared(
        id="verdict-study",
        source="Nachum et al. 2022, section 4.2: collapse is a bad start; all verdicts of this library",
        statement="What is called sick at the start fails to train, what is called healthy trains, and the less of the "
        "angle is kept the less training reaches.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"small": True, "rates": (3e-3,), "cures": 0},
        full={"path": "verdict-study.jsonl"},
    ),
)
