"""Accuracy of the checks: small networks with good and bad initializations are inspected, then trained.

A network fails if its gain over chance after training is less than half of the gain of the best initialization of its
architecture. Thresholds and the score of the what-if table were chosen on the development set of architectures; the
frozen set was not used. `run` runs the study; the networks are in ``_study_networks``, their training in
``_study_training``.
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
from initscope.results import Result, line_color, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "CheckStudy", "Judged", "Retrained", "Score", "run"]

FACTORS = (1e-3, 1e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 1e2, 1e3)
"""Factors on the thresholds of the library that are tried."""
HALF = 0.5
"""A network fails below this fraction of the gain over chance of the best initialization."""
HARMED = 0.8
"""A network is harmed below this fraction."""
_PRECISE = 0.9
_SAMPLES = 64


@dataclass(frozen=True)
class Judged(Result):
    """One network: findings about its initialization, and the result of training.

    Attributes
    ----------
    reached : float
        Gain over chance at the best learning rate / that of the best initialization of the architecture.
    kept : float
        Angle ratio of pairs before the head.
    score : float
        Score by which the what-if table ranks initializations with equal findings.
    named : dict
        Names of errors by factor on the thresholds; 1 are the thresholds of the library.
    chosen_on : bool
        Whether its architecture is in the development set.
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
    """Accuracy of a check; ``any`` stands for any error. ``harmed`` counts networks that lost a fifth of the gain."""

    check: str
    threshold: float
    said: int
    right: int
    harmed: int
    failures: int
    precision: Share
    recall: Share

    def to_row(self) -> dict[str, Any]:
        """Return one row of the table."""
        row = {"check": self.check, "threshold": self.threshold, "said": self.said, "right": self.right}
        row |= {"harmed": self.harmed}
        for name, value in (("precision", self.precision), ("recall", self.recall)):
            row |= {name: value.value, f"{name} from": value.low, f"{name} to": value.high}
        return row


@dataclass(frozen=True)
class Retrained(Result):
    """A failed network with an error, trained again with the initialization that its report suggests."""

    network: str
    initializer: str
    before: float
    reached: float
    chosen_on: bool

    @property
    def trains(self) -> bool:
        """Whether the network trains with the suggested initialization."""
        return self.reached >= HALF


