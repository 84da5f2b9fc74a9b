"""`CandidateRecall`: how many of the nearest vectors are among the nearest codes, counted on a sample of queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.progress import steps
from initscope._utils.randomness import generator
from initscope.embed.codes import hamming_blocks
from initscope.errors import InputError, check_between, check_count
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CandidateRecall", "candidate_recall", "own_recall"]

_BLOCK_ELEMENTS = 1 << 22
_SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class CandidateRecall(Result):
    """What `Searcher.recall` counts: of the ``k`` nearest by cosine, the share that ``candidates`` nearest codes hold.

    ``places[q, j]`` is the place, from 1 on, of the code of the j-th nearest vector among all codes by their distance
    from query ``q``: with that many candidates it is found. So one count answers for every number of candidates.
    ``standard_error`` is over the queries. ``asked`` is the share of the vectors held that were queries, 0 for queries
    of the user's: a sample of the vectors held stands for all of them, so its error is smaller by √(1 - asked).
    """

    share: float
    standard_error: float
    k: int
    candidates: int
    vectors: int
    places: np.ndarray = field(repr=False)
    asked: float = 0.0

    def share_of(self, candidates: int) -> tuple[float, float]:
        """The share that so many candidates find, and its standard error over the queries."""
        return _share(self.places, check_count("candidates", candidates), self.asked)

    def candidates_for(self, share: float) -> int:
        """The fewest candidates that find this share of the nearest, over these queries."""
        check_between("share", share, 0.0, 1.0, ends="high", hint="0.95 finds 95 of 100")
        return int(np.sort(self.places, axis=None)[math.ceil(share * self.places.size) - 1])

    def table(self) -> list[dict[str, Any]]:
        """What the search does now, then what other shares take."""
        rows = [(self.candidates, self.share, self.standard_error)]
        for share in _SHARES:
            candidates = self.candidates_for(share)
            rows.append((candidates, *self.share_of(candidates)))
        return [
            {"candidates": candidates, "of all": candidates / self.vectors, "found": share, "standard error": error}
            for candidates, share, error in rows
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """The share found against the number of candidates, and where the search stands."""
        ax = make_axes(ax)
        places = np.sort(self.places, axis=None)
        ax.step(places, np.arange(1, places.size + 1) / places.size, where="post")
        ax.axvline(self.candidates, linestyle=":", color="0.5", label=f"{self.candidates} candidates")
        ax.set_xscale("log")
        ax.set_xlabel("candidates")
        ax.set_ylabel(f"share of the {self.k} nearest found")
        ax.legend()
        return ax


def candidate_recall(
    queries: np.ndarray,
    query_codes: np.ndarray,
    codes: np.ndarray,
    vectors_at: Callable[[slice], np.ndarray],
    k: int,
    candidates: int,
    own: np.ndarray | None = None,
) -> CandidateRecall:
    """Count the places of the nearest vectors among the codes, in the order of adding where distances are equal.

    ``vectors_at`` gives the vectors of a slice of ``codes``; ``own``, the place of each query among them, is left out.
    """
    others = len(codes) - (own is not None)
    k = check_count("k", k, most=max(others, 1), hint=f"each query has {others} vectors to find")
    nearest = _nearest(queries, vectors_at, len(codes), k, own)
    places = np.empty((len(queries), k), dtype=np.int64)
    asked = 0.0 if own is None else len(own) / len(codes)
    for rows, distances in hamming_blocks(query_codes, codes):
        for query, row in zip(range(rows.start, rows.stop), distances.astype(np.int64), strict=True):
            if own is not None:
                row[own[query]] = np.iinfo(np.int64).max
            for rank, place in enumerate(nearest[query]):
                before = np.count_nonzero(row < row[place]) + np.count_nonzero(row[:place] == row[place])
                places[query, rank] = before + 1
    return CandidateRecall(*_share(places, candidates, asked), k, candidates, others, places, asked)


def own_recall(
    codes: np.ndarray, vectors_at: Callable[[Any], np.ndarray], k: int, candidates: int, sample: int, seed: int
) -> CandidateRecall:
    """`candidate_recall` of a ``sample`` of the vectors held, each asked for its neighbours among the others."""
    if len(codes) < 2:
        raise InputError(f"{len(codes)} vectors have no neighbours to look for; hold at least two")
    count = min(check_count("sample", sample), len(codes))
    own = np.sort(generator(seed, "recall").choice(len(codes), count, replace=False))
    return candidate_recall(vectors_at(own), codes[own], codes, vectors_at, k, candidates, own)


def _nearest(
    queries: np.ndarray, vectors_at: Callable[[slice], np.ndarray], count: int, k: int, own: np.ndarray | None
) -> np.ndarray:
    """Places of the ``k`` nearest of each query by cosine, best first; every vector is read once, in blocks."""
    asked = _unit(queries)
    cosines, places = np.empty((len(asked), 0)), np.empty((len(asked), 0), dtype=np.int64)
    size = max(_BLOCK_ELEMENTS // max(asked.shape[1], len(asked)), 1)
    for start in steps(range(0, count, size), "comparing all vectors"):
        block = np.arange(start, min(start + size, count))
        near = asked @ _unit(vectors_at(slice(start, start + size))).T
        if own is not None:
            near[own[:, None] == block] = -np.inf
        cosines = np.concatenate([cosines, near], axis=1)
        places = np.concatenate([places, np.broadcast_to(block, near.shape)], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        cosines, places = np.take_along_axis(cosines, best, 1), np.take_along_axis(places, best, 1)
    return places


def _unit(rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise InputError("vectors hold NaN or infinite values, which have no neighbours; repair or leave them out")
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def _share(places: np.ndarray, candidates: int, asked: float) -> tuple[float, float]:
    """The mean share of the queries, and its error as a sample without replacement of which ``asked`` is the share."""
    found = (places <= candidates).mean(axis=1)
    error = found.std(ddof=1) * math.sqrt((1 - asked) / len(found)) if len(found) > 1 else math.nan
    return float(found.mean()), float(error)
