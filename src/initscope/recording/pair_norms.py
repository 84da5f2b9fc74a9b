"""Norms of outputs and of their differences, in one pass over the values, and what follows from them.

Squares are summed in single precision where the outputs are, over blocks of `_BLOCK` values, and the blocks in double:
norms are right to a relative 1e-6, however many values they are of and whatever else is loaded. Rows whose squares
would not fit are divided by their largest value first, so that networks that die or explode keep their digits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from initscope.geometry import Floats

__all__ = ["cosine_of", "pair_norms", "row_norms"]

_BLOCK = 1 << 12  # values summed in single precision
_CACHED_VALUES = 1 << 17  # of the differences held at once, which so stay in the cache


def pair_norms(flat: Tensor, sides: tuple[Tensor, Tensor]) -> Tensor:
    """‖x‖, ‖y‖, ‖x-y‖ of every pair, ``[3, pairs]`` in float64, of ``flat [samples, values]``.

    The difference is taken before it is squared, so that nearly parallel outputs keep their digits.
    """
    flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
    norms = row_norms(flat).cpu()
    x, y = sides
    apart = torch.empty(len(x), dtype=torch.float64)
    step = max(1, _CACHED_VALUES // max(1, flat.shape[1]))
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        if step == 1:
            difference = (flat[int(x[start])] - flat[int(y[start])])[None]
        else:
            difference = flat[x[part]].sub_(flat[y[part]])
        apart[part] = row_norms(difference).cpu()
    return torch.stack([norms[x], norms[y], apart])


def row_norms(values: Tensor) -> Tensor:
    """Norms along the last axis, in float64; right also where squares would overflow or vanish."""
    norms = _block_norms(values)
    least, most = (1e-13, 1e17) if values.dtype == torch.float32 else (1e-140, 1e140)
    if bool(((norms > least) & (norms < most)).all()):
        return norms
    largest = values.abs().amax(dim=-1, keepdim=True).double()
    scale = torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)
    scaled: Tensor = torch.linalg.vector_norm(values.double() / scale, dim=-1)
    return scaled * scale[..., 0]


def _block_norms(values: Tensor) -> Tensor:
    blocks = values.shape[-1] // _BLOCK
    if blocks == 0 or values.dtype != torch.float32:
        return torch.linalg.vector_norm(values, dim=-1).double()  # type: ignore[no-any-return]
    parts = values[..., : blocks * _BLOCK].reshape(*values.shape[:-1], blocks, _BLOCK)
    rest = torch.linalg.vector_norm(values[..., blocks * _BLOCK :], dim=-1).double()
    total = torch.linalg.vector_norm(parts, dim=-1).double().square().sum(dim=-1) + rest.square()
    return total.sqrt()  # type: ignore[no-any-return]


def cosine_of(norms: Floats) -> Floats:
    """Cosines from ‖x‖, ‖y‖, ‖x-y‖, through the difference; NaN where a side is zero or not finite."""
    x, y, apart = norms
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (np.where(side > 0, side, np.nan) for side in (x, y))
        return np.asarray(1 - ((apart / x) * (apart / y) - ((x - y) / x) * ((x - y) / y)) / 2)
