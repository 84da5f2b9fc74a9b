"""Which `Activation` a PyTorch activation module is, with its parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from torch import nn

from initscope._modules import ActivationLayer
from initscope.theory import activations as catalogue
from initscope.theory.activations import Activation

__all__ = ["ACTIVATION_MODULES", "activation_of"]

_BY_CLASS: dict[type[nn.Module], Callable[[Any], Activation]] = {
    nn.Identity: lambda m: catalogue.identity,
    nn.ReLU: lambda m: catalogue.relu,
    nn.LeakyReLU: lambda m: catalogue.leaky_relu(m.negative_slope),
    nn.RReLU: lambda m: (
        catalogue.random_leaky_relu(m.lower, m.upper) if m.training else catalogue.leaky_relu((m.lower + m.upper) / 2)
    ),
    nn.ReLU6: lambda m: catalogue.relu6,
    nn.Hardtanh: lambda m: catalogue.truncation(m.min_val, m.max_val),
    nn.GELU: lambda m: catalogue.gelu if m.approximate == "none" else catalogue.gelu_tanh,
    nn.SiLU: lambda m: catalogue.silu,
    nn.Mish: lambda m: catalogue.mish,
    nn.ELU: lambda m: catalogue.elu(m.alpha),
    nn.CELU: lambda m: catalogue.celu(m.alpha),
    nn.SELU: lambda m: catalogue.selu,
    nn.Tanh: lambda m: catalogue.tanh,
    nn.Sigmoid: lambda m: catalogue.sigmoid,
    nn.LogSigmoid: lambda m: catalogue.logsigmoid,
    nn.Softsign: lambda m: catalogue.softsign,
    nn.Tanhshrink: lambda m: catalogue.tanhshrink,
    nn.Softshrink: lambda m: catalogue.softshrink(m.lambd),
    nn.Hardshrink: lambda m: catalogue.hardshrink(m.lambd),
    nn.Threshold: lambda m: catalogue.threshold(m.threshold, m.value),
    nn.Hardsigmoid: lambda m: catalogue.hardsigmoid,
    nn.Hardswish: lambda m: catalogue.hardswish,
}
ACTIVATION_MODULES: tuple[type[nn.Module], ...] = (*_BY_CLASS, nn.PReLU, nn.Softplus)


def activation_of(module: nn.Module) -> Activation | None:
    """The activation that ``module`` applies to every unit alike, or None (PReLU with different slopes)."""
    if type(module) in _BY_CLASS:
        return _BY_CLASS[type(module)](module)
    if isinstance(module, ActivationLayer):
        return module.activation
    if isinstance(module, nn.PReLU):
        slopes = module.weight.detach().flatten().tolist()
        return catalogue.leaky_relu(slopes[0]) if len(set(slopes)) == 1 else None
    if isinstance(module, nn.Softplus):
        return _softplus(float(module.beta), float(module.threshold))
    return None


@lru_cache(maxsize=32)
def _softplus(beta: float, threshold: float) -> Activation:
    """One activation for all modules with these parameters, which then share their grids."""
    return catalogue.activation(nn.Softplus(beta, threshold).forward, kinks=())
