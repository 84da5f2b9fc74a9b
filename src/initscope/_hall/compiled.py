"""Loops compiled by numba (extra ``fast``): the one way to compile them, to decide on them and to share them out.

Loading numba takes half a second, compiling a loop for the first time a few more; the machine code is kept on disk.
So a room keeps its loops in a module of their own and asks `loops` for it with a word on whether the work pays.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeVar

__all__ = ["compiled", "has_numba", "in_threads", "loops"]

Function = TypeVar("Function", bound=Callable[..., Any])


def has_numba() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


def compiled(function: Function, **options: Any) -> Function:
    """``function``, plain loops over arrays, as machine code that releases the interpreter lock; as is if no numba."""
    if not has_numba():
        return function
    import numba

    try:
        fast = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder is writable for the cache: compile afresh in each process
        fast = numba.njit(nogil=True, **options)(function)
    return fast  # type: ignore[no-any-return]


def loops(module: str, *, pays: bool) -> ModuleType | None:
    """The module of compiled loops of that name, if numba is there and loading it ``pays`` or is done already."""
    if not (pays or module in sys.modules) or not has_numba():
        return None
    return importlib.import_module(module)


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
