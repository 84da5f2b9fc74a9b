"""Self-attention as published networks have it, for the families of transformers."""

from __future__ import annotations

import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Heads of scaled dot products.

    ``bias`` is added to the logits, ``causal`` masks what comes later, ``rotate`` turns queries and keys by their
    places (Su et al. 2021), ``groups`` heads share a key and a value (Ainslie et al. 2023), ``scaled`` divides by √d.
    """

    def __init__(self, width, heads, *, causal=False, rotate=False, groups=1, biases=True, scaled=True):
        super().__init__()
        self.heads, self.causal, self.rotate, self.groups = heads, causal, rotate, groups
        self.axis = -1  # the keys, over which weights sum to 1
        self.scale = (width // heads) ** -0.5 if scaled else 1.0
        self.query = nn.Linear(width, width, bias=biases)
        self.key, self.value = (nn.Linear(width, width // groups, bias=biases) for _ in range(2))
        self.out = nn.Linear(width, width, bias=biases)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        query = self._split(self.query(x), self.heads)
        key, value = (self._split(layer(memory), self.heads // self.groups) for layer in (self.key, self.value))
        if self.rotate:
            query, key = rotated(query), rotated(key)
        key, value = (part.repeat_interleave(self.groups, dim=1) for part in (key, value))
        logits = self.scale * (query @ key.transpose(-2, -1))
        if bias is not None:
            logits = logits + bias
        if self.causal:
            logits = logits.masked_fill(self.hidden(x.shape[1], x.device), -math.inf)
        mixed = torch.softmax(logits, dim=self.axis) @ value
        return self.out(mixed.transpose(1, 2).flatten(2))

    @staticmethod
    def hidden(places, device):
        """What is not to be seen: everything later."""
        return torch.ones(places, places, dtype=torch.bool, device=device).triu(1)

    @staticmethod
    def _split(values, heads):
        return values.unflatten(2, (heads, -1)).transpose(1, 2)


def rotated(values):
    """Pairs of channels turned by angles that grow with the place, each pair at its own rate."""
    places, half = values.shape[-2], values.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=values.device) / half)
    angles = torch.arange(places, device=values.device)[:, None] * rates
    left, right = values[..., :half], values[..., half:]
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([left * cosine - right * sine, left * sine + right * cosine], dim=-1)


def perceptron(width, hidden, activation=nn.GELU, biases=True):
    """The two Linear layers of a transformer's block."""
    return nn.Sequential(nn.Linear(width, hidden, bias=biases), activation(), nn.Linear(hidden, width, bias=biases))


class PreNormBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); ``scale`` > 0 is CaiT's layer scale."""

    def __init__(self, width, attention, *, hidden=None, eps=1e-6, scale=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.attention, self.mlp = attention, perceptron(width, hidden or 4 * width)
        scaled = scale > 0
        self.scales = nn.Parameter(scale * torch.ones(2, width)) if scaled else None

    def forward(self, x):
        attended = self.attention(self.norm1(x))
        x = x + (attended if self.scales is None else self.scales[0] * attended)
        mixed = self.mlp(self.norm2(x))
        return x + (mixed if self.scales is None else self.scales[1] * mixed)
