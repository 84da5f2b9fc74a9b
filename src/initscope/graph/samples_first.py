"""Steps that by definition keep the samples on the first axis, so that no run is needed to find the axis.

These are layers and calls of torch whose definition guarantees it, for inputs with the right number of axes. For
everything else, such as a view, a transpose or a user's module, a run decides.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules import pooling
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from initscope.graph.activations import activation_row
from initscope.graph.calls import STANDS_FOR, UNCHANGED
from initscope.graph.graph import Graph
from initscope.graph.inputs import Inputs
from initscope.graph.modules import ActivationLayer
from initscope.graph.node import Node

__all__ = ["all_keep_samples_first"]

_POOLS = (pooling._AvgPoolNd, pooling._MaxPoolNd, pooling._AdaptiveAvgPoolNd)
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})


def all_keep_samples_first(graph: Graph, inputs: Inputs) -> bool:
    """Return whether the samples are known to lie on the first axis of every node and of the output, one tensor."""
    if graph.symbolic is None or not all(inputs.batched) or not isinstance(graph.output, Node):
        return False
    given = tuple(map(Tensor.dim, inputs.tensors()))
    if given not in graph.samples_first:
        graph.samples_first[given] = _keeps_samples_first(graph, given)
    return graph.samples_first[given]


def _keeps_samples_first(graph: Graph, given: tuple[int, ...]) -> bool:
    """Return the same for inputs of that many axes."""
    dimensions = iter(given)
    axes: dict[Node, int] = {}  # number of axes of what has its samples first
    for node in graph.nodes:
        known = next(dimensions) if node.op == "placeholder" else _axes(node, graph, axes)
        if known is None:
            return False
        axes[node] = known
    return graph.output in axes


def _axes(node: Node, graph: Graph, axes: dict[Node, int]) -> int | None:
    """Return the number of axes of a node's output if its samples are first, None if that is unknown."""
    if node.module is not None:
        known = len(node.inputs) == 1 and not node.kwargs and node.inputs[0] in axes
        return _after_module(node.module, axes[node.inputs[0]]) if known else None
    given = [axes[parent] for parent in node.inputs if parent in axes]
    name = node.function
    if name in _ARITHMETIC and len(set(given)) == 1:
        others = [other for other in node.args if other not in axes]
        return given[0] if not node.kwargs and all(_spreads(other, given[0], graph) for other in others) else None
    if len(given) != 1 or len(node.inputs) != 1:
        return None
    if name in UNCHANGED or node.role == "activation":
        return given[0]
    if name == "flatten":
        return 2 if node.args[1:] == (1,) and not node.kwargs and given[0] > 1 else None
    pools = STANDS_FOR.get(name)
    if pools is not None and issubclass(pools, _POOLS) and not node.kwargs.get("return_indices"):
        return given[0] if given[0] == _dimensions(pools) + 2 else None
    return None


def _spreads(other: Any, axes: int, graph: Graph) -> bool:
    """Return whether a number or a parameter is the same for all samples."""
    if isinstance(other, Node) and other.op == "get_attr":
        other = graph.constant(other)
    if isinstance(other, Tensor):
        return other.dim() < axes or (other.dim() == axes and len(other) == 1)
    return isinstance(other, (int, float))


def _after_module(module: nn.Module, axes: int) -> int | None:
    """Return the number of axes after a layer of torch that keeps the samples first, None if it may not."""
    known = isinstance(module, ActivationLayer) or type(module).__module__.startswith("torch.nn.")
    if not known or module._forward_hooks or module._forward_pre_hooks or axes < 2:
        return None
    if isinstance(module, (nn.Linear, nn.Identity, _DropoutNd)) or activation_row(module) is not None:
        return axes
    if isinstance(module, nn.Flatten):
        return 2 if (module.start_dim, module.end_dim) == (1, -1) else None
    if isinstance(module, nn.LayerNorm):
        return axes if len(module.normalized_shape) < axes else None
    if isinstance(module, nn.BatchNorm1d):
        return axes if axes <= 3 else None
    if isinstance(module, (_ConvNd, _BatchNorm, *_POOLS)) and not getattr(module, "return_indices", False):
        return axes if axes == _dimensions(type(module)) + 2 else None
    return axes if isinstance(module, nn.GroupNorm) else None


def _dimensions(kind: type[nn.Module]) -> int:
    """Return the number of spatial axes of a convolution, pooling or batch norm, from its name; -1 if it has none."""
    return next((int(letter) for letter in kind.__name__ if letter.isdigit()), -1)
