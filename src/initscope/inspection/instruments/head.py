"""Head and loss: can the head of this model reach a low loss, whatever the layers before it learn?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.graph import Batch
from initscope.graph.borrowing import borrowed, runnable
from initscope.inspection.instruments.batches import SAMPLES, draw_batch
from initscope.inspection.instruments.free_output import FreeOutput, small
from initscope.inspection.instruments.minimum import UNBOUNDED, minimize
from initscope.inspection.instruments.outputs import Loss, loss_value, own_loss
from initscope.inspection.instruments.tape import Tail, Tape
from initscope.results import Result

__all__ = ["Head", "HeadOutcome", "examine_head"]

HeadOutcome = Literal["reaches", "floor", "unbounded", "constant", "stuck", "not examined"]

_FLOOR = 0.05
"""Share of the way from the best constant prediction to the lowest loss that a head may fail to reach."""
_PARTLY = 0.3
"""The same share if only outputs without a gradient, such as those cut off by a ReLU, are the obstacle."""
_FLAT = 0.01
"""Share of values without a gradient from which other initial values are tried."""
_ENOUGH = 1e-3
"""Loss, over that of the best constant prediction, that counts as the lowest possible."""
_STEPS = 300
_WORK = 3e7
"""Largest product of free values and steps: heads with many values, such as large vocabularies, get fewer steps."""
_FEWEST_STEPS = 60
_SLACK = 0.05
"""Distance by which targets may lie outside, over the output range: the range is estimated from random values."""


@dataclass(frozen=True)
class Head(Result):
    """The losses that the head, the part of a model after its last weights, and the loss function allow.

    Attributes
    ----------
    outcome : str
        ``reaches`` a low loss; has a ``floor`` above the loss of free outputs; ``unbounded`` below; ``constant``: the
        loss does not depend on the last weights; ``stuck``: it does, but no gradient leads to a lower loss;
        ``not examined``: see ``reason``.
    start : float or None
        Loss at initialization, on the batch.
    reached : float or None
        Lowest loss if the outputs of the last weights are free variables.
    free : float or None
        Lowest loss if the outputs of the model are free variables; None for a model that computes its own loss.
    constant : float or None
        Loss of the best constant prediction, the same output for all samples.
    paired : float or None
        Lowest loss for free outputs with the shape of the targets, if the shapes differ but the number of values does
        not.
    broadcast : bool
        Whether equal shapes would remove a floor: the loss broadcasts different shapes and compares all with all.
    output_range : tuple of float or None
        Range of the outputs that the head can give, infinite if unbounded; None if unknown.
    targets_outside : float or None
        Share of real-valued targets outside of this range.
    flat : float
        Share of the outputs of the last weights that get no gradient at initialization.
    elsewhere : float or None
        Lowest loss from other initial values, all positive or all negative, if ``flat`` outputs cause a floor.
    random : bool
        Whether the head is random, for example because of dropout.
    layers : int
        Number of calls with weights whose outputs are free variables.
    samples : int
        Samples of the batch.
    reason : str
        Why it was not examined, or a condition of the outcome.
    """

    outcome: HeadOutcome
    start: float | None = None
    reached: float | None = None
    free: float | None = None
    constant: float | None = None
    paired: float | None = None
    broadcast: bool = False
    output_range: tuple[float, float] | None = None
    targets_outside: float | None = None
    flat: float = 0.0
    elsewhere: float | None = None
    random: bool = False
    layers: int = 0
    samples: int = 0
    reason: str = ""

    @property
    def lowest(self) -> float | None:
        """The lowest possible loss: that of free outputs, or 0 if the head cannot give the outputs that go below 0.

        The log-probabilities of a log-softmax, for example, are at most 0, but free values may be higher.
        """
        if self.reached is None or self.free is None:
            return self.reached
        return max(self.free, 0.0) if self.reached >= 0 else min(self.free, self.reached)

    @property
    def left(self) -> float:
        """Share of the way from the best constant prediction to the lowest loss that the head cannot reach, or 0."""
        if self.reached is None or self.constant is None or self.lowest is None or self.constant <= self.lowest:
            return 0.0
        return (self.reached - self.lowest) / (self.constant - self.lowest)

    @property
    def levels(self) -> tuple[float | None, float | None]:
        """Losses of which shares are counted: that of the best constant prediction, and the lowest, if bounded."""
        levels = (self.constant, self.lowest)
        constant, lowest = (None if level is None or level < UNBOUNDED else level for level in levels)
        return constant, lowest


def examine_head(
    model: nn.Module, inputs: Any, targets: Any, loss: Loss | None, *, samples: int = SAMPLES, seed: int = 0
) -> Head:
    """Find the lowest loss that the head of ``model`` can reach on a batch, without training.

    The outputs of the last layers with weights become free variables, which start at their present values. Each step
    runs only the ops after them.

    Parameters
    ----------
    model : nn.Module
        The model does not change. It runs in training mode, as it would be trained.
    inputs : Inputs or one batch of data
        See `initscope.graph.bind`.
    targets : any
        What ``loss`` compares the output with. None only for a model that computes its own loss.
    loss : callable or None
        ``loss(output, targets)``; None: the loss that the model returns itself.
    samples : int
        Largest number of samples, chosen at random with all classes.
    seed : int
        Seed of the choice, and of random heads.
    """
    model = runnable(model)
    trainable = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        with borrowed(model):
            torch.manual_seed(seed)
            batch = draw_batch(model, inputs, targets, samples, seed)
            return _Examination(model, batch, loss, seed).head()
    except Exception as error:  # whatever the model or the loss raises
        return Head("not examined", reason=f"{type(error).__name__}: {error}".strip().splitlines()[0])
    finally:  # if the model is borrowed already, the context above does not restore it
        for parameter, required in trainable:
            parameter.requires_grad_(required)


class _Examination:
    """One run of the model on a batch, and the minima that are computed from it."""

    def __init__(self, model: nn.Module, batch: Batch, loss: Loss | None, seed: int) -> None:
        self.batch, self.loss, self.seed = batch, loss, seed
        model.train()
        self.tape = Tape(model)
        self.output = self.tape.run(batch.inputs)
        self.samples = len(batch) if any(batch.inputs.batched) else 0

    def head(self) -> Head:
        if self.batch.targets is None and own_loss(self.output) is None:
            return Head("not examined", reason="no targets: pass targets= to compare outputs with")
        free = FreeOutput(self.output, self.batch.targets, self.loss, self.samples)
        head = Head("not examined", start=free.start, samples=self.samples)
        if free.start != free.start or abs(free.start) == float("inf"):
            return replace(head, reason=f"the loss is {free.start} at initialization")
        if not free.tensors:
            return replace(head, outcome="constant", reached=free.start, reason="the loss does not read the outputs")
        tail = self.tape.tail(free.tensors)
        if tail is None or not tail.freed:
            constant = free.constant()
            head = replace(head, free=free.least(0.0, constant), constant=constant)
            return replace(head, reason="no trainable layer that PyTorch can trace leads to the output")
        values = _Values(tail, self.loss, self.batch.targets, free)
        head = replace(head, layers=len(tail.freed), random=values.random, flat=values.flat())
        depends, spread = values.probe(torch_generator(self.seed, "values of the head"))
        constant = free.constant()
        if constant is None or constant < UNBOUNDED:
            constant = values.constant(self.samples)
        enough = _ENOUGH * max(0.0, free.start if constant is None else constant)
        head = replace(head, constant=constant, free=free.least(enough, constant), paired=free.paired(enough))
        start, reached, outputs = values.minimize(enough)
        if spread is not None:
            ends = [float(end) for output in outputs for end in (output.min(), output.max())]
            spread = min(*ends, spread[0]), max(*ends, spread[1])
        head = replace(head, output_range=spread, targets_outside=_outside(self.batch.targets, free.tensors, spread))
        head = _judged(replace(head, start=start, reached=reached), depends)
        if head.outcome != "floor" or head.flat < _FLAT or head.broadcast:
            return head
        saturated = values.from_smaller(enough)
        if saturated < reached:
            head = _judged(replace(head, reached=saturated), depends)
        if head.outcome != "floor":
            return replace(head, reason="from smaller outputs of the last weights: the present ones get no gradient")
        return _judged(replace(head, elsewhere=values.from_elsewhere(enough)), depends)


def _judged(head: Head, depends: bool) -> Head:
    """Return the head with the outcome that the losses show."""
    start, reached, constant = head.start, head.reached, head.constant
    lowest = head.lowest
    assert start is not None
    assert reached is not None
    assert lowest is not None
    if reached < UNBOUNDED * max(1.0, abs(start)):
        return replace(head, outcome="unbounded")
    if not depends:
        return replace(head, outcome="constant", reason="the loss does not depend on the last weights")
    level = start if constant is None else constant
    scale = max(abs(level - lowest), 1e-3 * abs(start - lowest), 1e-9)
    if (
        head.paired is not None
        and head.free is not None
        and head.free - head.paired > _FLOOR * abs(level - head.paired)
    ):
        return replace(head, outcome="floor", broadcast=True, reason="outputs and targets have different shapes")
    if reached - lowest <= _FLOOR * scale:
        return replace(head, outcome="reaches")
    if head.elsewhere is not None and head.elsewhere - lowest <= _FLOOR * scale and reached - lowest <= _PARTLY * scale:
        return replace(head, outcome="reaches", reason="except for outputs of the last weights without a gradient")
    if lowest < UNBOUNDED * max(1.0, abs(start)) and reached < level - _FLOOR * max(abs(level), abs(level - start)):
        return replace(head, outcome="reaches", reason="free outputs have no lowest loss to compare with")
    if start - reached <= 0.01 * abs(start - lowest) and head.flat > 0.99:
        return replace(head, outcome="stuck", reason="no gradient leads from the loss to the last weights")
    return replace(head, outcome="floor")


class _Values:
    """The outputs of the last weights, and trainable parameters after them, as free variables."""

    def __init__(self, tail: Tail, loss: Loss | None, targets: Any, free: FreeOutput) -> None:
        self._tail, self._loss, self._targets, self._free = tail, loss, targets, free
        self._given = [[value.detach() for value in call.made or ()] for call in tail.freed]
        with torch.no_grad():
            first, again = (float(self._loss_of(self._given, list(tail.parameters))) for _ in range(2))
        self.random = first != again

    def _loss_of(self, freed: list[list[Tensor]], parameters: list[Tensor]) -> Tensor:
        outputs = self._tail.run(freed, parameters)
        return loss_value(self._loss, self._free.rebuilt(outputs), self._targets)

    def flat(self) -> float:
        """Return the share of the values without a gradient."""
        leaves = [value.clone().requires_grad_(True) for values in self._given for value in values]
        with torch.enable_grad():
            loss = self._loss_of(self._regrouped(leaves), list(self._tail.parameters))
            if not loss.requires_grad:
                return 1.0
            gradients = [g for g in torch.autograd.grad(loss, leaves, allow_unused=True) if g is not None]
        count = sum(g.numel() for g in gradients)
        return sum(int((g == 0).sum()) for g in gradients) / count if count else 1.0

    def minimize(self, enough: float) -> tuple[float, float, list[Tensor]]:
        """Return the loss at the present values, the lowest loss, and the outputs there."""
        leaves = [value.clone() for values in self._given for value in values]
        return self._minimized(leaves, lambda leaf: leaf, enough)

    def from_elsewhere(self, enough: float) -> float:
        """Return the lowest loss from values of about 1 and of about -1."""
        initial = [[sign * (value.abs() + 1) for values in self._given for value in values] for sign in (1, -1)]
        return min(self._minimized(leaves, lambda leaf: leaf, enough)[1] for leaves in initial)

    def from_smaller(self, enough: float) -> float:
        """Return the lowest loss from the values scaled down to about 1."""
        leaves = [small(value) for values in self._given for value in values]
        return self._minimized(leaves, lambda leaf: leaf, enough)[1]

    def constant(self, samples: int) -> float | None:
        """Return the lowest loss of values that are the same for all samples."""
        flat = [value for values in self._given for value in values]
        if not samples or any(value.dim() == 0 or len(value) != samples for value in flat):
            return None
        means = [value.mean(dim=0, keepdim=True) for value in flat]
        return self._minimized(means, lambda leaf: leaf.expand(samples, *leaf.shape[1:]), 0.0)[1]

    def _minimized(
        self, leaves: list[Tensor], shaped: Callable[[Tensor], Tensor], enough: float
    ) -> tuple[float, float, list[Tensor]]:
        bounds = [call.bounded for call, values in zip(self._tail.freed, self._given) for _ in values]
        leaves = [torch.atanh(leaf.clamp(-0.999, 0.999)) if b else leaf for leaf, b in zip(leaves, bounds)]
        parameters = [parameter.detach().clone() for parameter in self._tail.parameters]
        for leaf in (*leaves, *parameters):
            leaf.requires_grad_(True)
        work = max(1, sum(leaf.numel() for leaf in leaves))

        def outputs() -> list[Tensor]:
            values = [shaped(torch.tanh(leaf) if b else leaf) for leaf, b in zip(leaves, bounds)]
            return self._tail.run(self._regrouped(values), parameters)

        def evaluate() -> Tensor:
            return loss_value(self._loss, self._free.rebuilt(outputs()), self._targets)

        steps = int(min(_STEPS, max(_FEWEST_STEPS, _WORK / work)))
        with torch.enable_grad():
            first, least = minimize([*leaves, *parameters], evaluate, steps, enough)
        with torch.no_grad():
            return first, least, outputs()

    def _regrouped(self, flat: list[Tensor]) -> list[list[Tensor]]:
        remaining = iter(flat)
        return [[next(remaining) for _ in values] for values in self._given]

    @torch.no_grad()
    def probe(self, generator: torch.Generator) -> tuple[bool, tuple[float, float] | None]:
        """Return whether the loss depends on the values, and the output range, from random values at two scales."""
        losses, lows, highs = [float(self._loss_of(self._given, list(self._tail.parameters)))], [], []
        for size in (1e1, 1e4):
            values = [[size * torch.randn(v.shape, generator=generator).to(v) for v in vs] for vs in self._given]
            bounded = zip(self._tail.freed, values)
            values = [[torch.tanh(v) for v in vs] if call.bounded else vs for call, vs in bounded]
            outputs = self._tail.run(values, list(self._tail.parameters))
            losses.append(float(loss_value(self._loss, self._free.rebuilt(outputs), self._targets)))
            lows.append(min(float(output.min()) for output in outputs))
            highs.append(max(float(output.max()) for output in outputs))
        close = [abs(value - losses[0]) <= 1e-6 * max(1.0, abs(losses[0])) for value in losses[1:]]
        if self._tail.parameters or any(value != value for value in (*lows, *highs)):
            return not all(close), None
        low = -float("inf") if lows[1] < 30 * min(lows[0], -1e-3) else lows[1]
        high = float("inf") if highs[1] > 30 * max(highs[0], 1e-3) else highs[1]
        return not all(close), (low, high)


def _outside(targets: Any, outputs: list[Tensor], spread: tuple[float, float] | None) -> float | None:
    """Return the share of real targets, one per output, that lie outside of the output range."""
    if spread is None or not isinstance(targets, Tensor) or len(outputs) != 1:
        return None
    if targets.numel() != outputs[0].numel() or targets.numel() == 0:
        return None
    slack = _SLACK * (spread[1] - spread[0]) if spread[1] - spread[0] < float("inf") else 0.0
    values = targets.double()
    return float(((values < spread[0] - slack) | (values > spread[1] + slack)).double().mean())
