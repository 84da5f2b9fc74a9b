"""The compiled loops of `initscope.theory`, where maps are large enough for them."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from initscope.theory._fast import fused_loops

__all__ = ["large_loops"]

_WORTH_THREADS = 1 << 15  # map entries; below, starting threads costs more than the work


def large_loops(*maps: Tensor) -> ModuleType | None:
    """Return the compiled loops, if they are loaded and these maps are large enough for threads to pay."""
    return fused_loops(*maps, entries=0) if maps[0].numel() >= _WORTH_THREADS else None
