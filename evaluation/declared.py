"""Decorators that declare the function below them as a healthy model or a bug of the set whose file it is in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from evaluation.programs import Case, Data, Healthy, Program, call

_HEALTHY: dict[str, dict[str, Healthy]] = {}
_CASES: dict[str, dict[str, Case]] = {}


def healthy_of(package: str) -> tuple[Healthy, ...]:
    """Return the healthy models that the modules of a package declared."""
    return tuple(_HEALTHY.get(package, {}).values())


def cases_of(package: str) -> tuple[Case, ...]:
    """Return the bugs that the modules of a package declared."""
    return tuple(_CASES.get(package, {}).values())


def network(data: Data, **options: Any) -> Callable[..., Any]:
    """Declare the function below as a healthy model under its name; ``options`` as of `program`."""

    def declare(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        model = Healthy(build.__name__, program(build, data, **options))
        _HEALTHY.setdefault(_package(build), {})[model.name] = model
        return build

    return declare


def bug(data: Data, *names: str, where: str = "", **options: Any) -> Callable[..., Any]:
    """Declare the function below as a bug without a fixed version, which findings of these names report."""

    def declare(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        case = Case(build.__name__, (), program(build, data, **options), None, accepted=names, layers=_layers(where))
        _CASES.setdefault(_package(build), {})[case.name] = case
        return build

    return declare


def pair(data: Data, *names: str, wrong: dict[str, Any] | None = None, where: str = "", error: str = "",
         **options: Any) -> Callable[..., Any]:  # fmt: skip
    """Declare a bug and its fixed version: the function below takes whether it is wrong.

    ``wrong`` holds the data or the loss of the bug where they are what is wrong.
    """

    def declare(build: Callable[[bool], nn.Module]) -> Callable[[bool], nn.Module]:
        fixed = program(partial(build, False), data, **options)
        faulty = program(partial(build, True), **({"data": data} | options | (wrong or {})))
        case = Case(build.__name__, (), faulty, fixed, accepted=names, layers=_layers(where), refused=error)
        _CASES.setdefault(_package(build), {})[case.name] = case
        return build

    return declare


def program(build: Callable[[], nn.Module], data: Data, *, rate: float = 1e-3, steps: int = 0, mode: str | None = None,
            dtype: torch.dtype = torch.float32, **options: Any) -> Program:  # fmt: skip
    """Return a program of 40 steps of Adam.

    ``steps`` trains the model before it is inspected (a checkpoint), ``mode="eval"`` sets evaluation mode, and floating
    inputs are cast to ``dtype``.
    """

    def cast(count: int, generator: torch.Generator) -> tuple[Any, Any]:
        inputs, targets = data(count, generator)
        return _cast(inputs, dtype), targets

    plain = Program(build, cast, lr=rate, steps=40, batch=16, **options)

    def prepared() -> nn.Module:
        model = build()
        if steps:
            _train(plain, model, steps)
        return model.train(mode != "eval")

    return Program(prepared, cast, lr=rate, steps=40, batch=16, **options)


def _train(plain: Program, model: nn.Module, steps: int) -> None:
    model.train()
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=plain.lr)
    for step in range(steps):
        inputs, targets = plain.draw(plain.batch, 1000 + step)
        optimizer.zero_grad()
        plain.loss(call(model, inputs), targets).backward()
        optimizer.step()


def _package(build: Callable[..., Any]) -> str:
    return build.__module__.rpartition(".")[0]


def _layers(where: str) -> tuple[str, ...]:
    return (where,) if where else ()


def _cast(inputs: Any, dtype: torch.dtype) -> Any:
    if isinstance(inputs, dict):
        return {name: _cast(value, dtype) for name, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_cast(value, dtype) for value in inputs)
    return inputs.to(dtype) if torch.is_tensor(inputs) and inputs.is_floating_point() else inputs
