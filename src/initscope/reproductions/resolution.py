"""Embedding of images is almost isometric at high enough resolution: [Nachum2022]_ after theorem 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes, rows_of_columns
from initscope.theory.images import boundary_bounds, expected_cosine

__all__ = ["REPRODUCTIONS", "Resolution", "run"]


@dataclass(frozen=True)
class Resolution(Result):
    """Bound and true change of the cosine by resolution factor (see `run`)."""

    factor: tuple[int, ...]
    boundary_ratio: tuple[float, ...]
    """|∂_r|/(‖A‖‖B‖)."""
    deviation: tuple[float, ...]
    """ρ̄_out - ρ_in."""

    def table(self) -> list[dict[str, Any]]:
        """Return one row per factor."""
        return rows_of_columns(self)

    def plot(self, ax: Any = None) -> Any:
        """Plot bound and deviation against the factor, on logarithmic axes."""
        ax = make_axes(ax)
        ax.loglog(self.factor, self.boundary_ratio, "o-", label="bound: shared boundary / (‖A‖‖B‖)")
        ax.loglog(self.factor, self.deviation, "s-", label="mean cosine after - before")
        ax.set_xlabel("resolution factor")
        ax.legend()
        return ax


def run(a: Any = None, b: Any = None, r: int = 1, factors: Sequence[int] = (1, 2, 4, 8)) -> Resolution:
    r"""Enlarge two binary images ``[height, width]`` k-fold: bound and deviation fall like 1/k for a fixed filter.

    Any set of images is embedded almost isometrically at high enough resolution: [Nachum2022]_ after theorem 5. The
    boundary grows like k, ‖A‖‖B‖ like k².

    >>> import numpy as np
    >>> a, b = np.zeros((2, 12, 12))
    >>> a[2:8, 2:8], b[4:10, 4:10] = 1, 1
    >>> [round(ratio, 3) for ratio in run(a, b, 1).boundary_ratio]
    [0.889, 0.444, 0.222, 0.111]
    """
    a, b = _squares() if a is None or b is None else (np.asarray(a), np.asarray(b))
    if a.ndim != 2:
        raise InputError(f"images of shape {a.shape} must be [height, width]: pass one pair")
    ratios, deviations = [], []
    for factor in factors:
        check_count("factor", factor)
        large_a, large_b = (body.repeat(factor, axis=0).repeat(factor, axis=1) for body in (a, b))
        bounds = boundary_bounds(large_a, large_b, r)
        after = expected_cosine(large_a[None, None], large_b[None, None], kernel_size=2 * r + 1)
        ratios.append(float(bounds.cosine_radius))
        deviations.append(float(after[0] - bounds.cosine))
    return Resolution(tuple(factors), tuple(ratios), tuple(deviations))


def _squares() -> tuple[np.ndarray, np.ndarray]:
    """Return two overlapping squares."""
    a, b = np.zeros((2, 12, 12))
    a[2:8, 2:8], b[4:10, 4:10] = 1, 1
    return a, b


REPRODUCTIONS = (
    Declared(
        id="cnn-resolution",
        source="Nachum et al. 2022, theorem 5 and what follows it",
        statement="For a fixed filter the relative shared boundary and the change "
        "of the cosine fall like 1/resolution.",
        produce=run,
        numbers=lambda result: {
            f"bound at {k}-fold resolution": Number(ratio) for k, ratio in zip(result.factor, result.boundary_ratio)
        },
        holds=lambda result: (
            all(change <= bound for change, bound in zip(result.deviation, result.boundary_ratio))
            and result.deviation[-1] < result.deviation[0] * result.factor[0] / result.factor[-1] * 1.5
        ),
    ),
)
