"""Tracing of plain stacks, `torch.nn.Sequential`: their nodes are their layers, so nothing needs to be run."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from initscope.graph.inputs import Inputs, required_parameters
from initscope.graph.node import Node, make_node
from initscope.graph.row_names import RowNames
from initscope.graph.symbolic import Traced

__all__ = ["sequential_trace"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def sequential_trace(root: nn.Module, inputs: Inputs | None, is_leaf: Callable[[nn.Module], bool]) -> Traced | None:
    """Return the nodes of a Sequential of single ops with one input; None for other models.

    The result is that of a symbolic trace.

    Parameters
    ----------
    root : nn.Module
        The model.
    inputs : Inputs or None
        Inputs of the later calls.
    is_leaf : callable
        Function that says which modules are one op.

    Returns
    -------
    Traced or None
    """
    layers: list[nn.Module] = []
    if not _collect(root, is_leaf, layers, outermost=True):
        return None
    if inputs is None:
        name = required_parameters(root)[0]
    elif len(inputs.args) == 1 and not inputs.kwargs and len(inputs.tensors()) == 1 == len(inputs.names(root)):
        (name,) = inputs.names(root)
        if inputs.args[0] is not inputs.tensors()[0]:
            return None
    else:
        return None
    names, (title,) = RowNames(), RowNames.inputs([name])
    node = make_node(0, title, "placeholder", name, (), {}, module=None, path="", inputs=())
    nodes: list[Node] = [node]
    paths = {module: path for path, module in root.named_modules()}
    for index, layer in enumerate(layers):
        path, before = paths[layer], (node,)
        node = make_node(
            index + 1, names.unique(path), "call_module", path, before, {}, module=layer, path=path, inputs=before
        )
        nodes.append(node)
    return Traced(tuple(nodes), node, {})


def _collect(
    module: nn.Module, is_leaf: Callable[[nn.Module], bool], layers: list[nn.Module], *, outermost: bool
) -> bool:
    """Append the layers of a Sequential in the order in which they run; False if it is none, or others look in."""
    if not outermost and is_leaf(module):
        layers.append(module)
        return True
    attributes = vars(module)
    plain = type(module).forward is nn.Sequential.forward and "forward" not in attributes
    if not plain or (not outermost and any([attributes.get(name) for name in _HOOKS])):  # noqa: C419
        return False
    for child in module._modules.values():
        if child is None or not _collect(child, is_leaf, layers, outermost=False):
            return False
    return True
