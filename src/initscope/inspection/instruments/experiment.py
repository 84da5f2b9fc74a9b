"""`run_trial`: the runs of a trial, one question after the other, as far as the budget goes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

from initscope.graph import Batch
from initscope.graph.borrowing import borrowed, runnable
from initscope.inspection.instruments.budget import Budget, Clock, plan_budget
from initscope.inspection.instruments.columns import neglected_columns
from initscope.inspection.instruments.controls import constant_inputs, permuted_targets, readout_loss, shuffled_inputs
from initscope.inspection.instruments.curvature import stability_edge
from initscope.inspection.instruments.curves import (
    CLEAR,
    LEARNS,
    diverges,
    fall_share,
)
from initscope.inspection.instruments.held_out import evaluated, held_out
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.outputs import Loss, loss_value
from initscope.inspection.instruments.rates import RateScan, scan_rates
from initscope.inspection.instruments.runs import Runs
from initscope.inspection.instruments.training import Run
from initscope.inspection.instruments.trial import Trial

__all__ = ["run_trial"]

_SCAN_STEPS = 60
"""Largest number of steps at each learning rate."""
_CURVATURE_PASSES = 30
"""Approximate cost of the edge of stability, in passes."""
_BETTER = 0.1
"""Difference of shares from which another rate is suggested."""
_TIE = 0.05
"""Share of a constant prediction's loss within which two rates count as equally good; then the smaller is chosen."""
_FEWEST_FOR_CONTROLS = 16
"""Fewest samples for which permuted targets are meaningful."""
_MUCH_LEFT = 0.9
"""Share of a linear readout below which the model is trained longer, to see whether it gets further."""
_EVEN = 0.02
"""Largest change of the share in the last third of a run for which its curve counts as flat."""
_UNKNOWN = "it is not known which arguments of the model are targets"
_PERMUTATIONS = 3
"""Number of permutations of the targets over which a control is averaged, if passes are fast."""
_PLAIN_FACTORS = (1.0, 10.0)
"""Factors on Adam's default rate for the trial with Adam without options."""


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
    """Train copies of ``model`` for a few steps on one batch, and report whether it learns.

    Parameters
    ----------
    model : nn.Module
        The model does not change: copies are trained, in training mode.
    inputs : Inputs or one batch of data
        See `initscope.graph.bind`; at most 64 samples are used, chosen at random with all classes.
    targets : any
        What ``loss`` compares the output with; None only for a model that computes its own loss.
    loss : callable or None
        ``loss(output, targets)``; None: the loss that the model returns.
    optimizer : Optimizer, type, callable, str or None
        See `OptimizerSpec`; None: Adam.
    lr : float or None
        Learning rate; None: that of the optimizer.
    budget : Budget, "long", seconds or None
        The cost limit; by default 40 passes for the first question and 30 seconds for everything.
    seed : int
        Seed of the choice of samples, and of randomness in the model.
    controls : bool
        Whether a model that learns is trained with permuted targets and with constant inputs as well.
    """
    bounds, spec = plan_budget(budget), OptimizerSpec(optimizer, lr)
    model = runnable(model)
    clock = Clock(model)
    try:
        with borrowed(model):
            trial = _Experiment(model, inputs, targets, loss, spec, bounds, seed, clock).trial(controls)
    except Exception as error:  # whatever the model raises is a result, not a crash
        trial = Trial("failed", reason=f"{type(error).__name__}: {error}".strip().splitlines()[0])
    return replace(trial, seconds=clock())


