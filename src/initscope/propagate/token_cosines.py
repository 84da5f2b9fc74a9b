"""The mean cosine of a sample's tokens, from their Gram matrix."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["LEAST_TOKENS", "mean_cosine"]

LEAST_TOKENS = 4
"""Tokens, and channels, from which on cosines are reported, as where they are measured."""


def mean_cosine(matrix: Tensor, sizes: tuple[int, ...]) -> float:
    """Of two different tokens, within x and within y: the sum of all of them is a product with a vector."""
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    matrix = matrix[:, 0] if len(sizes) == 1 else (matrix * shares[:, None, None]).sum(dim=1)
    tokens = matrix.shape[-1] // 2
    total = 0.0
    for block in (matrix[:, :tokens, :tokens], matrix[:, tokens:, tokens:]):
        scale = block.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(block.dtype).tiny).rsqrt()[..., None]
        total += float(((scale.mT @ (block @ scale)).flatten() - tokens).mean())
    return total / (2 * tokens * (tokens - 1))
