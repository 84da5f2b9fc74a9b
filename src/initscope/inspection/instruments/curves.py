"""What a curve of losses shows: how far below the best constant prediction it got, and whether it still falls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

__all__ = ["CLEAR", "LEARNS", "clearly_learns", "diverges", "fall_share", "recent", "still_falls"]

LEARNS = 0.5
"""Share of the way from the best constant prediction to the lowest loss from which a model learns."""
CLEAR = 0.8
"""Share from which no further step is needed."""
_LIKELY = 2.0
"""Standard errors by which a slope must be negative."""
_PATIENCE = 20
"""A fall counts if it would reach the target share in this multiple of the steps so far."""
_FEWEST = 6


def recent(losses: Sequence[float], share: float = 0.1) -> float:
    """Return the median of the last losses: a tenth of them, at least three."""
    if not losses:
        return math.nan
    count = max(3, round(share * len(losses)))
    return float(np.median(losses[-count:]))


def fall_share(loss: float, constant: float | None, lowest: float | None) -> float | None:
    """Return (c - loss)/(c - lowest): 0 at the best constant prediction c, 1 at the lowest loss of free outputs.

    The lowest loss of cross-entropy or a squared error is 0. If there is none, |c| replaces the difference.
    """
    if constant is None or constant != constant or loss != loss:
        return None
    scale = abs(constant) if lowest is None or not math.isfinite(lowest) else constant - lowest
    if scale <= 1e-6 * max(1e-30, abs(constant), abs(loss)):
        return None  # the targets do not vary: a constant prediction is as good as any
    return (constant - loss) / scale


def still_falls(losses: Sequence[float], aim: float) -> bool:
    """Return whether the last third of a curve falls by more than its noise, and fast enough to reach ``aim`` soon."""
    values = np.asarray(losses[-max(_FEWEST, len(losses) // 3) :], dtype=float)
    if len(values) < _FEWEST or not np.isfinite(values).all():
        return False
    times = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(times @ values / (times @ times))
    residuals = values - values.mean() - slope * times
    error = math.sqrt(float(residuals @ residuals) / max(1, len(values) - 2) / float(times @ times))
    if slope >= -_LIKELY * error:
        return False
    return float(values.mean()) - aim <= -slope * _PATIENCE * len(losses)


def diverges(losses: Sequence[float], constant: float | None) -> bool:
    """Return whether the loss is not finite, or ends far above the first loss and above a constant prediction."""
    if any(not math.isfinite(value) for value in losses):
        return True
    level = max(losses[0], losses[0] if constant is None else constant)
    return len(losses) >= _FEWEST and recent(losses, 1 / 3) > level + abs(level)


def clearly_learns(losses: Sequence[float], constant: float | None, lowest: float | None, fewest: int) -> bool:
    """Return whether the model learns and further steps would not change that."""
    share = fall_share(recent(losses), constant, lowest)
    if share is None or len(losses) < 3:
        return False
    aim = losses[0] if constant is None or lowest is None else constant - CLEAR * (constant - lowest)
    return share >= CLEAR or (share >= LEARNS and len(losses) >= fewest and still_falls(losses, aim))
