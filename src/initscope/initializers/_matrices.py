"""Weights outside of Linear and convolutions: attention's projections, recurrent gates, matrices of a module's own.

The source of a user's class shows which of its parameters are matrices, and which side multiplies the data: ``x @
self.w``, ``F.linear(x, self.w)``, ``torch.addmm(self.b, x, self.w[k])``.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["Matrix", "matrices", "not_drawn"]


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix of weights that a parameter, or a part of it, holds.

    Attributes
    ----------
    owner, name
        The module and its parameter.
    part : tuple
        Index into the parameter: a gate's rows, an expert's matrix.
    transposed : bool
        Whether it is stored inputs first, as for ``x @ w``.
    bias : str
        The owner's parameter that is added, with the same rows; empty if there is none.
    """

    owner: nn.Module
    name: str
    part: tuple[Any, ...] = ()
    transposed: bool = False
    bias: str = ""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters themselves, the bias last."""
        return [getattr(self.owner, name) for name in (self.name, self.bias) if name]

    def weight(self) -> torch.Tensor:
        """Return a view ``[outputs, inputs]`` of the values."""
        values: torch.Tensor = getattr(self.owner, self.name).detach()[self.part]
        return values.T if self.transposed else values

    def bias_values(self) -> torch.Tensor | None:
        """Return a view of the bias, if there is one."""
        values: torch.Tensor | None = getattr(self.owner, self.bias).detach()[self.part] if self.bias else None
        return values

    def write(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """New values."""
        self.weight().copy_(weight)
        present = self.bias_values()
        if present is not None and bias is not None:
            present.copy_(bias)

    def layer(self) -> nn.Linear:
        """Return a Linear with a copy of these values, because initializers accept modules."""
        import torch

        weight, bias = self.weight(), self.bias_values()
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
        layer.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
        if bias is not None:
            layer.bias = torch.nn.Parameter(bias, requires_grad=False)
        return layer


def matrices(model: nn.Module) -> list[Matrix]:
    """Return all such matrices in ``model``; a parameter that several modules share occurs once."""
    from initscope.graph import WEIGHT_LAYERS, modules_of

    seen: set[int] = set()
    collected: list[Matrix] = []
    for module in modules_of(model):
        if not module._parameters:
            continue
        if not isinstance(module, WEIGHT_LAYERS):
            collected += [matrix for matrix in _of_module(module) if id(matrix.parameters[0]) not in seen]
        seen.update(map(id, module._parameters.values()))
    return collected


def not_drawn(model: nn.Module) -> tuple[str, ...]:
    """Return names of parameters with several axes that no initializer draws: embeddings, positions, unknown weights.

    >>> import torch
    >>> not_drawn(torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2), torch.nn.LSTM(2, 3)))
    ('0.weight',)
    """
    from initscope.graph import WEIGHT_LAYERS, modules_of

    drawn = {id(parameter) for matrix in matrices(model) for parameter in matrix.parameters}
    for module in modules_of(model):
        if isinstance(module, WEIGHT_LAYERS):
            drawn.update(map(id, module.parameters()))
    return tuple([name for name, value in model.named_parameters() if value.dim() > 1 and id(value) not in drawn])


def _of_module(module: nn.Module) -> list[Matrix]:
    import torch

    if isinstance(module, torch.nn.MultiheadAttention):
        return _attention(module)
    if isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)):
        return _recurrent(module)
    if type(module).__module__.startswith("torch."):
        return []
    parameters = {name: value for name, value in module._parameters.items() if value is not None}
    wanted = {name: value for name, value in parameters.items() if value.dim() in (2, 3) and value.is_floating_point()}
    kind: Any = type(module)
    used = _products(kind) if wanted else {}
    collected = []
    for name, value in wanted.items():
        if name not in used:
            continue
        parts: list[tuple[Any, ...]] = [()] if value.dim() == 2 else [(index,) for index in range(len(value))]
        outputs = value.shape[-1 if used[name] else -2]
        bias = parameters.get("bias")
        single = len(used) == 1 and value.dim() == 2 and bias is not None and tuple(bias.shape) == (outputs,)
        collected += [Matrix(module, name, part, used[name], "bias" if single else "") for part in parts]
    return collected


def _attention(module: nn.MultiheadAttention) -> list[Matrix]:
    """Return the matrices of queries, keys and values: three matrices, stored as one if they have the same size."""
    width, bias = module.embed_dim, "in_proj_bias" if module.in_proj_bias is not None else ""
    if module.in_proj_weight is not None:
        rows = [(slice(k * width, (k + 1) * width),) for k in range(3)]
        return [Matrix(module, "in_proj_weight", part, bias=bias) for part in rows]
    return [Matrix(module, f"{name}_proj_weight") for name in "qkv"]


def _recurrent(module: Any) -> list[Matrix]:
    """Return the matrices of every gate."""
    collected = []
    for name, value in module._parameters.items():
        if value is None or not name.startswith("weight"):
            continue
        bias = name.replace("weight", "bias", 1)
        rows = module.hidden_size if "_hr" not in name else len(value)
        parts = [(slice(start, start + rows),) for start in range(0, len(value), rows)]
        known = module._parameters.get(bias) is not None
        collected += [Matrix(module, name, part, bias=bias if known else "") for part in parts]
    return collected


@lru_cache(maxsize=512)
def _products(kind: Any) -> dict[str, bool]:
    """Return attributes of a class that its methods multiply by, and whether they are stored inputs first."""
    products: dict[str, bool] = {}
    for base in kind.__mro__:
        if base.__module__.startswith(("torch.", "builtins")):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            for factor, inputs_first in _factors(node):
                name, turned = _attribute(factor)
                if name:
                    products.setdefault(name, inputs_first != turned)
    return products


def _factors(node: ast.AST) -> list[tuple[ast.expr, bool]]:
    """Return the factors of a product, each with whether its first axis meets the data."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return [(node.left, False), (node.right, True)]
    if not isinstance(node, ast.Call):
        return []
    from initscope.graph.ops import FACTORS

    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if function not in FACTORS:
        return []
    of_torch = isinstance(node.func, ast.Name) or (
        isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in ("torch", "F")
    )
    arguments = node.args if of_torch else [node.func.value, *node.args]  # type: ignore[attr-defined]
    if len(FACTORS[function]) == 1:  # F.linear, whatever it is imported as
        arguments = node.args
    enough = len(arguments) > FACTORS[function][-1][0]
    return [(arguments[position], first) for position, first in FACTORS[function]] if enough else []


def _attribute(node: ast.AST) -> tuple[str, bool]:
    """Return the attribute of ``self`` in an expression, or an empty name, and whether it is transposed."""
    from initscope.graph.ops import TRANSPOSES

    turned = False
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TRANSPOSES:
            turned, node = not turned, node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in TRANSPOSES:
            turned, node = not turned, node.value
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr, turned
        else:
            return "", turned
