"""`infer_loss`: the loss that targets and outputs suggest where none is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from initscope.inspection.instruments.outputs import own_loss

__all__ = ["InferredLoss", "infer_loss"]


class InferredLoss(NamedTuple):
    """A loss and how it was found; ``loss`` is None where the model computes its own or none is known."""

    loss: Callable[[Any, Any], Tensor] | None
    name: str
    known: bool = True


def infer_loss(output: Any, targets: Any, classes: int = 0, probabilities: bool = False) -> InferredLoss:
    """The model's own loss; cross-entropy of whole-number targets; the squared error of real ones of equal shape.

    Parameters
    ----------
    output, targets : any
        Of a few samples.
    classes : int
        How many classes the targets are of, where the data set says so: another number of outputs has another loss.
    probabilities : bool
        Whether the outputs are probabilities, so that cross-entropy of logits is no safe guess.
    """
    if own_loss(output) is not None:
        return InferredLoss(None, "the model's own loss")
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or not isinstance(targets, Tensor) or probabilities:
        return InferredLoss(None, "", known=False)
    if targets.is_floating_point():
        if targets.shape != logits.shape:
            return InferredLoss(None, "", known=False)
        return InferredLoss(_squared, "mean squared error, assumed: the targets are real numbers of the outputs' shape")
    axis = next((a for a in (1, logits.dim() - 1) if 0 < a < logits.dim() and _without(logits, a) == targets.shape), 0)
    count = logits.shape[axis] if axis else 0
    fits = count > 1 and bool((targets >= 0).all()) and bool((targets < count).all()) and classes in (0, count)
    if not fits:
        return InferredLoss(None, "", known=False)
    name = f"cross-entropy, assumed: the targets are whole numbers and the model has {count} outputs"
    return InferredLoss(_cross_entropy if axis == 1 else _cross_entropy_last, name)


def _without(values: Tensor, axis: int) -> tuple[int, ...]:
    return tuple(values.shape[:axis]) + tuple(values.shape[axis + 1 :])


def _logits(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output.logits


def _squared(output: Any, targets: Any) -> Tensor:
    return F.mse_loss(_logits(output), targets)


def _cross_entropy(output: Any, targets: Any) -> Tensor:
    return F.cross_entropy(_logits(output).float(), targets.long())


def _cross_entropy_last(output: Any, targets: Any) -> Tensor:
    logits = _logits(output)
    return F.cross_entropy(logits.float().flatten(0, -2), targets.long().flatten())