class _Experiment(Runs):
    """Runs the parts of one trial."""

    def trial(self, controls: bool) -> Trial:
        """Return the results of all parts."""
        frozen = tuple(name for name, parameter in self.model.named_parameters() if not parameter.requires_grad)
        trial = Trial("failed", cost=self.cost, samples=self.samples, assumed=self.spec.assumed, frozen=frozen)
        trial = replace(trial, optimizer=self.first.optimizer, rate=self.first.rate, adapts=self.first.adapts)
        if self.cost is None:
            return self._closed(replace(trial, losses=tuple(self.first.losses), reason=self.first.failed))
        trial = replace(trial, left_out=self.spec.left_out(self.model))
        if self.cost.passes < min(self.budget.fewest_passes, self.budget.passes):
            took = f"one pass of {self.samples} samples takes {self.cost.pass_seconds:.2g} s"
            reason = f"{took}: the budget of {self.budget.seconds:g} s allows {self.cost.passes}; allow more"
            return self._closed(replace(trial, outcome="not judged", losses=tuple(self.first.losses), reason=reason))
        without_level = self.find_levels()
        trial = replace(trial, constant_loss=self.constant, lowest_loss=self.lowest)
        run = self.trained(self.setup, self.cost.more_passes, stop=self.until_flat, follow=True)
        trial = self._judged(trial, run)
        if without_level and trial.outcome not in ("failed", "diverges"):
            return self._closed(replace(trial, outcome="not judged", reason=without_level))
        if trial.outcome == "failed":
            return self._closed(trial)
        trial = replace(trial, readout=self._readout())
        if trial.outcome == "learns" and self.cost.long_passes and self.left() >= self.cost.more_passes:
            trial, run = self._longer(trial, run)
        if trial.outcome != "learns":
            trial, run = self._with_rates(trial, run)
            if trial.outcome == "flat" and (run.cut or "no time" in self.not_done.get("rates", "")):
                trial = replace(trial, outcome="undecided", flattened=False)
            trial = replace(trial, plain=self._plain(trial))
        if trial.outcome == "learns" and controls:
            trial = self._carried_over(self._controlled(trial, run), run)
        if controls and self.left() >= self.cost.more_passes:
            trial = replace(trial, neglected=self._neglected(run))
        return self._closed(trial)

    def _closed(self, trial: Trial) -> Trial:
        return replace(trial, passes=self.passes, not_done=self.not_done)

    def _judged(self, trial: Trial, run: Run) -> Trial:
        """Return the trial with the outcome that the curve shows."""
        losses = run.losses
        trial = replace(trial, losses=tuple(losses), updates=run.updates or trial.updates, reason=run.failed)
        trial = replace(trial, unmoved=run.unmoved, accuracies=run.accuracies)
        if run.failed:
            return replace(trial, outcome="failed")
        use = self.share(losses)
        trial = replace(trial, use=use, learn=use)
        if diverges(losses, self.constant):
            return replace(trial, outcome="diverges", reason=f"the loss goes from {losses[0]:.3g} to {losses[-1]:.3g}")
        if use is not None and use >= LEARNS:
            return replace(trial, outcome="learns", still_falling=False, flattened=False)
        falls = self.falls(losses)
        return replace(trial, outcome="still falling" if falls else "flat", still_falling=falls, flattened=not falls)

    def _readout(self) -> float | None:
        """Return the share of a linear function of the inputs."""
        try:
            inputs = self.batch.inputs.map(torch.clone)
            output = self.model(*inputs.args, **inputs.kwargs)
            loss = readout_loss(self.batch, output, self.loss, max(0.0, (1 - CLEAR) / 10 * self.level))
        except Exception as error:  # the loss may not accept the output of the readout
            self.not_done["readout"] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
        if loss is None:
            self.not_done["readout"] = "the inputs are not real numbers, or the outputs have several positions"
        return None if loss is None else fall_share(loss, self.level, self.lowest)

    def _controlled(self, trial: Trial, run: Run) -> Trial:
        """Return the trial with its controls: permuted targets, constant inputs, and permuted inputs of the copy."""
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
        """Train on after the model has learned: the loss may diverge later, or stop at that of a linear function."""
        assert self.cost is not None
        longer = self.trained(self.setup, self.cost.more_passes)
        if longer.failed or longer.cut:
            return trial, run
        if diverges(longer.losses, self.constant):
            return replace(self._judged(trial, longer), unmoved=trial.unmoved), longer
        before, after = (self.share(longer.losses[: int(part * len(longer.losses))]) for part in (0.7, 1.0))
        level = before is not None and after is not None and abs(after - before) < _EVEN
        return replace(trial, longer=after if level and (trial.readout or 1.0) < _MUCH_LEFT else None), run

    def _carried_over(self, trial: Trial, run: Run) -> Trial:
        """Return the trial with predictions for held-out samples, and with the result in evaluation mode."""
        steps, halves, evaluation = max(len(run.losses), self.budget.passes), None, None
        if self.left() < 2 * steps:
            self.not_done["held_out"] = f"no time left for {2 * steps} passes"
        else:
            with suppress(Exception):  # a model or a loss may not accept half of the samples
                halves = held_out(self.setup, steps, self.until_clear, self.counted)
        with suppress(Exception):  # a model may return other outputs in evaluation mode
            evaluation = evaluated(run, self.batch, self.loss, self.much_worse)
        if evaluation is not None and not evaluation.same_order:
            trial = replace(trial, evaluation=self.share([evaluation.evaluation]))
        if halves is not None:
            trial = replace(trial, held_out=halves.model, neighbors=halves.neighbors)
        return trial

    def _neglected(self, run: Run) -> tuple[int, ...]:
        """Return the trial with the columns of the outputs that the loss hardly depends on."""
        assert self.cost is not None
        with suppress(Exception):  # a loss may not accept the targets as outputs
            return neglected_columns(self.setup, run, self.cost.more_passes, self.counted)
        return ()

    def _on_variants(self, name: str, batches: list[Batch | None], steps: int) -> float | None:
        """Return the mean share after training on other batches."""
        shares = []
        for batch in batches:
            if batch is None:
                self.not_done[name] = _UNKNOWN
            elif self.left() < steps:
                self.not_done[name] = f"no time left for {steps} passes"
            else:
                run = self.trained(self.setup, steps, batch=batch)
                share = None if run.failed or run.cut else self.share(run.losses)
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
            return self.share([float(loss_value(self.loss, output, shuffled.targets))])
        except Exception as error:  # a model may not accept samples in another order
            self.not_done["shuffled_inputs"] = f"{type(error).__name__}: {error}".splitlines()[0]
            return None

    def _with_rates(self, trial: Trial, run: Run) -> tuple[Trial, Run]:
        """Return the trial with losses at other rates, the edge of stability, and a longer run at the given rate."""
        rate = trial.rate
        steps = min(_SCAN_STEPS, max(self.budget.fewest_passes, self.left() // 8))
        for reason, holds in (
            ("the optimizer has no learning rate", rate is None),
            ("the learning rate is 0", rate is not None and rate <= 0),
            ("the loss does not change with the outputs of the last weights", self.outcome == "constant"),
            (f"no time left for {2 * steps} passes", self.left() < 2 * steps),
        ):
            if holds:
                self.not_done["rates"] = reason
                return trial, run
        assert rate is not None
        scan = scan_rates(self.setup, rate, run, steps, self.left(), self.level, self.lowest)
        self.passes += scan.passes
        trial = replace(trial, rates=scan.rates, losses_by_rate=scan.losses, rate_steps=steps)
        trial = self._with_best(trial, scan)
        if self.left() >= _CURVATURE_PASSES:
            self.passes += _CURVATURE_PASSES
            trial = replace(trial, edge=stability_edge(self.setup))
        else:
            self.not_done["edge"] = f"no time left for {_CURVATURE_PASSES} passes"
        return self._with_patience(trial, run, rate)

    def _plain(self, trial: Trial) -> float | None:
        """Return the best share with Adam without options, if no rate of the given optimizer learns."""
        limited = self.outcome not in ("reaches", "not examined")
        assert self.cost is not None
        learns = trial.outcome == "learns" or (trial.learn or 0.0) >= LEARNS
        if self.spec.default or limited or (learns and not (trial.left_out and trial.slow)):
            return None
        setup, steps = replace(self.setup, optimizer=OptimizerSpec(None, None)), self.cost.more_passes
        shares: list[float] = []
        for factor in _PLAIN_FACTORS:
            if self.left() < steps or max(shares, default=0.0) >= LEARNS:
                break
            run = self.trained(setup, steps, stop=self.until_clear, factor=factor)
            share = None if run.failed or run.cut else self.share(run.losses)
            shares += [] if share is None else [share]
        if not shares:
            self.not_done["plain"] = f"no time left for {steps} passes"
        return max(shares, default=None)

    def _with_best(self, trial: Trial, scan: RateScan) -> Trial:
        """Return the share at the best rate."""
        best = scan.best(_TIE * abs(self.level))
        if best is None:
            return trial
        share = self.share(scan.runs[best].losses)
        if share is None or share < _BETTER or (trial.use is not None and share < trial.use + _BETTER):
            return trial
        return replace(trial, learn=share, suggested_rate=scan.rates[best])

    def _with_patience(self, trial: Trial, run: Run, rate: float) -> tuple[Trial, Run]:
        """Train many more steps at the given rate, then at the best, if steps are fast and a long plateau is possible.

        More steps do not help if a linear function of the inputs gets further than the model at any rate, or if the
        head cannot reach a low loss.
        """
        assert self.cost is not None
        learn = -1.0 if trial.learn is None else trial.learn
        below_readout = trial.readout is not None and trial.readout >= learn + _BETTER and learn < LEARNS
        steps = self.cost.long_passes
        limited = self.outcome not in ("reaches", "not examined")
        hopeless = trial.outcome == "diverges" or below_readout or limited
        if hopeless or steps <= len(run.losses) or self.left() < steps:
            return trial, run
        longer = self.trained(self.setup, steps, stop=self.until_clear)
        again = replace(self._judged(trial, longer), unmoved=trial.unmoved)
        if again.outcome in ("failed", "diverges"):
            return trial, run
        again = replace(again, learn=max(learn, again.use if again.use is not None else learn))
        if again.outcome == "learns" or trial.suggested_rate is None or learn >= LEARNS or self.left() < steps:
            return again, longer
        best = self.trained(self.setup, steps, stop=self.until_clear, factor=trial.suggested_rate / rate)
        share = None if best.failed else self.share(best.losses)
        return (again if share is None else replace(again, learn=max(learn, share))), longer
