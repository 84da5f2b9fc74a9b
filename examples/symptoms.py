"""Models that do not learn, one for each symptom of ``docs/symptoms.rst``."""

import torch
from torch import nn


def works_small(depth: int = 4) -> nn.Module:
    """Return a ReLU network for 8 × 8 digits. With 4 layers it learns."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))


def fails_deep() -> nn.Module:
    """Return the same network with 40 layers."""
    return works_small(40)


def at_chance() -> nn.Module:
    """Return a classifier whose softmax runs over the samples of the batch instead of the classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(dim=0))


class LogFeatures(nn.Module):
    """A classifier that takes the logarithm of its hidden units."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return one logit for each class."""
        return self.head(torch.log(torch.relu(self.hidden(images.flatten(1)))))
