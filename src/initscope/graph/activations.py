"""Every activation in one row: its name, formulas, PyTorch's module and functions, range, and kind of zero.

To add one, add a row to `ACTIVATIONS`: architecture strings, prediction, measurement and checks read it from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from initscope.graph.modules import ActivationLayer
from initscope.theory import activations as theory
from initscope.theory.activations import Activation
from initscope.traits import NO_BOUNDS

__all__ = ["ACTIVATIONS", "ActivationRow", "activation_of", "activation_row"]

Range = tuple[float, float]


@dataclass(frozen=True)
class ActivationRow:
    """One activation.

    Attributes
    ----------
    name : str
        Name in architecture strings and in `initscope.theory.activations`; the functions of torch with that name
        compute it.
    module : type, optional
        Torch's module. Without a module, architecture strings build an `ActivationLayer`.
    formula : callable
        Function that returns the `Activation` of a module with its parameters; None if its units differ.
    aliases : tuple of str
        Other names of it.
    bounds : (float, float), or a function of the module that returns them
        Least and largest value of the output, infinite where there is none.
    saturates : bool
        Whether it levels off at both bounds; values there are saturated.
    zero_is_off : bool
        Whether a unit whose output is zero passes no gradient: true for ReLU, false for tanh.
    rectifier : bool
        Whether it is piecewise linear with a single kink at zero, as ReLU.
    value_at_zero : float, or a function of the module that returns it
        Output for input 0.
    rounds : bool
        Whether its gradient is zero wherever it exists.
    parameter : bool
        Whether architecture strings may give its first parameter, as in ``leaky_relu:0.2``.
    buildable : bool
        Whether architecture strings know it: it needs no parameters, and the theory knows its name.
    """

    name: str
    module: type[nn.Module] | None
    formula: Callable[[Any], Activation | None]
    aliases: tuple[str, ...] = ()
    bounds: Range | Callable[[Any], Range] = NO_BOUNDS
    saturates: bool = False
    zero_is_off: bool = False
    rectifier: bool = False
    value_at_zero: float | Callable[[Any], float] = 0.0
    rounds: bool = False
    parameter: bool = False
    buildable: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names."""
        return (self.name, *self.aliases)

    @property
    def ends(self) -> Callable[[Any], Range] | None:
        """Function that returns where a saturating activation of a module levels off; None for others."""
        return self.bounds_of if self.saturates else None

    def bounds_of(self, module: Any) -> Range:
        """Return the least and largest value of the output of a module."""
        return self.bounds(module) if callable(self.bounds) else self.bounds

    def build(self, *parameters: float) -> nn.Module:
        """Return a module of this activation."""
        return ActivationLayer(self.name) if self.module is None else self.module(*parameters)


def _fixed(activation: Activation) -> Callable[[Any], Activation]:
    return lambda module: activation


def _rrelu(module: nn.RReLU) -> Activation:
    """Return the leaky ReLU with random slopes in training, and the one with the mean slope in evaluation."""
    if module.training:
        return theory.random_leaky_relu(module.lower, module.upper)
    return theory.leaky_relu((module.lower + module.upper) / 2)


def _prelu(module: nn.PReLU) -> Activation | None:
    slopes = module.weight.detach().flatten().tolist()
    return theory.leaky_relu(slopes[0]) if len(set(slopes)) == 1 else None


@lru_cache(maxsize=32)
def _softplus(beta: float, threshold: float) -> Activation:
    """Return one activation for all modules with these parameters, which then share their grids."""
    return theory.activation(nn.Softplus(beta, threshold).forward, kinks=())


def _beyond_threshold(module: nn.Threshold) -> float:
    return 0.0 if module.threshold < 0 else float(module.value)


_row = ActivationRow
_INF = math.inf
_POSITIVE, _UNIT, _SIGNED = (0.0, _INF), (0.0, 1.0), (-1.0, 1.0)
_SELU_LEAST = -1.7580993408473768

