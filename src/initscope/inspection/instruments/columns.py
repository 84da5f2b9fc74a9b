"""Output columns that the loss hardly depends on, although the model can learn them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from initscope._utils.randomness import torch_generator
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.outputs import loss_value
from initscope.inspection.instruments.training import Run, Setup, train

__all__ = ["column_weights", "neglected_columns"]

_NEGLECTED = 1e-3
"""Weight of a column in the loss, over the largest weight, below which it hardly counts."""
_MOST_COLUMNS = 256
_FACTORS = (1.0, 10.0)
"""Factors on Adam's default rate with which all columns are trained with equal weights."""
_LEARNED, _LESS = 0.5, 0.5
"""Least explained share of a column with equal weights, and the largest part of it that the given loss explains."""


def column_weights(setup: Setup) -> Tensor | None:
    """Return the gradient of the loss at each column, for errors that are equal in the targets' standard deviations.

    None if the targets are not columns of real numbers, or if the loss does not take outputs like the targets.
    """
    targets = setup.batch.targets
    if not _has_columns(targets):
        return None
    deviation = targets.std(dim=0)
    noise = torch.randn(targets.shape, generator=torch_generator(setup.seed, "errors of columns")).to(targets)
    output = (targets + noise * deviation).requires_grad_(True)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(loss_value(setup.loss, output, targets), output)
    weights = (slope * deviation).double().square().mean(dim=0).sqrt()
    return weights / weights.max() if bool(torch.isfinite(weights).all()) and bool(weights.max() > 0) else None


def neglected_columns(setup: Setup, run: Run, steps: int, record: Callable[[Run], None]) -> tuple[int, ...]:
    """Return the columns that the loss hardly depends on and that only equal weights make the model learn."""
    weights, targets = column_weights(setup), setup.batch.targets
    if weights is None or run.model is None:
        return ()
    light = [column for column, weight in enumerate(weights.tolist()) if weight < _NEGLECTED]
    varied = targets.std(dim=0) > 0
    light = [column for column in light if bool(varied[column])]
    if not light:
        return ()
    standard = (targets - targets.mean(dim=0)) / torch.where(varied, targets.std(dim=0), torch.ones_like(targets[0]))
    equal = replace(setup, batch=replace(setup.batch, targets=standard), loss=F.mse_loss)
    equal, present = replace(equal, optimizer=OptimizerSpec(None, None)), _explained(run, setup)
    neglected: set[int] = set()
    for factor in _FACTORS:
        again = train(equal, steps, factor=factor)
        record(again)
        reached = _explained(again, equal)
        if present is not None and reached is not None:
            neglected |= {c for c in light if reached[c] >= _LEARNED and present[c] < _LESS * reached[c]}
    return tuple(sorted(neglected))


def _has_columns(targets: Any) -> bool:
    shaped = isinstance(targets, Tensor) and targets.is_floating_point() and targets.dim() == 2
    return shaped and len(targets) > 2 and 1 < targets.shape[1] <= _MOST_COLUMNS


def _is_least_at_targets(setup: Setup) -> bool:
    """Return whether the loss is 0 or flat at outputs equal to the targets."""
    output = setup.batch.targets.clone().requires_grad_(True)
    with torch.enable_grad():
        value = loss_value(setup.loss, output, setup.batch.targets)
        (slope,) = torch.autograd.grad(value, output)
    return bool(value == 0) or not bool(slope.any())


def _explained(run: Run, setup: Setup) -> list[float] | None:
    """Return the share of the variance of each target column that outputs explain.

    Logits do not estimate their targets. So if the loss is not minimal there, return the squared correlation.
    """
    if run.model is None or run.failed:
        return None
    inputs, targets = setup.batch.inputs.map(torch.clone), setup.batch.targets.double()
    with torch.no_grad():
        output = run.model.train()(*inputs.args, **inputs.kwargs)
    if not isinstance(output, Tensor) or output.shape != targets.shape:
        return None
    if _is_least_at_targets(setup):
        error = (output.detach().double() - targets).square().mean(dim=0)
        return [float(share) for share in (1 - error / targets.var(dim=0, correction=0)).nan_to_num(neginf=0.0)]
    centered = [values - values.mean(dim=0) for values in (output.detach().double(), targets)]
    scale = centered[0].norm(dim=0) * centered[1].norm(dim=0)
    shares = ((centered[0] * centered[1]).sum(dim=0) / scale.clamp_min(1e-30)).square()
    return [float(share) for share in shares.nan_to_num()]
