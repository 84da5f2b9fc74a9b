"""Published starts that several families share."""

from __future__ import annotations

import torch
from torch import nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)


def fan_out_(module: nn.Module, linear: float | None = None) -> nn.Module:
    """He's normal law by fan out, biases 0; Linear layers of deviation ``linear``, or torch's own (He et al. 2015)."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear) and linear is not None:
            nn.init.normal_(layer.weight, std=linear)
        else:
            continue
        if layer.bias is not None and not (isinstance(layer, nn.Linear) and linear is None):
            nn.init.zeros_(layer.bias)
    return module


def normal_(module: nn.Module, deviation: float = 0.02, *, truncated: bool = False) -> nn.Module:
    """Normal weights of one deviation in Linear layers, convolutions and embeddings, biases 0 (BERT, ViT, ConvNeXt)."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Embedding, *CONVOLUTIONS)):
            if truncated:
                nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
            else:
                nn.init.normal_(layer.weight, std=deviation)
        if isinstance(layer, (nn.Linear, *CONVOLUTIONS)) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return module


def xavier_(module: nn.Module) -> nn.Module:
    """Glorot's uniform law in every matrix (as `torch.nn.Transformer` draws itself)."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return module


def zero_(layer: nn.Module) -> nn.Module:
    """All parameters 0: the last layer of a branch that is to begin as nothing."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    return layer
