"""`Runs`: the batch of a trial, its runs, the losses that they are compared with, and the remaining budget."""

from __future__ import annotations

from typing import Any

from torch import nn

from initscope.graph.threads import all_threads
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.budget import Budget, Clock, Cost, affordable_samples, cost_of
from initscope.inspection.instruments.curves import (
    LEARNS,
    clearly_learns,
    diverges,
    fall_share,
    recent,
    still_falls,
)
from initscope.inspection.instruments.head import examine_head
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.outputs import Loss
from initscope.inspection.instruments.training import Run, Setup, train

__all__ = ["Runs"]

_SLOW = 0.05
"""Seconds per pass from which all threads of the user are used."""
_MEASURED = 2
"""Steps of a run that measures the time of a pass: the first is slower, and some errors only occur in the second."""
_CHECK_EVERY = 10
"""Number of steps between two tests of whether a curve still falls."""


class Runs:
    """The runs of one trial, and its remaining budget."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        targets: Any,
        loss: Loss | None,
        spec: OptimizerSpec,
        budget: Budget,
        seed: int,
        clock: Clock,
    ) -> None:
        self.model, self.loss, self.spec, self.budget, self.seed, self.clock = model, loss, spec, budget, seed, clock
        self.data = inputs, targets
        self.passes = 0
        self.not_done: dict[str, str] = {}
        self.constant: float | None = None
        self.lowest: float | None = None
        self.outcome = "not examined"
        self.setup, self.cost, self.first = self._planned()
        self.batch = self.setup.batch
        self.samples = len(self.batch) if any(self.batch.inputs.batched) else 0

    def _planned(self) -> tuple[Setup, Cost | None, Run]:
        """Return the largest batch for which the budget allows enough passes, and a short run on it."""
        setup, run = self._measured(self.budget.fewest_samples)
        if not run.failed and run.seconds > _SLOW:
            all_threads()
            setup, run = self._measured(self.budget.fewest_samples)
        if run.failed or not any(setup.batch.inputs.batched):
            return setup, None if run.failed else cost_of(self.budget, run.seconds, 0), run
        samples = affordable_samples(self.budget, run.seconds, len(setup.batch))
        if samples > len(setup.batch):
            setup, run = self._measured(samples)
        return setup, None if run.failed else cost_of(self.budget, run.seconds, len(setup.batch)), run

    def _measured(self, samples: int) -> tuple[Setup, Run]:
        """Return a batch, and a run that measures the time of a pass."""
        batch = draw_batch(self.model, *self.data, samples, self.seed)
        setup = Setup(self.model, batch, self.loss, self.spec, self.seed, self.clock, self.budget.seconds)
        return setup, self.trained(setup, _MEASURED)

    def trained(self, setup: Setup, steps: int, **options: Any) -> Run:
        """Train a copy and count the passes."""
        run = train(setup, steps, **options)
        self.passes += run.passes
        return run

    def left(self) -> int:
        """Return the number of passes that fit into the remaining time."""
        assert self.cost is not None
        return int((self.budget.seconds - self.clock()) / max(1e-9, self.cost.pass_seconds))

    def find_levels(self) -> str:
        """Set the losses of the best constant prediction and of free outputs; return why shares mean nothing, if so."""
        head = examine_head(self.model, self.batch.inputs, self.batch.targets, self.loss, samples=max(1, self.samples))
        if head.outcome == "unbounded":
            return "the loss has no lower bound"
        self.outcome = head.outcome
        self.constant, self.lowest = head.levels
        if self.constant is None:
            self.not_done["constant"] = head.reason or "the loss has no best constant prediction"
        elif fall_share(self.constant, self.constant, self.lowest) is None:
            return "the best constant prediction is as good as any: the targets do not vary"
        return ""

    @property
    def level(self) -> float:
        """The loss below which a model has learned: that of the best constant prediction, else the first loss."""
        return self.first.losses[0] if self.constant is None else self.constant

    def share(self, losses: list[float]) -> float | None:
        """Return the share of the possible fall at the end of a curve."""
        return fall_share(recent(losses), self.level, self.lowest)

    def falls(self, losses: list[float]) -> bool:
        """Return whether a curve still falls fast enough to learn soon."""
        lowest = 0.0 if self.lowest is None else self.lowest
        return still_falls(losses, self.level - LEARNS * (self.level - lowest))

    def until_clear(self, losses: list[float]) -> bool:
        """Return whether to stop because the answer is clear."""
        learns = clearly_learns(losses, self.level, self.lowest, self.budget.fewest_passes)
        return learns or diverges(losses, self.constant)

    def until_flat(self, losses: list[float]) -> bool:
        """Return whether to stop: the answer is clear, or the curve is flat after the planned number of passes."""
        assert self.cost is not None
        if self.until_clear(losses):
            return True
        beyond = len(losses) - self.cost.passes
        return beyond >= 0 and beyond % _CHECK_EVERY == 0 and not self.falls(losses)

    def much_worse(self, training: float, evaluation: float) -> bool:
        """Return whether less than half of the share in training mode remains in evaluation mode."""
        before, after = self.share([training]), self.share([evaluation])
        return before is not None and after is not None and after < LEARNS * before

    def counted(self, run: Run) -> None:
        """Count the passes of a run that another function trained."""
        self.passes += run.passes
