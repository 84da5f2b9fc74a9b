"""Two models for ``initscope inspect``: ``examples/mynet.py:make`` and ``examples/mynet.py:deep``."""

from torch import nn


def make() -> nn.Module:
    """Return a small convolutional network for images with three channels."""
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU())


def deep() -> nn.Module:
    """Return a network of 40 ReLU layers for 8 × 8 digits. With its default initialization it does not learn."""
    layers = [layer for _ in range(40) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))
