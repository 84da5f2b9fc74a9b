"""Refuse models whose weights cannot be sampled, before anything is predicted, and say what to do instead."""

from __future__ import annotations

import torch
from torch import fx, nn

from initscope.errors import InputError
from initscope.initializers import Initializer, Present
from initscope.initializers._base import check_takes, weight_layers

__all__ = ["refuse_undrawable"]

_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized")


def refuse_undrawable(model: nn.Module, initializer: Initializer) -> None:
    """Raise for models whose weights cannot be sampled, and for initializers without a distribution for a layer."""
    instead = (
        "predict the model it was made from, or measure the weights it has: initscope.measure(model, x, y, draws=0)"
    )
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise InputError(f"{kind} is compiled by torch.jit, where weights cannot be drawn; {instead}")
        if type(module).__module__.startswith(_QUANTIZED):
            raise InputError(f"{kind} holds quantized weights, which cannot be drawn; {instead}")
        if isinstance(module, fx.GraphModule) and _is_exported(module):
            raise InputError(
                f"{type(model).__name__} is exported: its layers are gone and weights are constants; {instead}"
            )
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise InputError(
                f"{name} is complex; formulas here are for real weights; measure it: initscope.measure(model, x, y)"
            )
    if isinstance(initializer, Present):
        return  # the variance that parametrized weights have now is that of what they give
    for layer in weight_layers(model):
        initializer.weight_distribution(layer)  # raises before any work if weights are not independent
        if "weight" not in layer._parameters and not layer.weight.is_meta:
            check_takes(layer, "weight", initializer.draw(layer, torch.Generator(device=layer.weight.device)))


def _is_exported(module: fx.GraphModule) -> bool:
    return any(isinstance(node.target, torch._ops.OpOverload) for node in module.graph.nodes)
