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
    """Recall of `Searcher`: the share of the ``k`` nearest by cosine among the ``candidates`` nearest codes.

    ``ranks[q, j]`` is the rank, from 1, of the code of the j-th nearest vector of query ``q`` among all codes. The
    vector is found if there are at least that many candidates, so the ranks give the recall for any number of
    candidates. ``standard_error`` is over the queries. ``asked`` is the share of the stored vectors that served as
    queries, 0 for queries of the user; the error of such a sample without replacement is smaller by √(1 - asked).
    """

    share: float
    standard_error: float
    k: int
    candidates: int
    vectors: int
    ranks: np.ndarray = field(repr=False)
    asked: float = 0.0

    def share_of(self, candidates: int) -> tuple[float, float]:
        """Return the share that this number of candidates finds, and its standard error over the queries."""
        return _share(self.ranks, check_count("candidates", candidates), self.asked)

    def candidates_for(self, share: float) -> int:
        """Return the fewest candidates that find this share of the nearest, over these queries."""
        check_between("share", share, 0.0, 1.0, ends="high", hint="0.95 finds 95 of 100")
        return int(np.sort(self.ranks, axis=None)[math.ceil(share * self.ranks.size) - 1])

    def table(self) -> list[dict[str, Any]]:
        """Return the current recall, then the candidates needed for other shares."""
        rows = [(self.candidates, self.share, self.standard_error)]
        for share in _SHARES:
            candidates = self.candidates_for(share)
            rows.append((candidates, *self.share_of(candidates)))
        return [
            {"candidates": candidates, "of all": candidates / self.vectors, "found": share, "standard error": error}
            for candidates, share, error in rows
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the share found against the number of candidates, with the current number marked."""
        ax = make_axes(ax)
        ranks = np.sort(self.ranks, axis=None)
        ax.step(ranks, np.arange(1, ranks.size + 1) / ranks.size, where="post")
        ax.axvline(self.candidates, linestyle=":", color="0.5", label=f"{self.candidates} candidates")
        ax.set_xscale("log")
        ax.set_xlabel("candidates")
        ax.set_ylabel(f"share of the {self.k} nearest shares")
        ax.legend()
        return ax


def candidate_recall(
    queries: np.ndarray,
    query_codes: np.ndarray,
    codes: np.ndarray,
    vectors_at: Callable[[slice], np.ndarray],
    k: int,
    candidates: int,
    query_rows: np.ndarray | None = None,
) -> CandidateRecall:
    """Compute the ranks of the nearest vectors among the codes; ties are ranked in the order of adding.

    ``vectors_at`` returns the vectors of a slice of ``codes``; ``query_rows``, the row of each query, is left out.
    """
    others = len(codes) - (query_rows is not None)
    k = check_count("k", k, most=max(others, 1), hint=f"each query has {others} vectors to find")
    nearest = _nearest(queries, vectors_at, len(codes), k, query_rows)
    ranks = np.empty((len(queries), k), dtype=np.int64)
    asked = 0.0 if query_rows is None else len(query_rows) / len(codes)
    for rows, distances in hamming_blocks(query_codes, codes):
        for query, to_codes in zip(range(rows.start, rows.stop), distances.astype(np.int64), strict=True):
            if query_rows is not None:
                to_codes[query_rows[query]] = np.iinfo(np.int64).max
            for number, row in enumerate(nearest[query]):
                before = np.count_nonzero(to_codes < to_codes[row]) + np.count_nonzero(to_codes[:row] == to_codes[row])
                ranks[query, number] = before + 1
    return CandidateRecall(*_share(ranks, candidates, asked), k, candidates, others, ranks, asked)


def own_recall(
    codes: np.ndarray, vectors_at: Callable[[Any], np.ndarray], k: int, candidates: int, sample: int, seed: int
) -> CandidateRecall:
    """Return `candidate_recall` for a ``sample`` of the stored vectors, each searched among the others."""
    if len(codes) < 2:
        raise InputError(f"{len(codes)} vectors have no neighbors; add at least two")
    count = min(check_count("sample", sample), len(codes))
    query_rows = np.sort(generator(seed, "recall").choice(len(codes), count, replace=False))
    return candidate_recall(vectors_at(query_rows), codes[query_rows], codes, vectors_at, k, candidates, query_rows)


def _nearest(
    queries: np.ndarray, vectors_at: Callable[[slice], np.ndarray], count: int, k: int, query_rows: np.ndarray | None
) -> np.ndarray:
    """Return the rows of the ``k`` nearest of each query by cosine, best first; each vector is read once, in blocks."""
    asked = _unit(queries)
    cosines, rows = np.empty((len(asked), 0)), np.empty((len(asked), 0), dtype=np.int64)
    size = max(_BLOCK_ELEMENTS // max(asked.shape[1], len(asked)), 1)
    for start in steps(range(0, count, size), "comparing all vectors"):
        block = np.arange(start, min(start + size, count))
        near = asked @ _unit(vectors_at(slice(start, start + size))).T
        if query_rows is not None:
            near[query_rows[:, None] == block] = -np.inf
        cosines = np.concatenate([cosines, near], axis=1)
        rows = np.concatenate([rows, np.broadcast_to(block, near.shape)], axis=1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        cosines, rows = np.take_along_axis(cosines, best, 1), np.take_along_axis(rows, best, 1)
    return rows


def _unit(rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise InputError("vectors hold NaN or infinite values, which have no neighbors; repair or leave them out")
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0))


def _share(ranks: np.ndarray, candidates: int, asked: float) -> tuple[float, float]:
    """Return the mean share over the queries and its standard error; ``asked`` is the sampling fraction."""
    shares = (ranks <= candidates).mean(axis=1)
    error = shares.std(ddof=1) * math.sqrt((1 - asked) / len(shares)) if len(shares) > 1 else math.nan
    return float(shares.mean()), float(error)
