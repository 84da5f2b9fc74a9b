"""`Watch`: inspect a model before and during training, warn about new findings, and stop training if requested."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from initscope.errors import InputError, check_count
from initscope.inspection import EpochLog, Finding, Report, inspect
from initscope.inspection._checks import failing, refuse_unknown
from initscope.integrations.loggers import scalars

__all__ = ["TrainingStopped", "Watch"]

Logger = Callable[[Mapping[str, float], int], None]


class TrainingStopped(RuntimeError):
    """Raised by `Watch` if a finding matches ``stop_on``; the message is the finding."""


class Watch(EpochLog):
    """Inspect a model before and during training, with a warning for every new finding.

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
        Called with a dict of scalars and the step: `tensorboard_logger`, `wandb_logger`, or any function.
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
        super().__init__(data, pairs=pairs, seed=seed, mode=mode)
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

    def _warn_and_log(self, report: Report, step: int) -> None:
        """Warn about findings that the last report did not have, and log the scalars."""
        for finding in failing(report.findings, self.warn_on, "warn_on"):
            if finding.code not in self._known:
                warnings.warn(f"initscope, step {step}: {finding}", stacklevel=4)
        self._known = {finding.code for finding in report.findings}
        for logger in self.loggers:
            logger(scalars(report), step)

    def _check(self, report: Report) -> None:
        self.stopped_by = tuple(failing(report.findings, self.stop_on, "stop_on")) if self.stop_on else ()
        if self.stopped_by and self.stop == "raise":
            raise TrainingStopped("; ".join(map(str, self.stopped_by)))
