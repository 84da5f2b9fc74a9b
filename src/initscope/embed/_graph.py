"""`Graph`: faiss's HNSW graph of the distinct codes; each node stands for all codes equal to it.

In a graph of all codes, equal codes would link only to each other, and the search could not leave them.
"""

from __future__ import annotations

import numpy as np

from initscope._utils.faiss import load_faiss, stored
from initscope.embed._container import expect

__all__ = ["Graph"]


class Graph:
    """Codes ``uint8 [N, bits / 8]`` by the order of adding, with the part of faiss's interface that an index needs."""

    def __init__(self, bits: int, links: int) -> None:
        faiss = load_faiss()
        self._index = faiss.IndexBinaryHNSW(bits, links)
        self._distinct = faiss.downcast_IndexBinary(self._index.storage)
        self._nodes = np.empty(0, dtype=np.int64)  # index of each code among the distinct codes
        self._groups: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def ntotal(self) -> int:
        """Number of codes; -1 if adding was interrupted half-way."""
        held = int(self._nodes.max(initial=-1)) + 1
        return len(self._nodes) if self._index.ntotal == held == self._index.hnsw.offsets.size() - 1 else -1

    def add(self, codes: np.ndarray) -> None:
        """Add codes: link those that the graph lacks, and store the node of each."""
        held = self._index.ntotal
        together = np.concatenate([stored(self._distinct), codes])
        whole_rows = together.view(np.dtype((np.void, together.shape[1]))).ravel()
        _, first, same = np.unique(whole_rows, return_index=True, return_inverse=True)
        lacking = np.sort(first[first >= held])
        node = np.where(first < held, first, held + np.searchsorted(lacking, first))
        nodes = np.concatenate([self._nodes, node[same[held:]]])
        self._groups = None
        try:
            if len(lacking):  # faiss crashes on none
                self._index.add(together[lacking])
        finally:  # see `HammingIndex.add`
            if self._index.ntotal == held + len(lacking):
                self._nodes = nodes

    def search(self, queries: np.ndarray, k: int, effort: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and node numbers of the nearest codes, -1 if fewer than ``k`` were found."""
        self._index.hnsw.efSearch = max(effort, k)
        near, distinct = self._index.search(queries, min(k, self._index.ntotal))
        if self._groups is None:
            sizes = np.bincount(self._nodes)
            self._groups = np.argsort(self._nodes, kind="stable"), sizes.cumsum() - sizes, sizes
        members, offsets, sizes = self._groups
        size = np.where(distinct < 0, 0, sizes[distinct])
        rank = size.cumsum(axis=1) - size  # of the first code of each group
        taken = np.clip(k - rank, 0, size).ravel()
        group = np.repeat(np.arange(taken.size), taken)
        within = np.arange(len(group)) - np.repeat(taken.cumsum() - taken, taken)
        at = group // max(distinct.shape[1], 1), rank.ravel()[group] + within
        distances, numbers = np.zeros((len(queries), k), dtype=np.int32), np.full((len(queries), k), -1)
        distances[at] = near.ravel()[group]
        numbers[at] = members[offsets[distinct.ravel()[group]] + within]
        return distances, numbers

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` takes."""
        faiss, hnsw = load_faiss(), self._index.hnsw
        return {
            "codes": stored(self._distinct),
            "places": self._nodes,  # the key in files of version 1
            "levels": faiss.vector_to_array(hnsw.levels),
            "links": faiss.vector_to_array(hnsw.neighbors),
            "entry": np.array([hnsw.entry_point], dtype=np.int64),
        }

    def restore(self, arrays: dict[str, np.ndarray], count: int) -> None:
        """Fill an empty graph; every link is checked here, because faiss follows links unchecked."""
        faiss, hnsw = load_faiss(), self._index.hnsw
        codes = expect(arrays, "codes", np.uint8, None, self._index.code_size)
        nodes = expect(arrays, "places", np.int64, count)
        levels = expect(arrays, "levels", np.int32, len(codes))
        ends = faiss.vector_to_array(hnsw.cum_nneighbor_per_level)  # links up to each level
        inside = len(nodes) == 0 or (nodes.min() >= 0 and nodes.max() < len(codes))
        if not inside or (np.bincount(nodes, minlength=len(codes)) == 0).any():
            raise ValueError("nodes do not match the codes")
        if len(codes) == 0:
            return
        if levels.min() < 1 or levels.max() >= len(ends):
            raise ValueError(f"levels range from {levels.min()} to {levels.max()}")
        offsets = np.concatenate([[0], np.cumsum(ends[levels], dtype=np.int64)])
        links = expect(arrays, "links", np.int32, int(offsets[-1]))
        entry = int(expect(arrays, "entry", np.int64, 1)[0])
        if not 0 <= entry < len(codes) or levels[entry] != levels.max():
            raise ValueError(f"entry {entry}")
        if links.min() < -1 or links.max() >= len(codes):
            raise ValueError(f"links point to codes {links.min()} to {links.max()}, but there are {len(codes)} codes")
        for level in range(1, int(levels.max())):
            linked = np.flatnonzero(levels > level)
            near = links[offsets[linked, None] + np.arange(ends[level], ends[level + 1])]
            if (levels[near[near >= 0]] <= level).any():
                raise ValueError(f"links of level {level} point to codes of lower levels")
        self._distinct.add(codes)
        self._index.ntotal = len(codes)
        for array, vector in (
            (levels, hnsw.levels),
            (offsets.astype(np.uint64), hnsw.offsets),
            (links, hnsw.neighbors),
        ):
            faiss.copy_array_to_vector(array, vector)
        hnsw.entry_point, hnsw.max_level = entry, int(levels.max()) - 1
        self._nodes = nodes
