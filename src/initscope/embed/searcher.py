"""`Searcher`: nearest vectors by codes, Hamming candidates and exact cosines of the candidates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from initscope.embed._base import Hasher
from initscope.embed._container import read_arrays, storable, write_arrays
from initscope.embed.evaluation import Neighbors
from initscope.embed.index import HammingIndex, Kind
from initscope.embed.persistence import hasher_state, restored_hasher
from initscope.embed.radius import Matches, within_radius
from initscope.embed.recall import CandidateRecall, candidate_recall, own_recall
from initscope.embed.reranking import rerank
from initscope.embed.sign_hash import SignHash
from initscope.errors import InputError, check_count

__all__ = ["Searcher"]

_MAGIC, _VERSION = b"initscope-seek1\n", 1


class Searcher:
    """Nearest neighbors by cosine: short codes select candidates, and the vectors themselves rank them.

    The distance of two codes is binomial around the angle of the vectors [Charikar2002]_. The nearest codes alone
    contain few of the nearest vectors; the nearest hundred codes contain many more. The share of the ten nearest
    neighbors that 256 bits find, without and with 100 candidates, is .61 and .994 on 1,700 digits, .48 and 1.00 on
    10,000 points in clusters, .25 and .61 on 14,400 crops of photographs, .14 and .44 on 10,000 Gaussian points.
    Gaussian points all have about equal distances and need more candidates. `recall` measures the share on your
    vectors, and the candidates to reach others.

    Parameters
    ----------
    bits : int
        Length of the codes.
    rerank : int
        Candidates whose exact cosine is computed for each query; 0 ranks by the codes alone.
    hasher : Hasher, optional
        Any hash of `initscope.embed`; by default `SignHash` with ``bits`` bits, not centered because the cosine that
        ranks the candidates is not centered.
    kind : {"flat", "ivf", "hnsw"}
        Kind of the `HammingIndex`; all kinds except "flat" need faiss.
    seed : int
        Of the default hash.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((500, 20))
    >>> neighbors = Searcher(bits=128, rerank=50).fit(X).search(X[:2] * 3, k=5)
    >>> neighbors.ids[:, 0]
    array([0, 1])

    Vectors are not copied: a memory-mapped array (`numpy.load` with ``mmap_mode="r"``, or the path of a .npy file)
    stays on the disk and is encoded in blocks; only candidates are read again.
    """

    def __init__(
        self,
        bits: int = 256,
        rerank: int = 100,
        *,
        hasher: Hasher | None = None,
        kind: Kind = "flat",
        seed: int = 0,
    ) -> None:
        self.bits = check_count("bits", bits)
        self.rerank = check_count("rerank", rerank, least=0, hint="0 ranks by the codes alone")
        self.hasher = SignHash(bits=bits, random_state=seed) if hasher is None else hasher
        self.index = HammingIndex(self.hasher.bits, kind)
        self._parts: list[np.ndarray] = []  # arrays of vectors, as they were given: an id is a row of all of them
        self._ends: list[int] = []  # rows of all parts up to each

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Searcher(bits={self.index.bits}, rerank={self.rerank}, {len(self)} vectors)"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the codes from ``X`` (a hash of labels from ``y`` too) and hold its rows, under the ids 0, 1, 2 …"""
        X = _vectors(X)
        self.hasher.fit(X, y)
        self.index = HammingIndex(self.hasher.bits, self.index.kind)
        self._parts, self._ends = [], []
        self.add(X)
        return self

    def add(self, X: Any) -> np.ndarray:
        """Add vectors and return their ids, which continue the numbering."""
        X = _vectors(X)
        codes = self.hasher.transform(X)
        first = self._ends[-1] if self._ends else 0
        ids = np.arange(first, first + len(X))
        self.index.add(codes, ids)
        self._hold(X)
        return ids

    def _hold(self, X: np.ndarray) -> None:
        self._ends.append(len(X) + (self._ends[-1] if self._ends else 0))
        self._parts.append(X)

    def remove(self, ids: Any) -> int:
        """Remove these ids and return how many there were. They are not used again."""
        return self.index.remove(ids)

    def search(self, Q: Any, k: int = 10) -> Neighbors:
        """Return the ids of the ``k`` nearest of each row of ``Q``, and 1 - cosine (with ``rerank=0`` unequal bits)."""
        if not len(self):
            raise InputError("the searcher holds no vectors to search; call fit(X) first, or add(X) once it is fitted")
        Q = _vectors(Q)
        k = check_count("k", k, most=len(self), hint=f"there are {len(self)} vectors")
        candidates = min(max(k, self.rerank), len(self))
        distances, ids = self.index.search(self.hasher.transform(Q), candidates)
        if not self.rerank:
            return Neighbors(distances, ids)
        near = np.empty((len(Q), k), dtype=np.int64)
        cosines = np.empty((len(Q), k))
        for number, (query, row) in enumerate(zip(Q, ids, strict=True)):
            vectors = self._vectors_of(row)
            rows = np.where(row < 0, -1, np.arange(len(row)))
            cosine, best = rerank(query[None], rows[None], vectors, k)
            cosines[number], near[number] = cosine[0], np.where(best[0] < 0, -1, row[best[0]])
        return Neighbors(1 - cosines, near)

    def recall(self, Q: Any = None, k: int = 10, *, sample: int = 100, seed: int = 0) -> CandidateRecall:
        """Measure the share of the ``k`` nearest that a search finds, and the candidates needed for other shares.

        Queries are the rows of ``Q``, or by default a ``sample`` of the stored vectors, each excluded from its own
        result. Every vector is compared with every query once. The result is for exhaustive search; "ivf" finds less.
        The standard error is over the queries; if all stored vectors are queries it is 0.

        Examples
        --------
        >>> X = np.random.default_rng(0).standard_normal((2000, 64))
        >>> recall = Searcher(bits=256, rerank=100).fit(X).recall()
        >>> recall.share < 0.9                   # no point is near another: a hundred candidates are too few
        True
        >>> 100 < recall.candidates_for(0.95) < 2000
        True
        """
        codes, ids = self.index.codes_and_ids()
        codes = codes[:, : -(-self.index.bits // 8)]
        candidates = max(check_count("k", k), self.rerank)

        def vectors_at(rows: Any) -> np.ndarray:
            return self._vectors_of(ids[rows])

        if Q is None:
            return own_recall(codes, vectors_at, k, candidates, sample, seed)
        Q = _vectors(Q)
        if not len(Q):
            raise InputError("Q has no rows; give at least one query, or leave Q out to use a sample of the data")
        return candidate_recall(Q, self.hasher.transform(Q), codes, vectors_at, k, candidates)

    def radius(self, Q: Any, radius: int) -> Matches:
        """Return all vectors whose codes differ from a query's in at most ``radius`` bits."""
        return within_radius(self.index, self.hasher.transform(_vectors(Q)), radius)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write hash, codes and vectors to a new file, which replaces ``path`` only when it is completely on the disk.

        Vectors that were left on the disk are copied into it. The hash must be one of `initscope.embed`.
        """
        hash_meta, hash_arrays = hasher_state(self.hasher)
        options, index_arrays = self.index.__getstate__()
        groups = {
            "hash": hash_arrays,
            "index": index_arrays,
            "vectors": {str(number): storable(part) for number, part in enumerate(self._parts)},
        }
        arrays = {f"{group}:{name}": array for group, members in groups.items() for name, array in members.items()}
        meta = {"rerank": self.rerank, "hash": hash_meta, "index": options, "parts": len(self._parts)}
        write_arrays(path, _MAGIC, _VERSION, meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote, with the vectors in memory; a foreign, truncated or damaged file is refused."""
        meta, arrays = read_arrays(path, _MAGIC, _VERSION, "a searcher")
        groups: dict[str, dict[str, np.ndarray]] = {"hash": {}, "index": {}, "vectors": {}}
        try:
            for name, array in arrays.items():
                group, _, rest = name.partition(":")
                groups[group][rest] = array
            searcher = cls(rerank=meta["rerank"], hasher=restored_hasher(meta["hash"], groups["hash"]))
            searcher.index.__setstate__((meta["index"], groups["index"]))
            for number in range(meta["parts"]):
                part = groups["vectors"][str(number)]
                searcher._hold(part.reshape(len(part), searcher.hasher.n_features_in_))
            total = searcher._ends[-1] if searcher._ends else 0
            if searcher.index.bits != searcher.hasher.bits or searcher.index.ids.max(initial=-1) >= total:
                raise ValueError("codes and vectors do not belong together")
        except Exception as error:  # wrong arrays may raise anything; the cause is the file
            raise InputError(f"{path}: holds no usable searcher ({error or type(error).__name__})") from error
        return searcher

    def _vectors_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the vectors of these ids; zeros for -1."""
        part = np.searchsorted(self._ends, ids, side="right")
        vectors = np.zeros((len(ids), self._parts[0].shape[1]))
        for number in np.unique(part[ids >= 0]):
            inside = (part == number) & (ids >= 0)
            start = self._ends[number] - len(self._parts[number])
            vectors[inside] = self._parts[number][ids[inside] - start]
        return vectors


def _vectors(X: Any) -> np.ndarray:
    """Return a matrix of numbers, mapped and not read if it is the path of a .npy file."""
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        if path.suffix != ".npy" or not path.is_file():
            raise InputError(f"{path} is no .npy file; save the vectors by numpy.save, or give an array")
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InputError(f"vectors of shape {array.shape} and type {array.dtype} must be a matrix of numbers [N, n]")
    return array
