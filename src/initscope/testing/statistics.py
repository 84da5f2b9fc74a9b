"""Statistics for tests: z-scores instead of chosen tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["z_score"]


def z_score(samples: Any, expected: Any, axis: int = 0) -> Any:
    """Return the deviation of the sample mean from ``expected``, in standard errors of the mean.

    >>> float(z_score([1.0, 3.0], 1.0))
    1.0
    """
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return (samples.mean(axis=axis) - expected) / error
