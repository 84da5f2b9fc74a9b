"""Published architectures at real size, as they are before training: AlexNet, ViT-B/16, and a ResNet of four blocks.

ResNet-50 is in `test_measurement`, which measures it.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["alexnet", "resnet_of_four_blocks", "vit_b16"]


def alexnet() -> nn.Module:
    """Krizhevsky 2014, one column, 61 million weights; images of 224×224."""
    features = [
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(inplace=True)),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)),
    ]
    head = [
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(inplace=True)),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000)),
    ]
    return nn.Sequential(*features, *head)


class _Encoder(nn.Module):
    """Attention and a hidden layer, each behind a norm and added to the stream."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.hidden = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm1(x)
        x = x + self.attention(inner, inner, inner, need_weights=False)[0]
        return x + self.hidden(self.norm2(x))


class VisionTransformer(nn.Module):
    """Dosovitskiy 2021, table 1: patches of 16×16 as tokens, a token for the class in front."""

    def __init__(self, size: int = 224, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(_Encoder(width, heads, 4 * width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], dim=1) + self.position
        return self.head(self.norm(self.blocks(tokens))[:, 0])


def vit_b16() -> nn.Module:
    """86 million weights; images of 224×224."""
    return VisionTransformer()


class _Block(nn.Module):
    """Two 3×3 convolutions with batch norm, and a skip."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu, self.skip = nn.ReLU(), nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(inner)) + self.skip(x))


def resnet_of_four_blocks() -> nn.Module:
    """For images of 32×32: widths 32, 64, 128 and 256, ten classes."""
    stem = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    blocks = [_Block(32, 32, 1), _Block(32, 64, 2), _Block(64, 128, 2), _Block(128, 256, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
