"""Nearest codes by Hamming distance in one pass, compiled. Importing this file imports numba.

Codes are stored in blocks of `BLOCK`, word by word (``uint64 [blocks, words, BLOCK]``), so that the distances of a
block are computed by vector instructions. A block stays in the cache while all queries are compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from initscope._utils.compiled import compiled

__all__ = ["BLOCK", "nearest"]

BLOCK = 256


def _typed_bit_count(_context: Any, word: Any) -> Any:
    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


_bit_count: Any = intrinsic(_typed_bit_count)  # number of ones of a 64-bit word: LLVM knows each processor's way


@compiled
def _distances(block: Any, query: Any, out: Any) -> int:
    """Write distances of a block's codes to a query into ``out``; return the smallest."""
    for i in range(BLOCK):
        out[i] = _bit_count(block[0, i] ^ query[0])
    for word in range(1, query.shape[0]):
        for i in range(BLOCK):
            out[i] += _bit_count(block[word, i] ^ query[word])
    smallest = out[0]
    for i in range(BLOCK):
        smallest = min(smallest, out[i])
    return smallest  # type: ignore[no-any-return]


@compiled
def _keep_nearest(distances: Any, indices: Any, size: int, k: int, worst: int, fewer: int) -> int:
    """Keep the first ``k`` candidates: the ``fewer`` ones nearer than ``worst``, then those at distance ``worst``."""
    kept, at_worst = 0, k - fewer
    for i in range(size):
        if distances[i] > worst or (distances[i] == worst and at_worst == 0):
            continue
        at_worst -= distances[i] == worst
        distances[kept], indices[kept] = distances[i], indices[i]
        kept += 1
    return kept


@compiled
def nearest(
    blocks: npt.NDArray[np.uint64],
    count: int,
    queries: npt.NDArray[np.uint64],
    distances: npt.NDArray[np.int32],
    indices: npt.NDArray[np.int64],
) -> None:
    """The ``k`` nearest of ``count`` codes to each query into ``distances``, ``indices [queries, k]``; ties in order.

    Each query has its candidates, and their number at each distance. ``worst`` is the k-th smallest distance so far:
    later codes count only below it, so few codes are examined individually.
    """
    asked, k = distances.shape
    farthest = 64 * queries.shape[1] + 1
    capacity = 2 * k + BLOCK
    counts = np.zeros((asked, farthest + 1), np.int64)
    candidates, candidate_indices = np.empty((asked, capacity), np.int32), np.empty((asked, capacity), np.int64)
    sizes, fewer, worst = np.zeros(asked, np.int64), np.zeros(asked, np.int64), np.full(asked, farthest)
    out = np.empty(BLOCK, np.int64)
    for block in range(blocks.shape[0]):
        first = block * BLOCK
        held = min(BLOCK, count - first)
        for q in range(asked):
            if _distances(blocks[block], queries[q], out) >= worst[q]:
                continue
            if sizes[q] + held > capacity:
                sizes[q] = _keep_nearest(candidates[q], candidate_indices[q], sizes[q], k, worst[q], fewer[q])
            for i in range(held):
                if out[i] < worst[q]:
                    candidates[q, sizes[q]], candidate_indices[q, sizes[q]] = out[i], first + i
                    sizes[q] += 1
                    counts[q, out[i]] += 1
                    fewer[q] += 1
                    while fewer[q] >= k:
                        worst[q] -= 1
                        fewer[q] -= counts[q, worst[q]]
    for q in range(asked):
        size = _keep_nearest(candidates[q], candidate_indices[q], sizes[q], k, worst[q], fewer[q])
        start = 0
        for distance in range(worst[q] + 1):  # where each distance starts in the sorted row
            counts[q, distance], start = start, start + counts[q, distance]
        for i in range(size):
            at = counts[q, candidates[q, i]]
            distances[q, at], indices[q, at] = candidates[q, i], candidate_indices[q, i]
            counts[q, candidates[q, i]] += 1
