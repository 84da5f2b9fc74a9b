"""`Facts`: what the weights, one step of training and the data say, in addition to the rows of an observation."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.graph import Batch, Inputs
from initscope.graph.borrowing import borrowed
from initscope.inspection.dependence import Dependence, dependence
from initscope.inspection.inputs import InputFacts, input_facts
from initscope.inspection.instruments import Head, Pairing, Trial, examine_head, examine_pairing, infer_loss, run_trial
from initscope.inspection.losses import Reading
from initscope.inspection.one_step import Probe, probe
from initscope.inspection.training_steps import TrainingStep
from initscope.inspection.weights import WeightFacts, weight_facts
from initscope.measurement.observation import Observation

__all__ = ["Facts", "TrainingSettings", "facts_of"]


@dataclass(frozen=True)
class Facts:
    """What is known about a model; fields that were not examined are None."""

    weights: WeightFacts | None = None
    step: Probe | None = None
    data: InputFacts | None = None
    dependence: Dependence | None = None
    head: Head | None = None
    pairing: Pairing | None = None
    trial: Trial | None = None
    loss: Any = field(default=None, metadata={"saved": False})
    """The loss that is given or inferred; None in a report that was loaded."""
    loss_name: str = ""
    """What the loss is and how it was found; empty if no loss is known."""
    idle_norms: bool = False
    """Whether batch norms have statistics from no data, so that they do nothing yet."""

    @property
    def reading(self) -> Reading:
        """How the loss reads the outputs; empty if no step was tried."""
        return Reading() if self.step is None else self.step.reading

    @property
    def cautions(self) -> tuple[str, ...]:
        """Limits that apply to all findings."""
        said = () if self.data is None else self.data.cautions
        return (*said, _IDLE) if self.idle_norms else said


_IDLE = (
    "batch norm is in evaluation mode and has seen no data, so that it does nothing: scales, angles and gradients are "
    "not those of training, and do not count as errors here; inspect in train mode (mode='train', --mode train)"
)


_FEW = 16
"""Number of samples whose outputs decide which loss fits."""


class TrainingSettings(NamedTuple):
    """How the user trains: loss, optimizer, learning rate, and whether to try them (None: if a loss is known)."""

    loss: Any = None
    optimizer: Any = None
    lr: float | None = None
    trial: bool | Literal["long"] | None = None
    classes: int = 0
    """Number of classes, if the data set states it: targets are then used only for this number of outputs."""


def facts_of(model: nn.Module, seen: Observation, training: TrainingSettings | None = None) -> Facts:
    """Return the facts about a model and its observation; with ``training`` a few samples run forward and backward."""
    idle = seen.mode != "train" and _has_idle_norms(model)
    if training is None:
        return Facts(weight_facts(model), None, input_facts(seen), idle_norms=idle)
    with warnings.catch_warnings():  # the user's loss may warn, for example of outputs with other shapes
        warnings.simplefilter("ignore")
        loss, name = _known_loss(model, seen, training)
        step = probe(model, seen, training.loss, training.classes)
        head = pairing = trial = None
        if name and not step.failed:
            head = examine_head(model, seen.x, seen.targets, loss)
            with borrowed(model):
                pairing = examine_pairing(model, seen.x, seen.targets, loss)
        if head is not None and training.trial is not False:
            budget = "long" if training.trial == "long" else None
            options: dict[str, Any] = {"optimizer": training.optimizer, "lr": training.lr, "budget": budget}
            trial = run_trial(model, seen.x, seen.targets, loss, **options)
    depends = dependence(model, seen)  # last: it leaves the model in evaluation mode
    return Facts(weight_facts(model), step, input_facts(seen), depends, head, pairing, trial, loss, name, idle)


def _known_loss(model: nn.Module, seen: Observation, training: TrainingSettings) -> tuple[Any, str]:
    """Return the given or inferred loss and a description of it, or nothing if no loss is known."""
    if training.loss is not None:
        name = getattr(training.loss, "__name__", type(training.loss).__name__)
        return (training.loss, name) if seen.targets is not None else (None, "")
    step = TrainingStep.of(model, seen.x, seen.targets)
    if step is not None:
        return step, "the training_step of the module"
    few = Batch(seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,)), seen.targets).pick(slice(0, _FEW))
    inputs = few.inputs.map(torch.clone)
    with suppress(Exception), torch.no_grad():  # whatever the model raises: the training step reports it
        output = model(*inputs.args, **inputs.kwargs)
        other = training.classes and isinstance(output, torch.Tensor) and output.shape[-1] != training.classes
        inferred = None if other else infer_loss(output, few.targets)
        if inferred is not None:
            return inferred.function, f"{inferred.name} is assumed: {inferred.reason}"
    return None, ""


def _has_idle_norms(model: nn.Module) -> bool:
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and not m.training and m.running_mean is not None]
    untouched = [not bool(m.running_mean.any()) and bool((m.running_var == 1).all()) for m in norms]  # type: ignore[union-attr]
    return bool(norms) and all(untouched)
