"""Random layers and random calls: which are known and can be turned off, and which can only be reported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from initscope.graph.ops import draws_numbers
from initscope.graph.torch_code import only_torch_code

__all__ = ["NoDropoutCalls", "RandomCalls", "random_layers", "random_notes", "random_reason", "without_dropout"]

_DROPOUTS = {F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout}
_KNOWN = re.compile(r"dropout|drop_?path|stochastic_?depth|drop_?block|drop_?connect", re.IGNORECASE)


def random_layers(model: nn.Module) -> list[nn.Module]:
    """Modules that draw in training mode only: dropout, and by their names related layers such as ``DropPath``."""
    modules = list(model.modules())
    random = {kind for kind in {type(module) for module in modules} if _is_random(kind)}
    return [module for module in modules if type(module) in random]


def _is_random(kind: type) -> bool:
    kinds = (_DropoutNd, nn.MultiheadAttention, nn.RNNBase)
    return issubclass(kind, kinds) or _KNOWN.search(kind.__name__) is not None


def random_reason(names: Iterable[str]) -> str:
    """Return the note of a row that reads drawn numbers."""
    calls = ", ".join(sorted(set(names)))
    return f"reads random numbers that forward draws in each run ({calls}); they are not turned off"


def random_notes(nodes: Iterable[fx.Node], rows: Iterable[fx.Node]) -> dict[Any, str]:
    """Return notes for the rows of a symbolic trace that draw random numbers, or that read drawn numbers."""
    wanted, drawn, notes = set(rows), dict[fx.Node, set[str]](), dict[Any, str]()
    for node in nodes:
        names: set[str] = set()
        if node.op in ("call_function", "call_method"):
            name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", "")
            names = {name} if draws_numbers(name) else names
        if drawn:
            names = names.union(*(drawn.get(parent, set()) for parent in node.all_input_nodes))
        if node in wanted and names:
            notes[node] = random_reason(names)
        elif names:
            drawn[node] = names
    return notes


class RandomCalls(TorchFunctionMode):
    """Records which calls really draw numbers during symbolic tracing, because the trace would keep these numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if draws_numbers(getattr(func, "__name__", "")) and isinstance(output, torch.Tensor):
            self.names.add(func.__name__)
        return output


class without_dropout(AbstractContextManager[None]):
    """Run the model without dropout and its kin, whether modules do it or ``forward`` calls it, in any mode.

    Related layers are modules whose class name contains dropout, drop path, stochastic depth, drop block or drop
    connect, and masks drawn by ``bernoulli_`` with one probability: these become the probability, by which the model
    then divides.

    No generator: after an interrupt it would only continue when it is collected, in the middle of other work.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = random_layers(model)
        self._modes: list[bool] = []
        # Torch's own layers drop only where their module says so.
        self._calls = None if only_torch_code(model.modules()) else NoDropoutCalls()

    def __enter__(self) -> None:
        self._modes = [module.training for module in self._modules]
        for module in self._modules:
            module.training = False
        if self._calls is not None:
            self._calls.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        modes = torch._C._len_torch_function_stack()
        if self._calls is not None and modes and torch._C._get_function_stack_at(modes - 1) is self._calls:
            self._calls.__exit__(*error)  # type: ignore[no-untyped-call]
        for module, mode in zip(self._modules, self._modes, strict=True):
            module.training = mode


class NoDropoutCalls(TorchFunctionMode):
    """Calls of dropout as a function return their input, and random masks their mean."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is Tensor.bernoulli_:
            probability = args[1] if len(args) > 1 else (kwargs or {}).get("p", 0.5)
            if isinstance(probability, (int, float)):
                return args[0].fill_(probability)
        if func is F.scaled_dot_product_attention:
            args, kwargs = (
                args[:4],
                {**dict(zip(("dropout_p", "is_causal"), args[4:])), **(kwargs or {}), "dropout_p": 0.0},
            )
        return func(*args, **(kwargs or {}))
