"""The registry of rules: which function predicts which module or call, what it reads, what it may ask for and raise.

A rule that fails with anything but `NotCovered` has a bug. Where INITSCOPE_STRICT_RULES is set in the environment,
as in this library's tests, it raises; otherwise the row is sampled, and its note names the rule.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from initscope.errors import InputError
from initscope.graph import ActivationLayer, Role, activation_row, declare_role, declare_whole
from initscope.graph.calls import STANDS_FOR, called_activation
from initscope.graph.single_ops import computes_as
from initscope.initializers import Initializer, WeightLaw
from initscope.propagate.budget import Budget
from initscope.propagate.moments import NotCovered

__all__ = ["Context", "NotCovered", "Reads", "Rule", "find_operation", "find_rule", "operation", "rule", "rule_of_call"]


@dataclass(frozen=True)
class Context:
    """What a rule may ask for beside the state: the weight law, and random numbers for steps that are sampled."""

    initializer: Initializer
    generator: torch.Generator = field(default_factory=torch.Generator)
    budget: Budget = field(default_factory=Budget)
    mode: str | None = None
    """"train" or "eval" for layers that differ between them; None: as each module is."""
    replicate: int = 0
    replicates: int = 1
    """All that is sampled is sampled several times, each with a share of the samples: their spread is the error."""
    same: dict[int, int] = field(default_factory=dict)
    """Parameters that are drawn as one with another, by ``id``."""
    tied: frozenset[int] = frozenset()
    """Weights that several steps read in different ways, by ``id``: no formula knows what they do together."""
    sampled: list[str] = field(default_factory=list)
    """What was drawn so far: "units" or "networks", once for each step."""
    grams: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    """Gram matrices over all positions that were found last (`covariances.gram`)."""
    values: OrderedDict[int, tuple[Tensor, Tensor]] = field(default_factory=OrderedDict)
    """Values that were drawn last (`units.drawn`), by the order of their maps."""
    factors: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    """Roots of the Gram matrices that values were drawn from last (`units.gaussian_values`)."""
    cosines: dict[int, float] = field(default_factory=dict)
    """Mean cosines of tokens (`units.token_cosine`)."""
    roots: list[Any] | None = None
    """All values that were drawn, where gradients are to be taken by them (`attended.Root`)."""
    _laws: dict[nn.Module, WeightLaw] = field(default_factory=dict)

    def of_replicate(self, index: int, generator: torch.Generator) -> Context:
        """The same for another replicate, which remembers nothing of this one."""
        return replace(
            self,
            replicate=index,
            generator=generator,
            grams=OrderedDict(),
            values=OrderedDict(),
            factors=OrderedDict(),
            cosines={},
        )

    def training(self, module: nn.Module) -> bool:
        """Whether a layer acts as in training."""
        return module.training if self.mode is None else self.mode == "train"

    def drawn(self, parameters: Iterable[Any]) -> frozenset[object]:
        """What parameters are drawn as: those that are drawn as one are one."""
        return frozenset(self.same.get(id(parameter), id(parameter)) for parameter in parameters)

    def law(self, module: Any) -> WeightLaw:
        """The weight law of a module, asked for once."""
        if module not in self._laws:
            stated = self.initializer.law(module)
            # A law states a bias for any layer; one that has none gets none.
            has_none = stated.bias_variance > 0 and getattr(module, "bias", False) is None
            self._laws[module] = replace(stated, bias_variance=0.0) if has_none else stated
        return self._laws[module]


Reads = Literal["means", "positions", "law"]
"""What a rule may read of its input beyond second moments.

Means of units; covariances between positions or samples; the law of a unit.
"""
_EVERYTHING: tuple[Reads, ...] = ("means", "positions", "law")


@dataclass(frozen=True)
class Rule:
    """A function that predicts a kind of step, and what it reads of the state before."""

    function: Callable[..., Any]
    declared: tuple[Reads, ...] | Callable[[Any], tuple[Reads, ...]] = _EVERYTHING

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns; errors other than `NotCovered`, and what is wrong with the input, are bugs."""
        try:
            return self.function(*args, **kwargs)
        except (NotCovered, InputError):
            raise
        except Exception as error:
            if os.environ.get("INITSCOPE_STRICT_RULES"):
                raise
            name = f"{self.function.__module__}.{self.function.__qualname__}"
            raise NotCovered(f"its rule {name} failed ({type(error).__name__}: {error})") from error

    def reads(self, module: nn.Module | None) -> tuple[Reads, ...]:
        """What it reads, for one module; None: for the call of a function."""
        return self.declared(module) if callable(self.declared) else self.declared


AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
_RULES: dict[type[nn.Module], Rule] = {}
_OPERATIONS: dict[str, Rule] = {}


def rule(
    *kinds: type[nn.Module],
    reads: tuple[Reads, ...] | Callable[[Any], tuple[Reads, ...]] = _EVERYTHING,
    role: Role | None = None,
) -> Callable[[AnyFunction], AnyFunction]:
    """Register the decorated function as the rule of these modules, and of subclasses that keep their ``forward``.

    A rule takes ``(module, state, context)`` and returns the state after the module. A state is `Given` (tensors ``x``
    and ``y`` that no weights have touched yet) or `Maps` (second moments of random units); raise `NotCovered` with the
    reason where there is no formula: the row is then sampled.

    Parameters
    ----------
    kinds : types
        Classes of modules.
    reads : tuple of {"means", "positions", "law"}, or a function of the module that returns one
        What the rule reads of a `Maps` beyond its second moments: ``state.means()``, covariances between positions, or
        ``state.unit``. What no later step reads is set free. Left out: all of it is kept.
    role : str, optional
        What such modules do, as `initscope.graph.Role` names it: tables and verdicts ask for it.

    Examples
    --------
    >>> import torch, initscope
    >>> from initscope.propagate import Given
    >>> class Halve(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x / 2
    >>> @initscope.rule(Halve, reads=(), role="scaling")
    ... def halve(module, state, context):
    ...     if isinstance(state, Given):
    ...         return state.run(module)
    ...     return state.scaled(0.5)
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 100), Halve())
    >>> initscope.predict(model, torch.eye(3)[:1], torch.eye(3)[1:2]).norm_ratio.shape
    (3, 1)
    """
    if not callable(reads) and not set(reads) <= set(_EVERYTHING):
        raise InputError(f"reads = {reads!r} must be some of {', '.join(_EVERYTHING)}")

    def register(function: AnyFunction) -> AnyFunction:
        for kind in kinds:
            _RULES[kind] = Rule(function, reads)
            if role is not None:
                declare_role(kind, role)
        declare_whole(*kinds)
        return function

    return register


def find_rule(module: nn.Module) -> Rule | None:
    """The rule of the module's class or of its nearest registered base class that computes the same."""
    for kind in type(module).__mro__:
        found = _rule_of_class(kind)
        if found is not None and computes_as(module, kind):
            return found
    return None


def _rule_of_class(kind: Any) -> Rule | None:
    """Every activation that `initscope.graph` knows goes by the rule of `ActivationLayer`, also one added later."""
    found = _RULES.get(kind)
    if found is None and issubclass(kind, nn.Module):
        row = activation_row(kind)
        found = _RULES.get(ActivationLayer) if row is not None and row.module is kind else None
    return found


def operation(*names: str, reads: tuple[Reads, ...] = _EVERYTHING) -> Callable[[AnyFunction], AnyFunction]:
    """Register the decorated function, of ``(context, *args, **kwargs)`` with states among them, for these names."""

    def register(function: AnyFunction) -> AnyFunction:
        for name in names:
            _OPERATIONS[name] = Rule(function, reads)
        return function

    return register


def find_operation(name: str) -> Rule | None:
    """The rule of a function, method or operator by its name."""
    return _OPERATIONS.get(name)


def rule_of_call(name: str) -> Rule | None:
    """The rule by which the call of a function, method or operator will go: its own, or that of the module it is."""
    if name in _OPERATIONS:
        return _OPERATIONS[name]
    if name in STANDS_FOR:
        return _rule_of_class(STANDS_FOR[name])
    return None if called_activation(name) is None else _RULES.get(ActivationLayer)
