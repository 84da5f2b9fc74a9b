"""The networks that are compared with neural-tangents, as torch modules; ``peer.py`` has the same as its combinators.

Weights N(0, 2/fan-in), biases N(0, 0.01); the kernel is that of the last layer's output.
"""

from __future__ import annotations

import torch
from torch import nn

from initscope.initializers import He

LAW = He(bias_variance=0.01)
SEED = 17


def conv(inputs, outputs=8, side=3, **options):
    return nn.Conv2d(inputs, outputs, side, padding=side // 2, padding_mode="circular", **options)


class Skip(nn.Module):
    """h + W₂ R(W₁ h), between a stem and a head."""

    def __init__(self):
        super().__init__()
        self.stem, self.first, self.second = conv(3), conv(8), conv(8)
        self.head = nn.Linear(8 * 64, 1)

    def forward(self, x):
        h = self.stem(x)
        h = h + self.second(torch.relu(self.first(torch.relu(h))))
        return self.head(torch.relu(h).flatten(1))


NETWORKS = {
    "dense": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)
    ),
    "dense erf": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(192, 16), Erf(), nn.Linear(16, 16), Erf(), nn.Linear(16, 1)
    ),
    "convolution": lambda: nn.Sequential(
        conv(3), nn.ReLU(), conv(8, side=5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 1)
    ),
    "valid, strided": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 2, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 1)
    ),
    "average pooling": lambda: nn.Sequential(
        conv(3), nn.ReLU(), nn.AvgPool2d(2), conv(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 1)
    ),
    "global pooling": lambda: nn.Sequential(
        conv(3), nn.ReLU(), conv(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1)
    ),
    "skip": Skip,
}


class Erf(nn.Module):
    def forward(self, x):
        return torch.erf(x)


def stack(depth, side):
    """Convolutions without bias and ReLUs, for the timings."""
    layers = [nn.Sequential(conv(3 if number == 0 else 8, side=side, bias=False), nn.ReLU()) for number in range(depth)]
    return nn.Sequential(*(layer for pair in layers for layer in pair))


def pooled(depth, side):
    """The same with global average pooling behind."""
    return nn.Sequential(*stack(depth, side), nn.AdaptiveAvgPool2d(1), nn.Flatten())
