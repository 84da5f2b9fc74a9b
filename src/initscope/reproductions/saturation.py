"""Images that become monochrome: how far a layer is from an isometry, [Nachum2022]_ section 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import InputError
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes, rows_of_columns
from initscope.theory.angles import relu_cosine
from initscope.theory.images import cosine, expected_cosine, gray_share

__all__ = ["REPRODUCTIONS", "Saturation", "run"]


@dataclass(frozen=True)
class Saturation(Result):
    """Cosines before and after a layer as images become pure red and pure green, one entry per strength."""

    strength: tuple[float, ...]
    gray_share: tuple[float, ...]
    cosine: tuple[float, ...]
    """ρ_in, mean over pairs."""
    expected_cosine: tuple[float, ...]
    """ρ̄_out, mean over pairs."""
    deviation: tuple[float, ...]
    """ρ̄_out - ρ_in, mean over pairs."""
    deviation_standard_error: tuple[float, ...]
    dense_deviation: tuple[float, ...]
    """Change by a dense layer, R̂(ρ_in) - ρ_in: the limit for constant images of one color."""

    def table(self) -> list[dict[str, Any]]:
        """Return one row per strength."""
        return rows_of_columns(self)

    def plot(self, ax: Any = None) -> Any:
        """Plot the change of the cosine by a convolutional and by a dense layer against the strength."""
        ax = make_axes(ax)
        ax.errorbar(self.strength, self.deviation, self.deviation_standard_error, fmt="o-", label="convolutional layer")
        ax.plot(self.strength, self.dense_deviation, "--", label="dense layer at the same cosines")
        ax.set_xlabel("strength (0: original images, 1: pure red and pure green)")
        ax.set_ylabel("cosine after - before")
        ax.legend()
        return ax


def run(
    x: Any = None,
    y: Any = None,
    *,
    kernel_size: int | Sequence[int] = 3,
    strengths: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    pairs: int = 40,
) -> Saturation:
    r"""Change x to pure red and y to pure green, and measure how far the layer is from an isometry.

    At strength s the channels other than the first (of x) or the second (of y) are multiplied by 1 - s. At s = 1 all
    patch pairs are orthogonal: constant images then reach the dense value 1/π, others less. [Nachum2022]_ section 4.1
    calls nearly monochrome images outliers; this experiment measures how much they deviate.

    >>> import numpy as np
    >>> gray = np.ones((2, 3, 8, 8))
    >>> flat = run(gray, gray, kernel_size=3)
    >>> np.allclose(flat.deviation, flat.dense_deviation), round(flat.deviation[-1], 5)      # 1/pi at the end
    (True, 0.31831)
    """
    if x is None or y is None:
        x, y, _ = random_pairs(load("photos", crop=32, limit=40), pairs)
    x, y = np.asarray(x), np.asarray(y)
    channels = x.shape[1]
    if channels < 2:
        raise InputError("images must have two or more channels; images with a single channel have no color to remove")
    rows = []
    for strength in strengths:
        if not 0 <= strength <= 1:
            raise InputError(f"strength = {strength} must lie in [0, 1]; 0 means the original images")
        keep = [[1.0 if c == kept else 1.0 - strength for c in range(channels)] for kept in (0, 1)]
        red, green = (
            image * np.asarray(factors, dtype=x.dtype).reshape(1, channels, *(1,) * (x.ndim - 2))
            for image, factors in zip((x, y), keep)
        )
        before, after = cosine(red, green), expected_cosine(red, green, kernel_size=kernel_size)
        change = np.asarray(after - before, dtype=np.float64)
        rows.append(
            (
                float(strength),
                float(np.mean(gray_share(red)) + np.mean(gray_share(green))) / 2,
                float(np.mean(before)),
                float(np.mean(after)),
                float(change.mean()),
                float(mean_and_error(change)[1]),
                float(np.mean(relu_cosine(before) - before)),
            )
        )
    return Saturation(*zip(*rows))


REPRODUCTIONS = (
    Declared(
        id="cnn-color",
        source="Nachum et al. 2022, section 4.1",
        statement="A layer changes cosines of photographs less than a dense layer "
        "would, and those of monochrome images more.",
        produce=run,
        numbers=lambda result: {
            f"change of the cosine at strength {s:g}": Number(d, e)
            for s, d, e in zip(result.strength, result.deviation, result.deviation_standard_error)
        },
        holds=lambda result: (
            result.deviation[0] + 3 * result.deviation_standard_error[0] < result.dense_deviation[0]
            and result.deviation[-1] > result.deviation[0]
        ),
        small={"pairs": 12},
    ),
)
