"""A report as a few dozen scalars, and where to send them: TensorBoard, Weights & Biases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.libraries import library

if TYPE_CHECKING:
    from initscope.inspection import Report

__all__ = ["scalars", "tensorboard_logger", "wandb_logger"]

_COLUMNS = {
    "cosine_measured": "cosine",
    "rms_ratio_measured": "size",
    "gradient_over_last": "gradient",
    "dead_fraction": "dead",
    "effective_rank": "rank",
}
_MOST_BLOCKS = 6


def scalars(report: Report) -> dict[str, float]:
    """``{"initscope/size/0.conv": 0.9, …}``: a few dozen numbers, whatever the depth.

    Of six blocks evenly over the depth, the last included, the mean cosine of pairs, the size over the input's, the
    gradient over the last layer's, dead units and rank; ``initscope/healthy`` and, for each finding,
    ``initscope/finding/NAME`` = 1.
    """
    blocks = report.blocks()[1:]
    places = np.unique(np.linspace(0, len(blocks) - 1, min(len(blocks), _MOST_BLOCKS)).round().astype(int))
    found = {"initscope/healthy": float(report.healthy)}
    for place in places if blocks else ():
        for column, name in _COLUMNS.items():
            value = blocks[place][column]
            if value is not None and math.isfinite(value):
                found[f"initscope/{name}/{place:02d}.{blocks[place]['layer']}"] = float(value)
    return found | {f"initscope/finding/{finding.name}": 1.0 for finding in report.findings}


def tensorboard_logger(writer: Any) -> Callable[[Mapping[str, float], int], None]:
    """Logs to a ``torch.utils.tensorboard.SummaryWriter``, or to one that is made for the folder given."""
    if not hasattr(writer, "add_scalar"):
        writer = library("torch.utils.tensorboard", of="tensorboard").SummaryWriter(str(writer))

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def wandb_logger(run: Any = None) -> Callable[[Mapping[str, float], int], None]:
    """Logs to a run of Weights & Biases; None: to the one that ``wandb.init`` has begun.

    The step is logged as ``initscope/step``: the run's own counter belongs to the training loop.
    """
    if run is None:
        run = library("wandb")

    def log(values: Mapping[str, float], step: int) -> None:
        run.log({**values, "initscope/step": step})

    return log
