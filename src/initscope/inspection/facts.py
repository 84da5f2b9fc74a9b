"""`Facts`: what the weights, one step of training and the data say, beside the rows of an observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from initscope.inspection.inputs import InputFacts, input_facts
from initscope.inspection.probe import Probe, probe
from initscope.inspection.weights import WeightFacts, weight_facts
from initscope.measurement.observation import Observation

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """Each is None where it was not looked at."""

    weights: WeightFacts | None = None
    step: Probe | None = None
    data: InputFacts | None = None


def facts_of(model: nn.Module, seen: Observation, loss: Any = None, *, step: bool = True) -> Facts:
    """Look at a model and what was observed of it; ``step`` runs a few samples forwards and backwards."""
    return Facts(weight_facts(model), probe(model, seen, loss) if step else None, input_facts(seen))
