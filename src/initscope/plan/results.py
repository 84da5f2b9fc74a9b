"""What a planner returns: a frozen `Plan` that says which statement each of its numbers rests on.

`answers` are the numbers in the order of the table, from the source's bound to the exact answer; `best` is the one to
use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BitsPlan", "Check", "DepthPlan", "FiltersPlan", "Plan", "ProjectionPlan", "SubspacePlan", "WidthPlan"]

_LAWS_OF_NORMS = {
    "chernoff": "the best two-sided Chernoff bound of a layer, summed over layers and samples",
    "exact": "the exact law for one input, summed over samples",
}


@dataclass(frozen=True)
class Plan(Result):
    """Base of all plans: the distortion ``eps``, the probability of failure ``delta``, the answers of the subclass."""

    planner: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    statements: ClassVar[dict[str, str]] = {}
    best: ClassVar[str] = "exact"

    eps: float
    delta: float
    assumptions: tuple[str, ...]

    @property
    def answers(self) -> dict[str, int]:
        """The numbers by name, as in `statements`."""
        return {name: getattr(self, name) for name in self.statements}

    def table(self) -> list[dict[str, Any]]:
        """One row per answer: its name, the number and the statement it rests on."""
        return [
            {"answer": name, self.unit: number, "rests on": self.statements[name]}
            for name, number in self.answers.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """All fields, and the planner's name and statements."""
        return {"planner": self.planner, **super().to_dict(), "statements": dict(self.statements)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """The answers as bars on a logarithmic axis."""
        ax = make_axes(ax, figsize=(6, 0.6 + 0.5 * len(self.answers)))
        bars = ax.barh(list(self.answers), list(self.answers.values()))
        ax.bar_label(bars, fmt="{:,.0f}", padding=3)
        ax.set_xscale("log")
        ax.margins(x=0.2)
        ax.set_xlabel(self.unit)
        ax.invert_yaxis()
        return ax


@dataclass(frozen=True)
class WidthPlan(Plan):
    """`initscope.plan.width`: widths, and the exact probability of failure at the exact width."""

    planner = "width"
    unit = "width"
    statements: ClassVar[dict[str, str]] = {
        "paper": "lemma 2 (depth 1), theorem 1 or (gradients) theorem 3 of the over-parameterisation paper, as printed",
        **_LAWS_OF_NORMS,
    }

    depth: int
    samples: int
    event: str
    quantity: str
    per_layer: bool
    paper: int
    chernoff: int
    exact: int
    failure: float


@dataclass(frozen=True)
class DepthPlan(Plan):
    """`initscope.plan.depth`: how deep a network of a given width may be (0: not even one layer)."""

    planner = "depth"
    unit = "depth"
    statements: ClassVar[dict[str, str]] = {
        "paper": "theorem 1 of the over-parameterisation paper with its best split of eps over the layers",
        **_LAWS_OF_NORMS,
    }

    width: int
    samples: int
    event: str
    paper: int
    chernoff: int
    exact: int
    failure: float


@dataclass(frozen=True)
class SubspacePlan(Plan):
    """`initscope.plan.subspace`: widths that keep the norms of a whole subspace at once."""

    planner = "subspace"
    unit = "width"
    best = "gordon"
    statements: ClassVar[dict[str, str]] = {
        "paper": "lemma 3 (depth 1) or theorem 2 of the over-parameterisation paper, as printed",
        "repaired": "theorem 2 with the union over the cones that its proof overlooks (depth 1: lemma 3)",
        "gordon": "Gordon's comparison with the exact mean norm and Gaussian concentration",
    }

    dim: int
    depth: int
    squared: bool
    paper: int
    repaired: int
    gordon: int


@dataclass(frozen=True)
class FiltersPlan(Plan):
    """`initscope.plan.filters`: numbers of filters; `sharp_low` and `sharp_high` are the pilot's 95 % interval."""

    planner = "filters"
    unit = "filters"
    best = "sharp"
    statements: ClassVar[dict[str, str]] = {
        "paper": "corollary 1 of the JL-for-CNNs paper, constant 5 × 26.06",
        "no_union": "corollary 1 without the union over pixels",
        "sharp": "a pilot sample of filters: resampled, or the delta method for many filters",
    }

    kernel_size: int
    pairs: int
    pilot: int
    cosine: float
    sd: float
    paper: int
    no_union: int
    sharp: int
    sharp_low: int
    sharp_high: int


@dataclass(frozen=True)
class BitsPlan(Plan):
    """`initscope.plan.bits`: bits of a sign embedding; `failure` is exact, at the exact number."""

    planner = "bits"
    unit = "bits"
    statements: ClassVar[dict[str, str]] = {
        "paper": "the stable-embedding theorem of the talk with its unspecified constant set to 1",
        "hoeffding": "Hoeffding's inequality, union over pairs",
        "exact": "the exact binomial law, union over pairs",
    }

    pairs: int
    angle: float | None
    mean_width: float
    paper: int
    hoeffding: int
    exact: int
    failure: float


@dataclass(frozen=True)
class ProjectionPlan(Plan):
    """`initscope.plan.projection`: dimensions of a random linear layer that keeps all distances of a data set."""

    planner = "projection"
    unit = "width"
    statements: ClassVar[dict[str, str]] = {
        "textbook": "Dasgupta–Gupta, as in scikit-learn's johnson_lindenstrauss_min_dim (success only 1 in samples)",
        "exact": "the exact chi-square law, union over all pairs",
    }

    samples: int
    textbook: int
    exact: int
    failure: float


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
