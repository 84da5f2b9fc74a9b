"""The mean cosine of a sample's tokens, from their Gram matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from initscope.theory.attention import mean_token_cosine

__all__ = ["LEAST_TOKENS", "mean_cosine"]

LEAST_TOKENS = 4
"""Tokens, and channels, from which on cosines are reported, as where they are measured."""


def mean_cosine(matrix: Tensor, sizes: tuple[int, ...]) -> float:
    """Return the mean cosine of two different tokens, within x and within y.

    NaN if no sample has two nonzero tokens.
    """
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    matrix = matrix[:, 0] if len(sizes) == 1 else (matrix * shares[:, None, None]).sum(dim=1)
    tokens = matrix.shape[-1] // 2
    sides = (matrix[:, :tokens, :tokens], matrix[:, tokens:, tokens:])
    return float(torch.cat([mean_token_cosine(side) for side in sides]).nanmean())
