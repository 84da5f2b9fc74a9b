"""The meaning of outputs, from shapes and values: which axis holds the classes, and whether they are probabilities."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["ROUNDING", "OutputKind", "class_axis", "output_kind"]

OutputKind = Literal["probabilities", "log-probabilities", "unit interval", "scores"]

ROUNDING = 1e-2
"""Largest distance of a sum of probabilities from 1, also in half precision."""
_FEWEST = 8
"""Number of values in [0, 1] from which outputs count as those of a sigmoid."""


def class_axis(scores: Tensor, targets: Any) -> int | None:
    """Return the class axis: without it ``scores`` has the shape of integer ``targets``; None if there is none.

    If there are several, it is the last one for sequences ``[N, T, V]`` and the second for maps ``[N, C, H, W]``.

    >>> class_axis(torch.zeros(4, 10), torch.zeros(4).long())
    1
    >>> class_axis(torch.zeros(4, 7, 7), torch.zeros(4, 7).long())
    2
    >>> class_axis(torch.zeros(4, 3, 8, 8), torch.zeros(4, 8, 8).long())
    1
    """
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dtype == torch.bool:
        return None
    if targets.dim() != scores.dim() - 1:
        return None
    shape = scores.shape
    axes = [axis for axis in range(1, scores.dim()) if targets.shape == shape[:axis] + shape[axis + 1 :]]
    if not axes:
        return None
    return axes[-1] if scores.dim() == 3 else axes[0]


def output_kind(scores: Tensor, axis: int = -1) -> OutputKind:
    """Return the kind of outputs: class probabilities along ``axis``, their logarithms, those of two classes, any."""
    values = scores.detach().float()
    if values.dim() > 1 and values.shape[axis] > 1:
        if bool((values >= 0).all()) and bool(((values.sum(dim=axis) - 1).abs() < ROUNDING).all()):
            return "probabilities"
        if bool((values <= 0).all()) and bool((values.logsumexp(dim=axis).abs() < ROUNDING).all()):
            return "log-probabilities"
    inside = bool(((values >= 0) & (values <= 1)).all())
    return "unit interval" if inside and values.numel() >= _FEWEST else "scores"
