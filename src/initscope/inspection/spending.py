"""What trying alternative initializations may cost: counted in multiplications and decided before anything is spent.

All trials together may take as much as `PASSES` forward and backward passes of the model over the pairs that it was
observed on, or `LEAST` multiplications where that is less. The counts are of the model and the data, not of the clock,
so that the same call tries the same initializations on every machine.
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

__all__ = ["LARGE", "LEAST", "PASSES", "SAMPLING", "Spending", "multiplications"]

PASSES = 30
"""Forward and backward passes over the observed pairs that all trials may cost."""
LEAST = 3e10
"""Multiplications that may be spent in any case: a few seconds."""
LARGE = 1e8
"""Multiplications of a forward pass of one sample, beyond which less is tried: some seconds a trial."""
SAMPLING = 2e10
"""Multiplications of one sample of the weights: orthogonal ones take a decomposition of every layer."""
_BACKWARD = 3.0  # a forward and a backward pass over a forward pass
_OBSERVED = 5.0  # the same with the gradients of single samples, geometry, units, and a pass over near samples
_NUMBER = 30.0  # multiplications that take as long as one random number


@dataclass
class Spending:
    """Multiplications: ``work`` of a forward pass of one sample, ``limit`` for all trials, ``spent`` so far."""

    work: float
    limit: float
    spent: float = 0.0

    @classmethod
    def on(cls, work: float, pairs: int) -> Spending:
        """Return the budget for a model that was observed on ``pairs`` pairs."""
        return cls(work, max(LEAST, PASSES * _BACKWARD * work * 2 * pairs))

    @property
    def share(self) -> float:
        """Return how much of the usual number of pairs is tried: less than 1 of large models."""
        return LARGE / max(LARGE, self.work)

    def refuses_again(self) -> str:
        """Return why no variant is sampled more than once; empty if variants are."""
        return _too_large(self.work) if self.share < 1 else ""

    def refuses(self, variant: Variant, model: nn.Module, pairs: int) -> str:
        """Return why a trial of ``variant`` on these pairs is left out; else nothing, and its cost counts as spent."""
        work, sampling = variant.work * self.work, variant.sampling_work(model)
        if work > max(LARGE, self.work):
            return _too_large(work)
        if sampling > SAMPLING:
            return f"sampling it takes {sampling:.0e} multiplications, above {SAMPLING:.0e}"
        cost = _OBSERVED * work * 2 * pairs + _NUMBER * sum(map(torch.Tensor.numel, model.parameters())) + sampling
        if self.spent + cost > self.limit:
            left = max(0.0, self.limit - self.spent)
            return f"it takes {cost:.0e} multiplications, and {left:.0e} of the {self.limit:.0e} for all trials remain"
        self.spent += cost
        return ""


def _too_large(work: float) -> str:
    return f"{work:.0e} multiplications a sample, above {LARGE:.0e}"


def multiplications(model: nn.Module, inputs: Inputs) -> float:
    """Return the multiplications of a forward pass for one sample; 0 if the model raises."""
    placed = inputs.map(moved(model))
    try:
        with borrowed(model), torch.no_grad(), _Counter() as counter:
            model(*placed.args, **placed.kwargs)
    except Exception:  # whatever the model raises: it raises again when it is tried, and is then reported
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
