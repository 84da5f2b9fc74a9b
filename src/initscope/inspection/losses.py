"""What a loss makes of outputs and targets: its value at the start, and what it takes the outputs for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.graph import named_tensors
from initscope.measurement.observation import Observation

__all__ = ["Loss", "Reading", "cross_entropy_of", "loss_value", "read"]

Loss = Callable[[Any, Any], Tensor]
_SAME = 1e-4
"""Relative difference up to which a loss is taken for one of torch's."""


@dataclass(frozen=True)
class Reading:
    """What a loss takes the outputs for, as far as it is known.

    Attributes
    ----------
    loss, chance : float or None
        Cross-entropy at the start, and that of a uniform guess, ln K; None where the outputs are not known for logits.
    classes : int
        How many the targets are of; 0 if they are none.
    at_ends : float
        Share of their outputs that are the smallest or the largest of all.
    takes_logits : bool
        Whether the loss that was given is a cross-entropy of logits, of classes or of two.
    misread : str
        What is wrong with what the loss takes the outputs for, empty if nothing is known to be.
    second_axis : bool
        Whether the loss takes the second axis of the outputs for the classes where the last one is as long.
    broadcast : bool
        Whether outputs and targets are of as many values in different shapes, and the loss compares all with all.
    distance : bool
        Whether the loss that was given is none where outputs are equal to real-valued targets, one for each.
    target_size : float
        Root mean square of such targets over that of the outputs, or over 1 if that is more.
    own_words : bool
        Whether the loss wants of every place of a sequence the entry that stands there.
    """

    loss: float | None = None
    chance: float | None = None
    classes: int = 0
    at_ends: float = 0.0
    takes_logits: bool = False
    misread: str = ""
    second_axis: bool = False
    broadcast: bool = False
    distance: bool = False
    target_size: float = 0.0
    own_words: bool = False


def loss_value(output: Any, targets: Any, loss: Loss | None, classified: tuple[Tensor, float] | None) -> Tensor:
    """The loss that is given, else the cross-entropy, else a random projection of all that the model returns."""
    if loss is not None and targets is not None:
        return loss(output, targets)
    if classified is not None and isinstance(output, Tensor):
        return classified[0]
    real = [tensor for _, tensor in named_tensors(output, "") if tensor.is_floating_point() and tensor.requires_grad]
    generator = torch_generator(0, "direction of the output")
    parts = [(tensor * torch.randn(tensor.shape, generator=generator).to(tensor)).mean() for tensor in real]
    return torch.stack([part.float() for part in parts]).sum()


def cross_entropy_of(output: Any, targets: Any, seen: Observation, model: nn.Module) -> tuple[Tensor, float] | None:
    """Loss and ln K where the first output holds logits: of classes that are given, or of the words of a vocabulary."""
    logits = next((t for _, t in named_tensors(output, "") if t.is_floating_point() and t.dim() > 1), None)
    if logits is None or seen.rows[seen.output].kind.lower() in ("softmax", "sigmoid"):
        return None
    classes = logits.shape[-1]
    if not _are_classes(targets, classes):
        ids = seen.x if isinstance(seen.x, Tensor) else None
        words = {m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)}
        causal = ids is not None and not ids.is_floating_point() and ids.dim() == 2 and logits.dim() == 3
        if not causal or ids is None or logits.shape[1] != ids.shape[1] or classes not in words:
            return None
        logits, targets = logits[:, :-1], ids[: len(logits), 1:]
    if tuple(targets.shape) != tuple(logits.shape[:-1]) or classes < 2:
        return None
    flat = logits.float().reshape(-1, classes)
    return F.cross_entropy(flat, targets.reshape(-1).long().to(flat.device)), math.log(classes)


def read(
    output: Any,
    targets: Any,
    loss: Loss | None,
    value: Tensor,
    classified: tuple[Tensor, float] | None,
    inputs: list[Tensor],
) -> Reading:
    """What the ``loss`` of this ``value`` takes the output for; ``classified`` is what `cross_entropy_of` says."""
    with warnings.catch_warnings():  # shapes are tried that the loss may warn of
        warnings.simplefilter("ignore")
        found = _of_classes(output, targets, loss, value) | _of_values(output, targets, loss, value)
    if classified is not None:
        found |= {"loss": float(classified[0].detach()), "chance": classified[1]}
    return Reading(**found, own_words=loss is not None and _asks_for_own_words(output, value, inputs))


