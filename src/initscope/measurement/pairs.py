"""Sums over units of pairs of outputs, and what follows from them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from initscope.report.geometry import Floats

__all__ = ["cosine_of", "pair_sums"]

_CACHED_VALUES = 1 << 16  # of one side of a block of pairs: block and difference stay in the cache


def pair_sums(flat: Tensor) -> Tensor:
    """‖x‖², ‖y‖², ‖x-y‖² of every pair, ``[3, pairs]`` in float64; x the first half of the rows, y the second.

    The difference is taken before it is squared, so that nearly parallel outputs keep their digits.
    """
    pairs = len(flat) // 2
    step = max(1, _CACHED_VALUES // max(1, flat.shape[1]))
    norms = torch.empty(3, pairs, device=flat.device, dtype=flat.dtype)
    for start in range(0, pairs, step):
        stop = min(pairs, start + step)
        x, y = flat[start:stop], flat[pairs + start : pairs + stop]
        for row, values in enumerate((x, y, x - y)):
            torch.linalg.vector_norm(values, dim=1, out=norms[row, start:stop])
    return norms.double().square().cpu()


def cosine_of(sums: Floats) -> Floats:
    """Cosines from ‖x‖², ‖y‖², ‖x-y‖², through the difference; NaN where a side is zero."""
    norm_x, norm_y = np.sqrt(sums[0]), np.sqrt(sums[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - (sums[2] - (norm_x - norm_y) ** 2) / (2 * norm_x * norm_y))
