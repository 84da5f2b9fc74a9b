"""`HammingIndex`: nearest codes by Hamming distance on faiss's binary indexes, with your own ids, saved safely.

Codes are padded to whole 64-bit words: distances are the same, and the search is two to three times faster for codes
such as 48 bits. After enough queries, exhaustive search switches from faiss to compiled loops (`scan`). Threads take
turns. A process that saves to a file that another process has changed gets an error; `HammingIndex.edit` waits instead.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, Self, TypeVar, cast, get_args

import numpy as np

from initscope._utils.faiss import has_faiss, load_faiss, rests_before_forks, stored
from initscope._utils.files import locked
from initscope.embed._container import expect, read_signed, stored_digest, write_arrays
from initscope.embed._graph import Graph
from initscope.embed._plain import PlainFlat
from initscope.embed.codes import check_codes, words
from initscope.embed.scan import Scan, scan_loops
from initscope.errors import InputError, check_count

__all__ = ["HammingIndex", "Kind"]

Kind = Literal["flat", "ivf", "hnsw"]

_MAGIC, _VERSION = b"initscope-index\n", 1
_LAST_ID = 2**63 - 1
_TOGETHER = 1 << 12  # queries that one pass over the codes serves; faiss's 32 cost some 6 % of the time

Method = TypeVar("Method", bound=Callable[..., Any])


def _in_turn(method: Method) -> Method:
    """Let one thread at a time use an index, because faiss does not support a search while codes are added."""

    @functools.wraps(method)
    def alone(self: HammingIndex, *args: Any, **options: Any) -> Any:
        with self.lock:
            return method(self, *args, **options)

    return cast(Method, alone)


class HammingIndex:
    """Index of packed codes. Threads may share it: they wait for each other, and a batch of queries uses all cores.

    Parameters
    ----------
    bits : int
        Length of the codes.
    kind : {"flat", "ivf", "hnsw"}
        Exact; inverted lists (a few percent of the codes are compared); graph of the distinct codes (fast, cannot
        remove).
    lists, probes : int
        For "ivf": number of lists (None: four times the root of the number of codes in the first call of `add`) and
        number of lists that are searched.
    links, effort : int
        For "hnsw": links per code, and length of the list of candidates during the search.

    Examples
    --------
    >>> codes = np.array([[0], [1], [255]], dtype=np.uint8)
    >>> index = HammingIndex(bits=8)
    >>> index.add(codes, ids=[10, 20, 30])
    >>> index.search(codes[:1], k=2)
    (array([[0, 1]], dtype=int32), array([[10, 20]]))
    """

    def __init__(
        self,
        bits: int,
        kind: Kind = "flat",
        *,
        lists: int | None = None,
        probes: int = 16,
        links: int = 16,
        effort: int = 64,
    ) -> None:
        self.bits = check_count("bits", bits, most=1 << 20)
        if kind not in get_args(Kind):
            raise InputError(f"kind = {kind!r} is unknown; choose one of {', '.join(get_args(Kind))}")
        self.kind: Kind = kind
        self.lists = None if lists is None else check_count("lists", lists, most=1 << 24)
        self.probes = check_count("probes", probes, most=1 << 24)
        self.links = check_count("links", links, least=2, most=512)
        self.effort = check_count("effort", effort, most=1 << 24)
        self._padded = -(-self.bits // 64) * 64
        self._ids = np.empty(0, dtype=np.int64)
        self._scan: Scan | None = None
        self._compared = 0
        self._loops_fail = False
        self._source: tuple[str, bytes] | None = None  # the file it is the content of, and its checksum
        self._edited: str | None = None  # the file whose lock `edit` holds
        self.lock = threading.RLock()
        rests_before_forks(self)
        self._index: Any = None if kind == "ivf" else self._empty()

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return f"HammingIndex(bits={self.bits}, kind={self.kind!r}, {len(self)} codes)"

    @property
    def ids(self) -> np.ndarray:
        """Ids of the codes held, in the order of adding."""
        return self._ids.copy()

    @property
    def compiled(self) -> bool:
        """Whether exhaustive search has gone over from faiss to the compiled loops."""
        return self._scan is not None

    @_in_turn
    def add(self, codes: Any, ids: Any = None) -> None:
        """Add codes under ``ids`` (different whole numbers; by default they continue the present ones).

        Bad codes or ids change nothing, and an interrupt takes effect before or after the change. An "ivf" index builds
        its lists from the codes of the first call.
        """
        self._check_whole()
        codes = self._words(check_codes("codes", codes, self.bits))
        ids = self._new_ids(ids, len(codes))
        if len(codes) == 0:
            return
        index = self._trained(codes) if self._index is None else self._index
        together = np.concatenate([self._ids, ids])
        self._scan = None
        try:
            if self.kind == "ivf":
                index.add_with_ids(codes, ids)
            else:
                index.add(codes)
        finally:  # an interrupt while faiss works is raised when it is done: then the codes are in
            if index.ntotal == len(together):
                self._index, self._ids = index, together

    @_in_turn
    def remove(self, ids: Any) -> int:
        """Remove the codes with these ids; return how many there were. An "hnsw" index cannot."""
        if self.kind == "hnsw":
            raise InputError("kind = 'hnsw' cannot remove codes (faiss's graph has no removal); use 'flat' or 'ivf'")
        self._check_whole()
        ids = self._whole(ids)
        keep = ~np.isin(self._ids, ids)
        gone = np.flatnonzero(~keep) if self.kind == "flat" else self._ids[~keep]
        if len(gone):
            kept = self._ids[keep]
            self._scan = None
            try:
                self._index.remove_ids(gone)
            finally:
                if self._index.ntotal == len(kept):
                    self._ids = kept
        return len(gone)

    @_in_turn
    def search(self, codes: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(distances, ids)``, each ``[queries, k]``, nearest first; "flat" keeps ties in the order of adding.

        Where "ivf" or "hnsw" finds fewer than ``k`` codes, the rest has id -1 and distance ``bits + 1``.
        """
        self._check_whole()
        queries = self._words(check_codes("codes", codes, self.bits))
        if len(self) == 0:
            raise InputError("the index is empty; add codes before searching")
        k = check_count("k", k, most=len(self), hint=f"the index holds {len(self)} codes")
        if self.kind == "flat":
            distances, indices = self._exhaustive(queries, k)
            return distances, self._ids[indices]
        if self.kind == "hnsw":
            distances, indices = self._index.search(queries, k, self.effort)
            ids = np.where(indices < 0, -1, self._ids[indices])
        else:
            self._index.nprobe = min(self.probes, self._index.nlist)
            distances, ids = self._index.search(queries, k)
        distances[ids < 0] = self.bits + 1
        return distances, ids

    @_in_turn
    def codes_and_ids(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all stored codes, padded to whole words, and their ids."""
        self._check_whole()
        if self.kind == "hnsw":
            raise InputError("kind = 'hnsw' keeps distinct codes in a graph; use 'flat' or 'ivf' to list them")
        arrays = self._arrays()
        if not arrays:
            return np.empty((0, self._padded // 8), dtype=np.uint8), self._ids
        return arrays["codes"], arrays.get("list_ids", self._ids)

    @_in_turn
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a new file, which replaces ``path`` only when it is completely on the disk.

        If another process has saved to this file since the index was loaded from it, `InputError` is raised, because
        that process's changes would be lost. `edit` waits for other processes instead.
        """
        destination = os.path.realpath(path)
        with nullcontext() if destination == self._edited else locked(path):
            if self._source is not None and self._source[0] == destination:
                there = stored_digest(path)
                if there is not None and there != self._source[1]:
                    raise InputError(
                        f"{path}: was changed by another process since this index was loaded from it or saved to it; "
                        "load it again and repeat the change (HammingIndex.edit waits for others), or save elsewhere"
                    )
            self._source = destination, write_arrays(path, _MAGIC, _VERSION, *self.__getstate__())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a saved index; a foreign, truncated or damaged file is refused."""
        options, arrays, digest = read_signed(path, _MAGIC, _VERSION, "an index")
        index = cls.__new__(cls)
        try:
            index.__setstate__((options, arrays))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: holds no usable index ({error})") from error
        index._source = os.path.realpath(path), digest
        return index

    @classmethod
    @contextmanager
    def edit(cls, path: str | os.PathLike[str]) -> Iterator[Self]:
        """Load a saved index, yield it for changes, and save it; other processes that edit the file wait.

        After an exception nothing is saved.

        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp(), "codes.index")
        >>> HammingIndex(bits=8).save(file)
        >>> with HammingIndex.edit(file) as index:
        ...     index.add(np.array([[5]], dtype=np.uint8))
        >>> len(HammingIndex.load(file))
        1
        """
        with locked(path):
            index = cls.load(path)
            index._edited = os.path.realpath(path)
            try:
                yield index
                index.save(path)
            finally:
                index._edited = None

    @_in_turn
    def __getstate__(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return options and arrays for files and pickles."""
        self._check_whole()
        options = {name: getattr(self, name) for name in ("bits", "kind", "lists", "probes", "links", "effort")}
        return options, {"ids": self._ids, **self._arrays()}

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, np.ndarray]]) -> None:
        options, arrays = state
        HammingIndex.__init__(self, **options)
        self._restore(arrays)

    def _check_whole(self) -> None:
        """Raise `InputError`, above all before saving, if an operation of faiss was interrupted."""
        if (0 if self._index is None else self._index.ntotal) != len(self._ids):
            raise InputError("an add or remove was interrupted half-way; load the index again from where it was saved")

    def _exhaustive(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices, by faiss at first and by compiled loops once loading them pays.

        Both give the same result.
        """
        self._compared += len(queries) * len(self) * self._padded // 64
        if self._scan is None and not self._loops_fail and (loops := scan_loops(self._compared)):
            self._scan = Scan(stored(self._index), loops)
        if self._scan is not None:
            try:
                threads = load_faiss().omp_get_max_threads() if has_faiss() else os.cpu_count() or 1
                return self._scan.search(queries, k, threads=threads)
            except Exception:  # they could not be compiled: faiss has the same answer
                self._scan, self._loops_fail = None, True
        distances, indices = self._index.search(queries, k)
        return distances, indices

    # What faiss holds, as arrays and back.

    def _arrays(self) -> dict[str, np.ndarray]:
        if self._index is None:
            return {}
        if self.kind == "flat":
            return {"codes": stored(self._index)}
        if self.kind == "hnsw":
            return dict(self._index.arrays())
        faiss, lists, size = load_faiss(), self._index.invlists, self._padded // 8
        sizes = np.array([lists.list_size(number) for number in range(self._index.nlist)], dtype=np.int64)
        filled = [number for number in range(self._index.nlist) if sizes[number]]
        codes = [faiss.rev_swig_ptr(lists.get_codes(number), int(sizes[number]) * size).copy() for number in filled]
        ids = [faiss.rev_swig_ptr(lists.get_ids(number), int(sizes[number])).copy() for number in filled]
        return {
            "centroids": stored(faiss.downcast_IndexBinary(self._index.quantizer)),
            "sizes": sizes,
            "list_ids": np.concatenate(ids) if ids else np.empty(0, dtype=np.int64),
            "codes": np.concatenate(codes).reshape(-1, size) if codes else np.empty((0, size), dtype=np.uint8),
        }

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Fill an empty index. Files are not trusted: faiss gets only checked arrays."""
        ids = expect(arrays, "ids", np.int64, None)
        if ids.min(initial=0) < 0 or not _all_different(ids):
            raise ValueError("ids that repeat or are negative")
        if self.kind == "hnsw":
            self._index.restore(arrays, len(ids))
        elif self.kind == "flat":
            self._index.add(expect(arrays, "codes", np.uint8, len(ids), self._padded // 8))
        elif len(arrays) > 1:
            self._restore_lists(arrays, ids)
        self._ids = ids
        self._check_whole()

    def _restore_lists(self, arrays: dict[str, np.ndarray], ids: np.ndarray) -> None:
        faiss, size = load_faiss(), self._padded // 8
        centroids = expect(arrays, "centroids", np.uint8, None, size)
        sizes = expect(arrays, "sizes", np.int64, len(centroids))
        codes = expect(arrays, "codes", np.uint8, len(ids), size)
        list_ids = expect(arrays, "list_ids", np.int64, len(ids))
        if len(sizes) == 0 or sizes.min() < 0 or sizes.max() > len(ids) or sizes.sum() != len(ids):
            raise ValueError(f"sizes of lists that do not add up to {len(ids)}")
        if not np.array_equal(np.sort(list_ids), np.sort(ids)):
            raise ValueError("list_ids and ids differ")
        self._index = self._inverted(centroids)
        ends = np.cumsum(sizes)
        for number, (start, stop) in enumerate(zip(ends - sizes, ends)):
            if stop > start:
                names, part = list_ids[start:stop], codes[start:stop]
                self._index.invlists.add_entries(number, len(names), faiss.swig_ptr(names), faiss.swig_ptr(part))
        self._index.ntotal = len(ids)

    def _empty(self) -> Any:
        if self.kind == "hnsw":
            return Graph(self._padded, self.links)
        if not has_faiss():
            return PlainFlat(self._padded)
        index = load_faiss().IndexBinaryFlat(self._padded)
        index.query_batch_size = _TOGETHER
        return index

    def _trained(self, codes: np.ndarray) -> Any:
        """Return inverted lists around centroids of these codes."""
        faiss = load_faiss()
        lists = min(self.lists or max(int(4 * len(codes) ** 0.5), 1), len(codes))
        quantizer = faiss.IndexBinaryFlat(self._padded)
        index = faiss.IndexBinaryIVF(quantizer, self._padded, lists)
        index.cp.min_points_per_centroid = 1
        index.train(codes)
        return self._inverted(stored(quantizer))

    def _inverted(self, centroids: np.ndarray) -> Any:
        faiss = load_faiss()
        quantizer = faiss.IndexBinaryFlat(self._padded)
        quantizer.add(centroids)
        index = faiss.IndexBinaryIVF(quantizer, self._padded, quantizer.ntotal)
        index.is_trained = True
        return index

    def _words(self, codes: np.ndarray) -> np.ndarray:
        return np.asarray(words(codes).view(np.uint8))

    def _new_ids(self, ids: Any, count: int) -> np.ndarray:
        if ids is None:
            first = int(self._ids.max(initial=-1)) + 1
            if first + count - 1 > _LAST_ID:
                raise InputError(f"id {first - 1} is in the index: {count} more do not fit below 2**63; give ids")
            return np.arange(first, first + count, dtype=np.int64)
        chosen = self._whole(ids)
        if len(chosen) != count:
            raise InputError(f"{count} codes but {len(chosen)} ids; give one id per code")
        if count and int(chosen.min()) < 0:
            raise InputError(f"id {int(chosen.min())} is negative; ids are whole numbers from 0 (-1 means none)")
        if not _all_different(chosen):
            raise InputError("ids repeat; every code needs an id of its own")
        beyond = count == 0 or int(chosen.min()) > int(self._ids.max(initial=-1))
        taken = chosen[:0] if beyond else chosen[np.isin(chosen, self._ids)]
        if len(taken):
            raise InputError(f"id {int(taken[0])} is in the index already; remove it first or choose another")
        return chosen

    @staticmethod
    def _whole(ids: Any) -> np.ndarray:
        array = np.atleast_1d(np.asarray(ids))
        if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
            raise InputError(f"ids of type {array.dtype} and shape {array.shape} must be a list of whole numbers")
        if array.size and int(array.max()) > _LAST_ID:
            raise InputError(f"id {int(array.max())} is too large; ids are whole numbers below 2**63")
        return array.astype(np.int64)


def _all_different(ids: np.ndarray) -> bool:
    """Return whether all ids are different; increasing ids, the default, are recognized at once."""
    if (ids[1:] > ids[:-1]).all():
        return True
    ordered = np.sort(ids)
    return bool((ordered[1:] != ordered[:-1]).all())
