"""Sums over units of pairs of outputs, and what follows from them."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from initscope.report.geometry import Floats
from initscope.theory.pair_sums import cosine_from_gap

__all__ = ["cosine_of", "pair_sums", "pairs_at_once"]

_BATCH_VALUES = 1 << 22  # input values of one batch: bounds the memory of the activations

_SAFE = (1e-26, 1e34)  # sums of squares between these are right in single precision
_CACHED_VALUES = 1 << 17  # of the differences held at once, which so stay in the cache


def pairs_at_once(values: int) -> int:
    """How many pairs of inputs with ``values`` values each make one batch."""
    return max(1, _BATCH_VALUES // max(1, 2 * values))


def pair_sums(flat: Tensor, loops: ModuleType | None = None) -> Tensor:
    """‖x‖², ‖y‖², ‖x-y‖² of every pair, ``[3, pairs]`` in float64; x the first half of the rows, y the second.

    The difference is taken before it is squared, so that nearly parallel outputs keep their digits.
    """
    sums = _sums(flat, loops)
    single = flat.dtype == torch.float32
    if single and not bool(((sums > _SAFE[0]) & (sums < _SAFE[1])).all()):
        return _sums(flat.double(), None)  # squares of dying and exploding outputs do not fit
    return sums


def _sums(flat: Tensor, loops: ModuleType | None) -> Tensor:
    pairs = len(flat) // 2
    if loops is not None:
        sums = torch.empty(3, pairs, dtype=torch.float64)
        loops.pair_sums(flat[:pairs].numpy(), flat[pairs:].numpy(), sums.numpy())
        return sums
    step = max(1, _CACHED_VALUES // max(1, flat.shape[1]))
    norms = torch.empty(3, pairs, device=flat.device, dtype=flat.dtype)
    torch.linalg.vector_norm(flat, dim=1, out=norms[:2].view(-1))
    difference = torch.empty(min(step, pairs), flat.shape[1], device=flat.device, dtype=flat.dtype)
    for start in range(0, pairs, step):
        stop = min(pairs, start + step)
        part = difference[: stop - start]
        torch.sub(flat[start:stop], flat[pairs + start : pairs + stop], out=part)
        torch.linalg.vector_norm(part, dim=1, out=norms[2, start:stop])
    return norms.double().square().cpu()


def cosine_of(sums: Floats) -> Floats:
    """Cosines from ‖x‖², ‖y‖², ‖x-y‖², through the difference; NaN where a side is zero."""
    with np.errstate(invalid="ignore"):  # infinite sums of an exploding network
        return np.asarray(cosine_from_gap(*sums))
