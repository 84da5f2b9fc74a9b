"""faiss, an optional library: its loading, the codes that its flat indexes hold, and what a fork needs.

faiss's threads are those of OpenMP. They do not survive a fork, and the child would wait for them for ever: there faiss
goes on with one. Nor does the child have the thread that was adding codes: so forks wait until the indexes are at rest.
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
    """What `threading.RLock` makes."""

    def acquire(self) -> bool:
        """Take it."""

    def release(self) -> None:
        """Give it back."""


_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()
_HELD: list[Lock] = []


def has_faiss() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def load_faiss() -> Any:
    """The module, or the error that says how to get it."""
    return library("faiss")


def nearest_rows(queries: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances and numbers of the ``k`` nearest rows of each query, nearest first, all float32.

    By faiss; by NumPy, a matrix product for some queries at a time, where faiss is not installed.
    """
    if has_faiss():
        distances, places = load_faiss().knn(queries, rows, k)
        return distances, places
    lengths = np.einsum("ij,ij->i", rows, rows)
    distances, places = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for start in range(0, len(queries), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        own = np.einsum("ij,ij->i", queries[part], queries[part])
        squared = np.maximum(lengths - 2 * queries[part] @ rows.T + own[:, None], 0)
        near = np.argpartition(squared, k - 1, axis=1)[:, :k]
        found = np.take_along_axis(squared, near, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        distances[part] = np.take_along_axis(found, order, axis=1)
        places[part] = np.take_along_axis(near, order, axis=1)
    return distances, places


_TOGETHER = 256  # queries whose distances to all rows are held at once


def stored(flat: Any) -> np.ndarray:
    """Codes held by a flat index, faiss's or `initscope.embed._plain`'s."""
    if hasattr(flat, "codes"):
        return np.asarray(flat.codes)
    return np.asarray(load_faiss().vector_to_array(flat.xb)).reshape(flat.ntotal, flat.code_size)


def rests_before_forks(owner: Any) -> None:
    """Have every fork wait for ``owner.lock``."""
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
