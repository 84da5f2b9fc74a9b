"""`run_trial`: the runs of a trial, one question after the other, as far as the budget goes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from initscope.graph import Batch
from initscope.graph.borrowing import borrowed, runnable
from initscope.graph.threads import all_threads
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.budget import Budget, Clock, Cost, affordable_samples, cost_of, plan_budget
from initscope.inspection.instruments.columns import neglected_columns
from initscope.inspection.instruments.controls import constant_inputs, permuted_targets, readout_loss, shuffled_inputs
from initscope.inspection.instruments.curvature import stability_edge
from initscope.inspection.instruments.curves import (
    CLEAR,
    LEARNS,
    clearly_learns,
    diverges,
    fall_share,
    recent,
    still_falls,
)
from initscope.inspection.instruments.head import examine_head
from initscope.inspection.instruments.held_out import evaluated, held_out
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.outputs import Loss, loss_value
from initscope.inspection.instruments.rates import RateScan, scan_rates
from initscope.inspection.instruments.training import Run, Setup, train
from initscope.inspection.instruments.trial import Trial

__all__ = ["run_trial"]

_SLOW = 0.05
"""Seconds of a pass from which on all threads of the user are used."""
_MEASURED = 2
"""Steps of a run that measures how long a pass takes: the first is slower, and some mistakes show in the second."""
_SCAN_STEPS = 60
"""Steps at each learning rate, at most."""
_CURVATURE_PASSES = 30
"""What the edge of stability costs, about."""
_BETTER = 0.1
"""Share by which another rate must be better to be suggested."""
_TIE = 0.05
"""Share of the loss of a constant prediction within which two rates count as equally good; the smaller is chosen."""
_FEWEST_FOR_CONTROLS = 16
"""Samples from which on permuted targets are other targets."""
_MUCH_LEFT = 0.9
"""Share of a linear readout below which a model is asked whether it gets further."""
_EVEN = 0.02
"""Change of the share in the last third of a run up to which its curve counts as level."""
_UNKNOWN = "it is not known which arguments of the model are targets"
_PERMUTATIONS = 3
"""Permutations of the targets over which a control is averaged, where passes are fast."""
_PLAIN_FACTORS = (1.0, 10.0)
"""Rates of Adam without options, over its usual one."""
_CHECK_EVERY = 10
"""Steps between two looks at whether a curve still falls."""


def run_trial(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Loss | None,
    optimizer: Any = None,
    lr: float | None = None,
    *,
    budget: Budget | Literal["long"] | float | None = None,
    seed: int = 0,
    controls: bool = True,
) -> Trial:
    """Train copies of ``model`` for a few steps on one batch, and see whether it learns.

    Parameters
    ----------
    model : nn.Module
        Left as it is: copies are trained, in training mode.
    inputs : Inputs or one batch of data
        See `initscope.graph.bind`; at most 64 samples are used, chosen at random with all classes.
    targets : any
        What ``loss`` compares the output with; None only for a model that computes its own loss.
    loss : callable or None
        ``loss(output, targets)``; None: the loss that the model returns itself.
    optimizer : Optimizer, type, callable, str or None
        See `OptimizerSpec`; None: Adam.
    lr : float or None
        Learning rate; None: that of the optimizer.
    budget : Budget, "long", seconds or None
        What it may cost: by default 40 passes for the first question and 30 seconds for everything.
    seed : int
        Of the choice of samples, and of what is random in the model.
    controls : bool
        Whether a model that learns is trained with permuted targets and with constant inputs as well.
    """
    bounds, spec = plan_budget(budget), OptimizerSpec(optimizer, lr)
    model = runnable(model)
    clock = Clock(model)
    try:
        with borrowed(model):
            trial = _Experiment(model, inputs, targets, loss, spec, bounds, seed, clock).trial(controls)
    except Exception as error:  # whatever the model raises: a result, not a crash
        trial = Trial("failed", reason=f"{type(error).__name__}: {error}".strip().splitlines()[0])
    return replace(trial, seconds=clock())


class _Experiment:
    """The runs of one trial, and what is left of its budget."""

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
        """The largest batch of which the budget allows enough passes, and a short run on it."""
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
        """A batch, and a run that measures how long a pass takes."""
        batch = draw_batch(self.model, *self.data, samples, self.seed)
        setup = Setup(self.model, batch, self.loss, self.spec, self.seed, self.clock, self.budget.seconds)
        return setup, self._trained(setup, _MEASURED)

    def trial(self, controls: bool) -> Trial:
        """All questions."""
        frozen = tuple(name for name, parameter in self.model.named_parameters() if not parameter.requires_grad)
        trial = Trial("failed", cost=self.cost, samples=self.samples, assumed=self.spec.assumed, frozen=frozen)
        trial = replace(trial, optimizer=self.first.optimizer, rate=self.first.rate)
        if self.cost is None:
            return self._closed(replace(trial, losses=tuple(self.first.losses), reason=self.first.failed))
        trial = replace(trial, left_out=self.spec.left_out(self.model))
        if self.cost.passes < min(self.budget.fewest_passes, self.budget.passes):
            took = f"one pass of {self.samples} samples takes {self.cost.pass_seconds:.2g} s"
            reason = f"{took}: the budget of {self.budget.seconds:g} s allows {self.cost.passes}; allow more"
            return self._closed(replace(trial, outcome="not judged", losses=tuple(self.first.losses), reason=reason))
        without_level = self._find_levels()
        trial = replace(trial, constant_loss=self.constant, lowest_loss=self.lowest)
        run = self._trained(self.setup, self.cost.more_passes, stop=self._until_flat, follow=True)
        trial = self._judged(trial, run)
        if without_level and trial.outcome not in ("failed", "diverges"):
            return self._closed(replace(trial, outcome="not judged", reason=without_level))
        if trial.outcome == "failed":
            return self._closed(trial)
        trial = replace(trial, readout=self._readout())
        if trial.outcome == "learns" and self.cost.long_passes and self._left() >= self.cost.more_passes:
            trial, run = self._longer(trial, run)
        if trial.outcome != "learns":
            trial, run = self._with_rates(trial, run)
            if trial.outcome == "flat" and (run.cut or "no time" in self.not_done.get("rates", "")):
                trial = replace(trial, outcome="undecided", flattened=False)
            trial = replace(trial, plain=self._plain(trial))
        if trial.outcome == "learns" and controls:
            trial = self._carried_over(self._controlled(trial, run), run)
        if controls and self._left() >= self.cost.more_passes:
            trial = replace(trial, neglected=self._neglected(run))
        return self._closed(trial)

    def _closed(self, trial: Trial) -> Trial:
        return replace(trial, passes=self.passes, not_done=self.not_done)

    def _trained(self, setup: Setup, steps: int, **options: Any) -> Run:
        run = train(setup, steps, **options)
        self.passes += run.passes
        return run

    def _left(self) -> int:
        """Passes for which there is time."""
        assert self.cost is not None
        return int((self.budget.seconds - self.clock()) / max(1e-9, self.cost.pass_seconds))

    def _find_levels(self) -> str:
        """Set the losses of the best constant prediction and of free outputs; say why, where shares mean nothing."""
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
    def _level(self) -> float:
        """The loss below which something is learned: that of the best constant prediction, else the first one."""
        return self.first.losses[0] if self.constant is None else self.constant

    def _share(self, losses: list[float]) -> float | None:
        return fall_share(recent(losses), self._level, self.lowest)

    def _falls(self, losses: list[float]) -> bool:
        lowest = 0.0 if self.lowest is None else self.lowest
        return still_falls(losses, self._level - LEARNS * (self._level - lowest))

    def _until_clear(self, losses: list[float]) -> bool:
        """Stop where the answer is clear."""
        learns = clearly_learns(losses, self._level, self.lowest, self.budget.fewest_passes)
        return learns or diverges(losses, self.constant)

    def _until_flat(self, losses: list[float]) -> bool:
        """Stop there, or after the planned number of passes where the curve does not fall any more."""
        assert self.cost is not None
        if self._until_clear(losses):
            return True
        beyond = len(losses) - self.cost.passes
        return beyond >= 0 and beyond % _CHECK_EVERY == 0 and not self._falls(losses)

    def _judged(self, trial: Trial, run: Run) -> Trial:
        """The outcome that the curve means."""
        losses = run.losses
        trial = replace(trial, losses=tuple(losses), updates=run.updates or trial.updates, reason=run.failed)
        trial = replace(trial, unmoved=run.unmoved, accuracies=run.accuracies)
        if run.failed:
            return replace(trial, outcome="failed")
        use = self._share(losses)
        trial = replace(trial, use=use, learn=use)
        if diverges(losses, self.constant):
            return replace(trial, outcome="diverges", reason=f"the loss goes from {losses[0]:.3g} to {losses[-1]:.3g}")
        if use is not None and use >= LEARNS:
            return replace(trial, outcome="learns", still_falling=False, flattened=False)
        falls = self._falls(losses)
        return replace(trial, outcome="still falling" if falls else "flat", still_falling=falls, flattened=not falls)

    def _readout(self) -> float | None:
        """Share of a linear function of the inputs."""
        try:
            inputs = self.batch.inputs.map(torch.clone)
            output = self.model(*inputs.args, **inputs.kwargs)
            loss = readout_loss(self.batch, output, self.loss, max(0.0, (1 - CLEAR) / 10 * self._level))
        except Exception as error:  # a loss may not take what the readout gives
            self.not_done["readout"] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
        if loss is None:
            self.not_done["readout"] = "the inputs are not real numbers, or the outputs have several positions"
        return None if loss is None else fall_share(loss, self._level, self.lowest)

    def _controlled(self, trial: Trial, run: Run) -> Trial:
        """The same number of steps with permuted targets and constant inputs; the trained copy on permuted inputs."""
        if self.samples < _FEWEST_FOR_CONTROLS:
            self.not_done["controls"] = f"{self.samples} samples are too few; give at least {_FEWEST_FOR_CONTROLS}"
            return trial
        assert self.cost is not None
        repeats = _PERMUTATIONS if self.cost.long_passes else 1
        permuted = [permuted_targets(self.batch, self.seed + repeat) for repeat in range(repeats)]
        return replace(
            trial,
            shuffled_inputs=self._on_shuffled(run),
            permuted=self._on_variants("permuted", permuted, len(run.losses)),
            constant_inputs=self._on_variants("constant_inputs", [constant_inputs(self.batch)], len(run.losses)),
        )

    def _longer(self, trial: Trial, run: Run) -> tuple[Trial, Run]:
        """More steps than it takes to learn: whether it diverges later, and where it ends if little can be linear."""
        assert self.cost is not None
        longer = self._trained(self.setup, self.cost.more_passes)
        if longer.failed or longer.cut:
            return trial, run
        if diverges(longer.losses, self.constant):
            return replace(self._judged(trial, longer), unmoved=trial.unmoved), longer
        before, after = (self._share(longer.losses[: int(part * len(longer.losses))]) for part in (0.7, 1.0))
        level = before is not None and after is not None and abs(after - before) < _EVEN
        return replace(trial, longer=after if level and (trial.readout or 1.0) < _MUCH_LEFT else None), run

    def _carried_over(self, trial: Trial, run: Run) -> Trial:
        """What copies predict for samples that they were not trained on, and in evaluation mode."""
        steps, halves, evaluation = max(len(run.losses), self.budget.passes), None, None
        if self._left() < 2 * steps:
            self.not_done["held_out"] = f"no time left for {2 * steps} passes"
        else:
            with suppress(Exception):  # a model or a loss may refuse half of the samples
                halves = held_out(self.setup, steps, self._until_clear, self._counted)
        with suppress(Exception):  # a model may give something else in evaluation mode
            evaluation = evaluated(run, self.batch, self.loss, self._much_worse)
        if evaluation is not None and not evaluation.same_order:
            trial = replace(trial, evaluation=self._share([evaluation.evaluation]))
        if halves is not None:
            trial = replace(trial, held_out=halves.model, neighbors=halves.neighbors)
        return trial

    def _much_worse(self, training: float, evaluation: float) -> bool:
        before, after = self._share([training]), self._share([evaluation])
        return before is not None and after is not None and after < LEARNS * before

    def _neglected(self, run: Run) -> tuple[int, ...]:
        """Columns of the outputs that the loss hardly reads."""
        assert self.cost is not None
        with suppress(Exception):  # a loss may refuse the targets as outputs
            return neglected_columns(self.setup, run, self.cost.more_passes, self._counted)
        return ()

    def _counted(self, run: Run) -> None:
        self.passes += run.passes

    def _on_variants(self, name: str, batches: list[Batch | None], steps: int) -> float | None:
        """Mean share after training on other batches."""
        shares = []
        for batch in batches:
            if batch is None:
                self.not_done[name] = _UNKNOWN
            elif self._left() < steps:
                self.not_done[name] = f"no time left for {steps} passes"
            else:
                run = self._trained(self.setup, steps, batch=batch)
                share = None if run.failed or run.cut else self._share(run.losses)
                if share is None:
                    self.not_done[name] = run.failed or ("no time left" if run.cut else "the loss is not finite")
                else:
                    shares.append(share)
        return sum(shares) / len(shares) if shares else None

    def _on_shuffled(self, run: Run) -> float | None:
        assert run.model is not None
        shuffled = shuffled_inputs(self.batch, self.seed)
        if shuffled is None:
            self.not_done["shuffled_inputs"] = _UNKNOWN
            return None
        try:
            output = run.model(*shuffled.inputs.args, **shuffled.inputs.kwargs)
            return self._share([float(loss_value(self.loss, output, shuffled.targets))])
        except Exception as error:  # a model may refuse samples in another order
            self.not_done["shuffled_inputs"] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None

    def _with_rates(self, trial: Trial, run: Run) -> tuple[Trial, Run]:
        """The loss at other rates, the edge of stability, and whether the given rate needs only more steps."""
        rate = trial.rate
        steps = min(_SCAN_STEPS, max(self.budget.fewest_passes, self._left() // 8))
        for reason, holds in (
            ("the optimizer has no learning rate", rate is None),
            ("the learning rate is 0", rate is not None and rate <= 0),
            ("the loss does not change whatever the last weights give", self.outcome == "constant"),
            (f"no time left for {2 * steps} passes", self._left() < 2 * steps),
        ):
            if holds:
                self.not_done["rates"] = reason
                return trial, run
        assert rate is not None
        scan = scan_rates(self.setup, rate, run, steps, self._left(), self._level, self.lowest)
        self.passes += scan.passes
        trial = replace(trial, rates=scan.rates, losses_by_rate=scan.losses, rate_steps=steps)
        trial = self._with_best(trial, scan)
        if self._left() >= _CURVATURE_PASSES:
            self.passes += _CURVATURE_PASSES
            trial = replace(trial, edge=stability_edge(self.setup))
        else:
            self.not_done["edge"] = f"no time left for {_CURVATURE_PASSES} passes"
        return self._with_patience(trial, run, rate)

    def _plain(self, trial: Trial) -> float | None:
        """Best share with Adam without options, where the optimizer that was given learns at no rate."""
        limited = self.outcome not in ("reaches", "not examined")
        assert self.cost is not None
        learns = trial.outcome == "learns" or (trial.learn or 0.0) >= LEARNS
        if self.spec.default or limited or (learns and not (trial.left_out and trial.slow)):
            return None
        setup, steps = replace(self.setup, optimizer=OptimizerSpec(None, None)), self.cost.more_passes
        shares: list[float] = []
        for factor in _PLAIN_FACTORS:
            if self._left() < steps or max(shares, default=0.0) >= LEARNS:
                break
            run = self._trained(setup, steps, stop=self._until_clear, factor=factor)
            share = None if run.failed or run.cut else self._share(run.losses)
            shares += [] if share is None else [share]
        if not shares:
            self.not_done["plain"] = f"no time left for {steps} passes"
        return max(shares, default=None)

    def _with_best(self, trial: Trial, scan: RateScan) -> Trial:
        """The share at the best rate."""
        best = scan.best(_TIE * abs(self._level))
        if best is None:
            return trial
        share = self._share(scan.runs[best].losses)
        if share is None or share < _BETTER or (trial.use is not None and share < trial.use + _BETTER):
            return trial
        return replace(trial, learn=share, suggested_rate=scan.rates[best])

    def _with_patience(self, trial: Trial, run: Run, rate: float) -> tuple[Trial, Run]:
        """Give the given rate, and then the best, many more steps where these are fast and a long plateau is possible.

        Where a linear function of the inputs gets further than the model at any rate, or the head cannot reach a low
        loss, more steps are no answer.
        """
        assert self.cost is not None
        learn = -1.0 if trial.learn is None else trial.learn
        below_readout = trial.readout is not None and trial.readout >= learn + _BETTER and learn < LEARNS
        steps = self.cost.long_passes
        limited = self.outcome not in ("reaches", "not examined")
        hopeless = trial.outcome == "diverges" or below_readout or limited
        if hopeless or steps <= len(run.losses) or self._left() < steps:
            return trial, run
        longer = self._trained(self.setup, steps, stop=self._until_clear)
        again = replace(self._judged(trial, longer), unmoved=trial.unmoved)
        if again.outcome in ("failed", "diverges"):
            return trial, run
        again = replace(again, learn=max(learn, again.use if again.use is not None else learn))
        if again.outcome == "learns" or trial.suggested_rate is None or learn >= LEARNS or self._left() < steps:
            return again, longer
        best = self._trained(self.setup, steps, stop=self._until_clear, factor=trial.suggested_rate / rate)
        share = None if best.failed else self._share(best.losses)
        return (again if share is None else replace(again, learn=max(learn, share))), longer
