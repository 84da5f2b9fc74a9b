"""`Watch`: inspect a model before and during training, warn about new findings, and stop training if requested."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from initscope.errors import InputError, check_count
from initscope.inspection import Finding, Fix, Report, Thresholds, checks, inspect
from initscope.inspection._checks import failing, refuse_unknown, reinitialized
from initscope.inspection.alternatives import what_is_kept
from initscope.inspection.examination import WeightsNotFinite
from initscope.inspection.report import NOT_ASKED
from initscope.integrations.loggers import Logger, scalars
from initscope.results import Result, counted, make_axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TrainingStopped", "Watch"]

_TRAINING = "go back to earlier weights, and lower the learning rate or clip gradients: this is new since the start"


class TrainingStopped(RuntimeError):
    """Raised by `Watch` if a finding matches ``stop_on``; the message is the finding."""


class Watch(Result):
    """A report at the start, then a row each time, and a warning for every finding that was not there before.

    Parameters
    ----------
    data
        Data for `initscope.inspect`, used during the whole training, such as a batch of the training loader. A few
        hundred samples are enough.
    every : int
        Inspect at every ``every``-th call of `step`; the callbacks call it once per epoch.
    warn_on : str
        ``error``, ``warning`` (or worse), or comma-separated codes and names of checks: warn about these findings.
    stop_on : str
        Findings, in the same form, that stop training: `step` returns True, or raises `TrainingStopped` if
        ``stop="raise"``.
    log : callable or list of callables, optional
        Called with a dict of scalars and the step: `tensorboard_logger`, `wandb_logger`, `mlflow_logger`, `aim_logger`,
        or any function.
    out : path, optional
        File for the page of the first report.
    pairs, seed, mode
        See `initscope.inspect`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> watch = Watch(torch.rand(32, 8), pairs=8, stop_on="not-finite")
    >>> watch.start(model).healthy
    True
    >>> for epoch in range(2):
    ...     if watch.step(model, epoch):  # after the epoch's optimizer steps
    ...         break
    >>> [row["epoch"] for row in watch.rows]
    [0, 1]

    ``watch(model, epoch)`` only adds a row and returns it.
    """

    def __init__(
        self,
        data: Any,
        *,
        every: int = 1,
        warn_on: str = "error",
        stop_on: str = "",
        stop: str = "flag",
        log: Logger | list[Logger] | None = None,
        out: str | os.PathLike[str] | None = None,
        pairs: int = 64,
        seed: int = 0,
        mode: Any = "eval",
    ) -> None:
        self.data, self.pairs, self.seed, self.mode = data, pairs, seed, mode
        self.rows: list[dict[str, Any]] = []
        for option, wanted in (("warn_on", warn_on), ("stop_on", stop_on)):
            refuse_unknown(wanted, option, levels=True)
        if stop not in ("flag", "raise"):
            raise InputError(f"stop = {stop!r} must be 'flag' (step returns True) or 'raise'")
        self.every, self.warn_on, self.stop_on, self.stop = check_count("every", every), warn_on, stop_on, stop
        self.loggers = log if isinstance(log, list) else [] if log is None else [log]
        self.out, self.report = out, None
        self.stopped_by: tuple[Finding, ...] = ()
        self._known: set[str] = set()
        self._calls = 0

    report: Report | None
    """Report before training; None before `start`."""

    def start(self, model: nn.Module) -> Report:
        """Return the report before training, with suggested fixes; write it to ``out`` and log it as step 0."""
        options: dict[str, Any] = {"pairs": self.pairs, "seed": self.seed, "mode": self.mode}
        self.report = inspect(model, self.data, **options)
        if self.out is not None:
            self.report.to_html(self.out)
        self._warn_and_log(self.report, 0)
        self._check(self.report)
        return self.report

    def step(self, model: nn.Module, step: int) -> bool:
        """Inspect the model if this call is due, and return whether to stop training."""
        self._calls += 1
        if (self._calls - 1) % self.every == 0:
            report = self.observe(model, step)
            self._warn_and_log(report, step)
            self._check(report)
        return bool(self.stopped_by)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per call."""
        return list(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"rows": …}``."""
        return {"rows": plain(self.rows)}

    def __repr__(self) -> str:
        last = f", last: {self.rows[-1]['findings'] or 'no findings'}" if self.rows else ""
        return f"Watch({counted(len(self.rows), 'epoch')}{last})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot preserved angles and scales, and the worst share of dead units, against epochs."""
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
        """Inspect ``model``, add a row without warnings and loggers, and return the row."""
        self.observe(model, epoch)
        return self.rows[-1]

    def observe(self, model: nn.Module, epoch: int) -> Report:
        """Inspect ``model``, add a row, and return the report.

        NaN or infinite weights give the finding not-finite; `inspect` raises an error for them.
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

    def _in_training(self, finding: Finding) -> Finding:
        """Return a finding that training has caused with another fix than new initial weights."""
        at_start = () if self.report is None else [first.code for first in self.report.findings]
        if self.report is None or finding.code in at_start or finding.fix is None or not reinitialized(finding):
            return finding
        return replace(finding, fix=Fix("training", None, _TRAINING))

    def _warn_and_log(self, report: Report, step: int) -> None:
        """Warn of findings that the last check did not have, and log."""
        for finding in failing(report.findings, self.warn_on, "warn_on"):
            if finding.code not in self._known:
                warnings.warn(f"initscope, step {step}: {self._in_training(finding)}", stacklevel=4)
        self._known = {finding.code for finding in report.findings}
        for logger in self.loggers:
            logger(scalars(report), step)

    def _check(self, report: Report) -> None:
        self.stopped_by = tuple(failing(report.findings, self.stop_on, "stop_on")) if self.stop_on else ()
        if self.stopped_by and self.stop == "raise":
            raise TrainingStopped("; ".join(map(str, self.stopped_by)))


def _broken(error: WeightsNotFinite) -> Report:
    """Return the report on a model whose weights training has broken: one finding, as nothing else can be measured."""
    layer = error.parameter.rpartition(".")[0] or error.parameter
    advice = "go back to weights that are finite, and train with a smaller learning rate or clipped gradients"
    message = f"{error.parameter} holds NaN or infinite values."
    check = checks("not-finite")[0]
    finding = Finding(check.code, check.name, "error", layer, None, None, message, Fix("finite weights", None, advice))
    return Report(error.seen, None, None, (finding,), None, Thresholds(), reason=NOT_ASKED, checks=1)
