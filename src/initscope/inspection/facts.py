"""`Facts`: what the weights, one step of training and the data say, beside the rows of an observation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.inspection.dependence import Dependence, dependence
from initscope.inspection.inputs import InputFacts, input_facts
from initscope.inspection.instruments import Head, examine_head
from initscope.inspection.losses import Reading
from initscope.inspection.one_step import Probe, probe
from initscope.inspection.weights import WeightFacts, weight_facts
from initscope.measurement.observation import Observation

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """Each is None where it was not looked at."""

    weights: WeightFacts | None = None
    step: Probe | None = None
    data: InputFacts | None = None
    dependence: Dependence | None = None
    head: Head | None = None
    idle_norms: bool = False
    """Whether batch norms run with statistics that no data has made: they do nothing yet."""

    @property
    def reading(self) -> Reading:
        """What the loss takes the outputs for; nothing is known where no step was tried."""
        return Reading() if self.step is None else self.step.reading

    @property
    def cautions(self) -> tuple[str, ...]:
        """What is to be known before any verdict."""
        said = () if self.data is None else self.data.cautions
        return (*said, _IDLE) if self.idle_norms else said


_IDLE = (
    "batch norm is in evaluation mode and has seen no data, so that it does nothing: sizes, angles and gradients are "
    "not those of training and are no faults here; inspect in train mode (mode='train', --mode train)"
)


def facts_of(model: nn.Module, seen: Observation, loss: Any = None, *, step: bool = True, classes: int = 0) -> Facts:
    """Look at a model and what was observed of it; ``step`` runs a few samples forwards and backwards.

    ``classes``, unless 0, says how many the targets are of: they belong to as many outputs only.
    """
    found = probe(model, seen, loss, classes) if step else None
    idle = seen.mode != "train" and _has_idle_norms(model)
    known = loss is not None and seen.targets is not None
    with warnings.catch_warnings():  # outputs of other shapes are tried, which torch warns about
        warnings.simplefilter("ignore")
        head = examine_head(model, seen.x, seen.targets, loss) if step and known else None
    depends = dependence(model, seen) if step else None  # last: it leaves the model in evaluation mode
    return Facts(weight_facts(model), found, input_facts(seen), depends, head, idle)


def _has_idle_norms(model: nn.Module) -> bool:
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and not m.training and m.running_mean is not None]
    untouched = [not bool(m.running_mean.any()) and bool((m.running_var == 1).all()) for m in norms]  # type: ignore[union-attr]
    return bool(norms) and all(untouched)
