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

__all__ = ["cosine_of", "gap_of", "pair_norms", "row_norms"]

_BLOCK = 1 << 12  # values summed in single precision
_CACHED_VALUES = 1 << 17  # of the differences held at once, which so stay in the cache


def pair_norms(flat: Tensor, sides: tuple[Tensor, Tensor]) -> Tensor:
    """‖x‖, ‖y‖, ‖x-y‖ of every pair, ``[3, pairs]`` in float64, of ``flat [samples, values]``.

    The difference is taken before it is squared, so that nearly parallel outputs keep their digits.
    """
    flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
    norms = row_norms(flat).cpu()
    apart = _difference_norms(flat, sides)
    x, y = sides
    for pair in (~_fits(apart, flat.dtype)).nonzero()[:, 0].tolist():
        apart[pair] = row_norms(flat[x[pair]] - flat[y[pair]]).cpu()
    return torch.stack([norms[x], norms[y], apart])


def _difference_norms(flat: Tensor, sides: tuple[Tensor, Tensor]) -> Tensor:
    """Norms of the differences, a few pairs at a time, whose values stay in the cache."""
    x, y = sides
    step = max(1, _CACHED_VALUES // max(1, flat.shape[1]))
    if _is_range(x) and _is_range(y):
        i, j = int(x[0]), int(y[0])
        difference = torch.empty_like(flat[: min(step, len(x))], memory_format=torch.contiguous_format)
        parts = []
        for k in range(0, len(x), step):
            count = min(step, len(x) - k)
            torch.sub(flat[i + k : i + k + count], flat[j + k : j + k + count], out=difference[:count])
            parts.append(_block_norms(difference[:count]))
    elif step > 1:
        parts = [_block_norms(flat[x[k : k + step]].sub_(flat[y[k : k + step]])) for k in range(0, len(x), step)]
    else:
        difference = torch.empty_like(flat[:1], memory_format=torch.contiguous_format)
        parts = []
        for i, j in zip(x.tolist(), y.tolist(), strict=True):
            torch.sub(flat[i], flat[j], out=difference[0])
            parts.append(_block_norms(difference))
    return _joined(torch.cat(parts)).cpu()


def _is_range(places: Tensor) -> bool:
    return bool((places.diff() == 1).all())


def row_norms(values: Tensor) -> Tensor:
    """Norms along the last axis, in float64; right also where squares would overflow or vanish."""
    norms = _joined(_block_norms(values))
    if bool(_fits(norms, values.dtype).all()):
        return norms
    largest = values.abs().amax(dim=-1, keepdim=True).double()
    scale = torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)
    scaled: Tensor = torch.linalg.vector_norm(values.double() / scale, dim=-1)
    return scaled * scale[..., 0]


def _fits(norms: Tensor, dtype: torch.dtype) -> Tensor:
    """Whether the squares that norms come from were neither too large nor too small for their type."""
    least, most = (1e-13, 1e17) if dtype == torch.float32 else (1e-140, 1e140)
    return (norms > least) & (norms < most)


def _block_norms(values: Tensor) -> Tensor:
    """Norms of the blocks of every row, in the type of the values."""
    blocks, rest = divmod(values.shape[-1], _BLOCK)
    if blocks == 0 or values.dtype != torch.float32:
        return torch.linalg.vector_norm(values, dim=-1, keepdim=True)  # type: ignore[no-any-return]
    whole = values[..., : blocks * _BLOCK] if rest else values
    norms: Tensor = torch.linalg.vector_norm(whole.reshape(*values.shape[:-1], blocks, _BLOCK), dim=-1)
    if not rest:
        return norms
    return torch.cat([norms, torch.linalg.vector_norm(values[..., -rest:], dim=-1, keepdim=True)], dim=-1)


def _joined(blocks: Tensor) -> Tensor:
    return blocks[..., 0].double() if blocks.shape[-1] == 1 else blocks.double().square().sum(dim=-1).sqrt()


def gap_of(norms: Floats) -> Floats:
    """1 - cosine from ‖x‖, ‖y‖, ‖x-y‖, with the digits of nearly parallel pairs; NaN where a side is zero or infinite.

    >>> float(gap_of(np.array([2.0, 2.0, 2e-9])))
    5e-19
    """
    x, y, apart = norms
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (np.where(side > 0, side, np.nan) for side in (x, y))
        return np.asarray(((apart / x) * (apart / y) - ((x - y) / x) * ((x - y) / y)) / 2)


def cosine_of(norms: Floats) -> Floats:
    """Cosines from ‖x‖, ‖y‖, ‖x-y‖, through `gap_of`."""
    return 1 - gap_of(norms)