# Least values without a closed form (GELU, SiLU, Mish) are rounded down in the fourth digit.
ACTIVATIONS: tuple[ActivationRow, ...] = (
    _row("identity", nn.Identity, _fixed(theory.identity), aliases=("linear",)),
    _row("relu", nn.ReLU, _fixed(theory.relu), bounds=_POSITIVE, zero_is_off=True, rectifier=True),
    _row("leaky_relu", nn.LeakyReLU, lambda m: theory.leaky_relu(m.negative_slope), rectifier=True, parameter=True),
    _row("rrelu", nn.RReLU, _rrelu, rectifier=True, buildable=False),
    _row("prelu", nn.PReLU, _prelu, rectifier=True),
    _row("relu6", nn.ReLU6, _fixed(theory.relu6), bounds=(0.0, 6.0), zero_is_off=True, rectifier=True),
    _row("squared_relu", None, _fixed(theory.squared_relu), bounds=_POSITIVE, zero_is_off=True),
    _row(
        "hardtanh",
        nn.Hardtanh,
        lambda m: theory.truncation(m.min_val, m.max_val),
        bounds=lambda m: (m.min_val, m.max_val),
        saturates=True,
        value_at_zero=lambda m: float(min(max(0.0, m.min_val), m.max_val)),
    ),
    _row(
        "gelu",
        nn.GELU,
        lambda m: theory.gelu if m.approximate == "none" else theory.gelu_tanh,
        bounds=(-0.1701, _INF),
    ),
    _row("gelu_tanh", None, _fixed(theory.gelu_tanh), bounds=(-0.1701, _INF)),
    _row("silu", nn.SiLU, _fixed(theory.silu), aliases=("swish",), bounds=(-0.2785, _INF)),
    _row("mish", nn.Mish, _fixed(theory.mish), bounds=(-0.3089, _INF)),
    _row("elu", nn.ELU, lambda m: theory.elu(m.alpha), bounds=lambda m: (-abs(m.alpha), _INF), parameter=True),
    _row("celu", nn.CELU, lambda m: theory.celu(m.alpha), bounds=lambda m: (-abs(m.alpha), _INF), parameter=True),
    _row("selu", nn.SELU, _fixed(theory.selu), bounds=(_SELU_LEAST, _INF)),
    _row("tanh", nn.Tanh, _fixed(theory.tanh), bounds=_SIGNED, saturates=True),
    _row("sigmoid", nn.Sigmoid, _fixed(theory.sigmoid), bounds=_UNIT, saturates=True, value_at_zero=0.5),
    _row("logsigmoid", nn.LogSigmoid, _fixed(theory.logsigmoid), bounds=(-_INF, 0.0), value_at_zero=-math.log(2)),
    _row(
        "softplus",
        nn.Softplus,
        lambda m: _softplus(float(m.beta), float(m.threshold)),
        bounds=_POSITIVE,
        value_at_zero=lambda m: math.log(2) / m.beta,
    ),
    _row("softsign", nn.Softsign, _fixed(theory.softsign), bounds=_SIGNED, saturates=True),
    _row("tanhshrink", nn.Tanhshrink, _fixed(theory.tanhshrink)),
    _row("softshrink", nn.Softshrink, lambda m: theory.softshrink(m.lambd), zero_is_off=True, parameter=True),
    _row("hardshrink", nn.Hardshrink, lambda m: theory.hardshrink(m.lambd), zero_is_off=True, parameter=True),
    _row(
        "threshold",
        nn.Threshold,
        lambda m: theory.threshold(m.threshold, m.value),
        bounds=lambda m: (float(min(m.threshold, m.value)), _INF),
        value_at_zero=_beyond_threshold,
        buildable=False,
    ),
    _row("hardsigmoid", nn.Hardsigmoid, _fixed(theory.hardsigmoid), bounds=_UNIT, saturates=True, value_at_zero=0.5),
    _row("hardswish", nn.Hardswish, _fixed(theory.hardswish), bounds=(-0.375, _INF), zero_is_off=True),
    _row("erf", None, _fixed(theory.erf), bounds=_SIGNED, saturates=True),
    _row("abs", None, _fixed(theory.abs), bounds=_POSITIVE),
    _row("sin", None, _fixed(theory.sin), bounds=_SIGNED),
    _row("cos", None, _fixed(theory.cos), bounds=_SIGNED, value_at_zero=1.0),
    _row("exp", None, _fixed(theory.exp), bounds=_POSITIVE, value_at_zero=1.0),
    _row("gaussian", None, _fixed(theory.gaussian), bounds=_UNIT, value_at_zero=1.0),
    _row("sign", None, _fixed(theory.sign), bounds=_SIGNED, rounds=True),
    _row("step", None, _fixed(theory.step), bounds=_UNIT, rounds=True),
)


@dataclass(frozen=True)
class _Index:
    """Rows of a table by name and by module."""

    table: tuple[ActivationRow, ...]
    by_name: dict[str, ActivationRow]
    by_module: dict[Any, ActivationRow]


_index = _Index((), {}, {})


def _rows() -> _Index:
    """Return the index of `ACTIVATIONS`, built again when the table has changed."""
    global _index
    if _index.table is not ACTIVATIONS:
        named = {name: row for row in reversed(ACTIVATIONS) for name in row.names}
        by_module = {row.module: row for row in ACTIVATIONS if row.module is not None}
        _index = _Index(ACTIVATIONS, named, by_module)
    return _index


def activation_row(kind: Any) -> ActivationRow | None:
    """Return the row of a module, a class of modules, or a name of a function; None if it is not an activation.

    Parameters
    ----------
    kind : nn.Module, type or str
        A module, a class of modules, or the name of a function.

    Returns
    -------
    ActivationRow or None

    >>> activation_row(nn.ReLU6()).name, activation_row("swish").name, activation_row(nn.Linear)
    ('relu6', 'silu', None)
    """
    if isinstance(kind, ActivationLayer):
        kind = kind.activation.name
    rows = _index if _index.table is ACTIVATIONS else _rows()
    if isinstance(kind, str):
        return rows.by_name.get(kind)
    by_module = rows.by_module
    for base in kind.__mro__ if isinstance(kind, type) else type(kind).__mro__:
        if base in by_module:
            return by_module[base]
    return None


def activation_of(module: nn.Module) -> Activation | None:
    """Return the activation that ``module`` applies to every unit alike, or None (PReLU with different slopes).

    Parameters
    ----------
    module : nn.Module
        An activation, or any other module.

    Returns
    -------
    Activation or None
        With the parameters of the module.
    """
    if isinstance(module, ActivationLayer):
        return module.activation
    row = activation_row(module)
    return None if row is None else row.formula(module)
