"""Loops compiled by numba (extra ``fast``): compile them, decide whether to load them, split them over threads.

Loading numba takes half a second and compiling a loop for the first time a few seconds; the machine code is cached on
disk. A package therefore keeps its loops in a separate module and loads it by `loops`, where ``pays`` says
whether the work is large enough. A cache that is damaged, full or not writable costs compile time and never changes
the result. An entry is valid only for the same sources: the loop, the loops in other files that it calls, the
constants that it reads, and its options.
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
    """Return whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: Function, **options: Any) -> Function:
    """Compile ``function`` (loops over arrays) to code that releases the GIL; return it unchanged without numba."""
    if not has_numba():
        return function
    import numba

    fast = numba.njit(nogil=True, **options)(function)
    # If no cache folder is writable, or a new numba stores its cache differently: compile again in each process.
    with suppress(Exception):
        fast._cache = _tolerant_cache()(function, _sources_digest(function, options))
    return fast  # type: ignore[no-any-return]


def _sources_digest(function: Any, options: Mapping[str, Any]) -> str:
    """Return a digest of everything that the machine code of a loop depends on."""
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
    """Return a class for numba's disk cache whose files have a checksum and whose failures count as misses."""
    caching: Any = importlib.import_module("numba.core.caching")

    class Checked(caching.IndexDataCacheFile):  # type: ignore[misc]
        """Cache files with a checksum after the pickle; a pickle marks its own end, so bytes may follow it."""

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
            # numba's own stamp covers only the time and size of the file that defines the function.
            self._cache_file._source_stamp = sources

        def load_overload(self, *arguments: Any) -> Any:
            overload = None
            with suppress(Exception):
                overload = super().load_overload(*arguments)
            if overload is None:
                note("compiling loops for this machine; this takes up to a minute, once, and is cached on disk")
            return overload

        def save_overload(self, *arguments: Any) -> None:
            with suppress(Exception):
                super().save_overload(*arguments)

    return Tolerant


def _is_whole(path: str, beginning: bytes) -> bool:
    """Return whether a cache file starts with ``beginning`` and ends with the checksum of the bytes between."""
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    middle = content[len(beginning) : -_DIGEST]
    return content.startswith(beginning) and content[-_DIGEST:] == hashlib.sha256(middle).digest()


def loops(module: str, *, pays: bool) -> ModuleType | None:
    """Return the module of compiled loops if numba is installed and the module ``pays`` or is already loaded."""
    if not (pays or module in sys.modules) or module in _UNUSABLE or not has_numba():
        return None
    try:
        return importlib.import_module(module)
    except Exception:  # numba is incompatible with another library: the caller has a fallback
        _UNUSABLE.add(module)
        return None


def in_threads(work: Callable[[slice], None], count: int, threads: int) -> None:
    """Run ``work`` on contiguous slices of ``range(count)``, one per thread."""
    threads = max(1, min(threads, count))
    edges = [count * k // threads for k in range(threads + 1)]
    shares = [slice(a, b) for a, b in pairwise(edges)]
    if threads == 1:
        work(shares[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))