def _of_classes(output: Any, targets: Any, loss: Loss | None, value: Tensor) -> dict[str, Any]:
    """How many classes there are, and whether the loss is the cross-entropy of the output taken for logits.

    Classes lie on the second axis, as torch has it; ``misread`` says what is wrong if what is taken for logarithms of
    probabilities is none, ``second_axis`` that the last axis is as long and could hold the classes too.
    """
    if not isinstance(output, Tensor) or output.dim() < 2 or not _are_classes(targets, output.shape[1]):
        return {}
    if tuple(targets.shape) != (len(output), *output.shape[2:]) or output.shape[1] < 2:
        return {}
    scores, told = output.detach().float(), targets.long()
    found: dict[str, Any] = {"classes": int(output.shape[1])} if output.dim() == 2 else {}
    ends = (scores == scores.min()) | (scores == scores.max())
    found |= {"at_ends": float(ends.float().mean())}
    if loss is None or value.dim():
        return found

    def is_it(expected: Tensor) -> bool:
        return bool(torch.isclose(value.detach().float(), expected, rtol=_SAME))

    coarse = max(1e-3, 20 * torch.finfo(output.dtype).eps)
    if is_it(F.nll_loss(scores, told)) and not bool((scores.logsumexp(dim=1).abs() < coarse).all()):
        shares = bool((scores >= 0).all()) and bool(((scores.sum(dim=1) - 1).abs() < coarse).all())
        kind = "probabilities" if shares else "scores that are not normalised over the classes"
        return found | {"misread": f"the loss takes logarithms of probabilities, and the outputs are {kind}"}
    of_logits = is_it(F.cross_entropy(scores, told))
    if output.dim() == 2:
        return found | {"takes_logits": of_logits}
    turned = output.dim() == 3 and output.shape[1] == output.shape[2]
    return {"second_axis": of_logits and turned and not is_it(F.cross_entropy(scores.mT, told))}


def _of_values(output: Any, targets: Any, loss: Loss | None, value: Tensor) -> dict[str, Any]:
    """What the loss makes of real-valued targets, one for each output: logits of two, all with all, a distance."""
    if loss is None or not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return {}
    if not targets.is_floating_point() or output.numel() != targets.numel() or value.dim():
        return {}
    shaped = output.detach().reshape(targets.shape)
    if output.shape == targets.shape and output.dim() > 1 and _is_divergence(shaped.float(), targets.float(), value):
        return {"misread": "the loss takes logarithms of probabilities, and the outputs are none over the last axis"}
    of_two = bool(((targets >= 0) & (targets <= 1)).all())
    expected = F.binary_cross_entropy_with_logits(shaped.float(), targets.float()) if of_two else value
    logits = of_two and bool(torch.isclose(value.float(), expected, rtol=_SAME))
    if logits:
        return {"takes_logits": True}
    with suppress(Exception):  # a loss may take outputs of the model's own shape only
        if output.shape != targets.shape and float(loss(targets.to(output), targets)) == 0:
            return {"broadcast": not bool(torch.isclose(loss(shaped, targets), value.detach(), rtol=_SAME))}
    if not float(loss(targets.to(output).reshape(output.shape), targets)) == 0 < float(value.detach()):
        return {}
    sizes = [float(values.detach().double().square().mean().sqrt()) for values in (targets, output)]
    return {"distance": True, "target_size": sizes[0] / max(1.0, sizes[1])}


def _asks_for_own_words(output: Any, value: Tensor, inputs: list[Tensor]) -> bool:
    """Whether the loss wants of every place of a sequence the entry that stands there.

    The gradient of a cross-entropy is negative at the class that it wants, wherever targets were moved to.
    """
    logits = next((t for _, t in named_tensors(output, "") if t.is_floating_point() and t.dim() == 3), None)
    if logits is None or not logits.requires_grad or not value.requires_grad:
        return False
    whole = [tensor for tensor in inputs if not tensor.is_floating_point() and tensor.shape == logits.shape[:2]]
    words = [tensor for tensor in whole if len(torch.unique(tensor)) > 2]
    with suppress(RuntimeError):  # what the loss is not made of
        (slopes,) = torch.autograd.grad(value, logits, retain_graph=True)
        wanted = slopes.argmin(dim=-1)
        return any(bool((slopes != 0).any(dim=-1).all()) and torch.equal(wanted, ids.long()) for ids in words)
    return False


def _is_divergence(scores: Tensor, shares: Tensor, value: Tensor) -> bool:
    """Whether the loss is torch's divergence from probabilities, of outputs that are no logarithms of any."""
    if not bool((shares >= 0).all()) or not bool(((shares.sum(dim=-1) - 1).abs() < 1e-3).all()):
        return False
    known = [F.kl_div(scores, shares, reduction=how) for how in ("batchmean", "sum", "mean")]
    if not any(bool(torch.isclose(value.detach().float(), one, rtol=_SAME)) for one in known):
        return False
    return not bool((scores.logsumexp(dim=-1).abs() < 1e-2).all())


def _are_classes(targets: Any, classes: int) -> bool:
    whole = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.numel() > 0
    return whole and bool((targets >= 0).all()) and bool((targets < classes).all())
