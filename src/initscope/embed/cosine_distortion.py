"""Cosines of pairs after random features, compared with the prediction of theory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.errors import InputError
from initscope.results import Result, make_axes
from initscope.theory.angles import relu_cosine
from initscope.theory.norms import relu_stack_cosine_sd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CosineDistortion", "cosine_distortion", "dense_spread", "row_cosines"]


@dataclass(frozen=True)
class CosineDistortion(Result):
    """Cosines of pairs before and after an embedding, and as predicted.

    Attributes
    ----------
    pairs : int
    mean_input, mean_predicted, mean_observed : float
        Means over the pairs.
    rms_observed : float
        Root mean square of observed minus predicted cosine.
    rms_predicted : float
        The same from the spread that this number of features should have.
    largest : float
        Largest absolute deviation from the prediction.
    statement : str
        The theorem or formula of the prediction.
    input, predicted, observed : array
        Each pair's cosines.
    """

    pairs: int
    mean_input: float
    mean_predicted: float
    mean_observed: float
    rms_observed: float
    rms_predicted: float
    largest: float
    statement: str
    input: np.ndarray = field(repr=False)
    predicted: np.ndarray = field(repr=False)
    observed: np.ndarray = field(repr=False)

    def table(self) -> list[dict[str, Any]]:
        """Return one row, without the pairs."""
        hidden = ("input", "predicted", "observed")
        return [{name: value for name, value in self.to_dict().items() if name not in hidden}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot cosines after the embedding against cosines before: pairs as dots, predictions as crosses."""
        ax = make_axes(ax)
        ax.plot(self.input, self.observed, ".", markersize=2, label="observed")
        ax.plot(self.input, self.predicted, "x", markersize=3, label="predicted")
        ax.set(xlabel="cosine before", ylabel="cosine after")
        ax.legend()
        return ax


def cosine_distortion(
    before: np.ndarray, predicted: np.ndarray, observed: np.ndarray, spread: np.ndarray, statement: str
) -> CosineDistortion:
    """Summarize cosines of pairs; ``spread`` is the predicted standard deviation of each."""
    deviation = observed - predicted
    return CosineDistortion(
        pairs=len(before),
        mean_input=float(before.mean()),
        mean_predicted=float(predicted.mean()),
        mean_observed=float(observed.mean()),
        rms_observed=float(np.sqrt((deviation**2).mean())),
        rms_predicted=float(np.sqrt((spread**2).mean())),
        largest=float(np.abs(deviation).max()),
        statement=statement,
        input=before,
        predicted=predicted,
        observed=observed,
    )


def row_cosines(rows: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return cosines of pairs of rows; raise `InputError` for a zero row, which has no angle."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    if (norms[left] * norms[right] == 0).any():
        raise InputError("a row is zero, so it has no angle with another row; leave zero rows out of the report")
    products = np.einsum("ij,ij->i", rows[left], rows[right], dtype=np.float64)
    return np.asarray(np.clip(products / (norms[left] * norms[right]), -1, 1))


def dense_spread(cosine: np.ndarray, width: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the predicted cosine after ``depth`` random ReLU layers, and its standard deviation.

    The standard deviation is that of `theory.norms.relu_stack_cosine_sd`.
    """
    spread = relu_stack_cosine_sd(cosine, [width] * depth)[-1][1]
    for _ in range(depth):
        cosine = np.clip(np.asarray(relu_cosine(cosine)), -1, 1)
    return cosine, np.asarray(spread)
