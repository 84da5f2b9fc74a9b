"""Minimize a loss over free variables: by signs of gradients, which fit any scale, or by Adam if it is random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["UNBOUNDED", "minimize"]

UNBOUNDED = -1e3
"""Loss, over the first one or 1, below which it counts as unbounded."""
_PATIENCE = 25
"""Number of steps without progress after which the minimum counts as reached."""
_PROGRESS = 1e-4
"""Relative fall of the loss that counts as progress."""
_LARGEST_STEP = 1e6
_REPEATS = 8
"""Number of runs over which a random loss is averaged."""


def minimize(
    values: Sequence[Tensor], evaluate: Callable[[], Tensor], steps: int = 300, enough: float = 0.0
) -> tuple[float, float]:
    """Change ``values`` in place so that ``evaluate()`` becomes small; return the loss before and the lowest loss.

    A loss between 0 and ``enough`` counts as the lowest.

    Rprop (Riedmiller & Braun 1993) has a step size for each value. It grows while the sign of the gradient stays and
    shrinks when the sign changes. Free values have no common scale: log-probabilities and prices of cars differ.
    If the loss is random, as with dropout, Adam with a decreasing rate replaces Rprop, and both losses are means.
    """
    with torch.no_grad():
        first, again = (float(evaluate()) for _ in range(2))
    if abs(first - again) > 1e-9 * max(1.0, abs(first)):
        return _minimize_mean(values, evaluate, steps)
    least = first
    rate = max(_first_step(values), min(_LARGEST_STEP, _linear_step(values, evaluate)))
    optimizer = torch.optim.Rprop(values, lr=rate, etas=(0.5, 1.3), step_sizes=(1e-9, 1e8))
    waited = 0
    for _ in range(steps):
        optimizer.zero_grad()
        loss = evaluate()
        value = float(loss.detach())
        if value < least - _PROGRESS * abs(least):
            waited = 0
        least, waited = min(least, value), waited + 1
        if waited > _PATIENCE or value < UNBOUNDED * max(1.0, abs(first)) or 0 <= value <= enough:
            break
        if value != value or not loss.requires_grad:  # NaN, or nothing to change
            break
        loss.backward(inputs=list(values))  # type: ignore[no-untyped-call]
        optimizer.step()
    return first, least


def _first_step(values: Sequence[Tensor]) -> float:
    """Return a tenth of the root mean square of the values, or of 1 if that is more."""
    squares = sum(float(value.detach().double().square().sum()) for value in values)
    return 0.1 * max(1.0, math.sqrt(squares / max(1, sum(value.numel() for value in values))))


def _linear_step(values: Sequence[Tensor], evaluate: Callable[[], Tensor]) -> float:
    """Return a tenth of the common step that would bring a linear loss to 0: the scale of the targets."""
    loss = evaluate()
    if not loss.requires_grad:
        return 0.0
    gradients = torch.autograd.grad(loss, list(values), allow_unused=True)
    total = sum(float(gradient.abs().sum()) for gradient in gradients if gradient is not None)
    return 0.1 * abs(float(loss.detach())) / total if total > 0 else 0.0


def _minimize_mean(values: Sequence[Tensor], evaluate: Callable[[], Tensor], steps: int) -> tuple[float, float]:
    first = _mean(evaluate)
    rate = 3 * _first_step(values)
    optimizer = torch.optim.Adam(values, lr=rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.03 ** (step / steps)
        optimizer.zero_grad()
        loss = evaluate()
        if not bool(torch.isfinite(loss)) or not loss.requires_grad:
            break
        loss.backward(inputs=list(values))  # type: ignore[no-untyped-call]
        optimizer.step()
    return first, min(first, _mean(evaluate))


def _mean(evaluate: Callable[[], Tensor]) -> float:
    with torch.no_grad():
        return sum(float(evaluate()) for _ in range(_REPEATS)) / _REPEATS
