"""Perceptrons over tokens and channels, for vision transformers and networks without attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Mlp(nn.Sequential):
    """Two linear layers with GELU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.0), nn.Linear(hidden, dim))


class Mixer(nn.Module):
    """Perceptrons over tokens and channels (Tolstikhin et al. 2021)."""

    def __init__(self, tokens: int = 16, dim: int = 48) -> None:
        super().__init__()
        self.n1, self.n2, self.t, self.c = nn.LayerNorm(dim), nn.LayerNorm(dim), Mlp(tokens, 32), Mlp(dim, 4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.t(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(self.n2(x))


class Affine(nn.Module):
    """A gain and an offset for each channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.a * x + self.b


class ResMlp(nn.Module):
    """A linear layer over tokens, a perceptron over channels, layer scale (Touvron et al. 2021)."""

    def __init__(self, tokens: int = 16, dim: int = 48) -> None:
        super().__init__()
        self.a, self.b, self.mix, self.mlp = Affine(dim), Affine(dim), nn.Linear(tokens, tokens), Mlp(dim, 4 * dim)
        self.s1, self.s2 = nn.Parameter(1e-4 * torch.ones(dim)), nn.Parameter(1e-4 * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.s1 * self.mix(self.a(x).mT).mT
        return x + self.s2 * self.mlp(self.b(x))
