"""Traits of one op: the facts of the table (`initscope.graph.ops`) and those that depend on its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from torch import nn

from initscope.graph.activations import ActivationRow, activation_row
from initscope.graph.calls import as_module, called_activation
from initscope.graph.modules import ActivationLayer
from initscope.graph.ops import OPS, Op, module_op
from initscope.traits import NO_BOUNDS, Normalization, Pooling, Role, Traits

__all__ = ["role_of", "traits_of_call", "traits_of_module"]

INPUT = Traits(role="input")
_NOTHING = Op("")


@dataclass(frozen=True)
class _Settings:
    """Arguments of an op by name: attributes of a module, or arguments of a call."""

    module: nn.Module | None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None

    def get(self, name: str, position: int, default: Any = None) -> Any:
        """Return the argument of that name, or the argument at a position after the input."""
        if self.module is not None:
            return getattr(self.module, name, default)
        if self.kwargs and name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if position < len(self.args) else default

    def number(self, name: str, position: int, default: float) -> float:
        """Return it as a number; ``default`` if the model computes it."""
        value = self.get(name, position, default)
        return float(value) if isinstance(value, (int, float)) else default

    def axes(self, name: str, position: int) -> tuple[int, ...] | None:
        """Return it as axes; None if there are none, or if they are computed."""
        value = self.get(name, position)
        values = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(values) if all(type(axis) is int for axis in values) else None


def role_of(op: nn.Module | type[nn.Module] | str, reads: int = 1) -> Role:
    """Return the role of a module, or of a call by its name (see `call_name`) that reads ``reads`` values of the data.

    Parameters
    ----------
    op : nn.Module, type or str
        A module, a class of modules, or the name of a call.
    reads : int
        How many values of the data a call reads.

    Returns
    -------
    Role

    >>> role_of(nn.ReLU()), role_of("max_pool2d"), role_of("add", reads=2), role_of("add")
    ('activation', 'pooling', 'merge', 'scaling')
    """
    if isinstance(op, str):
        return "activation" if called_activation(op) is not None else _role(OPS.get(op, _NOTHING), reads)
    kind = op if isinstance(op, type) else type(op)
    known = module_op(kind)
    if known is not None and not issubclass(kind, ActivationLayer):
        return known.traits.role
    return "activation" if issubclass(kind, ActivationLayer) or activation_row(op) is not None else "other"


def _role(op: Op, reads: int) -> Role:
    return op.role_of_several if reads > 1 and op.role_of_several is not None else op.traits.role


def traits_of_module(module: nn.Module, path: str = "") -> Traits:
    """Return the traits of a module.

    Parameters
    ----------
    module : nn.Module
        Called as one op.
    path : str
        Path in the model, for the names of its weights.

    Returns
    -------
    Traits
        For the mode, training or evaluation, that the module is in.

    >>> traits_of_module(nn.Softmax(dim=-1)).softmax_axis, traits_of_module(nn.Dropout(0.2)).drop_rate
    (-1, 0.2)
    """
    op = None if isinstance(module, ActivationLayer) else module_op(type(module))
    row = activation_row(module) if op is None or op.traits.role == "activation" else None
    if op is None and row is not None:
        return _of_activation(row, module)
    op = op or _NOTHING
    traits = op.traits if row is None else replace(_of_activation(row, module), role=op.traits.role)
    more: dict[str, Any] = {}
    if op.name in _FILLED:
        more = _FILLED[op.name](_Settings(module), op, 1)
    if traits.role in _WEIGHTED:
        more["weight_names"] = _weight_names(module, path)
    return replace(traits, **more) if more else traits


def _weight_names(module: nn.Module, path: str) -> tuple[str, ...]:
    """Return paths of the parameters of a module that have two or more axes."""
    names = []
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            names.append(f"{path}.{name}" if path else name)
    return tuple(names)


_WEIGHTED = ("weights", "recurrent", "attention", "other", "embedding")


def traits_of_call(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], reads: int, weight_names: tuple[str, ...] = ()
) -> Traits:
    """Return the traits of a call of a function, method or operator.

    Parameters
    ----------
    name : str
        The name that `call_name` returns.
    args, kwargs
        Its arguments, the input first; those that are computed by the model may be anything.
    reads : int
        How many values of the data it reads.
    weight_names : tuple of str
        Paths of the parameters with two or more axes among its arguments.

    Returns
    -------
    Traits

    >>> traits_of_call("clamp", (None, 0.0, 6.0), {}, reads=1).bounds
    (0.0, 6.0)
    """
    if name == "getattr" and len(args) > 1 and args[1] in OPS:  # x.T
        name = str(args[1])
    row = called_activation(name)
    if row is not None:
        return _of_activation(row, _built(name, args, kwargs))
    op = OPS.get(name)
    if op is None:
        return Traits(weight_names=weight_names)
    filled = _FILLED.get(name)
    more = {} if filled is None else filled(_Settings(None, args[1:], kwargs), op, reads)
    if name == "einsum" and args and isinstance(args[0], str):
        more["equation"] = args[0].replace(" ", "")
    return replace(op.traits, role=_role(op, reads), weight_names=weight_names, **more)


def _built(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> nn.Module | None:
    """Return the module that is equivalent to the call of an activation; with default arguments if there is none."""
    plain = {key: value for key, value in kwargs.items() if isinstance(value, (int, float, str, bool))}
    numbers = tuple(value for value in args[1:] if isinstance(value, (int, float, str, bool)))
    try:
        return as_module(name, numbers, plain)
    except Exception:  # arguments that only the function knows
        row = activation_row(name)
        return None if row is None or row.module is None else row.module()


@lru_cache(maxsize=256)
def _traits_of_row(row: ActivationRow, bounds: tuple[float, float], value_at_zero: float) -> Traits:
    return Traits(
        role="activation",
        activation=row.name,
        bounds=bounds,
        saturates=row.saturates,
        zero_is_off=row.zero_is_off,
        rectifier=row.rectifier,
        is_relu=row.name == "relu",
        value_at_zero=value_at_zero,
        exponential=row.name == "exp",
        random=row.name == "rrelu",
        rounds=row.rounds,
        probabilities={"sigmoid": "probability", "logsigmoid": "log-probability"}.get(row.name, ""),  # type: ignore[arg-type]
    )


def _of_activation(row: ActivationRow, module: nn.Module | None) -> Traits:
    bounds: Any = row.bounds
    zero: Any = row.value_at_zero
    if callable(bounds):
        bounds = NO_BOUNDS if module is None else bounds(module)
    if callable(zero):
        zero = 0.0 if module is None else zero(module)
    return _traits_of_row(row, (float(bounds[0]), float(bounds[1])), float(zero))


_Filled = Callable[[_Settings, Op, int], dict[str, Any]]


def _softmax(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    axis = settings.get("dim", 0)
    return {"softmax_axis": axis if type(axis) is int else 1}


def _dropout(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {"drop_rate": settings.number("p", 0, 0.5)}


def _clamp(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {"bounds": (settings.number("min", 0, -math.inf), settings.number("max", 1, math.inf))}


def _reduction(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {} if op.traits.pools is None else {"pools": replace(op.traits.pools, axes=settings.axes("dim", 0))}


def _windows(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    """Return the traits of pooling over windows, with the number of axes in the module's name."""
    kind = op.traits.pools.kind if op.traits.pools is not None else "other"
    name = op.name if settings.module is None else type(settings.module).__name__
    digits = [int(letter) for letter in name if letter.isdigit()]
    axes = tuple(range(-digits[0], 0)) if digits else None
    return {"pools": Pooling(kind, axes, windows=True)}


