"""What a row of the theorem index is compared with: a value found another way, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Witness:
    """A value, one standard error of it where it was drawn, and a tolerance relative to its largest entry."""

    value: Any
    error: Any = 0.0
    tolerance: float = 1e-9

    def allowed(self):
        """How far the example may be from the value."""
        return 4 * np.asarray(self.error) + self.tolerance * np.abs(np.asarray(self.value, dtype=float)).max()


def drawn(samples, axis=0, tolerance=0.0):
    """Return the mean of independent samples with its standard error."""
    samples = np.asarray(samples, dtype=float)
    error = samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])
    return Witness(samples.mean(axis=axis), error, tolerance)


def share(successes, tolerance=0.0):
    """Return the share of independent trials that came true, with its standard error."""
    return drawn(np.asarray(successes, dtype=float), tolerance=tolerance)
