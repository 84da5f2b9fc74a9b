"""Sums over pairs of outputs in one pass, where array expressions take three. Importing this file imports numba."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from initscope._hall.compiled import compiled

__all__ = ["pair_sums"]

_BLOCK = 4096  # values summed in single precision before the sum goes into a double


@partial(compiled, fastmath=True)
def pair_sums(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32], sums: npt.NDArray[np.float64]) -> None:
    """‖x‖², ‖y‖², ‖x-y‖² of every row into ``sums [3, rows]``."""
    rows, columns = x.shape
    for row in range(rows):
        xx, yy, gap = 0.0, 0.0, 0.0
        for start in range(0, columns, _BLOCK):
            a, b, c = np.float32(0), np.float32(0), np.float32(0)
            for column in range(start, min(start + _BLOCK, columns)):
                u, v = x[row, column], y[row, column]
                a += u * u
                b += v * v
                c += (u - v) * (u - v)
            xx, yy, gap = xx + float(a), yy + float(b), gap + float(c)
        sums[0, row], sums[1, row], sums[2, row] = xx, yy, gap
