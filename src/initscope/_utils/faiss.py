"""The optional library faiss: loading, the codes of its flat indexes, and safety around ``fork``.

faiss uses OpenMP threads. They do not survive a fork, and the child would wait for them forever, so the child uses one
thread. A thread that was adding codes does not exist in the child either, so a fork waits until all indexes are idle.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import weakref
from typing import Any, Protocol

import numpy as np

from initscope._utils.libraries import library

__all__ = ["has_faiss", "load_faiss", "nearest_rows", "rests_before_forks", "stored"]


class Lock(Protocol):
    """The interface of `threading.RLock` that is used here."""

    def acquire(self) -> bool:
        """Acquire the lock."""

    def release(self) -> None:
        """Release the lock."""


_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()
_HELD: list[Lock] = []


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def load_faiss() -> Any:
    """Return the module, or raise the error that says how to install it."""
    return library("faiss")


def nearest_rows(queries: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances and indices of the ``k`` nearest rows of each query, nearest first; all float32.

    faiss does the search if it is installed, else NumPy with one matrix product per batch of queries.
    """
    if has_faiss():
        distances, indices = load_faiss().knn(queries, rows, k)
        return distances, indices
    lengths = np.einsum("ij,ij->i", rows, rows)
    distances, indices = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), _BATCH):
        part = slice(start, start + _BATCH)
        query_lengths = np.einsum("ij,ij->i", queries[part], queries[part])
        squared = np.maximum(lengths - 2 * queries[part] @ rows.T + query_lengths[:, None], 0)
        near = np.argpartition(squared, k - 1, axis=1)[:, :k]
        nearest = np.take_along_axis(squared, near, axis=1)
        order = np.argsort(nearest, axis=1, kind="stable")
        distances[part] = np.take_along_axis(nearest, order, axis=1)
        indices[part] = np.take_along_axis(near, order, axis=1)
    return distances, indices


_BATCH = 256  # queries whose distances to all rows are held at once


def stored(flat: Any) -> np.ndarray:
    """Return the codes of a flat index of faiss or of `initscope.embed._plain`."""
    if hasattr(flat, "codes"):
        return np.asarray(flat.codes)
    return np.asarray(load_faiss().vector_to_array(flat.xb)).reshape(flat.ntotal, flat.code_size)


def rests_before_forks(owner: Any) -> None:
    """Make every fork wait for ``owner.lock``."""
    _OWNERS.add(owner)


def _before() -> None:
    _HELD.extend(owner.lock for owner in list(_OWNERS))
    for lock in _HELD:
        lock.acquire()


def _after() -> None:
    while _HELD:
        _HELD.pop().release()


def _after_in_child() -> None:
    _after()
    if "faiss" in sys.modules:
        sys.modules["faiss"].omp_set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
