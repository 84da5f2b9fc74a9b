"""`KSH`: kernel-based supervised hashing, bits fitted one by one to the labels' similarity matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from initscope.embed._anchors import squared_distances
from initscope.embed._base import SupervisedHasher, random_generator
from initscope.errors import check_count

__all__ = ["KSH"]


class KSH(SupervisedHasher):
    r"""Supervised hashing with kernels [LiuWangJiJiangChang2012]_.

    Bits are signs of :math:`\bar k(x)^Ta` with :math:`\bar k` a centered Gaussian kernel to anchors. Inner products of
    codes approximate a matrix S, m for similar rows and -m for dissimilar rows. Each bit greedily solves, with the
    residue :math:`R = mS - \sum_{j<k} h_jh_j^T`, :math:`\max_a h^TRh`, :math:`h = \mathrm{sign}(\bar Ka)`: first the
    relaxed eigenproblem, then ascent with the sign smoothed to tanh; the better result is used. S is never formed.

    Parameters
    ----------
    bits : int
    anchors : int
        Random rows that serve as anchors (fewer if there are fewer rows).
    steps : int
        Number of steps of the smoothed ascent (L-BFGS); 0 returns the relaxed solution.
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
        self.bandwidth_ = float(squared_distances(X, self.anchors_).mean()) or 1.0
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
        pulled_kernel = kernel.T @ residue(kernel)
        self.weights_ = np.empty((bits, len(chosen)))
        for bit in range(bits):
            last = len(gram) - 1
            relaxed = eigh(pulled_kernel, gram, subset_by_index=[last, last])[1][:, 0]
            relaxed *= np.sqrt(len(X))  # Gram-normalized: scores of unit variance
            candidates = [relaxed]
            if steps:
                candidates.append(minimize(loss, relaxed, jac=True, method="L-BFGS-B", options={"maxiter": steps}).x)
            signs = [np.where(kernel @ a > 0, 1.0, -1.0) for a in candidates]
            best = int(np.argmax([float(h @ residue(h)) for h in signs]))
            self.weights_[bit] = candidates[best]
            codes = np.column_stack([codes, signs[best]])
            share = kernel.T @ signs[best]
            pulled_kernel -= np.outer(share, share)  # the residue has lost h hᵀ
        return self

    def _kernel(self, block: np.ndarray) -> np.ndarray:
        kernel = squared_distances(block, self.anchors_)
        kernel /= -self.bandwidth_
        np.exp(kernel, out=kernel)
        kernel -= self.mean_
        return kernel

    def _row_values(self) -> int:
        return max(self._bits, len(self.anchors_))

    def _float_type(self) -> Any:
        return self.anchors_.dtype

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return np.asarray(self._kernel(block) @ self.weights_.T)
