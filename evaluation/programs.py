"""`Program`, `Case` and `Healthy`: training programs as data, and the sets that hold them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Data = Callable[[int, torch.Generator], tuple[Any, Any]]
"""``data(count, generator)`` returns inputs (a tensor, a tuple or a dict) and targets of ``count`` samples."""


@dataclass(frozen=True)
class Program:
    """A training program: everything that a user passes to `initscope.inspect`, and how long to train it.

    Attributes
    ----------
    build : callable
        Makes the model; uses torch's global generator only.
    data, loss, optimizer, lr :
        Data as in `Data`, ``loss(output, targets)``, ``optimizer(parameters, lr=lr)``, and the learning rate.
    truth : callable, optional
        Data whose targets the predictions are scored on, where the program's own targets are damaged or encoded.
    predict : callable
        Turns the output of the model into what `Case.score` compares with the truth.
    steps, batch, samples : int
        Training steps, batch size, and size of the training set that the batches are taken from.
    options : mapping
        Further arguments of `initscope.inspect`.
    """

    build: Callable[[], nn.Module]
    data: Data
    loss: Callable[[Any, Any], Tensor] = F.cross_entropy
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    lr: float = 1e-3
    truth: Data | None = None
    predict: Callable[[Any], Any] = lambda output: output
    steps: int = 200
    batch: int = 32
    samples: int = 512
    options: Mapping[str, Any] = field(default_factory=dict)

    def model(self, seed: int = 0) -> nn.Module:
        """Return the model initialized under ``seed``."""
        torch.manual_seed(seed)
        return self.build()

    def draw(self, count: int, seed: int = 0) -> tuple[Any, Any]:
        """Return inputs and targets of ``count`` samples."""
        return self.data(count, torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Case:
    """A bug: the faulty program, the fixed one, and the causes that count as its right name.

    Attributes
    ----------
    name : str
        Name of the case.
    causes : tuple of str
        Keys of `evaluation.causes.ACCEPTED`; an error of any of their codes or names counts as named.
    faulty, fixed : Program
        Both versions; ``fixed`` is None for bugs of older sets that were written alone.
    score : callable
        ``score(prediction, truth)``: higher is better, for example the accuracy.
    accepted : tuple of str
        Further codes or names that count as named.
    layers : tuple of str
        Beginnings of the names of layers of which an accepted finding has to name one; empty: any layer.
    refused : str
        A part of the `InputError` that also counts as detected and named, for programs that cannot run.
    hurts : bool
        Whether the faulty version trains worse, as ``python -m evaluation.train`` measured.
    note : str
        What is wrong, in one sentence.
    """

    name: str
    causes: tuple[str, ...]
    faulty: Program
    fixed: Program | None
    score: Callable[[Any, Any], float] | None = None
    accepted: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    refused: str = ""
    hurts: bool = True
    note: str = ""


@dataclass(frozen=True)
class Healthy:
    """A model without a bug, and where its architecture and initialization are from."""

    name: str
    program: Program
    source: str = ""


@dataclass(frozen=True)
class EvaluationSet:
    """The cases and the healthy models of one folder, by name."""

    name: str
    cases: dict[str, Case]
    healthy: dict[str, Healthy]
    small: tuple[str, ...]
    """Names that ``--small`` keeps; empty: every fifth."""

    def part(self, *, small: bool = False, only: str = "") -> EvaluationSet:
        """Return the set restricted to its small part, or to names that contain one of the words of ``only``."""
        names = [*self.cases, *self.healthy]
        kept = set(self.small or names[::5]) if small else set(names)
        kept = {name for name in kept if any(word in name for word in only.split(","))}
        return EvaluationSet(
            self.name,
            {name: case for name, case in self.cases.items() if name in kept},
            {name: model for name, model in self.healthy.items() if name in kept},
            self.small,
        )


def set_names() -> list[str]:
    """Return the names of all sets: the packages of this folder."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))


def load(name: str) -> EvaluationSet:
    """Return the set in the folder ``name``."""
    if name not in set_names():
        raise SystemExit(f"there is no set {name!r}; available: {', '.join(set_names())}")
    module = importlib.import_module(f"evaluation.{name}")
    cases, healthy, small = (_items(module, attribute) for attribute in ("CASES", "HEALTHY", "SMALL"))
    return EvaluationSet(name, _by_name(cases), _by_name(healthy), small)


def _items(module: Any, attribute: str) -> tuple[Any, ...]:
    """Return a tuple of a set's module, which may be missing, or a function where building it is slow."""
    items = getattr(module, attribute, ())
    return tuple(items() if callable(items) else items)


def _by_name(items: Any) -> dict[str, Any]:
    names = [item.name for item in items]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"names occur more than once: {', '.join(repeated)}")
    return dict(zip(names, items, strict=True))


def call(model: nn.Module, inputs: Any) -> Any:
    """Return ``model`` applied to a tensor, a tuple of arguments or a dict of named arguments."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def rows(values: Any, index: Tensor) -> Any:
    """Return the samples ``index`` of inputs or targets of any structure."""
    if isinstance(values, Mapping):
        return {name: rows(value, index) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(rows(value, index) for value in values)
    return values[index]
