"""Squared distances to anchors, for kernels and neighborhood graphs."""

from __future__ import annotations

import numpy as np

__all__ = ["squared_distances"]


def squared_distances(rows: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    r"""Return squared Euclidean distances ``[rows, anchors]`` in float64.

    The squared distances are computed as :math:`\|x\|^2 - 2\langle x,a\rangle + \|a\|^2` around the mean of the
    anchors, because far from the origin the difference of large, nearly equal terms is rounding error.

    >>> squared_distances(np.array([[1e9, 0.0]]), np.array([[1e9, 3.0], [1e9 + 4, 0.0]]))
    array([[ 9., 16.]])
    """
    center = anchors.mean(axis=0, dtype=np.float64)
    rows, anchors = rows - center, anchors - center
    squares = rows @ (-2 * anchors.T)
    squares += np.einsum("ij,ij->i", rows, rows)[:, None]
    squares += np.einsum("ij,ij->i", anchors, anchors)
    return np.asarray(np.maximum(squares, 0, out=squares))
