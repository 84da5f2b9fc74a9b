"""Losses by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from initscope.errors import InputError, did_you_mean
from initscope.inspection.instruments.outputs import Loss, real_tensors
from initscope.inspection.instruments.scores import class_axis
from initscope.models.loading import load_factory

__all__ = ["LOSSES", "NamedLoss", "loss_named"]


@dataclass(frozen=True)
class NamedLoss:
    """A PyTorch loss for model outputs: in a tuple or a dict the first tensor of real numbers counts.

    Attributes
    ----------
    name : str
        Name on the command line.
    function : callable
        The PyTorch function.
    classes : bool
        Whether targets are classes, so that they lack the class axis; otherwise targets become real numbers, in the
        shape of the output if they have the same number of values.
    """

    name: str
    function: Callable[[Tensor, Tensor], Tensor]
    classes: bool = False

    @property
    def __name__(self) -> str:
        """Name in reports, as of a function."""
        return self.name

    def __call__(self, output: Any, targets: Any) -> Tensor:
        """Return the loss of outputs for these targets."""
        scores = next(iter(real_tensors(output)), None)
        if scores is None or not isinstance(targets, Tensor):
            raise InputError(f"loss = {self.name!r} takes tensors; pass a function of output and targets as loss=")
        if self.classes:
            axis = class_axis(scores, targets)
            if axis is not None:
                return self.function(scores.movedim(axis, 1), targets.long())
            return self.function(scores, targets)
        wanted = targets.to(scores.dtype)
        return self.function(scores, wanted.reshape(scores.shape) if wanted.numel() == scores.numel() else wanted)


def _divergence(output: Tensor, targets: Tensor) -> Tensor:
    return F.kl_div(output, targets, reduction="batchmean")


LOSSES: dict[str, NamedLoss] = {
    loss.name: loss
    for loss in (
        NamedLoss("cross-entropy", F.cross_entropy, classes=True),
        NamedLoss("nll", F.nll_loss, classes=True),
        NamedLoss("multi-margin", F.multi_margin_loss, classes=True),
        NamedLoss("mse", F.mse_loss),
        NamedLoss("l1", F.l1_loss),
        NamedLoss("huber", F.huber_loss),
        NamedLoss("smooth-l1", F.smooth_l1_loss),
        NamedLoss("bce", F.binary_cross_entropy),
        NamedLoss("bce-with-logits", F.binary_cross_entropy_with_logits),
        NamedLoss("kl-div", _divergence),
        NamedLoss("poisson-nll", F.poisson_nll_loss),
        NamedLoss("soft-margin", F.soft_margin_loss),
    )
}
"""By name."""
_OTHER_NAMES = {
    "ce": "cross-entropy", "crossentropy": "cross-entropy", "nll-loss": "nll", "mean-squared-error": "mse", "mae": "l1",
    "binary-cross-entropy": "bce", "bce-logits": "bce-with-logits", "kl": "kl-div", "poisson": "poisson-nll",
}  # fmt: skip


def loss_named(name: str) -> Loss:
    """Return the loss of that name; ``module:function`` and ``file.py:function`` take output and targets."""
    key = name.lower().replace("_", "-").removesuffix("-loss")
    key = _OTHER_NAMES.get(key, key)
    if key in LOSSES:
        return LOSSES[key]
    if ":" not in name:
        raise InputError(
            f"loss = {name!r} is unknown{did_you_mean(key, LOSSES)}; use one of {', '.join(LOSSES)}, or module:function"
        )
    function = load_factory(name)
    if isinstance(function, type):  # a class such as torch.nn:CrossEntropyLoss
        function = function()
    if not callable(function):
        raise InputError(f"loss = {name!r} is a {type(function).__name__}; give a function of output and targets")
    loss: Loss = function
    return loss
