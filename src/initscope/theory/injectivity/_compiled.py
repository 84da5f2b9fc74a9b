"""`compiled`: numba's ``njit`` with a disk cache if numba is installed (extra ``fast``), else the plain function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["COMPILED", "compiled"]

Function = TypeVar("Function", bound=Callable[..., object])

njit: Any = None
with suppress(ImportError):
    from numba import njit

COMPILED: bool = njit is not None


def compiled(function: Function) -> Function:
    """Compile ``function`` if numba is there; it must be plain loops over arrays."""
    if njit is None:
        return function
    fast: Function = njit(cache=True, nogil=True)(function)
    return fast
