"""A flat index without faiss: NumPy compares all codes.

It has the methods of faiss's flat index that `HammingIndex` calls.
"""

from __future__ import annotations

import numpy as np

from initscope.embed.codes import hamming_blocks

__all__ = ["PlainFlat"]


class PlainFlat:
    """Packed codes in one array, ``uint8 [N, bits / 8]``."""

    def __init__(self, bits: int) -> None:
        self.codes = np.empty((0, bits // 8), dtype=np.uint8)

    @property
    def ntotal(self) -> int:
        """Number of codes."""
        return len(self.codes)

    def add(self, codes: np.ndarray) -> None:
        """Append codes."""
        self.codes = np.concatenate([self.codes, codes])

    def remove_ids(self, indices: np.ndarray) -> None:
        """Remove the codes at these indices; the others keep their order."""
        self.codes = np.delete(self.codes, indices, axis=0)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the ``k`` nearest codes of each query, ties in the order of the codes."""
        nearest = np.empty((len(queries), k), dtype=np.int64)
        for rows, distances in hamming_blocks(queries, self.codes):
            keys = distances.astype(np.int64) * self.ntotal + np.arange(self.ntotal)  # no two alike
            smallest = np.partition(keys, k - 1, axis=1)[:, :k] if k < self.ntotal else keys
            nearest[rows] = np.sort(smallest, axis=1)
        return (nearest // self.ntotal).astype(np.int32), nearest % self.ntotal