@dataclass(frozen=True)
class CheckStudy(Result):
    """The study: every network, the accuracy of each check, and results with the suggested initializations.

    Attributes
    ----------
    choosing, frozen : tuple of Score
        Scores of the thresholds of the library on the development set and on the frozen set.
    thresholds : dict
        Thresholds that find the most failures at a precision of 0.9 on the development set.
    correlation : Share
        Spearman's correlation of the angle ratio and the result of training, over all networks.
    ranking : Share
        Spearman's correlation of the order of the what-if table and the result of training, mean over the frozen set.
    retrained : tuple of Retrained
        Networks that were trained again; ``repaired`` is the fraction that then trains.

    The intervals of correlations treat architectures as independent (jackknife), those of fractions networks (Clopper
    and Pearson).
    """

    networks: tuple[Judged, ...]
    choosing: tuple[Score, ...]
    frozen: tuple[Score, ...]
    thresholds: dict[str, float]
    correlation: Share
    ranking: Share
    retrained: tuple[Retrained, ...] = ()

    @property
    def repaired(self) -> Share:
        """Fraction of the retrained networks that train."""
        return share(sum(network.trains for network in self.retrained), len(self.retrained))

    def table(self) -> list[dict[str, Any]]:
        """Return the scores on the frozen set, then on the development set."""
        return [{"part": name} | row.to_row() for name in ("frozen", "choosing") for row in getattr(self, name)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the result of training against the angle ratio, with networks that have an error marked."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        for has_error, color, label in ((False, line_color(0), "no error"), (True, line_color(3), "error")):
            rows = [row for row in self.networks if bool(row.named[1.0]) is has_error and np.isfinite(row.kept)]
            ax.scatter([max(row.kept, 1e-6) for row in rows], [row.reached for row in rows], s=12, c=color, label=label)
        ax.axhline(HALF, linestyle=":", color="0.5")
        ax.set_xscale("log")
        ax.set(xlabel="angle ratio at initialization", ylabel="gain over chance / that of the best initialization")
        ax.legend(fontsize="small")
        return ax


def run(
    *,
    small: bool = False,
    path: str | Path | None = None,
    steps: int = STEPS,
    rates: Sequence[float] = RATES,
    retrained: int = 30,
    seconds: float = float("inf"),
    workers: int = 1,
) -> CheckStudy:
    """Inspect and train the networks.

    Parameters
    ----------
    small : bool
        Use only 24 networks, on digits.
    path : str or Path, optional
        File of runs, one per line: runs in it are reused, new runs are added.
    steps, rates
        Number of batches of a run, and the learning rates; the best one counts.
    retrained : int
        Maximum number of failed networks of each set to train again with the suggested initialization.
    seconds : float
        No run starts after this time. Architectures that are not complete by then are left out, so the study can be run
        in parts.
    workers : int
        Number of training processes; 1 trains in this process.
    """
    chosen = _few() if small else networks()
    rates = tuple(rates)
    runs = train_all(chosen, path, rates=rates, steps=steps, seconds=seconds, workers=workers)
    unfinished = {network.architecture for network in chosen for rate in rates if (network.name, rate) not in runs}
    chosen = tuple(network for network in chosen if network.architecture not in unfinished)
    accuracy = {network: max(float(runs[network.name, rate]["accuracy"]) for rate in rates) for network in chosen}
    rows = {network: _judged(network, _inspected(network), accuracy) for network in chosen}
    parts = [[row for row in rows.values() if row.chosen_on is chosen_on] for chosen_on in (True, False)]
    defaults = {name.replace("_", "-"): value for name, value in Thresholds().to_dict().items()}
    factors = _choose(parts[0])

    def best(name: str, build: Callable[[], nn.Module], network: Network) -> float:
        return train_best(name, build, network, rates=rates, steps=steps, runs=runs, path=path)

    return CheckStudy(
        tuple(rows.values()),
        _scores(parts[0]),
        _scores(parts[1]),
        {name: factor * defaults[name] for name, factor in factors.items() if name in defaults},
        jackknife(_of_angles, _by_architecture(rows.values())),
        jackknife(_of_ranking, _by_architecture(parts[1])),
        tuple(_retrained(network, rows[network], accuracy, best) for network in _failed_with_errors(rows, retrained)),
    )


def _few_shapes() -> tuple[Architecture, ...]:
    return (
        Architecture("dense", 10, 32), Architecture("convolutional", 3, 8), Architecture("residual", 2, 8),
        Architecture("transformer", 1, 16, "gelu", "pre"),
    )  # fmt: skip


def _few() -> tuple[Network, ...]:
    """Return four shallow architectures with six initializations."""
    names = ("own", "he", "half", "tenth", "low-bias", "equal")
    return tuple(Network(shape, name) for shape in _few_shapes() for name in names)


def _inspected(network: Network, *, alternatives: bool = False) -> Report:
    """Return the report on a network at initialization, on training images."""
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


def _reached(own_accuracy: float, network: Network, accuracy: dict[Network, float]) -> float:
    """Return the gain over chance divided by that of the best initialization of the architecture."""
    chance = 1 / CLASSES
    best = max(value for other, value in accuracy.items() if other.architecture == network.architecture)
    return (own_accuracy - chance) / max(best - chance, 1e-9)


def _judged(network: Network, report: Report, accuracy: dict[Network, float]) -> Judged:
    kept = Evidence(report.observation, report.facts).angle_ratio
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
    """Return the errors that are found if all thresholds are multiplied by ``factor``."""
    limits = Thresholds(**{name: factor * value for name, value in report.thresholds.to_dict().items()})
    findings = judge(report.observation, limits, report.facts)
    return tuple(finding.name for finding in findings if finding.level == "error")


def _chosen_on(architecture: Architecture) -> bool:
    """Return whether an architecture is in the development set."""
    if architecture in _few_shapes():
        return architecture.kind in ("dense", "residual")
    return architecture in architectures()


def _choose(rows: Sequence[Judged]) -> dict[str, float]:
    """Return for every check the factor that finds the most failures at a precision of 0.9; 1 if there is none.

    Among equal factors the one nearest to 1 is chosen.
    """
    names = sorted({name for row in rows for named in row.named.values() for name in named})
    chosen = {}
    for name in names:
        candidates = [(0, 0.0, 1.0)]
        for factor in FACTORS:
            said = [row for row in rows if name in row.named[factor]]
            right = sum(row.failed for row in said)
            if right >= _PRECISE * len(said):
                candidates.append((right, -abs(float(np.log(factor))), factor))
        chosen[name] = max(candidates)[-1]
    return chosen


def _scores(rows: Sequence[Judged]) -> tuple[Score, ...]:
    """Return precision and recall of every check, and of any of them, at the thresholds of the library."""
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
    """Return the correlation of the angle ratio and the result of training, over all networks."""
    known = [row for group in groups for row in group if np.isfinite(row.kept)]
    return rank_correlation([row.kept for row in known], [row.reached for row in known])


def _of_ranking(groups: list[list[Judged]]) -> float:
    """Return the correlation of the order of the what-if table and the result of training, within architectures.

    Initializations without errors come first, then those with a higher score.
    """
    orders = [[row.score - bool(row.named[1.0]) for row in group] for group in groups]
    correlations = [
        rank_correlation(order, [row.reached for row in group]) for order, group in zip(orders, groups, strict=True)
    ]
    return float(np.mean(correlations))


def _failed_with_errors(rows: dict[Network, Judged], most: int) -> list[Network]:
    """Return at most ``most`` failed networks with an error of each set, evenly spaced."""
    picked = []
    for chosen_on in (True, False):
        failing = [n for n, row in rows.items() if row.failed and row.named[1.0] and row.chosen_on is chosen_on]
        indices = np.linspace(0, len(failing) - 1, min(most, len(failing))).round().astype(int)
        picked += [failing[index] for index in indices]
    return picked


def _retrained(
    network: Network,
    row: Judged,
    accuracy: dict[Network, float],
    best: Callable[[str, Callable[[], nn.Module], Network], float],
) -> Retrained:
    """Train a network with the initialization that its report suggests; unchanged without a suggestion."""
    fixes = _inspected(network, alternatives=True).fixes
    suggested = next((fix for fix in fixes if fix.initializer is not None), None)
    initializer = None if suggested is None else suggested.initializer

    def build() -> nn.Module:
        model = network.build()
        return (
            model
            if initializer is None
            else initializer.fill_(model, generator=torch.Generator().manual_seed(network.seed))
        )

    name = "unchanged" if suggested is None else suggested.name
    reached = _reached(best(f"{network.name} by {name}", build, network), network, accuracy)
    return Retrained(network.name, name, row.reached, reached, row.chosen_on)


def _numbers(result: CheckStudy) -> dict[str, Number]:
    numbers = {"networks": Number(len(result.networks)), "failures": Number(sum(row.failed for row in result.networks))}
    total = result.frozen[-1]
    shares = {"precision": total.precision, "recall": total.recall, "correlation": result.correlation}
    shares |= {"ranking": result.ranking} | ({"repaired": result.repaired} if result.retrained else {})
    return numbers | {name: Number(value.value, value.error) for name, value in shares.items()}


def _holds(result: CheckStudy) -> bool:
    """Return whether more than half of the networks with errors fail, and more than half of failures have errors."""
    with_errors = [row for row in result.networks if row.named[1.0]]
    right = sum(row.failed for row in with_errors)
    return (
        right > len(with_errors) / 2
        and 2 * right > sum(row.failed for row in result.networks)
        and result.correlation.low > 0
    )


REPRODUCTIONS = (
    Declared(
        id="verdict-study",
        source="Nachum et al. 2022, section 4.2: collapse is a bad initialization; all checks of this library",
        statement="Networks with an error at initialization fail to train, networks without errors train, and training "
        "reaches less if the angle ratio is smaller.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"small": True, "rates": (3e-3,), "retrained": 0},
        full={"path": "verdict-study.jsonl"},
    ),
)
