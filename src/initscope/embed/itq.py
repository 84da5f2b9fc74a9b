"""`ITQ`: iterative quantization, principal components rotated to minimize the quantization error."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from initscope.embed._base import Hasher, random_generator
from initscope.errors import check_count

__all__ = ["ITQ"]


class ITQ(Hasher):
    r"""Iterative quantization [GongLazebnik2011]_: unsupervised, the usual baseline.

    The centered rows are projected on their first principal components, V, and rotated:

    .. math:: \min_{B\in\{-1,1\},\,R} \|B - VR\|_F,\qquad B = \mathrm{sign}(VR),\quad R = UW^T
              \text{ from } V^TB = USW^T,

    the two steps in turn. With fewer components than bits, R has orthonormal rows.

    Parameters
    ----------
    bits : int
    iterations : int
    packed : bool
    random_state : int, RandomState, Generator or None
        Seed of the first rotation.
    """

    def __init__(self, bits: int = 64, *, iterations: int = 50, packed: bool = True, random_state: Any = 0) -> None:
        self.bits = bits
        self.iterations = iterations
        self.packed = packed
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components and the rotation."""
        bits, iterations = self._start(), check_count("iterations", self.iterations, least=0)
        X = self._validated(X, reset=True)
        self.mean_ = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        covariance = np.cov((X - self.mean_).T.astype(np.float64), bias=True).reshape(X.shape[1], X.shape[1])
        components = np.linalg.eigh(covariance)[1][:, ::-1][:, :bits]
        projected = (X - self.mean_) @ components
        start = random_generator(self.random_state, "itq").standard_normal((bits, components.shape[1]))
        rotation = np.linalg.qr(start)[0].T
        for _ in range(iterations):
            codes = np.where(projected @ rotation > 0, 1.0, -1.0)
            left, _, right = np.linalg.svd(projected.T @ codes, full_matrices=False)
            rotation = left @ right
        self.weights_ = (components @ rotation).T.astype(X.dtype)
        return self

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return np.asarray((block - self.mean_) @ self.weights_.T)
