"""A few steps of training on one batch, on a copy of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from initscope.graph import Batch
from initscope.inspection.instruments.budget import Clock
from initscope.inspection.instruments.optimizers import OptimizerSpec, adapts, rate_of
from initscope.inspection.instruments.outputs import Loss, loss_value, real_tensors
from initscope.inspection.instruments.scores import class_axis

__all__ = ["Run", "Setup", "accuracy_of", "train"]

_FOLLOWED = 5
"""Number of steps for which the size of the updates is measured."""


@dataclass(frozen=True)
class Setup:
    """What is trained: the user's model (only copies are trained), a batch, the loss, the optimizer and a seed."""

    model: nn.Module
    batch: Batch
    loss: Loss | None
    optimizer: OptimizerSpec
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
    seconds: float = float("inf")
    """Time on the clock at which runs end."""


@dataclass
class Run:
    """The result of a few training steps.

    Attributes
    ----------
    losses : list of float
        Loss of each step, before its update.
    failed : str
        The exception that was raised, if any.
    cut : bool
        Whether it ended because the time was up.
    passes : int
        Forward and backward passes; optimizers such as LBFGS need more passes than steps.
    seconds : float
        Time of the fastest pass.
    updates : dict
        Size of an update relative to the parameter, ‖Δw‖/‖w‖, mean of the first steps, by parameter name.
    unmoved : tuple of str
        Trainable parameters whose values did not change at all.
    accuracies : tuple of float or None
        Share of targets with the largest output, in the first and the last step, for classes.
    """

    losses: list[float] = field(default_factory=list)
    failed: str = ""
    cut: bool = False
    passes: int = 0
    seconds: float = float("inf")
    optimizer: str = ""
    adapts: bool = False
    rate: float | None = None
    updates: dict[str, float] = field(default_factory=dict)
    unmoved: tuple[str, ...] = ()
    accuracies: tuple[float, float] | None = None
    model: nn.Module | None = None


def train(
    setup: Setup,
    steps: int,
    *,
    stop: Callable[[list[float]], bool] = lambda losses: False,
    factor: float = 1.0,
    batch: Batch | None = None,
    follow: bool = False,
) -> Run:
    """Train a copy for some steps as training would run: in training mode, on one batch again and again.

    Call it inside of `borrowed`. An exception ends the run and is recorded in it.

    Parameters
    ----------
    setup : Setup
        What is trained.
    steps : int
        Largest number of steps.
    stop : callable
        Called after each step with the losses so far; returns whether to stop.
    factor : float
        Multiplies the learning rate.
    batch : Batch, optional
        A batch other than that of the setup.
    follow : bool
        Whether to measure the sizes of the updates, and which parameters do not change.
    """
    run = Run()
    torch.manual_seed(setup.seed)
    batch = setup.batch if batch is None else batch
    try:
        model, loss, optimizer = setup.optimizer.copies(setup.model, setup.loss, factor)
        run.optimizer, run.adapts = type(optimizer).__name__, adapts(optimizer)
        run.rate, run.model = rate_of(optimizer), model
        model.train()
        closure = _Closure(model, loss, optimizer, batch, run, setup.clock)
        for step in range(steps):
            before = _values(model) if follow and step < _FOLLOWED else None
            closure.first = True
            with torch.enable_grad():
                optimizer.step(closure)  # type: ignore[arg-type]  # torch's optimizers take tensors
            if before is not None:
                _add_updates(run, model, before, step)
            run.cut = setup.clock() > setup.seconds and step + 1 < steps
            if run.cut or not abs(run.losses[-1]) < float("inf") or stop(run.losses):
                break
        run.accuracies = closure.accuracies()
        if follow:
            run.unmoved = _unmoved(setup.model, model)
    except Exception as error:  # whatever model, loss or optimizer raise is a result
        message = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        run.failed = f"step {len(run.losses) + 1}: {message}"
    return run


class _Closure:
    """One forward and backward pass, as optimizers call it; the first pass of each step gives the loss of the step."""

    def __init__(
        self, model: nn.Module, loss: Loss | None, optimizer: Optimizer, batch: Batch, run: Run, clock: Clock
    ) -> None:
        self.model, self.loss, self.optimizer, self.batch = model, loss, optimizer, batch
        self.run, self.clock = run, clock
        modules = [model, loss] if isinstance(loss, nn.Module) else [model]
        held = [p for group in optimizer.param_groups for p in group["params"]]
        parameters = [p for module in modules for p in module.parameters()]
        # gradients are written nowhere else: a loss may hold the user's own model
        self.parameters = list({id(p): p for p in (*parameters, *held) if p.requires_grad}.values())
        self.first = True
        self._accuracy: float | None = None
        self._scores: Tensor | None = None

    def __call__(self) -> Tensor:
        start = self.clock()
        self.optimizer.zero_grad()
        inputs = self.batch.inputs.map(torch.clone)  # a forward may write into them
        output = self.model(*inputs.args, **inputs.kwargs)
        value = loss_value(self.loss, output, self.batch.targets)
        value.backward(inputs=self.parameters)  # type: ignore[no-untyped-call]
        if self.first:
            self.run.losses.append(float(value.detach()))
            self._scores = next((tensor.detach() for tensor in real_tensors(output)), None)
            if len(self.run.losses) == 1:
                self._accuracy = accuracy_of(self._scores, self.batch.targets)
            self.first = False
        self.run.passes += 1
        self.run.seconds = min(self.run.seconds, self.clock() - start)
        return value.detach()

    def accuracies(self) -> tuple[float, float] | None:
        """Return the accuracies of the first and the last step."""
        last = accuracy_of(self._scores, self.batch.targets)
        return None if self._accuracy is None or last is None else (self._accuracy, last)


def accuracy_of(scores: Tensor | None, targets: Any) -> float | None:
    """Return the share of the targets that have the largest score; None if they are not classes."""
    axis = None if scores is None else class_axis(scores, targets)
    if scores is None or axis is None or scores.shape[axis] < 2:
        return None
    return float((scores.argmax(dim=axis) == targets).double().mean())


def _values(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def _add_updates(run: Run, model: nn.Module, before: dict[str, Tensor], step: int) -> None:
    """Return the mean over the steps so far."""
    for name, parameter in model.named_parameters():
        if name in before:
            norm = float(before[name].double().norm())
            change = float((parameter.detach() - before[name]).double().norm())
            norm = max(norm, float(parameter.detach().double().norm()))  # biases start at 0
            relative = change / norm if norm > 0 else 0.0
            run.updates[name] = (step * run.updates.get(name, 0.0) + relative) / (step + 1)


def _unmoved(before: nn.Module, after: nn.Module) -> tuple[str, ...]:
    given = dict(before.named_parameters())
    moved = [(name, p) for name, p in after.named_parameters() if p.requires_grad and name in given]
    return tuple(name for name, p in moved if torch.equal(p.detach(), given[name].detach()))
