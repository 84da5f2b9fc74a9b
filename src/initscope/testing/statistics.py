"""Statistical checks that state what they would catch: z-scores, never tolerances picked to pass."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["z_score"]


def z_score(samples: Any, expected: Any, axis: int = 0) -> Any:
    """Deviation of the sample mean from ``expected`` in standard errors of the mean.

    >>> float(z_score([1.0, 3.0], 1.0))
    1.0
    """
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return (samples.mean(axis=axis) - expected) / error
