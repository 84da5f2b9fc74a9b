"""Every activation in one row: its name, its formulas, torch's module and functions for it, its range, what zero means.

To add one, add a row to `ACTIVATIONS`: architecture strings, prediction, measurement and verdicts read it from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from initscope.graph.modules import ActivationLayer
from initscope.theory import activations as theory
from initscope.theory.activations import Activation

__all__ = ["ACTIVATIONS", "ActivationRow", "activation_of", "activation_row"]

Range = tuple[float, float]


@dataclass(frozen=True)
class ActivationRow:
    """One activation.

    Attributes
    ----------
    name : str
        In architecture strings and in `initscope.theory.activations`; torch's functions of that name are it.
    module : type, optional
        Torch's module. Without one, architecture strings build an `ActivationLayer`.
    formula : callable
        The `Activation` of a module, with that module's parameters; None where its units differ.
    aliases : tuple of str
        Other names of it.
    ends : callable, optional
        Where a bounded activation levels off at both ends; values there are saturated.
    zero_is_off : bool
        Whether a unit whose output is zero passes no gradient: the zeros of ReLU do, that of tanh does not.
    parameter : bool
        Whether architecture strings may give its first parameter, as in ``leaky_relu:0.2``.
    buildable : bool
        Whether architecture strings know it: it needs no parameters, and the theory knows its name.
    """

    name: str
    module: type[nn.Module] | None
    formula: Callable[[Any], Activation | None]
    aliases: tuple[str, ...] = ()
    ends: Callable[[Any], Range] | None = None
    zero_is_off: bool = False
    parameter: bool = False
    buildable: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names."""
        return (self.name, *self.aliases)

    def build(self, *parameters: float) -> nn.Module:
        """A module of it."""
        return ActivationLayer(self.name) if self.module is None else self.module(*parameters)


def _fixed(activation: Activation) -> Callable[[Any], Activation]:
    return lambda module: activation


def _between(low: float, high: float) -> Callable[[Any], Range]:
    return lambda module: (low, high)


def _rrelu(module: nn.RReLU) -> Activation:
    """In training every value has a slope of its own, drawn anew; in evaluation all have the mean slope."""
    if module.training:
        return theory.random_leaky_relu(module.lower, module.upper)
    return theory.leaky_relu((module.lower + module.upper) / 2)


def _prelu(module: nn.PReLU) -> Activation | None:
    slopes = module.weight.detach().flatten().tolist()
    return theory.leaky_relu(slopes[0]) if len(set(slopes)) == 1 else None


@lru_cache(maxsize=32)
def _softplus(beta: float, threshold: float) -> Activation:
    """One activation for all modules with these parameters, which then share their grids."""
    return theory.activation(nn.Softplus(beta, threshold).forward, kinks=())


ACTIVATIONS: tuple[ActivationRow, ...] = (
    ActivationRow("identity", nn.Identity, _fixed(theory.identity), aliases=("linear",)),
    ActivationRow("relu", nn.ReLU, _fixed(theory.relu), zero_is_off=True),
    ActivationRow("leaky_relu", nn.LeakyReLU, lambda m: theory.leaky_relu(m.negative_slope), parameter=True),
    ActivationRow("rrelu", nn.RReLU, _rrelu, buildable=False),
    ActivationRow("prelu", nn.PReLU, _prelu),
    ActivationRow("relu6", nn.ReLU6, _fixed(theory.relu6), zero_is_off=True),
    ActivationRow("squared_relu", None, _fixed(theory.squared_relu), zero_is_off=True),
    ActivationRow(
        "hardtanh",
        nn.Hardtanh,
        lambda m: theory.truncation(m.min_val, m.max_val),
        ends=lambda m: (m.min_val, m.max_val),
    ),
    ActivationRow("gelu", nn.GELU, lambda m: theory.gelu if m.approximate == "none" else theory.gelu_tanh),
    ActivationRow("gelu_tanh", None, _fixed(theory.gelu_tanh)),
    ActivationRow("silu", nn.SiLU, _fixed(theory.silu), aliases=("swish",)),
    ActivationRow("mish", nn.Mish, _fixed(theory.mish)),
    ActivationRow("elu", nn.ELU, lambda m: theory.elu(m.alpha), parameter=True),
    ActivationRow("celu", nn.CELU, lambda m: theory.celu(m.alpha), parameter=True),
    ActivationRow("selu", nn.SELU, _fixed(theory.selu)),
    ActivationRow("tanh", nn.Tanh, _fixed(theory.tanh), ends=_between(-1.0, 1.0)),
    ActivationRow("sigmoid", nn.Sigmoid, _fixed(theory.sigmoid), ends=_between(0.0, 1.0)),
    ActivationRow("logsigmoid", nn.LogSigmoid, _fixed(theory.logsigmoid)),
    ActivationRow("softplus", nn.Softplus, lambda m: _softplus(float(m.beta), float(m.threshold))),
    ActivationRow("softsign", nn.Softsign, _fixed(theory.softsign), ends=_between(-1.0, 1.0)),
    ActivationRow("tanhshrink", nn.Tanhshrink, _fixed(theory.tanhshrink)),
    ActivationRow("softshrink", nn.Softshrink, lambda m: theory.softshrink(m.lambd), zero_is_off=True, parameter=True),
    ActivationRow("hardshrink", nn.Hardshrink, lambda m: theory.hardshrink(m.lambd), zero_is_off=True, parameter=True),
    ActivationRow("threshold", nn.Threshold, lambda m: theory.threshold(m.threshold, m.value), buildable=False),
    ActivationRow("hardsigmoid", nn.Hardsigmoid, _fixed(theory.hardsigmoid), ends=_between(0.0, 1.0)),
    ActivationRow("hardswish", nn.Hardswish, _fixed(theory.hardswish), zero_is_off=True),
    ActivationRow("erf", None, _fixed(theory.erf), ends=_between(-1.0, 1.0)),
    ActivationRow("abs", None, _fixed(theory.abs)),
    ActivationRow("sin", None, _fixed(theory.sin)),
    ActivationRow("cos", None, _fixed(theory.cos)),
    ActivationRow("exp", None, _fixed(theory.exp)),
    ActivationRow("gaussian", None, _fixed(theory.gaussian)),
    ActivationRow("sign", None, _fixed(theory.sign)),
    ActivationRow("step", None, _fixed(theory.step)),
)


def activation_row(kind: Any) -> ActivationRow | None:
    """The row of a module, a class of modules, or a name of a function; None where it is no activation.

    >>> activation_row(nn.ReLU6()).name, activation_row("swish").name, activation_row(nn.Linear)
    ('relu6', 'silu', None)
    """
    if isinstance(kind, ActivationLayer):
        kind = kind.activation.name
    if isinstance(kind, str):
        return next((row for row in ACTIVATIONS if kind in row.names), None)
    classes = kind.__mro__ if isinstance(kind, type) else type(kind).__mro__
    by_module = {row.module: row for row in ACTIVATIONS if row.module is not None}
    return next((by_module[cls] for cls in classes if cls in by_module), None)


def activation_of(module: nn.Module) -> Activation | None:
    """The activation that ``module`` applies to every unit alike, or None (PReLU with different slopes)."""
    if isinstance(module, ActivationLayer):
        return module.activation
    row = activation_row(module)
    return None if row is None else row.formula(module)
