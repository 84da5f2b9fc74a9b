"""When to use the compiled loops of `_fused` instead of array expressions, and how arrays get there without a copy.

The rule: NumPy arrays or torch CPU tensors without gradient, float32 or float64, numba installed, and either at least
`WORTH_COMPILING` map entries of work, this time or in all calls together, or the loops already loaded. Array
expressions take about 10 ns for a map entry and a layer, the loops about 4. Loading the loops costs about 0.7 s from
numba's cache on disk and 8 s the first time ever. At this bound, array expressions take about 3 s: a small first job
does not wait for the compiler, and frequent computations pay for both at most once. Whether the cache is filled plays
no part, because the first run and the second must give the same digits.
"""

from __future__ import annotations

from types import ModuleType

import array_api_compat
import numpy as np
import numpy.typing as npt

from initscope._utils.compiled import loops
from initscope.theory._arrays import Array

__all__ = ["WORTH_COMPILING", "as_numpy", "fused_loops", "is_plain"]

WORTH_COMPILING = 1 << 28
_asked = {"entries": 0}  # of all calls so far


def fused_loops(*arrays: Array, entries: int) -> ModuleType | None:
    """Return the module `_fused` if the rule above holds for these arrays and ``entries`` more; otherwise None."""
    if not all(map(is_plain, arrays)):
        return None
    _asked["entries"] += entries
    return loops("initscope.theory._fused", pays=_asked["entries"] >= WORTH_COMPILING)


def as_numpy(array: Array) -> npt.NDArray[np.floating]:
    """Return the values as a NumPy array; shares memory with a torch tensor on the CPU."""
    return np.asarray(array.detach().cpu() if array_api_compat.is_torch_array(array) else array)


def is_plain(array: Array) -> bool:
    """Return whether the loops can read it: on the CPU, without gradient, float32 or float64."""
    if array_api_compat.is_torch_array(array):
        on_cpu = array.device.type == "cpu" and not array.requires_grad
        return on_cpu and str(array.dtype) in ("torch.float32", "torch.float64")
    return isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float64)
