"""When to use the compiled loops of `_loops` instead of array expressions."""

from __future__ import annotations

import sys
from types import ModuleType

import torch
from torch import Tensor

from initscope._hall.compiled import loops

__all__ = ["compiled_loops"]

_WORTH_LOADING = 1 << 30  # values: the loops save half a nanosecond on each, and loading numba takes half a second


def compiled_loops(flat: Tensor, values: int) -> ModuleType | None:
    """The loops, for a contiguous float32 tensor on the CPU, if numba is there and loading it pays.

    It pays for ``values`` or more values, and if numba is loaded already, as `initscope.predict` does for larger work.
    """
    if flat.dtype != torch.float32 or flat.device.type != "cpu" or not flat.is_contiguous():
        return None
    return loops("initscope.measurement._loops", pays=values >= _WORTH_LOADING or "numba" in sys.modules)
