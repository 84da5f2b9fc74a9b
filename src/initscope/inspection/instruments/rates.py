"""The range of learning rates over which the loss falls in the same number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from initscope.inspection.instruments.curves import clearly_learns, diverges, recent
from initscope.inspection.instruments.training import Run, Setup, train

__all__ = ["RateScan", "scan_rates"]

_LEAST = 1e-9
_LARGEST, _LARGEST_ADAPTIVE = 1e5, 0.1
"""Largest rates to try: for plain gradient descent, whose loss may have been averaged twice, and for optimizers such as
Adam, whose steps do not depend on the size of gradients."""
_STEP = 10**0.5


@dataclass(frozen=True)
class RateScan:
    """Losses by learning rate, in increasing order of the rates; infinite where the loss diverges."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    runs: tuple[Run, ...]
    passes: int

    def best(self, tie: float) -> int | None:
        """Return the index of the smallest rate whose loss is at most ``tie`` above the lowest."""
        least = min(self.losses)
        return (
            next((i for i, loss in enumerate(self.losses) if loss <= least + tie), None) if least < math.inf else None
        )


def scan_rates(
    setup: Setup, rate: float, user: Run, steps: int, passes: int, constant: float | None, lowest: float | None
) -> RateScan:
    """Train at rates around ``rate`` in half decades, nearest first, until ``passes`` are used up.

    The search stops upwards if the loss diverges, and downwards if two rates in a row are not better.
    """
    level = user.losses[0] if constant is None else constant
    largest = max(rate, _LARGEST_ADAPTIVE if user.adapts else _LARGEST)
    runs_by_step: dict[int, tuple[float, Run]] = {0: (_outcome(user, steps, constant), user)}
    spent = 0

    def stop(losses: list[float]) -> bool:
        return diverges(losses, constant) or clearly_learns(losses, constant, lowest, steps)

    directions = {-1: 0, 1: 0}  # how many rates in a row were worse
    if math.isinf(runs_by_step[0][0]):
        directions.pop(1)
    distance = 0
    while directions and spent + steps <= passes:
        distance += 1
        for sign in list(directions):
            here = rate * _STEP ** (2 * sign * distance)
            if not _LEAST <= here <= largest * 1.01 or spent + steps > passes:
                directions.pop(sign)
                continue
            run = train(setup, steps, stop=stop, factor=here / rate)
            spent += run.passes
            if run.cut:
                directions.clear()
                break
            loss = _outcome(run, steps, constant)
            runs_by_step[2 * sign * distance] = loss, run
            before = runs_by_step[2 * sign * (distance - 1)][0]
            worse = math.isfinite(loss) and loss > before - 0.01 * abs(level)
            directions[sign] = directions[sign] + 1 if worse else 0
            if (sign > 0 and math.isinf(loss)) or (sign < 0 and directions[sign] > 1):
                directions.pop(sign)
    best = min(runs_by_step, key=lambda key: runs_by_step[key][0])
    for key in (best - 1, best + 1):  # half decades around the best
        here = rate * _STEP**key
        if key not in runs_by_step and spent + steps <= passes and _LEAST <= here <= largest * 1.01:
            run = train(setup, steps, stop=stop, factor=here / rate)
            spent += run.passes
            if not run.cut:
                runs_by_step[key] = _outcome(run, steps, constant), run
    keys = sorted(runs_by_step)
    return RateScan(
        tuple(rate * _STEP**key for key in keys),
        tuple(runs_by_step[key][0] for key in keys),
        tuple(runs_by_step[key][1] for key in keys),
        spent,
    )


def _outcome(run: Run, steps: int, constant: float | None) -> float:
    losses = run.losses[:steps]
    if not losses or run.failed or diverges(losses, constant):
        return math.inf
    return recent(losses)
