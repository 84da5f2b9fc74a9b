"""What trying other starts may cost: counted in multiplications and decided before anything is spent.

All trials together may take as much as `PASSES` forward and backward passes of the model over the pairs that it was
observed on, or `LEAST` multiplications where that is less. The counts are of the model and the data, not of the clock,
so that the same call tries the same starts on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from initscope.graph import Inputs
from initscope.graph.borrowing import borrowed
from initscope.inspection.variants import Variant
from initscope.measurement.stream import moved

__all__ = ["LEAST", "PASSES", "Spending", "multiplications"]

PASSES = 30
"""Forward and backward passes over the observed pairs that all trials may cost."""
LEAST = 3e10
"""Multiplications that may be spent in any case: a few seconds."""
_BACKWARD = 3.0  # a forward and a backward pass over a forward pass
_OBSERVED = 5.0  # the same with the gradients of single samples, geometry, units, and a pass over near samples
_DRAW = 30.0  # multiplications that take as long as one random number


@dataclass
class Spending:
    """Multiplications: ``work`` of a forward pass of one sample, ``limit`` for all trials, ``spent`` so far."""

    work: float
    limit: float
    spent: float = 0.0

    @classmethod
    def on(cls, work: float, pairs: int) -> Spending:
        """For a model that was observed on so many pairs."""
        return cls(work, max(LEAST, PASSES * _BACKWARD * work * 2 * pairs))

    def refuses(self, variant: Variant, model: nn.Module, pairs: int) -> str:
        """Why a trial of ``variant`` on so many pairs is left out, or nothing, and then its cost counts as spent."""
        weights = sum(map(torch.Tensor.numel, model.parameters()))
        cost = _OBSERVED * variant.work * self.work * 2 * pairs + _DRAW * weights + variant.drawing(model)
        if self.spent + cost > self.limit:
            left = max(0.0, self.limit - self.spent)
            return (
                f"it takes {cost:.0e} multiplications, and {left:.0e} of the {self.limit:.0e} for all trials are left"
            )
        self.spent += cost
        return ""


def multiplications(model: nn.Module, inputs: Inputs) -> float:
    """Of a forward pass, for each sample."""
    placed = inputs.map(moved(model))
    try:
        with borrowed(model), torch.no_grad(), _Counter() as counter:
            model(*placed.args, **placed.kwargs)
    except Exception:  # whatever the model raises: it will again when it is tried, and then be told
        return 0.0
    return float(counter.operations) / 2 / inputs.samples


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts as torch's FlopCounterMode does, which loads the whole compiler, some seconds, to keep it away."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(func._overloadpacket)
        if count is None:
            with self:  # what it is made of may be counted
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.operations += 0 if count is None else count(*args, **kwargs, out_val=result)
        return result
