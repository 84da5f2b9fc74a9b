"""Two reports of one architecture next to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError
from initscope.geometry import median_over_pairs
from initscope.inspection.report import Report
from initscope.results import Result, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BeforeAfter", "before_after"]

_SHOWN = ("cosine_measured", "rms_ratio_measured", "gradient_ratio", "dead_fraction", "effective_rank")


@dataclass(frozen=True)
class BeforeAfter(Result):
    """Two reports of one architecture, row by row: before and after training, or two checkpoints, or two starts."""

    before: Report
    after: Report

    def table(self) -> list[dict[str, Any]]:
        """One dict per layer, each measured column before and after."""
        rows = []
        for old, new in zip(self.before.table(), self.after.table(), strict=True):
            row = {"layer": old["layer"], "kind": old["kind"]}
            for name in _SHOWN:
                row[f"{name}_before"], row[f"{name}_after"] = old[name], new[name]
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": …, "findings_before": …, "findings_after": …}``."""
        return {
            "rows": self.table(),
            "findings_before": plain(self.before.findings),
            "findings_after": plain(self.after.findings),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Median angle after each layer, before and after."""
        from initscope.rendering.figures import new_axes

        ax = new_axes() if ax is None else ax
        for label, report in (("before", self.before), ("after", self.after)):
            ax.plot(median_over_pairs(report.observation.angle), "o-", markersize=3, label=label)
        ax.set_xlabel("step")
        ax.set_ylabel("median angle of pairs (degrees)")
        ax.set_ylim(bottom=0)
        ax.legend()
        return ax


def before_after(before: Report, after: Report) -> BeforeAfter:
    """Put two reports of the same architecture side by side.

    Parameters
    ----------
    before, after : Report
        Reports of the same architecture, with the same rows.

    Returns
    -------
    BeforeAfter
        Every measured column twice.
    """
    ours, theirs = ([row.layer for row in report.rows] for report in (before, after))
    if ours != theirs:
        raise InputError(
            f"the reports have {len(ours)} and {len(theirs)} rows that do not match; inspect one architecture twice"
        )
    return BeforeAfter(before, after)
