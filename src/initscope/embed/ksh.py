"""`KSH`: kernel-based supervised hashing, bits fitted one by one to the labels' similarity matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from initscope.embed._base import SupervisedHasher, random_generator
from initscope.errors import check_count

__all__ = ["KSH"]


class KSH(SupervisedHasher):
    r"""Supervised hashing with kernels [LiuWangJiJiangChang2012]_.

    Bits are signs of :math:`\bar k(x)^Ta` with :math:`\bar k` a centred Gaussian kernel to anchors. Inner products
    of codes are to be m for like rows and -m for unlike ones, S; greedily, bit by bit, with the residue
    :math:`R = mS - \sum_{j<k} h_jh_j^T`, :math:`\max_a h^TRh`, :math:`h = \mathrm{sign}(\bar Ka)`: first the relaxed
    eigenproblem, then ascent with the sign smoothed to tanh, keeping what is better. S is never formed.

    Parameters
    ----------
    bits : int
    anchors : int
        Random rows that serve as anchors (fewer if there are fewer rows).
    steps : int
        Of the smoothed ascent (L-BFGS).
    packed : bool
    random_state : int, RandomState, Generator or None
    """

    def __init__(
        self, bits: int = 64, *, anchors: int = 300, steps: int = 50, packed: bool = True, random_state: Any = 0
    ) -> None:
        self.bits = bits
        self.anchors = anchors
        self.steps = steps
        self.packed = packed
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the bits to class labels."""
        from scipy.linalg import eigh
        from scipy.optimize import minimize

        bits, steps = self._start(), check_count("steps", self.steps, least=0)
        X, classes = self._validated_labels(X, y)
        rng = random_generator(self.random_state, "ksh")
        chosen = rng.choice(len(X), min(check_count("anchors", self.anchors), len(X)), replace=False)
        self.anchors_ = X[chosen]
        self.bandwidth_ = float(self._squares(X).mean()) or 1.0
        self.mean_ = np.zeros(len(chosen))
        kernel = self._kernel(X)
        self.mean_ = kernel.mean(axis=0)
        kernel = kernel - self.mean_
        members = np.eye(len(self.classes_))[classes]
        codes = np.empty((len(X), 0))

        def residue(h: np.ndarray) -> np.ndarray:
            return np.asarray(bits * (2 * members @ (members.T @ h) - h.sum(axis=0)) - codes @ (codes.T @ h))

        def loss(a: np.ndarray) -> tuple[float, np.ndarray]:
            h = np.tanh(kernel @ a / 2)
            pulled = residue(h)
            return -float(h @ pulled) / len(h), -kernel.T @ (pulled * (1 - h * h)) / len(h)

        gram = kernel.T @ kernel
        gram += 1e-6 * max(float(np.trace(gram)) / len(gram), 1e-12) * np.eye(len(gram))
        self.weights_ = np.empty((bits, len(chosen)))
        for bit in range(bits):
            last = len(gram) - 1
            relaxed = eigh(kernel.T @ residue(kernel), gram, subset_by_index=[last, last])[1][:, 0]
            relaxed *= np.sqrt(len(X))  # gram-normalised: scores of unit variance
            smooth = minimize(loss, relaxed, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
            signs = [np.where(kernel @ a > 0, 1.0, -1.0) for a in (smooth, relaxed)]
            best = int(np.argmax([float(h @ residue(h)) for h in signs]))
            self.weights_[bit] = (smooth, relaxed)[best]
            codes = np.column_stack([codes, signs[best]])
        return self

    def _squares(self, block: np.ndarray) -> np.ndarray:
        squares = (block * block).sum(axis=1)[:, None] - 2 * block @ self.anchors_.T + (self.anchors_**2).sum(axis=1)
        return np.asarray(np.maximum(squares.astype(np.float64), 0))

    def _kernel(self, block: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-self._squares(block) / self.bandwidth_) - self.mean_)

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return np.asarray(self._kernel(block) @ self.weights_.T)
