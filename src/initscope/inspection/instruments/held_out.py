"""Generalization within a trial: predictions for held-out samples, and outputs in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.randomness import generator
from initscope.graph import Batch, map_tensors
from initscope.inspection.instruments.outputs import Loss, loss_value, real_tensors, replace_tensors
from initscope.inspection.instruments.training import Run, Setup, train

__all__ = ["HeldOut", "ModeComparison", "evaluated", "held_out"]

_FEWEST = 16
"""Fewest samples of a half."""
_PERMUTATIONS = 60
_SETTLING = 200
"""Number of forward passes after which running statistics count as settled."""
_SAME_ORDER = 0.99
"""Rank correlation from which outputs in evaluation mode are those of training mode on another scale."""


@dataclass(frozen=True)
class HeldOut:
    """Standard deviations by which predictions for held-out samples are better than chance.

    Attributes
    ----------
    model : float
        For predictions of the copies, in training or in evaluation mode, whichever is better.
    neighbors : float or None
        For the copies' answers at the nearest training sample; None if unknown.
    """

    model: float
    neighbors: float | None


def held_out(
    setup: Setup, steps: int, stop: Callable[[list[float]], bool], record: Callable[[Run], None]
) -> HeldOut | None:
    """Train a copy on one half of the batch and predict the other half, and the other way around.

    The loss is compared with losses for permuted targets: the mean over permutations minus the loss, divided by their
    standard deviation. None if there are too few samples.
    """
    batch, scores = setup.batch, []
    count = len(batch)
    if count < 2 * _FEWEST or batch.targets is None:
        return None
    for first in (0, 1):
        chosen = torch.arange(count) % 2 == first
        half, rest = (batch.pick(torch.where(index)[0]) for index in (chosen, ~chosen))
        run = train(setup, steps, stop=stop, batch=half)
        record(run)
        if run.failed or run.cut or run.model is None:
            return None
        answers = [_output(run.model, rest), _nearest_answers(_output(run.model, half), half, rest)]
        answers.append(_output(run.model.eval(), rest))
        scores.append([_beats_chance(setup.loss, answer, rest, setup.seed) for answer in answers])
    training, neighbors, evaluation = (_joined(values) for values in zip(*scores, strict=True))
    known = [score for score in (training, evaluation) if score is not None]
    return HeldOut(max(known), neighbors) if known else None


def _joined(scores: tuple[float | None, ...]) -> float | None:
    """Return the combined score of both halves."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) ** 0.5 if len(known) == len(scores) else None


def _output(model: nn.Module, batch: Batch) -> Any:
    inputs = batch.inputs.map(torch.clone)
    with torch.no_grad():
        return model(*inputs.args, **inputs.kwargs)


def _nearest_answers(output: Any, known: Batch, others: Batch) -> Any:
    """Return, for each of the ``others``, the output at the nearest of the ``known`` samples.

    None if outputs have no sample axis, or if inputs are ids: an embedding learns nothing about other ids.
    """
    rows = all(tensor.dim() and len(tensor) == len(known) for tensor in real_tensors(output))
    if not rows or not all(tensor.is_floating_point() for tensor in known.inputs.sample_tensors()):
        return None
    distance = torch.zeros(len(others), len(known), dtype=torch.float64)
    for near, far in zip(known.inputs.sample_tensors(), others.inputs.sample_tensors(), strict=True):
        a, b = (values.detach().reshape(len(values), -1).double().cpu() for values in (near, far))
        deviation = a.std(dim=0).clamp_min(1e-12)
        distance += torch.cdist(b / deviation, a / deviation).square() / a.shape[1]
    nearest = distance.argmin(dim=1)
    return replace_tensors(output, lambda t: t[nearest.to(t.device)] if t.dim() and len(t) == len(known) else t)


def _beats_chance(loss: Loss | None, output: Any, batch: Batch, seed: int) -> float | None:
    """Return the mean loss for permuted targets minus the loss for the real ones, in standard deviations."""
    if output is None:
        return None
    draws, values, targets, count = generator(seed, "targets of other samples"), [], batch.targets, len(batch)
    with torch.no_grad():
        real = float(loss_value(loss, output, targets))
        for _ in range(_PERMUTATIONS):
            order = torch.as_tensor(draws.permutation(count))
            values.append(float(loss_value(loss, output, _ordered(targets, order, count))))
    deviation = float(np.std(values))
    known = np.isfinite(real) and np.isfinite(deviation) and deviation > 0
    return (float(np.mean(values)) - real) / deviation if known else None


def _ordered(targets: Any, order: Tensor, count: int) -> Any:
    return map_tensors(targets, lambda t: t[order.to(t.device)] if t.dim() and len(t) == count else t)


@dataclass(frozen=True)
class ModeComparison:
    """Losses of a trained copy on its own batch, and whether outputs mean the same in both modes.

    Attributes
    ----------
    training, evaluation : float
        In training mode, and in evaluation mode after running statistics have settled.
    same_order : bool
        Whether outputs have the same order in both modes, as those of a softmax or on another scale have.
    """

    training: float
    evaluation: float
    same_order: bool


def evaluated(
    run: Run, batch: Batch, loss: Loss | None, worse: Callable[[float, float], bool]
) -> ModeComparison | None:
    """Evaluate the copy of a run in both modes.

    If evaluation mode is ``worse``, running statistics get many more passes without updates of the weights, because a
    trial is too short for them.
    """
    if run.model is None or batch.targets is None:
        return None
    model = run.model
    trained = _output(model.train(), batch)
    training = _loss_of(loss, trained, batch)
    evaluated = _output(model.eval(), batch)
    if worse(training, _loss_of(loss, evaluated, batch)):
        model.train()
        for _ in range(_SETTLING):
            _output(model, batch)
        evaluated = _output(model.eval(), batch)
    return ModeComparison(training, _loss_of(loss, evaluated, batch), _same_order(trained, evaluated))


def _loss_of(loss: Loss | None, output: Any, batch: Batch) -> float:
    with torch.no_grad():
        return float(loss_value(loss, output, batch.targets))


def _same_order(first: Any, second: Any) -> bool:
    """Return whether the real tensors of two outputs have the same order, overall or within each sample."""
    pairs = list(zip(real_tensors(first), real_tensors(second), strict=False))
    if not pairs or any(a.shape != b.shape or not a.dim() for a, b in pairs):
        return True  # outputs of another form are not compared
    return all(
        any(_rank_correlation(a.reshape(rows, -1), b.reshape(rows, -1)) > _SAME_ORDER for rows in (1, len(a)))
        for a, b in pairs
    )


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    """Return the mean rank correlation over the rows; 0 if a row has one value."""
    if first.shape[1] < 2:
        return 0.0
    ranks = torch.stack([values.argsort(dim=1).argsort(dim=1).double() for values in (first, second)])
    ranks = ranks - ranks.mean(dim=2, keepdim=True)
    return float(((ranks[0] * ranks[1]).sum(1) / ranks[0].square().sum(1)).mean())
