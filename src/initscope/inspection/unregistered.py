"""Weights that the loss depends on but no optimizer gets: layers in a plain list, tensors that are not parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

__all__ = ["created_in_forward", "unregistered"]


def unregistered(model: nn.Module, value: Tensor) -> dict[str, str]:
    """Return attributes, as ``path.name``, with weights that ``value`` depends on and ``model.parameters()`` lacks.

    The values are the containers that would register them: ``ModuleList``, ``ModuleDict``, or empty if none does.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = [nn.Linear(3, 3)]
    >>> net = Net()
    >>> unregistered(net, net.layers[0].weight.sum())
    {'layers': 'ModuleList'}
    """
    stray = {id(leaf) for leaf in _stray(model, value)}
    if not stray:
        return {}
    return {
        attribute: _holder(held)
        for attribute, held in _attributes(model)
        if any(id(tensor) in stray for tensor in _weights(held))
    }


def created_in_forward(model: nn.Module, value: Tensor) -> int:
    """Return how many parameters ``value`` depends on that the model does not hold: of layers created in forward.

    >>> created_in_forward(nn.Identity(), nn.Linear(3, 1).weight.sum())
    1
    """
    held = {id(tensor) for _, value in _attributes(model) for tensor in _weights(value)}
    return sum(isinstance(leaf, nn.Parameter) and id(leaf) not in held for leaf in _stray(model, value))


def _stray(model: nn.Module, value: Tensor) -> list[Tensor]:
    known = {parameter.data_ptr() for parameter in model.parameters()}
    return [leaf for leaf in _leaves(value) if leaf.data_ptr() not in known]


def _attributes(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of modules other than parameters, buffers and modules, by ``path.name``."""
    for path, module in model.named_modules():
        for name, held in vars(module).items():
            if not name.startswith("_"):
                yield (f"{path}.{name}" if path else name), held


def _holder(held: Any) -> str:
    members = list(held.values() if isinstance(held, Mapping) else held) if isinstance(held, (list, Mapping)) else []
    if not members or not all(isinstance(member, nn.Module) for member in members):
        return ""
    return "ModuleDict" if isinstance(held, Mapping) else "ModuleList"


def _leaves(value: Tensor) -> Iterator[Tensor]:
    """Yield the tensors that get a gradient in a backward pass from ``value``."""
    waiting, seen = [value.grad_fn], set[Any]()
    if value.is_leaf and value.requires_grad:
        yield value
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        if hasattr(node, "variable"):
            yield node.variable


def _weights(held: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested lists, tuples and dicts, and those of modules in them."""
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, nn.Module):
        yield from held.parameters()
    elif isinstance(held, (list, tuple, Mapping)):
        for item in held.values() if isinstance(held, Mapping) else held:
            yield from _weights(item)
