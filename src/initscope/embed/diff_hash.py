"""`DiffHash`: projections that separate dissimilar pairs more than similar pairs, each with its best threshold."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from initscope.embed._base import SupervisedHasher
from initscope.errors import InputError, check_between

__all__ = ["DiffHash", "best_threshold"]


class DiffHash(SupervisedHasher):
    r"""Difference of covariances [Strecha2012]_.

    With :math:`\Sigma_P, \Sigma_N` the second moments of x - x' over similar and dissimilar pairs, the projections are
    the eigenvectors of :math:`\alpha\Sigma_P - \Sigma_N` with the smallest eigenvalues. The threshold of each separates
    the fewest similar and the most dissimilar pairs. The threshold of each separates the fewest like pairs and the most
    unlike pairs. All pairs of the labels are used, without forming them.

    Parameters
    ----------
    bits : int
        At most the number of features.
    alpha : float
        Weight of like pairs.
    packed : bool
    """

    def __init__(self, bits: int = 64, *, alpha: float = 1.0, packed: bool = True) -> None:
        self.bits = bits
        self.alpha = alpha
        self.packed = packed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find projections and thresholds from class labels."""
        bits, alpha = self._start(), check_between("alpha", self.alpha, 0.0, float("inf"))
        X, classes = self._validated_labels(X, y)
        if bits > X.shape[1]:
            raise InputError(f"n_features = {X.shape[1]}: DiffHash makes at most that many bits, not {bits}")
        like, unlike = pair_moments(X.astype(np.float64), classes)
        vectors = np.linalg.eigh(alpha * like - unlike)[1][:, :bits]
        self.weights_ = vectors.T.astype(X.dtype)
        projected = X @ self.weights_.T
        self.thresholds_ = np.array([best_threshold(column, classes) for column in projected.T], dtype=X.dtype)
        return self

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return np.asarray(block @ self.weights_.T - self.thresholds_)


def pair_moments(X: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean of :math:`(x-x')(x-x')^T` over ordered pairs of similar and of dissimilar rows.

    A set of n rows with scatter S around its mean has :math:`\sum (x-x')(x-x')^T = 2nS`.
    """
    like, like_pairs = np.zeros((X.shape[1], X.shape[1])), 0
    for label in np.unique(classes):
        rows = X[classes == label]
        offsets = rows - rows.mean(axis=0)
        like += 2 * len(rows) * (offsets.T @ offsets)
        like_pairs += len(rows) ** 2
    offsets = X - X.mean(axis=0)
    everything = 2 * len(X) * (offsets.T @ offsets)
    unlike_pairs = len(X) ** 2 - like_pairs
    return like / like_pairs, (everything - like) / max(unlike_pairs, 1)


def best_threshold(values: np.ndarray, classes: np.ndarray) -> float:
    """Return the threshold with the largest share of split dissimilar pairs minus that of similar pairs."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    sizes = np.bincount(classes)
    below = np.cumsum(np.eye(len(sizes))[classes[order]], axis=0)[:-1]
    split_like = 2 * (below * (sizes - below)).sum(axis=1)
    under = np.arange(1, len(values))
    split = 2 * under * (len(values) - under)
    like_pairs = float((sizes**2).sum())
    gain = (split - split_like) / max(len(values) ** 2 - like_pairs, 1) - split_like / like_pairs
    gain[np.diff(ranked) <= 0] = -np.inf  # no cut between equal values
    best = int(np.argmax(gain))
    return float((ranked[best] + ranked[best + 1]) / 2)
