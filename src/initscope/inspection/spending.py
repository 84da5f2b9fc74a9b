"""The cost of trying alternative initializations: counted in multiplications, and decided before anything runs.

All trials together may take as much as `PASSES` forward and backward passes of the model over the observed pairs, or
`LEAST` multiplications if that is more. The counts depend on the model and the data, not on the clock, so the same call
tries the same initializations on every machine.
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
"""Number of forward and backward passes over the observed pairs that all trials may cost."""
LEAST = 3e10
"""Multiplications that are always allowed: a few seconds."""
LARGE = 1e8
"""Multiplications per forward pass of one sample, above which less is tried: some seconds per trial."""
SAMPLING = 2e10
"""Most multiplications for one sample of the weights: orthogonal weights need a decomposition of every layer."""
_BACKWARD = 3.0  # a forward and a backward pass together, over a forward pass
_OBSERVED = 5.0  # the same with gradients of single samples, geometry, units, and a pass over near samples
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
        """Return the share of the usual number of pairs to try: less than 1 for large models."""
        return LARGE / max(LARGE, self.work)

    def refuses_again(self) -> str:
        """Return why no variant is sampled more than once; empty if variants are."""
        return _too_large(self.work) if self.share < 1 else ""

    def refuses(self, variant: Variant, model: nn.Module, pairs: int) -> str:
        """Return why a trial of ``variant`` on these pairs is left out; if it is not, add its cost and return ""."""
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
    except Exception:  # whatever the model raises: the trial raises it again and reports it
        return 0.0
    return float(counter.operations) / 2 / inputs.samples


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts like torch's FlopCounterMode, whose import takes seconds because it loads the whole compiler."""

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
            with self:  # count the ops that it is decomposed into
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self.operations += 0 if count is None else count(*args, **kwargs, out_val=result)
        return result
