"""What a loss reads from outputs and targets: its value at initialization, the axis of the classes, the targets."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.inspection.instruments import outputs
from initscope.inspection.instruments.outputs import Loss, real_tensors
from initscope.measurement.observation import Observation

__all__ = ["Reading", "cross_entropy_of", "loss_value", "read"]

_SAME = 1e-4
"""Relative difference up to which a loss counts as one of torch's."""


@dataclass(frozen=True)
class Reading:
    """How the loss reads the outputs, as far as it is known.

    Attributes
    ----------
    loss, chance : float or None
        Cross-entropy at initialization, and that of a uniform guess, ln K; None if the outputs are not logits.
    second_axis : bool
        Whether the loss takes the second axis of the outputs as the classes, although the last one has the same length.
    target_size : float
        Root mean square of real-valued targets, one per output, over that of the outputs, or over 1 if that is
        larger.
    own_tokens : bool
        Whether the loss wants each position of a sequence to predict its own token.
    reads_targets : bool
        Whether the loss changes when samples have other targets.
    """

    loss: float | None = None
    chance: float | None = None
    second_axis: bool = False
    target_size: float = 0.0
    own_tokens: bool = False
    reads_targets: bool = False


def loss_value(output: Any, targets: Any, loss: Loss | None, classified: tuple[Tensor, float] | None) -> Tensor:
    """Return the given loss, else the cross-entropy, else a random projection of everything that the model returns."""
    if loss is not None and targets is not None:
        return outputs.loss_value(loss, output, targets)
    if classified is not None and isinstance(output, Tensor):
        return classified[0]
    every = real_tensors(output)
    real = [tensor for tensor in every if tensor.requires_grad] or every  # in a frozen model no tensor does
    generator = torch_generator(0, "direction of the output")
    parts = [(tensor * torch.randn(tensor.shape, generator=generator).to(tensor)).mean() for tensor in real]
    return torch.stack([part.float() for part in parts]).sum()


def cross_entropy_of(output: Any, targets: Any, seen: Observation, model: nn.Module) -> tuple[Tensor, float] | None:
    """Return loss and ln K if the first output holds logits: of the classes in ``targets``, or of a vocabulary."""
    logits = next((tensor for tensor in real_tensors(output) if tensor.dim() > 1), None)
    if logits is None or seen.rows[seen.output].traits.probabilities == "probability":
        return None
    classes = logits.shape[-1]
    if not _are_classes(targets, classes):
        ids = seen.x if isinstance(seen.x, Tensor) else None
        vocabularies = {m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)}
        causal = ids is not None and not ids.is_floating_point() and ids.dim() == 2 and logits.dim() == 3
        if not causal or ids is None or logits.shape[1] != ids.shape[1] or classes not in vocabularies:
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
    """Return how the loss with this ``value`` reads the outputs; ``classified`` is the result of `cross_entropy_of`."""
    initial, chance = (None, None) if classified is None else (float(classified[0].detach()), classified[1])
    if loss is None or not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return Reading(initial, chance)
    asks_for_own = _asks_for_own_tokens(output, value, inputs)
    with warnings.catch_warnings():  # the loss may warn of shapes that it does not expect
        warnings.simplefilter("ignore")
        axis = _takes_second_axis(output, targets, value)
    return Reading(
        initial, chance, axis, _target_size(output, targets), asks_for_own, _reads_targets(output, targets, loss, value)
    )


def _reads_targets(output: Tensor, targets: Tensor, loss: Loss, value: Tensor) -> bool:
    first = targets.clone()
    first[0] = targets[-1]  # changes the mean over the samples
    changes = [other for other in (targets.roll(1, 0), first) if not torch.equal(other, targets)]
    if not changes:  # all targets are equal
        changes = [targets + 1 if targets.is_floating_point() else (targets == 0).to(targets.dtype)]
    with suppress(Exception), torch.no_grad():  # a loss that takes no other targets
        return any(bool(value.detach() != loss(output.detach(), other)) for other in changes)
    return False


def _takes_second_axis(output: Tensor, targets: Tensor, value: Tensor) -> bool:
    """Return whether the loss is PyTorch's cross-entropy and takes the second axis of ``[N, K, K]`` as the classes."""
    square = output.dim() == 3 and output.shape[1] == output.shape[2] > 1
    if not square or not _are_classes(targets, output.shape[1]) or targets.shape != output.shape[:2] or value.dim():
        return False
    scores = output.detach().float()
    both = [F.cross_entropy(logits, targets.long()) for logits in (scores, scores.mT)]
    second, last = (bool(torch.isclose(value.detach().float(), expected, rtol=_SAME)) for expected in both)
    return second and not last


def _target_size(output: Tensor, targets: Tensor) -> float:
    """Return the scale of real-valued targets over that of the outputs, or over 1; 0 for targets of other shapes."""
    if not targets.is_floating_point() or output.numel() != targets.numel():
        return 0.0
    sizes = [float(values.detach().double().square().mean().sqrt()) for values in (targets, output)]
    return sizes[0] / max(1.0, sizes[1])


def _asks_for_own_tokens(output: Any, value: Tensor, inputs: list[Tensor]) -> bool:
    """Return whether the loss wants each position of a sequence to predict its own token.

    The gradient of a cross-entropy is negative at the target class, however the targets were shifted.
    """
    logits = next((tensor for tensor in real_tensors(output) if tensor.dim() == 3), None)
    if logits is None or not logits.requires_grad or not value.requires_grad:
        return False
    whole = [tensor for tensor in inputs if not tensor.is_floating_point() and tensor.shape == logits.shape[:2]]
    ids = [tensor for tensor in whole if len(torch.unique(tensor)) > 2]
    with suppress(RuntimeError):  # the loss may not depend on the logits
        (slopes,) = torch.autograd.grad(value, logits, retain_graph=True)
        wanted = slopes.argmin(dim=-1)
        return any(bool((slopes != 0).any(dim=-1).all()) and torch.equal(wanted, tokens.long()) for tokens in ids)
    return False


def _are_classes(targets: Any, classes: int) -> bool:
    whole = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.numel() > 0
    return whole and bool((targets >= 0).all()) and bool((targets < classes).all())
