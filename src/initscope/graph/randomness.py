"""Random layers and random calls: which are known and can be off, and which can only be told of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from initscope.graph.ops import draws_numbers

__all__ = ["RandomCalls", "random_layers", "random_notes", "random_reason"]

_KNOWN = re.compile(r"dropout|drop_?path|stochastic_?depth|drop_?block|drop_?connect", re.IGNORECASE)


def random_layers(model: nn.Module) -> list[nn.Module]:
    """Modules that draw in training mode only: dropout, and by their names its kin such as ``DropPath``."""
    kinds = (_DropoutNd, nn.MultiheadAttention, nn.RNNBase)
    return [module for module in model.modules() if isinstance(module, kinds) or _KNOWN.search(type(module).__name__)]


def random_reason(names: Iterable[str]) -> str:
    """The note of a row that reads drawn numbers."""
    return (
        f"reads numbers that forward draws anew in each run ({', '.join(sorted(set(names)))}); they are not turned off"
    )


def random_notes(nodes: Iterable[fx.Node], rows: Iterable[fx.Node]) -> dict[Any, str]:
    """Notes for the rows of a symbolic trace that draw, or that read what was drawn."""
    wanted, drawn, notes = set(rows), dict[fx.Node, set[str]](), dict[Any, str]()
    for node in nodes:
        name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
        names = {name} if draws_numbers(name) and node.op != "call_module" else set()
        names = names.union(*(drawn.get(parent, set()) for parent in node.all_input_nodes))
        if node in wanted and names:
            notes[node] = random_reason(names)
        elif names:
            drawn[node] = names
    return notes


class RandomCalls(TorchFunctionMode):
    """Notes which calls draw for real while a model is traced symbolically: the trace would keep what they drew."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if draws_numbers(getattr(func, "__name__", "")) and isinstance(output, torch.Tensor):
            self.names.add(func.__name__)
        return output
