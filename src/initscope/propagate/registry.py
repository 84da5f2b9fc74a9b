"""The registry of rules: which function predicts which module or call, and what a rule may ask for and raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from initscope.initializers import Initializer, WeightLaw
from initscope.propagate.budget import Budget
from initscope.propagate.moments import NotCovered, State

__all__ = ["Context", "NotCovered", "find_operation", "find_rule", "operation", "rule"]


@dataclass(frozen=True)
class Context:
    """What a rule may ask for beside the state: the weight law, and random numbers for steps that are sampled."""

    initializer: Initializer
    generator: torch.Generator = field(default_factory=torch.Generator)
    budget: Budget = field(default_factory=Budget)
    mode: str | None = None
    """"train" or "eval" for layers that differ between them; None: as each module is."""
    _laws: dict[nn.Module, WeightLaw] = field(default_factory=dict)

    def training(self, module: nn.Module) -> bool:
        """Whether a layer acts as in training."""
        return module.training if self.mode is None else self.mode == "train"

    def law(self, module: Any) -> WeightLaw:
        """The weight law of a module, asked for once."""
        if module not in self._laws:
            self._laws[module] = self.initializer.law(module)
        return self._laws[module]


Rule = Callable[[Any, State, Context], State]
AnyRule = TypeVar("AnyRule", bound=Rule)
Operation = Callable[..., Any]
AnyOperation = TypeVar("AnyOperation", bound=Operation)
_RULES: dict[type[nn.Module], Rule] = {}
_OPERATIONS: dict[str, Operation] = {}


def rule(*kinds: type[nn.Module]) -> Callable[[AnyRule], AnyRule]:
    """Register the decorated function as the rule of these modules, and of subclasses that keep their ``forward``.

    A rule takes ``(module, state, context)`` and returns the state after the module. A state is `Given` (tensors ``x``
    and ``y`` that no weights have touched yet) or `Maps` (second moments of random units); raise `NotCovered` with the
    reason where there is no formula: the row is then sampled.

    >>> import torch, initscope
    >>> from initscope.propagate import Given
    >>> class Halve(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x / 2
    >>> @initscope.rule(Halve)
    ... def halve(module, state, context):
    ...     if isinstance(state, Given):
    ...         return state.run(module)
    ...     return state.scaled(0.5)
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 100), Halve())
    >>> initscope.predict(model, torch.eye(3)[:1], torch.eye(3)[1:2]).norm_ratio.shape
    (3, 1)
    """

    def register(function: AnyRule) -> AnyRule:
        for kind in kinds:
            _RULES[kind] = function
        return function

    return register


def find_rule(module: nn.Module) -> Rule | None:
    """The rule of the module's class or of its nearest registered base class that computes the same."""
    kinds = (kind for kind in type(module).__mro__ if kind in _RULES)
    return next((_RULES[kind] for kind in kinds if _computes_as(module, kind)), None)


def _computes_as(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether what a module computes is defined by ``kind`` or by torch, not by a user's subclass or for it alone."""
    for method in ("forward", "_conv_forward"):
        definer = next((cls for cls in type(module).__mro__ if method in vars(cls)), nn.Module)
        ours = issubclass(kind, definer) or definer.__module__.startswith("torch.")
        if method in vars(module) or not ours:
            return False
    return True


def operation(*names: str) -> Callable[[AnyOperation], AnyOperation]:
    """Register the decorated function, of ``(context, *args, **kwargs)`` with states among them, for these names."""

    def register(function: AnyOperation) -> AnyOperation:
        for name in names:
            _OPERATIONS[name] = function
        return function

    return register


def find_operation(name: str) -> Operation | None:
    """The rule of a function, method or operator by its name."""
    return _OPERATIONS.get(name)
