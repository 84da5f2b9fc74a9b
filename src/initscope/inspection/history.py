"""Reports over time: two of them side by side, and one row per epoch of a training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from initscope.errors import InputError
from initscope.geometry import median_over_pairs
from initscope.inspection._checks import Thresholds, checks
from initscope.inspection.alternatives import what_is_kept
from initscope.inspection.examination import WeightsNotFinite, inspect
from initscope.inspection.finding import Finding, Fix
from initscope.inspection.report import NOT_ASKED, Report
from initscope.results import Result, counted, make_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BeforeAfter", "EpochLog", "before_after"]

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
    """Put two reports of the same architecture side by side."""
    ours, theirs = ([row.layer for row in report.rows] for report in (before, after))
    if ours != theirs:
        raise InputError(
            f"the reports have {len(ours)} and {len(theirs)} rows that do not match; inspect one architecture twice"
        )
    return BeforeAfter(before, after)


class EpochLog(Result):
    """A callback for a plain training loop: one row per call, with the findings and the numbers behind them.

    Parameters
    ----------
    data
        What `inspect` is run on, kept for all epochs: a few hundred samples are enough.
    pairs, seed, mode
        As in `inspect`.

    Examples
    --------
    >>> import torch
    >>> log = EpochLog(torch.rand(32, 8), pairs=8)
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> for epoch in range(2):
    ...     _ = log(model, epoch)  # after the epoch's optimizer steps
    >>> [row["epoch"] for row in log.rows]
    [0, 1]
    """

    def __init__(self, data: Any, *, pairs: int = 64, seed: int = 0, mode: Any = "eval") -> None:
        self.data, self.pairs, self.seed, self.mode = data, pairs, seed, mode
        self.rows: list[dict[str, Any]] = []

    def table(self) -> list[dict[str, Any]]:
        """One dict per call."""
        return list(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": …}``."""
        return {"rows": plain(self.rows)}

    def __repr__(self) -> str:
        last = f", last: {self.rows[-1]['findings'] or 'no findings'}" if self.rows else ""
        return f"EpochLog({counted(len(self.rows), 'epoch')}{last})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """What is kept of angles and sizes, and the worst share of dead units, against epochs."""
        if not self.rows:
            raise InputError("no epoch was logged yet, so there is nothing to draw; call it after an epoch")
        ax = make_axes(ax)
        for name in ("angle_ratio", "rms_ratio", "dead_fraction"):
            values = [np.nan if row[name] is None else row[name] for row in self.rows]
            ax.plot([row["epoch"] for row in self.rows], values, "o-", markersize=3, label=name.replace("_", " "))
        ax.set_xlabel("epoch")
        ax.legend()
        return ax

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, Any]:
        """Inspect ``model`` and add a row; returns the row."""
        self.observe(model, epoch)
        return self.rows[-1]

    def observe(self, model: nn.Module, epoch: int) -> Report:
        """Inspect ``model`` and add a row; returns the report behind it.

        Weights that have become NaN or infinite are the finding not-finite, where `inspect` refuses them.
        """
        options: dict[str, Any] = {"pairs": self.pairs, "seed": self.seed, "mode": self.mode}
        try:
            report = inspect(model, self.data, **options, alternatives=False, prediction=False)
        except WeightsNotFinite as broken:
            report = _broken(broken)
        seen = report.observation
        angle, size, spread = what_is_kept(seen)
        row = {
            "epoch": epoch,
            "angle_ratio": angle,
            "rms_ratio": size,
            "gradient_spread": spread if np.isfinite(spread) else None,
            "dead_fraction": float(np.nanmax(seen.dead_fraction, initial=0.0)),
            "effective_rank": float(seen.effective_rank[-1]),
            "findings": ", ".join(finding.name for finding in report.findings),
        }
        self.rows.append(row)
        return report


def _broken(error: WeightsNotFinite) -> Report:
    """The report on a model whose weights training has broken: one finding, as nothing else can be measured."""
    layer = error.parameter.rpartition(".")[0] or error.parameter
    advice = "go back to weights that are finite, and train with a smaller learning rate or clipped gradients"
    message = f"{error.parameter} holds NaN or infinite values."
    check = checks("not-finite")[0]
    finding = Finding(check.code, check.name, "error", layer, None, None, message, Fix("finite weights", None, advice))
    return Report(error.seen, None, None, (finding,), None, Thresholds(), reason=NOT_ASKED, checks=1)
