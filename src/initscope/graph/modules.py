"""Torch modules of our own. Importing this file imports torch."""

from __future__ import annotations

import torch

from initscope.theory.activations import Activation, activation

__all__ = ["ActivationLayer"]


class ActivationLayer(torch.nn.Module):
    """An activation of `initscope.theory.activations` as a layer, if torch has no module for it (erf, sin …)."""

    def __init__(self, source: str | Activation) -> None:
        super().__init__()
        self.activation = activation(source)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return σ(x), elementwise."""
        result: torch.Tensor = self.activation(x)
        return result

    def extra_repr(self) -> str:
        """Return the name of the activation."""
        return self.activation.name
