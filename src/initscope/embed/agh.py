"""`AGH`: anchor graph hashing, signs of the smooth eigenvectors of a neighborhood graph with anchors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from initscope.embed._anchors import squared_distances
from initscope.embed._base import Hasher, random_generator
from initscope.errors import InputError, check_count

__all__ = ["AGH"]


class AGH(Hasher):
    r"""Anchor graph hashing [LiuWangKumarChang2011]_: unsupervised.

    Rows are connected to their s nearest of m anchors (k-means centers) with Gaussian weights Z that sum to one. The
    graph :math:`Z\Lambda^{-1}Z^T`, :math:`\Lambda = \mathrm{diag}(Z^T1)`, has eigenvectors :math:`ZW`, :math:`W =
    \Lambda^{-1/2}V\Sigma^{-1/2}` from the m × m matrix :math:`\Lambda^{-1/2}Z^TZ\Lambda^{-1/2}`; the constant one is
    dropped and the signs of the next are bits. With ``layers=2`` each eigenvector gives a second bit: each side is
    split again where the cut of the graph is smallest, under balance.

    Parameters
    ----------
    bits : int
        At most ``layers`` times (number of anchors - 1).
    layers : {1, 2}
    anchors : int
        Fewer if there are fewer rows.
    nearest : int
        Number of anchors that a row is connected to.
    packed : bool
    random_state : int, RandomState, Generator or None
        Seed of the k-means initialization.
    """

    def __init__(
        self,
        bits: int = 64,
        *,
        layers: int = 2,
        anchors: int = 300,
        nearest: int = 3,
        packed: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.bits = bits
        self.layers = layers
        self.anchors = anchors
        self.nearest = nearest
        self.packed = packed
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find anchors, bandwidth and the eigenvectors."""
        from sklearn.cluster import KMeans

        bits, layers = self._start(), check_count("layers", self.layers, most=2)
        X = self._validated(X, reset=True)
        anchors = min(check_count("anchors", self.anchors, least=2), len(np.unique(X, axis=0)))
        vectors = -(-bits // layers)
        if vectors > anchors - 1:
            raise InputError(
                f"n_samples = {len(X)} give {anchors} anchors and at most {layers * (anchors - 1)} bits, not {bits}"
            )
        seed = int(random_generator(self.random_state, "agh").integers(2**31))
        # The paper runs a handful of iterations: anchors need not be converged centers.
        self.anchors_ = (
            KMeans(anchors, n_init=1, max_iter=20, random_state=seed).fit(X).cluster_centers_.astype(X.dtype)
        )
        index, squares = self._nearest(X)
        self.bandwidth_ = float(squares[:, -1].mean()) or 1.0
        ties = self._ties(index, squares)
        degree = np.maximum(ties.sum(axis=0), 1e-12)
        # Project the constant eigenvector out: in a graph of several components it shares its eigenvalue 1.
        constant = np.sqrt(degree / degree.sum())
        graph = (ties.T @ ties).toarray() / np.sqrt(np.outer(degree, degree))
        values, eigenvectors = np.linalg.eigh(graph - np.outer(constant, constant))
        chosen = np.arange(anchors - 1, anchors - 1 - vectors, -1)
        spread = np.sqrt(np.maximum(values[chosen], 1e-12))
        self.weights_ = np.sqrt(len(X)) * eigenvectors[:, chosen] / np.sqrt(degree)[:, None] / spread
        self.cuts_ = np.zeros((2, vectors))
        if layers == 2:
            embedded = ties @ self.weights_
            self.cuts_ = np.stack([_second_cuts(column, ties, degree) for column in embedded.T], axis=1)
        return self

    def _nearest(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return nearest anchors of each row and their squared distances, nearest first."""
        count = min(check_count("nearest", self.nearest), len(self.anchors_))
        indices, squares = np.empty((len(rows), count), dtype=np.int32), np.empty((len(rows), count))
        for part, block in self._blocks(rows):
            distances = squared_distances(block, self.anchors_)
            index = np.argpartition(distances, count - 1, axis=1)[:, :count]
            near = np.take_along_axis(distances, index, axis=1)
            order = np.argsort(near, axis=1)
            indices[part] = np.take_along_axis(index, order, axis=1)
            squares[part] = np.take_along_axis(near, order, axis=1)
        return indices, squares

    def _ties(self, index: np.ndarray, squares: np.ndarray) -> csr_array:
        """Return Z: the weights of each row to its nearest anchors, zero to the others."""
        weights = np.exp(-(squares - squares[:, :1]) / self.bandwidth_)
        weights /= weights.sum(axis=1, keepdims=True)
        offsets = np.arange(len(index) + 1) * index.shape[1]
        return csr_array((weights.ravel(), index.ravel(), offsets), shape=(len(index), len(self.anchors_)))

    def _row_values(self) -> int:
        return max(self._bits, len(self.anchors_))

    def _float_type(self) -> Any:
        return self.anchors_.dtype

    def _scores(self, block: np.ndarray) -> np.ndarray:
        first = np.asarray(self._ties(*self._nearest(block)) @ self.weights_)
        if self.layers == 1:
            return first
        high, low = self.cuts_
        second = np.where(first > 0, first - high, low - first)
        return np.stack([first, second], axis=2).reshape(len(block), -1)[:, : self._bits]


def _second_cuts(values: np.ndarray, ties: csr_array, degree: np.ndarray) -> np.ndarray:
    r"""Return thresholds (b₊, b₋) for the two sides of an eigenvector: the least graph cut, in balance.

    Minimize :math:`v^TLv`, L = I - ZΛ⁻¹Zᵀ, of v = y - b₊ on the positive side and b₋ - y on the other, with 1ᵀv = 0.
    """
    positive = values > 0
    base = np.where(positive, values, -values)
    directions = np.stack([-positive.astype(np.float64), (~positive).astype(np.float64)], axis=1)

    def energy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(a.T @ b - (ties.T @ a).T @ ((ties.T @ b) / degree.reshape(-1, *[1] * (b.ndim - 1))))

    # Stationary point with one multiplier: [Q c; cᵀ 0] [b; λ] = [-q; -1ᵀ base].
    system = np.zeros((3, 3))
    system[:2, :2] = energy(directions, directions)
    system[:2, 2] = system[2, :2] = directions.sum(axis=0)
    right = -np.append(energy(directions, base), base.sum())
    return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:2])
