"""`Batch`: inputs of some samples, and which of them are the two sides of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope.errors import InputError
from initscope.graph.inputs import Inputs, map_tensors

__all__ = ["Batch", "as_pairs", "check_norms", "check_shapes", "distinct", "pair_batches", "real_tensor"]

_BATCH_VALUES = 1 << 22  # input values of one batch: bounds the memory of the activations


@dataclass(frozen=True)
class Batch:
    """Inputs of some samples, with their targets and the indices of both sides of pairs if they exist."""

    inputs: Inputs
    targets: Any = None
    sides: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return self.inputs.samples

    def pick(self, index: Tensor | slice) -> Batch:
        """Return the samples at ``index``, which are no pairs."""
        count = len(self)
        targets = map_tensors(self.targets, lambda tensor: tensor[index] if _is_one_each(tensor, count) else tensor)
        return Batch(self.inputs.pick(index), targets)

    def halves(self) -> Batch:
        """Return the same samples as pairs: the x in the first half, the y in the second."""
        indices = torch.arange(len(self))
        return replace(self, sides=(indices[: len(self) // 2], indices[len(self) // 2 :]))


def _is_one_each(targets: Tensor, samples: int) -> bool:
    return bool(targets.dim()) and len(targets) == samples


def pair_batches(pool: Batch, *, whole: bool) -> Iterator[Batch]:
    """Yield parts of the pool (the x, then the y) as pairs that fit into memory; all at once if ``whole``.

    Parameters
    ----------
    pool : Batch
        The x of all pairs, then the y.
    whole : bool
        Give one batch, whatever its size.

    Returns
    -------
    iterator of Batch
        Each a batch of pairs.
    """
    half = len(pool) // 2
    values = sum(tensor[0].numel() for tensor in pool.inputs.sample_tensors())
    size = half if whole else max(1, _BATCH_VALUES // max(1, 2 * values))
    for start in range(0, half, size):
        x = torch.arange(start, min(half, start + size))
        yield pool.pick(torch.cat([x, half + x])).halves()


def distinct(batch: Batch) -> Batch:
    """Return the different samples of a batch of pairs, each once, as the same pairs.

    Parameters
    ----------
    batch : Batch
        Of pairs.

    Returns
    -------
    Batch
        With every different sample once.
    """
    assert batch.sides is not None
    tensors = batch.inputs.sample_tensors()
    likes = torch.stack([torch.unique(tensor, dim=0, return_inverse=True)[1] for tensor in tensors], dim=1)
    different, index = torch.unique(likes, dim=0, return_inverse=True)
    first = torch.empty(len(different), dtype=torch.long, device=index.device)
    first[index] = torch.arange(len(index), device=index.device)
    index = index.cpu()
    x, y = batch.sides
    return replace(batch.pick(first), sides=(index[x], index[y]))


def as_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return both sides of the pairs as floating tensors of one shape, finite and not zero.

    Parameters
    ----------
    x, y : array or tensor ``[pairs, ...]``
        Both sides.

    Returns
    -------
    tuple of Tensor
        Both sides, checked.
    """
    x, y = real_tensor(x), real_tensor(y)
    check_shapes(x, y)
    check_norms(x, y, *(side.flatten(1).double().square().sum(dim=1) for side in (x, y)))
    return x, y


def real_tensor(values: Any) -> Tensor:
    """Return numbers as a floating tensor without gradient."""
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if tensor.is_complex():
        raise InputError("complex inputs are not supported; give real tensors")
    return tensor.detach() if tensor.is_floating_point() else tensor.float()


def check_shapes(x: Tensor, y: Tensor, axes: int = 2) -> None:
    """Refuse sides that are no pairs of samples with at least ``axes`` axes."""
    if x.shape != y.shape:
        raise InputError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; pairs need equal shapes [pairs, ...]")
    if x.dim() < axes or len(x) == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one pair, shaped [pairs, ...]")
    if x.device != y.device:
        raise InputError(f"x is on {x.device} and y on {y.device}; move them to one device")


def check_norms(x: Tensor, y: Tensor, xx: Tensor, yy: Tensor, start: int = 0) -> None:
    """Refuse NaN, infinity and zeros, which the squared norms ``xx`` and ``yy`` show; pairs count from ``start``."""
    for name, side, square in (("x", x, xx), ("y", y, yy)):
        bad = ~torch.isfinite(square)
        if bool(bad.any()):
            index = int(bad.nonzero()[0])
            if bool(torch.isfinite(side[index]).all()):
                raise InputError(f"{name}[{start + index}]: its squares overflow {side.dtype}; rescale the data")
            raise InputError(f"{name}[{start + index}] holds NaN or infinity; clean the data first")
        zero = square == 0
        if bool(zero.any()):
            raise InputError(f"{name}[{start + int(zero.nonzero()[0])}] is all zero, so it has no angle; leave it out")
