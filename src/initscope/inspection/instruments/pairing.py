"""Which outputs each target is compared with: change one target and see where the gradient of the loss changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.graph import Batch
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.free_output import FreeOutput
from initscope.inspection.instruments.outputs import Loss, loss_value
from initscope.results import Result

__all__ = ["Pairing", "examine_pairing"]

_SAMPLES = 29
"""Largest number of samples in the batch: few other axes are that long."""
_PROBES = 12
"""Number of targets that are changed, one at a time."""
_CLEAR = 0.5
"""Share of the largest change from which an output counts as compared with a target."""
_NONE = 1e-2
"""Share of the largest change below which an output counts as unrelated to a target."""


@dataclass(frozen=True)
class Pairing(Result):
    """The outputs that the loss compares with changed targets, as shares of the changed targets that have an effect.

    Attributes
    ----------
    probed : int
        Number of targets whose change has an effect; they are changed one at a time.
    other_samples : float
        Share whose change affects outputs of other samples, but not those of their own sample.
    other_positions : float
        Share whose change affects several positions of their sample, but not their own.
    """

    probed: int = 0
    other_samples: float = 0.0
    other_positions: float = 0.0


def examine_pairing(
    model: nn.Module, inputs: Any, targets: Any, loss: Loss | None, *, samples: int = _SAMPLES, seed: int = 0
) -> Pairing | None:
    """Change single targets of a batch and record at which outputs the gradient of the loss changes.

    Call it inside of `borrowed`. None if the loss reads several tensors or is random, if the axes of outputs and
    targets do not correspond, or if something raises.

    Parameters
    ----------
    model : nn.Module
        Runs once, in training mode.
    inputs, targets, loss
        See `examine_head`.
    samples : int
        Largest number of samples.
    seed : int
        Seed of the choice of samples and targets.
    """
    try:
        batch = draw_batch(model, inputs, targets, samples, seed)
        torch.manual_seed(seed)
        given = batch.inputs.map(torch.clone)
        with torch.no_grad():
            output = model.train()(*given.args, **given.kwargs)
        return _paired(output, batch, loss, seed)
    except Exception:  # whatever the model or the loss raises: other instruments report it
        return None


def _paired(output: Any, batch: Batch, loss: Loss | None, seed: int) -> Pairing | None:
    targets, samples = batch.targets, len(batch)
    if loss is None or not isinstance(targets, Tensor) or targets.shape[:1] != (samples,) or samples < 2:
        return None
    free = FreeOutput(output, targets, loss, samples)
    axes = _corresponding(free.tensors[0].shape, targets.shape, samples) if len(free.tensors) == 1 else None
    if axes is None or samples in targets.shape[1:]:  # it is unclear which axis holds the samples
        return None
    values = free.tensors[0].detach().clone().requires_grad_(True)

    def slope(changed: Tensor) -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(loss_value(loss, free.rebuilt([values]), changed), values)[0].detach()

    before = slope(targets)
    if not torch.equal(before, slope(targets)) or not bool(torch.isfinite(before).all()):
        return None
    effects = [_effect(slope, before, targets, index, axes) for index in _chosen(targets, seed)]
    known = [effect for effect in effects if effect is not None]
    count = max(1, len(known))
    return Pairing(len(known), sum(a for a, _ in known) / count, sum(b for _, b in known) / count)


def _corresponding(outputs: torch.Size, targets: torch.Size, samples: int) -> tuple[int, ...] | None:
    """Return the axis of the outputs for each axis of the targets, by their lengths; None if that is ambiguous."""
    if outputs == targets:
        return tuple(range(len(targets)))
    without = [axis for axis in range(1, len(outputs)) if outputs[:axis] + outputs[axis + 1 :] == targets]
    if without:  # without the axis of the classes
        return tuple(axis for axis in range(len(outputs)) if axis != without[-1 if len(outputs) == 3 else 0])
    axes = tuple(outputs.index(length) for length in targets if length in outputs)
    unique = len(set(axes)) == len(targets) and all(outputs.count(outputs[axis]) == 1 for axis in axes)
    return axes if unique and outputs[axes[0]] == samples else None


def _chosen(targets: Tensor, seed: int) -> list[tuple[int, ...]]:
    """Return random indices of targets."""
    generator = torch_generator(seed, "targets to change")
    flat = torch.randperm(targets.numel(), generator=generator)[:_PROBES]
    return [tuple(int(i) for i in torch.unravel_index(position, targets.shape)) for position in flat]


def _effect(
    slope: Callable[[Tensor], Tensor], before: Tensor, targets: Tensor, index: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[bool, bool] | None:
    """Return whether changing one target affects only other samples, and only other positions of its own sample."""
    others = targets[targets != targets[index]]
    if not len(others):
        return None
    changed = targets.clone()
    changed[index] = others[0]
    change = (slope(changed) - before).abs()
    rest = [axis for axis in range(change.dim()) if axis not in axes]
    change = change.permute(*axes, *rest).flatten(len(axes)).amax(-1) if rest else change.permute(*axes)
    peak = float(change.max())
    if not peak > 0:
        return None
    own_sample = change[index[0]]
    if float(own_sample.max()) < _NONE * peak:
        return True, False
    affected = int((own_sample > _CLEAR * peak).sum())
    several = 1 < affected <= own_sample.numel() // 2
    return False, several and float(own_sample[index[1:]]) < _NONE * peak
