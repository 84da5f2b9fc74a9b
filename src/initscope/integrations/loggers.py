"""Loggers that send a report as a few dozen scalars to TensorBoard, Weights & Biases, MLflow or Aim.

A `Logger` is any function of a dict of numbers and a step; each function here returns one for a library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from initscope._utils.libraries import library

if TYPE_CHECKING:
    from initscope.inspection import Report

__all__ = ["Logger", "aim_logger", "mlflow_logger", "scalars", "tensorboard_logger", "wandb_logger"]

_COLUMNS = {
    "cosine_measured": "cosine",
    "rms_ratio_measured": "size",
    "gradient_over_last": "gradient",
    "dead_fraction": "dead",
    "effective_rank": "rank",
}
_MOST_BLOCKS = 6
_NOT_IN_MLFLOW = re.compile(r"[^\w\-. /]")
"""Characters that MLflow does not allow in names on all systems."""


class Logger(Protocol):
    """A function that records numbers by name at a step: what ``Watch(log=)`` takes."""

    def __call__(self, values: Mapping[str, float], step: int, /) -> None:
        """Record ``values`` at ``step``."""


def scalars(report: Report) -> dict[str, float]:
    """Return a few dozen numbers by name, ``{"initscope/size/0.conv": 0.9, …}``, for networks of any depth.

    Six blocks, evenly spaced and with the last one, have the mean cosine of pairs, the RMS ratio (``size``), the
    gradient divided by that of the last layer, the fraction of dead units, and the rank. ``initscope/healthy`` is 1 or
    0, and each finding adds ``initscope/finding/NAME`` = 1.
    """
    blocks = report.blocks()[1:]
    chosen = np.unique(np.linspace(0, len(blocks) - 1, min(len(blocks), _MOST_BLOCKS)).round().astype(int))
    values = {"initscope/healthy": float(report.healthy)}
    for index in chosen if blocks else ():
        for column, name in _COLUMNS.items():
            value = blocks[index][column]
            if value is not None and math.isfinite(value):
                values[f"initscope/{name}/{index:02d}.{blocks[index]['layer']}"] = float(value)
    return values | {f"initscope/finding/{finding.name}": 1.0 for finding in report.findings}


def tensorboard_logger(writer: Any) -> Logger:
    """Return a logger for a ``torch.utils.tensorboard.SummaryWriter``, or for a folder where one is created."""
    if not hasattr(writer, "add_scalar"):
        writer = library("torch.utils.tensorboard", of="tensorboard").SummaryWriter(str(writer))

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def wandb_logger(run: Any = None) -> Logger:
    """Return a logger for a run of Weights & Biases; None: the run that ``wandb.init`` started.

    The step is logged as ``initscope/step``, because the step counter of the run belongs to the training loop.
    """
    if run is None:
        run = library("wandb")

    def log(values: Mapping[str, float], step: int) -> None:
        run.log({**values, "initscope/step": step})

    return log


def mlflow_logger(run_id: str | None = None) -> Logger:
    """Return a logger for a run of MLflow.

    Parameters
    ----------
    run_id : str, optional
        The run; default: the active one, which is started if there is none.

    Returns
    -------
    Logger
        For ``Watch(log=)``. Characters that MLflow does not allow in names become ``_``.
    """
    mlflow = library("mlflow")

    def log(values: Mapping[str, float], step: int) -> None:
        named = {_NOT_IN_MLFLOW.sub("_", name): value for name, value in values.items()}
        mlflow.log_metrics(named, step=step, **({} if run_id is None else {"run_id": run_id}))

    return log


def aim_logger(run: Any = None) -> Logger:
    """Return a logger for a run of Aim.

    Parameters
    ----------
    run : aim.Run, optional
        The run; default: a new one in the repository of the current folder.

    Returns
    -------
    Logger
        For ``Watch(log=)``.
    """
    if run is None:
        run = library("aim").Run()

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            run.track(value, name=name, step=step)

    return log
