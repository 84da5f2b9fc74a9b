"""Loops compiled by numba (extra ``fast``): the one way to compile them, to decide on them and to share them out.

Loading numba takes half a second, compiling a loop for the first time a few more; the machine code is kept on disk.
So a room keeps its loops in a module of their own and asks `loops` for it with a word on whether the work pays.
A cache that is damaged, full or not writable costs the time of compiling, never the answer. It holds code of the same
sources only: those of the loop, of loops in other files that it calls, of numbers that it reads, and its options.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from initscope._utils.content import digest_of, file_digest
from initscope._utils.progress import note

__all__ = ["compiled", "has_numba", "in_threads", "loops"]

Function = TypeVar("Function", bound=Callable[..., Any])
_DIGEST = 32
_UNUSABLE: set[str] = set()


def has_numba() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: Function, **options: Any) -> Function:
    """``function``, plain loops over arrays, as machine code that releases the interpreter lock; as is if no numba."""
    if not has_numba():
        return function
    import numba

    fast = numba.njit(nogil=True, **options)(function)
    # No folder is writable for the cache, or numba keeps it in another way now: compile afresh in each process.
    with suppress(Exception):
        fast._cache = _tolerant_cache()(function, _sources_digest(function, options))
    return fast  # type: ignore[no-any-return]


def _sources_digest(function: Any, options: Mapping[str, Any]) -> str:
    """Return a digest of everything that the machine code of a loop is made from."""
    options = {name: sorted(value) if isinstance(value, set) else value for name, value in sorted(options.items())}
    parts, seen, functions = [repr(options)], set[str](), [function]
    while functions:
        current = functions.pop()
        code, scope = current.__code__, current.__globals__
        values = {name: scope[name] for name in code.co_names if isinstance(scope.get(name), (int, float, str, tuple))}
        parts.append(repr(sorted(values.items())))
        if code.co_filename not in seen:
            seen.add(code.co_filename)
            parts.append(file_digest(code.co_filename))
            functions += [value.py_func for value in scope.values() if hasattr(value, "py_func")]
    return digest_of(parts)


@functools.cache
def _tolerant_cache() -> Any:
    """numba's cache of a function on disk, whose files carry a checksum, and whose failures are misses."""
    caching: Any = importlib.import_module("numba.core.caching")

    class Checked(caching.IndexDataCacheFile):  # type: ignore[misc]
        """Pickles end where they say, so that a checksum may follow them."""

        def _dump(self, obj: Any) -> bytes:
            data = bytes(super()._dump(obj))
            return data + hashlib.sha256(data).digest()

        def _load_index(self) -> Any:
            version = pickle.dumps(self._version, protocol=-1)
            return super()._load_index() if _is_whole(self._index_path, version) else {}

        def _load_data(self, name: str) -> Any:
            if not _is_whole(self._data_path(name), b""):
                raise OSError(f"{name} is damaged")  # numba then compiles
            return super()._load_data(name)

    class Tolerant(caching.FunctionCache):  # type: ignore[misc]
        def __init__(self, function: Any, sources: str) -> None:
            super().__init__(function)
            self._cache_file.__class__ = Checked
            # numba's own stamp is the time and size of the one file that the function stands in.
            self._cache_file._source_stamp = sources

        def load_overload(self, *arguments: Any) -> Any:
            found = None
            with suppress(Exception):
                found = super().load_overload(*arguments)
            if found is None:
                note("compiling loops for this machine, which takes up to a minute, once: they are kept on disk")
            return found

        def save_overload(self, *arguments: Any) -> None:
            with suppress(Exception):
                super().save_overload(*arguments)

    return Tolerant


def _is_whole(path: str, beginning: bytes) -> bool:
    """Whether a file of the cache begins so and ends with the checksum of what lies between."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    middle = content[len(beginning) : -_DIGEST]
    return content.startswith(beginning) and content[-_DIGEST:] == hashlib.sha256(middle).digest()


def loops(module: str, *, pays: bool) -> ModuleType | None:
    """The module of compiled loops of that name, if numba is there and loading it ``pays`` or is done already."""
    if not (pays or module in sys.modules) or module in _UNUSABLE or not has_numba():
        return None
    try:
        return importlib.import_module(module)
    except Exception:  # a numba that does not fit the other libraries: whoever asks has another way
        _UNUSABLE.add(module)
        return None


def in_threads(work: Callable[[slice], None], count: int, threads: int) -> None:
    """Run ``work`` on contiguous shares of ``range(count)``, one per thread."""
    threads = max(1, min(threads, count))
    edges = [count * k // threads for k in range(threads + 1)]
    shares = [slice(a, b) for a, b in pairwise(edges)]
    if threads == 1:
        work(shares[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))
