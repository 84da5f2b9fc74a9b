"""Random generators by seed and purpose, so that one seed used for two purposes gives independent numbers."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from initscope.errors import check_count

if TYPE_CHECKING:
    import torch

__all__ = ["generator", "torch_generator"]


def generator(seed: int | np.random.Generator, purpose: str) -> np.random.Generator:
    """Return a generator for ``purpose``; a generator given as ``seed`` is returned unchanged.

    Data that a user made with ``default_rng(0)`` must not coincide with the directions drawn for ``seed=0``:
    the purpose is hashed into the seed.

    >>> generator(0, "mean width").integers(1000) == np.random.default_rng(0).integers(1000)
    np.False_
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng([zlib.crc32(purpose.encode()), check_count("seed", seed, least=0)])


def torch_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a torch generator: weights for ``seed=0`` differ from data that a user drew after ``manual_seed(0)``.

    >>> import torch
    >>> data = torch.randn(3, generator=torch.Generator().manual_seed(0))
    >>> bool((torch.randn(3, generator=torch_generator(0, "weights")) == data).any())
    False
    """
    import torch

    return torch.Generator(device=device).manual_seed(int(generator(seed, purpose).integers(1 << 62)))
