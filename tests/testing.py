"""Statistical checks that state what they would catch: z-scores, never tolerances picked to pass."""

from __future__ import annotations

import numpy as np


def z_score(samples, expected, axis=0):
    """Deviation of the sample mean from ``expected`` in standard errors of the mean."""
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return (samples.mean(axis=axis) - expected) / error
