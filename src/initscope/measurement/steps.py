"""What measurement needs to know about a model's steps: which are activations, and where their units are."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initscope.propagate.elementwise import ACTIVATION_MODULES
from initscope.propagate.rules import find_rule
from initscope.tracing import Node, Trace, trace
from initscope.tracing._inputs import named_tensors

__all__ = ["is_activation", "output_tensor", "traced_like_predict", "unit_axes"]

# fmt: off
_FUNCTIONS = frozenset({
    "relu", "relu6", "leaky_relu", "rrelu", "prelu", "elu", "celu", "selu", "gelu", "silu", "mish", "hardswish",
    "hardsigmoid", "hardtanh", "tanh", "sigmoid", "logsigmoid", "softplus", "softsign", "tanhshrink", "softshrink",
    "hardshrink", "threshold",
})
# fmt: on


def traced_like_predict(model: nn.Module, inputs: Any) -> Trace:
    """The steps that prediction walks: modules with a rule stay whole."""
    return trace(model, inputs, is_leaf=lambda module: find_rule(module) is not None)


def is_activation(traced: Trace, node: Node) -> bool:
    """Whether a step applies an activation: as a module, a function, a method, in place or not."""
    module = traced.module(node)
    if module is not None:
        return isinstance(module, ACTIVATION_MODULES) and not isinstance(module, nn.Identity)
    return node.op != "placeholder" and traced.kind(node).rstrip("_") in _FUNCTIONS


def unit_axes(traced: Trace) -> dict[Node, int]:
    """Axis of one sample's output along which its units lie: the last after a Linear, the first otherwise."""
    axes: dict[Node, int] = {}
    for node in traced.steps:
        module = traced.module(node)
        if isinstance(module, nn.Linear):
            axes[node] = -1
        elif isinstance(module, _ConvNd):
            axes[node] = 0
        else:
            axes[node] = next((axes[parent] for parent in node.all_input_nodes if parent in axes), 0)
    return axes


def output_tensor(output: Any, samples: int) -> Tensor | None:
    """The real-valued tensor of a step's output with one entry per sample; of a tuple or dict, the first such."""
    for _, tensor in named_tensors(output, ""):
        if tensor.is_floating_point() and tensor.dim() > 0 and len(tensor) == samples and tensor.numel() > 0:
            return tensor
    return None
