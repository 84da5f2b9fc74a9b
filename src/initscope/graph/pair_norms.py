"""Norms of outputs and of their differences, in one pass over the values, and numbers that follow from them.

Squares are summed in single precision over blocks of `_BLOCK` values if the outputs are single precision, and the
blocks in double precision. Norms have a relative error of 1e-6, for any number of values and any load of the machine.
Rows whose squares would overflow or underflow are divided by their largest value first, so that vanishing and exploding
networks keep their digits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from initscope.geometry import Floats

__all__ = ["Sides", "as_slices", "cosine_of", "gap_of", "pair_norms", "row_norms"]

_BLOCK = 1 << 12  # values summed in single precision
_CACHED_VALUES = 1 << 18  # of each side looked at at once: they and their differences stay in the cache

Sides = tuple[Tensor, Tensor] | tuple[slice, slice]


def as_slices(sides: tuple[Tensor, Tensor]) -> Sides:
    """Return the indices of both sides as slices, which need no gathering, if their samples are consecutive.

    Parameters
    ----------
    sides : tuple of Tensor
        Indices of the x and of the y among the samples.

    Returns
    -------
    tuple of slice, or ``sides``
    """
    if not all(len(indices) and bool((indices.diff() == 1).all()) for indices in sides):
        return sides
    x, y = (slice(int(indices[0]), int(indices[-1]) + 1) for indices in sides)
    return x, y


def pair_norms(flat: Tensor, sides: Sides) -> Tensor:
    """Return ‖x‖, ‖y‖, ‖x-y‖ of every pair, ``[3, pairs]`` in float64, of ``flat [samples, values]``.

    The difference is computed before it is squared, so that nearly parallel outputs keep their digits.

    Parameters
    ----------
    flat : Tensor ``[samples, values]``
        Outputs.
    sides : Sides
        Which samples are the x and the y.

    Returns
    -------
    Tensor ``[3, pairs]``
    """
    flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
    x, y = sides
    if isinstance(x, slice) and flat.shape[1] < _BLOCK and flat.numel() <= _CACHED_VALUES:
        left, right, norm = flat[x], flat[y], torch.linalg.vector_norm  # few values: each norm is summed in one block
        norms = torch.stack([norm(left, dim=-1), norm(right, dim=-1), norm(left - right, dim=-1)]).double().cpu()
    elif isinstance(x, Tensor) and isinstance(y, Tensor):
        norms = _gathered_norms(flat, x, y).cpu()
    else:
        norms = _slice_norms(flat[x], flat[y]).cpu()
    unfit = ~_fits(norms, flat.dtype)
    if not bool(unfit.any()):
        return norms
    if bool(unfit[:2].any()):
        scaled = row_norms(flat).cpu()
        norms[0], norms[1] = scaled[x], scaled[y]
    if bool(unfit[2].any()):
        left, right = (torch.arange(len(flat))[side][unfit[2]] for side in sides)
        norms[2, unfit[2]] = torch.stack([row_norms(flat[i] - flat[j]) for i, j in zip(left, right, strict=True)]).cpu()
    return norms


def _slice_norms(x: Tensor, y: Tensor) -> Tensor:
    """Compute norms of x, y and x - y, a few pairs at a time, so that their values are read from memory once."""
    step = max(1, _CACHED_VALUES // max(1, x.shape[1]))
    difference = torch.empty_like(x[:step], memory_format=torch.contiguous_format)
    parts = []
    for left, right in zip(torch.split(x, step), torch.split(y, step), strict=True):
        apart = torch.sub(left, right, out=difference[: len(left)])
        parts.append(torch.stack([_block_norms(left), _block_norms(right), _block_norms(apart)]))
    return _joined(torch.cat(parts, dim=1))


def _gathered_norms(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Compute the same for samples at arbitrary indices, which may be in several pairs."""
    norms = _joined(_block_norms(flat))
    step = max(1, _CACHED_VALUES // max(1, flat.shape[1]))
    if step > 1:
        parts = [_block_norms(flat[x[k : k + step]].sub_(flat[y[k : k + step]])) for k in range(0, len(x), step)]
    else:
        difference = torch.empty_like(flat[:1], memory_format=torch.contiguous_format)
        parts = []
        for i, j in zip(x.tolist(), y.tolist(), strict=True):
            torch.sub(flat[i], flat[j], out=difference[0])
            parts.append(_block_norms(difference))
    return torch.stack([norms[x], norms[y], _joined(torch.cat(parts))])


def row_norms(values: Tensor) -> Tensor:
    """Return norms along the last axis, in float64, without overflow or underflow of the squares."""
    if values.shape[-1] >= _BLOCK:
        norms = _joined(_block_norms(values))
    else:
        norms = torch.linalg.vector_norm(values, dim=-1).double()
    unfit = ~_fits(norms, values.dtype)
    if not bool(unfit.any()):
        return norms
    rows = values[unfit]
    largest: Tensor = torch.linalg.vector_norm(rows, ord=torch.inf, dim=-1, keepdim=True).double()
    scalable = ((largest > 0) & torch.isfinite(largest))[..., 0]  # the others are zero, infinite or NaN as they stand
    scaled: Tensor = torch.linalg.vector_norm(rows[scalable].double() / largest[scalable], dim=-1)
    rescaled = largest[..., 0]
    rescaled[scalable] *= scaled
    norms[unfit] = rescaled
    return norms


def _fits(norms: Tensor, dtype: torch.dtype) -> Tensor:
    """Return whether the squares that norms come from were neither too large nor too small for their type."""
    least, most = (1e-13, 1e17) if dtype == torch.float32 else (1e-140, 1e140)
    return (norms > least) & (norms < most)


def _block_norms(values: Tensor) -> Tensor:
    """Return norms of the blocks of every row, in the type of the values."""
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
    """Return 1 - cosine from ‖x‖, ‖y‖, ‖x-y‖, with all digits for nearly parallel pairs.

    NaN if a side is zero or infinite.

    Parameters
    ----------
    norms : array ``[3, ...]``
        ‖x‖, ‖y‖ and ‖x-y‖.

    Returns
    -------
    array
        1 - cosine.

    >>> float(gap_of(np.array([2.0, 2.0, 2e-9])))
    5e-19
    """
    x, y, apart = norms
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = np.where(x > 0, x, np.nan), np.where(y > 0, y, np.nan)
        return np.asarray(((apart / x) * (apart / y) - ((x - y) / x) * ((x - y) / y)) / 2)


def cosine_of(norms: Floats) -> Floats:
    """Return cosines from ‖x‖, ‖y‖, ‖x-y‖, through `gap_of`.

    Parameters
    ----------
    norms : array ``[3, ...]``
        ‖x‖, ‖y‖ and ‖x-y‖.

    Returns
    -------
    array
    """
    return 1 - gap_of(norms)
