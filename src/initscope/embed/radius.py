"""`within_radius`: all codes of an index that are near a query, not the nearest few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.embed.codes import check_codes, hamming_blocks
from initscope.errors import check_count
from initscope.results import Result

if TYPE_CHECKING:
    from initscope.embed.index import HammingIndex

__all__ = ["Matches", "within_radius"]


@dataclass(frozen=True)
class Matches(Result):
    """Pairs of a query and a code within the radius: three arrays of equal length, nearest first for each query."""

    queries: np.ndarray
    distances: np.ndarray
    ids: np.ndarray

    def table(self) -> list[dict[str, Any]]:
        """Return one row per match."""
        return [
            {"query": int(query), "id": int(name), "distance": int(distance)}
            for query, name, distance in zip(self.queries, self.ids, self.distances, strict=True)
        ]


def within_radius(index: HammingIndex, codes: Any, radius: int) -> Matches:
    """Return every code of ``index`` at a Hamming distance of at most ``radius`` from each query; exact for every kind.

    Examples
    --------
    >>> from initscope.embed import HammingIndex
    >>> index = HammingIndex(bits=8)
    >>> index.add(np.array([[0], [1], [255]], dtype=np.uint8))
    >>> within_radius(index, np.array([[0]], dtype=np.uint8), 1).ids
    array([0, 1])
    """
    radius = check_count("radius", radius, least=0, most=index.bits)
    asked = check_codes("codes", codes, index.bits)
    held, names = index.codes_and_ids()
    matches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for rows, distances in hamming_blocks(asked, held[:, : asked.shape[1]]):
        query, index_of_code = np.nonzero(distances <= radius)
        matches.append((query + rows.start, distances[query, index_of_code], names[index_of_code]))
    queries, near, ids = (
        (np.concatenate(column) for column in zip(*matches)) if matches else (np.empty(0, np.int64),) * 3
    )
    order = np.lexsort((ids, near, queries))
    return Matches(queries[order], near[order].astype(np.int32), ids[order])
