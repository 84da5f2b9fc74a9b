"""Statistical checks that state what they would catch: z-scores, never tolerances picked to pass. Random codes."""

from __future__ import annotations

import numpy as np

from initscope.embed import pack_bits


def z_score(samples, expected, axis=0):
    """Deviation of the sample mean from ``expected`` in standard errors of the mean."""
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return (samples.mean(axis=axis) - expected) / error


def random_codes(rng, rows, bits):
    """Packed codes of fair coins."""
    return pack_bits(rng.integers(0, 2, (rows, bits)))