def _batch_norm(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    module = settings.module
    if module is None:
        over = settings.get("training", 4, False) is not False
    else:
        over = module.training or getattr(module, "running_mean", None) is None
    return {"normalizes": Normalization("batch", (0, 2, 3, 4), over), "couples_samples": over}


def _layer_norm(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    kind = op.traits.normalizes.kind if op.traits.normalizes is not None else "layer"
    shape = settings.get("normalized_shape", 0)
    axes = tuple(range(-len(shape), 0)) if isinstance(shape, (tuple, list)) else ()
    return {"normalizes": Normalization(kind, axes)}


def _instance_norm(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {"normalizes": Normalization("instance", (2, 3, 4))}


def _normalize(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    axes = settings.axes("dim", 1)
    return {"normalizes": Normalization("other", (1,) if axes is None else axes)}


def _sum_of(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {} if reads == 2 else {"summand_signs": ()}


def _gate(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {"gate": reads > 1}


def _product(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    return {"product": reads > 1, "reads_positions": reads > 1}


def _convolution(settings: _Settings, op: Op, reads: int) -> dict[str, Any]:
    size = getattr(settings.module, "kernel_size", None)
    return {} if size is None else {"reads_positions": any(taps > 1 for taps in size)}


_FILLED: dict[str, _Filled] = {
    **dict.fromkeys(("softmax", "softmin", "log_softmax"), _softmax),
    **dict.fromkeys((name for name, op in OPS.items() if op.traits.drops), _dropout),
    **dict.fromkeys(("clamp", "clip"), _clamp),
    **dict.fromkeys(("mean", "sum", "amax", "amin", "max", "min", "logsumexp"), _reduction),
    **dict.fromkeys((name for name, op in OPS.items() if op.traits.pools is not None and "_pool" in name), _windows),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("layer_norm", "rms_norm"), _layer_norm),
    "instance_norm": _instance_norm,
    "normalize": _normalize,
    **dict.fromkeys(("add", "radd", "sub", "rsub"), _sum_of),
    **dict.fromkeys(("mul", "rmul"), _gate),
    **dict.fromkeys(("matmul", "mm", "bmm", "einsum", "tensordot", "dot"), _product),
    **dict.fromkeys((name for name, op in OPS.items() if op.traits.is_convolution), _convolution),
}
