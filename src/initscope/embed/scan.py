"""`Scan`: exhaustive search by compiled loops, several times faster than faiss's, loaded when this pays."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from initscope._utils.compiled import in_threads, loops
from initscope.embed.codes import words

__all__ = ["Scan", "scan_loops"]

_WORTH_LOADING = 1 << 29  # words compared: faiss takes as long for them as numba to load, about half a second
_BATCH = 64  # queries that look at a block of codes while it is in the cache
_ENTRIES = 1 << 22  # of candidates and counts that a thread holds at once


def scan_loops(compared: int) -> ModuleType | None:
    """Return the loops if numba is installed and they are loaded or worth loading for this number of comparisons."""
    return loops("initscope.embed._loops", pays=compared >= _WORTH_LOADING)


class Scan:
    """Packed codes ``uint8 [N, bytes]`` in the layout of the loops."""

    def __init__(self, codes: np.ndarray, loops: ModuleType) -> None:
        self._loops = loops
        rows, block = words(codes), loops.BLOCK
        self._count = len(rows)
        padded = np.zeros((-(-len(rows) // block), block, rows.shape[1]), dtype=np.uint64)
        padded.reshape(-1, rows.shape[1])[: len(rows)] = rows
        self._blocks = np.ascontiguousarray(padded.transpose(0, 2, 1))

    def search(self, queries: np.ndarray, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the ``k`` nearest codes of each query, ties in the order of the codes."""
        asked = words(queries)
        distances, indices = np.empty((len(asked), k), dtype=np.int32), np.empty((len(asked), k), dtype=np.int64)
        together = max(1, min(_BATCH, _ENTRIES // (2 * k + 64 * asked.shape[1])))

        def work(share: slice) -> None:
            for start in range(share.start, share.stop, together):
                part = slice(start, min(start + together, share.stop))
                self._loops.nearest(self._blocks, self._count, asked[part], distances[part], indices[part])

        in_threads(work, len(asked), threads)
        return distances, indices
