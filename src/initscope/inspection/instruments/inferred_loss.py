"""The loss that clearly fits outputs and targets, if none is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from initscope.inspection.instruments.loss_names import LOSSES, NamedLoss
from initscope.inspection.instruments.outputs import Loss, loss_value, own_loss, real_tensors
from initscope.inspection.instruments.scores import ROUNDING, OutputKind, class_axis, output_kind

__all__ = ["InferredLoss", "infer_loss"]

_IGNORED = -100
"""The class index that PyTorch's losses ignore."""


class InferredLoss(NamedTuple):
    """An assumed loss: the function, its name, and the reason for it."""

    function: Loss
    name: str
    reason: str


def infer_loss(output: Any, targets: Any, *, kind: OutputKind | None = None) -> InferredLoss | None:
    """Return the loss that fits outputs and targets; None if several do, or none.

    Parameters
    ----------
    output : any
        What the model returns; in a tuple or dict the first tensor of real numbers counts.
    targets : Tensor, or a dict that holds one
        Integers: classes. Real numbers: values.
    kind : str or None
        Kind of the last op, if known; None: what the values look like.
    """
    if own_loss(output) is not None:
        return InferredLoss(_own_loss, "the model's own loss", "the model returns a loss")
    if isinstance(targets, Mapping):
        tensors = [value for value in targets.values() if isinstance(value, Tensor)]
        only = infer_loss(output, tensors[0], kind=kind) if len(tensors) == 1 else None
        return None if only is None else only._replace(function=_of_entry(only.function))
    scores = next((tensor for tensor in real_tensors(output) if tensor.dim()), None)
    if scores is None or not isinstance(targets, Tensor) or not targets.numel() or not scores.numel():
        return None
    axis = class_axis(scores, targets)
    if axis is not None and _fit(targets, scores.shape[axis]):
        return _of_classes(scores, axis, kind or output_kind(scores, axis))
    if targets.numel() != scores.numel():
        return None
    return _of_values(scores, targets, kind or output_kind(scores, -1))


def _of_classes(scores: Tensor, axis: int, kind: OutputKind) -> InferredLoss:
    classes = f"the targets are integers and there are {scores.shape[axis]} outputs, one for each class"
    if kind == "log-probabilities":
        return InferredLoss(LOSSES["nll"], "nll", f"{classes}, which are log-probabilities")
    if kind == "probabilities":
        why = "which are probabilities; cross_entropy would apply a second softmax: pass loss= to be sure"
        return InferredLoss(_NLL_OF_PROBABILITIES, "nll of log(output)", f"{classes}, {why}")
    return InferredLoss(LOSSES["cross-entropy"], "cross-entropy", classes)


def _of_values(scores: Tensor, targets: Tensor, kind: OutputKind) -> InferredLoss | None:
    values = targets.detach().double()
    binary = bool(((values == 0) | (values == 1)).all())
    columns = scores.dim() > 1 and scores.shape[-1] > 1 and targets.shape == scores.shape and scores.dim() == 2
    if columns and bool((values >= 0).all()) and bool(((values.sum(dim=-1) - 1).abs() < ROUNDING).all()):
        shares = "each row of the targets sums to 1, as class probabilities do"
        if kind == "log-probabilities":
            return InferredLoss(LOSSES["kl-div"], "kl-div", f"{shares}, and the outputs are log-probabilities")
        if kind == "probabilities":
            return InferredLoss(LOSSES["mse"], "mse", f"{shares}, and so do the outputs: pass loss= to be sure")
        return InferredLoss(LOSSES["cross-entropy"], "cross-entropy", shares)
    if binary and scores.dim() <= 2:
        reason = "the targets are 0 and 1, one for each output"
        if kind in ("unit interval", "probabilities"):
            return InferredLoss(LOSSES["bce"], "bce", f"{reason}, and the outputs lie between 0 and 1")
        return InferredLoss(LOSSES["bce-with-logits"], "bce-with-logits", f"{reason}, and the outputs are not bounded")
    if not targets.is_floating_point() and targets.shape != scores.shape and scores.shape[-1] != 1:
        return None
    same = "of the output's shape" if targets.shape == scores.shape else "one for each output"
    numbers = "real numbers" if targets.is_floating_point() else "integers other than 0 and 1"
    return InferredLoss(LOSSES["mse"], "mse", f"the targets are {numbers}, {same}")


def _fit(targets: Tensor, classes: int) -> bool:
    labels = targets[targets != _IGNORED]
    return classes > 1 and labels.numel() > 0 and int(labels.min()) >= 0 and int(labels.max()) < classes


def _own_loss(output: Any, targets: Any) -> Tensor:
    return loss_value(None, output, targets)


def _of_entry(loss: Loss) -> Loss:
    """Return the loss applied to the only tensor of a dict of targets."""
    return lambda output, targets: loss(output, next(v for v in targets.values() if isinstance(v, Tensor)))


def _nll_of_probabilities(output: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.nll_loss(output.clamp_min(torch.finfo(output.dtype).tiny).log(), targets)


_NLL_OF_PROBABILITIES = NamedLoss("nll of log(output)", _nll_of_probabilities, classes=True)
