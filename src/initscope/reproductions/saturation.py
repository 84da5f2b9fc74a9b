"""Pictures that lose their grey: how far a layer is from an isometry, [Nachum2022]_ section 4.1."""

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
from initscope.theory.images import cosine, expected_cosine, grey_share

__all__ = ["REPRODUCTIONS", "Saturation", "run"]


@dataclass(frozen=True)
class Saturation(Result):
    """Cosines before and after a layer as pictures lose their grey, one entry per strength."""

    strength: tuple[float, ...]
    grey_share: tuple[float, ...]
    cosine: tuple[float, ...]
    """ρ_in, mean over pairs."""
    expected_cosine: tuple[float, ...]
    """ρ̄_out, mean over pairs."""
    deviation: tuple[float, ...]
    """ρ̄_out - ρ_in, mean over pairs."""
    deviation_standard_error: tuple[float, ...]
    dense_deviation: tuple[float, ...]
    """What a dense layer would add, R̂(ρ_in) - ρ_in: the limit for flat pictures of one colour."""

    def table(self) -> list[dict[str, Any]]:
        """One row per strength."""
        return rows_of_columns(self)

    def plot(self, ax: Any = None) -> Any:
        """Deviation of the convolutional layer against that of a dense one, over the strength."""
        ax = make_axes(ax)
        ax.errorbar(self.strength, self.deviation, self.deviation_standard_error, fmt="o-", label="convolutional layer")
        ax.plot(self.strength, self.dense_deviation, "--", label="dense layer at the same cosines")
        ax.set_xlabel("strength: 0 the pictures, 1 pure red and pure green")
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
    r"""Turn x towards pure red and y towards pure green and watch the layer stop being an isometry.

    At strength s the channels other than the first (of x) or the second (of y) are multiplied by 1 - s. At s = 1 all
    patch pairs are orthogonal: flat pictures then reach the dense value 1/π, others less, the more their bright parts
    lie apart. [Nachum2022]_ section 4.1 calls nearly one-coloured images outliers; this says by how much they deviate.

    >>> import numpy as np
    >>> grey = np.ones((2, 3, 8, 8))
    >>> flat = run(grey, grey, kernel_size=3)
    >>> np.allclose(flat.deviation, flat.dense_deviation), round(flat.deviation[-1], 5)      # 1/pi at the end
    (True, 0.31831)
    """
    if x is None or y is None:
        x, y, _ = random_pairs(load("photos", crop=32, limit=40), pairs)
    x, y = np.asarray(x), np.asarray(y)
    channels = x.shape[1]
    if channels < 2:
        raise InputError("images with a single channel cannot lose their colour; pass images with two or more channels")
    rows = []
    for strength in strengths:
        if not 0 <= strength <= 1:
            raise InputError(f"strength = {strength} must lie in [0, 1]: 0 leaves the pictures as they are")
        keep = [[1.0 if c == own else 1.0 - strength for c in range(channels)] for own in (0, 1)]
        red, green = (
            image * np.asarray(factors, dtype=x.dtype).reshape(1, channels, *(1,) * (x.ndim - 2))
            for image, factors in zip((x, y), keep)
        )
        before, after = cosine(red, green), expected_cosine(red, green, kernel_size=kernel_size)
        change = np.asarray(after - before, dtype=np.float64)
        rows.append(
            (
                float(strength),
                float(np.mean(grey_share(red)) + np.mean(grey_share(green))) / 2,
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
        id="cnn-colour",
        source="Nachum et al. 2022, section 4.1",
        statement="A layer changes cosines of photographs less than a dense one would, of one-coloured pictures more.",
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
