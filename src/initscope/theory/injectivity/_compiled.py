"""`compiled`: numba's ``njit`` with a disk cache when numba is installed (extra ``fast``), the plain function otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["COMPILED", "compiled"]

Function = TypeVar("Function", bound=Callable[..., object])

try:
    from numba import njit
except ImportError:
    njit = None

COMPILED: bool = njit is not None


def compiled(function: Function) -> Function:
    """Compile ``function`` if numba is there; it must be plain loops over arrays."""
    if njit is None:
        return function
    fast: Function = njit(cache=True, nogil=True)(function)
    return fast
