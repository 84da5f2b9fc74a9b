"""Optimizers from an instance, a class, a factory or a name, created again for a copy of the model."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from initscope.errors import InputError, did_you_mean
from initscope.models.loading import load_factory

__all__ = ["DEFAULT_RATE", "OptimizerSpec", "adapts", "for_versions", "optimizer_named", "optimizer_names", "rate_of"]

DEFAULT_RATE = 1e-3
"""Learning rate of the Adam that is assumed if no optimizer is given."""
_FUSED = (torch.optim.Adam, torch.optim.AdamW)
"""Optimizers whose fused step, which differs only by rounding, takes a quarter of the time on a CPU."""


def optimizer_names() -> dict[str, type[Optimizer]]:
    """Return the optimizers of PyTorch by their names in lower case."""
    members = vars(torch.optim).values()
    classes = [m for m in members if isinstance(m, type) and issubclass(m, Optimizer) and m is not Optimizer]
    return {kind.__name__.lower(): kind for kind in classes}


def optimizer_named(name: str) -> Any:
    """Return the class of that name, such as ``adam``; ``module:function`` and ``file.py:function`` name factories."""
    known = optimizer_names()
    key = name.lower().replace("-", "").replace("_", "")
    if key not in known and ":" in name:
        return load_factory(name)
    if key not in known:
        options = f"use one of {', '.join(known)}, or module:function"
        raise InputError(f"optimizer = {name!r} is unknown{did_you_mean(key, known)}; {options}")
    return known[key]


class OptimizerSpec:
    """The user's optimizer, to be created again for copies of the model.

    Parameters
    ----------
    optimizer : Optimizer, type, callable, str or None
        An instance (its class and the options of its parameter groups are used, its state is not), a class, a factory
        that takes the parameters or the model, such as ``functools.partial(torch.optim.SGD, momentum=0.9)``, a name, or
        None: Adam.
    lr : float or None
        Learning rate; None: that of the instance, or the default of the class.
    """

    def __init__(self, optimizer: Any, lr: float | None) -> None:
        self.default = optimizer is None
        self.assumed = self.default and lr is None
        if lr is not None and not (isinstance(lr, (int, float)) and 0 <= lr < float("inf")):
            raise InputError(
                f"lr = {lr!r} must be a number that is at least 0 and finite; common rates are 1e-4 to 1e-1"
            )
        if isinstance(optimizer, str):
            optimizer = optimizer_named(optimizer)
        if optimizer is None:
            optimizer, lr = torch.optim.Adam, DEFAULT_RATE if lr is None else lr
        if callable(optimizer) and not isinstance(optimizer, (Optimizer, type)) and _takes_nothing(optimizer):
            optimizer = optimizer()
        if not isinstance(optimizer, Optimizer) and not callable(optimizer):
            raise InputError(
                f"optimizer is a {type(optimizer).__name__}; give an instance of torch.optim.Optimizer, its class, a "
                "factory or a name"
            )
        self._optimizer, self._rate = optimizer, lr

    def copies(self, model: nn.Module, loss: Any, factor: float = 1.0) -> tuple[nn.Module, Any, Optimizer]:
        """Return copies of the model and of a loss module, and their optimizer, with its rate times ``factor``."""
        memo: dict[int, Any] = {}
        model_copy = copy.deepcopy(model, memo)
        loss_copy = copy.deepcopy(loss, memo) if isinstance(loss, nn.Module) else loss
        given = self._optimizer
        optimizer = _copied(given, memo) if isinstance(given, Optimizer) else self._made(model_copy)
        base = rate_of(optimizer)
        if base is not None:
            wanted = base if self._rate is None else self._rate
            for group in optimizer.param_groups:
                rate = float(group.get("initial_lr", group["lr"]))
                group["lr"] = wanted * factor * (rate / base if base else 1.0)
        return model_copy, loss_copy, optimizer

    def left_out(self, model: nn.Module) -> tuple[str, ...]:
        """Return the names of trainable parameters that the optimizer does not hold."""
        version, _, optimizer = self.copies(model, None)
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return tuple(name for name, p in version.named_parameters() if p.requires_grad and id(p) not in held)

    def _made(self, model: nn.Module) -> Optimizer:
        make: Callable[..., Any] = self._optimizer
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        options: dict[str, Any] = {} if self._rate is None or not _takes_rate(make) else {"lr": self._rate}
        if make in _FUSED and all(parameter.is_cpu and parameter.is_floating_point() for parameter in parameters):
            options["fused"] = True
        try:
            made = make(parameters, **options)
        except (AttributeError, TypeError):
            if isinstance(make, type):
                raise
            made = make(model)  # a factory may take the model
        if not isinstance(made, Optimizer):
            raise InputError(f"the factory of the optimizer returns {type(made).__name__}, not a torch.optim.Optimizer")
        return made


def adapts(optimizer: Optimizer) -> bool:
    """Return whether steps are divided by the size of gradients, as in Adam, RMSprop and Adagrad."""
    return any(name in optimizer.param_groups[0] for name in ("betas", "alpha", "lr_decay"))


def rate_of(optimizer: Optimizer) -> float | None:
    """Return the largest learning rate of the groups, before any schedule; None if the optimizer has none."""
    rates = [group.get("initial_lr", group.get("lr")) for group in optimizer.param_groups]
    numbers = [float(rate) for rate in rates if rate is not None]
    return max(numbers) if len(numbers) == len(rates) and numbers else None


def for_versions(optimizer: Any, model: nn.Module) -> Any:
    """Return the optimizer for versions of ``model`` with other weights or layers.

    An instance holds the parameters of one model. It becomes a factory, which takes a version of the model and returns
    the same optimizer for the parameters of the same names, and for those that are new or were frozen.
    """
    given = optimizer() if callable(optimizer) and _takes_nothing(optimizer) else optimizer
    if not isinstance(given, Optimizer):
        return optimizer
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def make(version: nn.Module) -> Optimizer:
        parameters = dict(version.named_parameters())
        result = _copied(given, {key: parameters[name] for key, name in names.items() if name in parameters})
        held = {id(parameter) for group in result.param_groups for parameter in group["params"]}
        result.param_groups[0]["params"] += [
            parameter
            for name, parameter in parameters.items()
            if parameter.requires_grad and name not in trained and id(parameter) not in held
        ]
        return result

    return make


def _copied(optimizer: Optimizer, memo: dict[int, Any]) -> Optimizer:
    """Return the same optimizer for the copies in ``memo``, without its state."""
    result: Optimizer = copy.deepcopy(optimizer, memo)
    for name, value in vars(optimizer).items():  # torch copies only defaults, state, groups; schedules wrap methods
        if name not in vars(result) and not callable(value):
            setattr(result, name, copy.deepcopy(value, memo))
    result.state.clear()
    return result


def _takes_nothing(function: Any) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _takes_rate(function: Any) -> bool:
    try:
        return isinstance(function, type) or "lr" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
