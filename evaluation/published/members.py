"""`Member`: a published architecture with its start, data of its kind and its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

import initscope
from initscope.models.training_loop import seeded


@dataclass(frozen=True)
class Member:
    """One architecture.

    Attributes
    ----------
    name, source : str
        What it is called, and where architecture and start are published.
    build : callable
        Makes the module; draws from torch's generator only.
    data : callable
        ``data(count)`` gives inputs (a tensor, or a tuple of the inputs of the model) and targets.
    loss : callable
        ``loss(output, targets)``, the mean over the samples.
    """

    name: str
    source: str
    build: Callable[[], nn.Module]
    data: Callable[[int], tuple[Any, Any]]
    loss: Callable[[Any, Any], Tensor]

    def make(self, seed: int = 0) -> nn.Module:
        """The module at a start of its own; torch's generator is left as it was."""
        with seeded(seed):
            return self.build()

    def inspect(self, seed: int = 0, *, count: int = 48, **options: Any) -> initscope.inspection.Report:
        """The report on a start of its own, with the member's data and loss."""
        return inspect_with(self.make(seed), self, count=count, **options)


def inspect_with(model: nn.Module, member: Member, *, count: int = 48, **options: Any) -> initscope.inspection.Report:
    """The report on ``model``, which is the member or what became of it, with the member's data and loss."""
    inputs, targets = member.data(count)
    options = {"loss": member.loss, "targets": targets, "alternatives": False, "prediction": False} | options
    return initscope.inspect(model, inputs, pairs=count // 2, **options)
