"""The registry of rules: the function for each module or call, what it reads, and its possible errors.

A rule that fails with anything but `NotCovered` has a bug. If INITSCOPE_STRICT_RULES is set in the environment, as in
this library's tests, the error is raised; otherwise the row is sampled, and its note names the rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

from initscope.errors import InputError
from initscope.graph import ActivationLayer, Role, activation_row, declare_role, declare_whole
from initscope.graph.calls import STANDS_FOR, called_activation
from initscope.graph.single_ops import class_computes_as, has_own_forward
from initscope.propagate.context import Context
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value

__all__ = ["Context", "NotCovered", "Reads", "Rule", "find_operation", "find_rule", "operation", "rule", "rule_of_call"]


Reads = Literal["means", "positions", "distribution"]
"""What a rule may read of its input beyond second moments.

Means of units; covariances between positions or samples; the distribution of a unit.
"""
_EVERYTHING: tuple[Reads, ...] = ("means", "positions", "distribution")


@dataclass(frozen=True)
class Rule:
    """A function that predicts a kind of step, and the parts of the earlier state that it reads."""

    function: Callable[..., Any]
    declared: tuple[Reads, ...] | Callable[[Any], tuple[Reads, ...]] = _EVERYTHING
    fixed: bool = False
    elementwise: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the function; errors other than `NotCovered` and invalid input are bugs of the rule."""
        try:
            if self.fixed and not args[1].random:
                return args[1].run(args[0])
            return self.function(*args, **kwargs)
        except (NotCovered, InputError):
            raise
        except Exception as error:
            if os.environ.get("INITSCOPE_STRICT_RULES"):
                raise
            name = f"{self.function.__module__}.{self.function.__qualname__}"
            raise NotCovered(f"its rule {name} failed ({type(error).__name__}: {error})") from error

    def reads(self, module: nn.Module | None) -> tuple[Reads, ...]:
        """Return what it reads for one module; None: for the call of a function."""
        return self.declared(module) if callable(self.declared) else self.declared


AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
_RULES: dict[type[nn.Module], Rule] = {}
_RULE_OF_CLASS: WeakKeyDictionary[type[nn.Module], tuple[Any, Rule]] = WeakKeyDictionary()
"""Rules of classes that were asked for, with the code of the ``forward`` that each had; cleared by every new rule."""
_OPERATIONS: dict[tuple[str, type[Value] | None], Rule] = {}


def rule(
    *kinds: type[nn.Module],
    reads: tuple[Reads, ...] | Callable[[Any], tuple[Reads, ...]] = _EVERYTHING,
    role: Role | None = None,
    fixed: bool = False,
) -> Callable[[AnyFunction], AnyFunction]:
    """Register the decorated function as the rule of these modules, and of subclasses that keep their ``forward``.

    A rule takes ``(module, value, context)`` and returns the `Value` after the module. The value before is `MomentMaps`
    (second moments of random units), or `InputValues` (tensors ``x`` and ``y`` that no weights have touched yet) if the
    module has parameters; without parameters, inputs are run through the module itself. Raise `NotCovered` with the
    reason if there is no formula: the row is then sampled.

    Parameters
    ----------
    kinds : types
        Classes of modules.
    reads : tuple of {"means", "positions", "distribution"}, or a function of the module that returns one
        Parts of `MomentMaps` beyond second moments that the rule reads: ``value.means()``, covariances between
        positions, or ``value.distribution``. Parts that no later op reads are freed. Default: all parts are stored.
    role : str, optional
        Role of such modules, as in `initscope.graph.Role`, for tables and checks.
    fixed : bool
        Whether the module is a fixed function of its input although it has parameters, such as a norm: the module is
        then run on inputs, and the rule gets only `MomentMaps`.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> import torch, initscope
    >>> class Halve(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x / 2
    >>> @initscope.rule(Halve, reads=(), role="scaling")
    ... def halve(module, value, context):
    ...     return value.scaled(0.5)
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 100), Halve())
    >>> initscope.predict(model, torch.eye(3)[:1], torch.eye(3)[1:2]).norm_ratio.shape
    (3, 1)
    """
    if not callable(reads) and not set(reads) <= set(_EVERYTHING):
        raise InputError(f"reads = {reads!r} must be chosen from {', '.join(_EVERYTHING)}")

    def register(function: AnyFunction) -> AnyFunction:
        _RULE_OF_CLASS.clear()
        for kind in kinds:
            _RULES[kind] = Rule(function, reads, fixed)
            if role is not None:
                declare_role(kind, role)
        declare_whole(*kinds)
        return function

    return register


def find_rule(module: nn.Module) -> Rule | None:
    """Return the rule of the module's class or of its nearest registered base class that computes the same."""
    if has_own_forward(module):
        return None
    cls = type(module)
    code = getattr(cls.forward, "__code__", None)  # not the function, whose closure may hold the class
    known, rule = _RULE_OF_CLASS.get(cls, (None, None))
    if rule is not None and known is code:
        return rule
    for kind in cls.__mro__:
        rule = _rule_of_class(kind)
        if rule is not None and class_computes_as(cls, kind):
            _RULE_OF_CLASS[cls] = code, rule
            return rule
    return None


def _rule_of_class(kind: Any) -> Rule | None:
    """Return the rule of `ActivationLayer`, which every activation in `initscope.graph` uses, also one added later."""
    rule = _RULES.get(kind)
    if rule is None and issubclass(kind, nn.Module):
        row = activation_row(kind)
        rule = _RULES.get(ActivationLayer) if row is not None and row.module is kind else None
    return rule


def operation(
    *names: str, reads: tuple[Reads, ...] = _EVERYTHING, on: type[Value] | None = None, elementwise: bool = False
) -> Callable[[AnyFunction], AnyFunction]:
    """Register the decorated function for calls of these names.

    Parameters
    ----------
    names : str
        Names of functions, methods and operators.
    reads : tuple of {"means", "positions", "distribution"}
        Parts of `MomentMaps` beyond second moments that the rule reads.
    on : type of Value, optional
        The kind of value that the rule is for, `UnitView` or `RoutedTokens`. Such a rule may return NotImplemented for
        arguments that it does not support. None: for `MomentMaps`, together with `InputValues` and constants.
    elementwise : bool
        Whether it acts on every unit by itself.

    Returns
    -------
    callable
        The decorator of a function of ``(context, *args, **kwargs)``, with values among them.
    """

    def register(function: AnyFunction) -> AnyFunction:
        for name in names:
            _OPERATIONS[name, on] = Rule(function, reads, elementwise=elementwise)
        return function

    return register


def find_operation(name: str, on: type[Value] | None = None) -> Rule | None:
    """Return the rule of a function, method or operator by its name, for that kind of value."""
    return _OPERATIONS.get((name, on))


def is_elementwise(name: str) -> bool:
    """Return whether a call acts elementwise: an activation, or a rule that declares it."""
    rule = find_operation(name)
    return called_activation(name) is not None if rule is None else rule.elementwise


def rule_of_call(name: str) -> Rule | None:
    """Return the rule for the call of a function, method or operator: its own, or that of the equivalent module."""
    if (name, None) in _OPERATIONS:
        return _OPERATIONS[name, None]
    if name in STANDS_FOR:
        return _rule_of_class(STANDS_FOR[name])
    return None if called_activation(name) is None else _RULES.get(ActivationLayer)
