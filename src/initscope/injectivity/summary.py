"""`thresholds`: the expansivity at which a random ReLU layer becomes injective, by every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.results import Result, make_axes
from initscope.theory.injectivity import (
    Estimate,
    cover_threshold,
    euler_threshold,
    full_rsb_threshold,
    k_rsb_threshold,
    one_rsb_threshold,
    rs_threshold,
    union_threshold,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ThresholdLine", "thresholds"]


@dataclass(frozen=True)
class ThresholdLine(Result):
    """Expansivity thresholds of a Gaussian ReLU layer; ``k_rsb`` maps the number of levels to its value."""

    cover: Estimate
    union: Estimate
    euler: Estimate
    rs: Estimate
    one_rsb: Estimate
    k_rsb: dict[int, Estimate]
    full_rsb: Estimate

    def table(self) -> list[dict[str, Any]]:
        """Return one row per threshold: the lower bound, the replica values, the upper bound."""
        named = {"cover": self.cover, "full_rsb": self.full_rsb}
        named |= {f"{k}_rsb": value for k, value in sorted(self.k_rsb.items(), reverse=True)}
        named |= {"one_rsb": self.one_rsb, "rs": self.rs, "euler": self.euler, "union": self.union}
        return [
            {"threshold": name, "alpha": f"{item.value:.7f}", "error": item.error, "method": item.method}
            for name, item in named.items()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the thresholds on an axis of expansivity."""
        ax = make_axes(ax, figsize=(7, 2.6))
        marks = {
            "Cover": self.cover,
            "full RSB": self.full_rsb,
            "1-RSB": self.one_rsb,
            "RS": self.rs,
            "Euler": self.euler,
            "union": self.union,
        }
        for height, (name, item) in enumerate(marks.items()):
            ax.plot(item.value, height, "o")
            ax.annotate(f"{name} {item.value:.3f}", (item.value, height), xytext=(8, -3), textcoords="offset points")
        ax.axvspan(self.cover.value, self.rs.value, alpha=0.08)  # where the threshold is proven to lie
        ax.set(xlabel="expansivity m/n", yticks=[], xlim=(2, 11), ylim=(-0.7, len(marks) - 0.3))
        return ax


def thresholds() -> ThresholdLine:
    """Return the Cover, union, Euler, RS, 1-RSB, k-RSB and full-RSB thresholds, each with its error and method.

    Source: [Maillard2022]_, summary.

    As the layer grows, it is injective with probability → 0 below ``cover`` and → 1 above ``rs`` (both rigorous, the
    second by `initscope.theory.injectivity.gordon_threshold`); the conjectured threshold between them is ``full_rsb``.
    Takes some seconds on the first call.
    """
    full = full_rsb_threshold()
    return ThresholdLine(
        cover_threshold(),
        union_threshold(),
        euler_threshold(),
        rs_threshold(),
        one_rsb_threshold(),
        {k: k_rsb_threshold(k) for k in range(2, 9)},
        full,
    )
