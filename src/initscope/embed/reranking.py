"""`rerank`: sort the candidates of a Hamming search by the exact cosine of their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from initscope.errors import InputError, check_count

__all__ = ["rerank"]


def rerank(queries: Any, candidates: Any, vectors: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(cosines, rows)``, each ``[queries, k]``: the best candidates by exact cosine, best first.

    Parameters
    ----------
    queries : array [Q, n]
    candidates : int array [Q, c]
        Rows of ``vectors``, for example the ids of `HammingIndex.search` when ids count the rows; -1 means none.
    vectors : array [N, n]
    k : int

    Examples
    --------
    >>> rerank([[1.0, 0.0]], [[0, 1, 2]], [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], k=1)
    (array([[1.]]), array([[2]]))
    """
    queries, vectors, candidates = np.asarray(queries), np.asarray(vectors), np.asarray(candidates)
    if queries.ndim != 2 or vectors.ndim != 2 or queries.shape[1] != vectors.shape[1]:
        raise InputError(f"queries {queries.shape} and vectors {vectors.shape} must be matrices of one width")
    if candidates.ndim != 2 or len(candidates) != len(queries) or candidates.dtype.kind not in "iu":
        raise InputError(f"candidates of shape {candidates.shape} must be whole numbers, one row per query")
    if candidates.size and (candidates.max() >= len(vectors) or candidates.min() < -1):
        raise InputError(f"candidates must be rows of vectors (0 to {len(vectors) - 1}) or -1")
    k = check_count("k", k, most=candidates.shape[1], hint="no more than there are candidates")
    cosines = np.empty((len(queries), k))
    rows = np.empty((len(queries), k), dtype=np.int64)
    for index, (query, row) in enumerate(zip(queries.astype(np.float64), candidates)):
        near = vectors[row].astype(np.float64)
        norms = np.linalg.norm(query) * np.linalg.norm(near, axis=1)
        cosine = np.divide(near @ query, norms, out=np.zeros(len(row)), where=norms > 0)
        cosine = np.clip(cosine, -1, 1)  # rounding may exceed 1 for a vector and itself
        cosine[row < 0] = -np.inf
        best = np.argsort(-cosine, kind="stable")[:k]
        cosines[index], rows[index] = cosine[best], row[best]
    return cosines, rows
