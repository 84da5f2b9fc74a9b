"""IS4: the trial: does the model learn, at which rates, and what moves?"""

from __future__ import annotations

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import LEARNS, Evidence
from initscope.inspection.finding import Level
from initscope.inspection.instruments.optimizers import DEFAULT_RATE

_TRAINING = ("IS403", "IS404", "IS409", "IS410")
_CAUSES = ("IS1", "IS2", "IS3", "IS6", "IS8", "IS5")
_CUT = ("IS308", "IS310", "IS311", "IS312")
"""Layers that training does not reach: with the few that it reaches, only a high rate learns."""
_NOTHING = 0.1
"""Share of the possible fall of the loss below which a model learns no more than a constant prediction."""
_FAR, _VERY_FAR = 10.0, 100.0
"""Factors between two rates that make the slower one an error: first, if it learns nothing in many steps, or nothing
while the faster one learns; second, if it learns late."""
_READOUT = 0.3
"""Difference of the shares by which a linear readout must be better than the model."""
_CHANCE, _CERTAIN = 1.0, 4.0
"""Standard deviations up to which predictions are no better than chance, and from which they clearly are."""
_MOSTLY = 0.5
"""Share of the learned part that must remain in evaluation mode."""
_LEAK = 0.2
"""Share reached with equal inputs from which the model must distinguish samples by something else."""


@check(
    "IS401", "does-not-learn", "error", reads=("trial",), follows=(*_TRAINING, *_CAUSES, "IS406"),
    message="The model stops learning at {percent:.0f} % of the possible fall of the loss: {start:.3g} → {end:.3g} on "
    "one batch, at the best learning rate.",
    why="a model that cannot fit one small batch will not fit the data",
    advice="fix the other findings first; else use more units, another loss or normalized inputs",
    references=("Karpathy 2019, A recipe for training neural networks",),
)  # fmt: skip
def _does_not_learn(evidence: Evidence, _: float) -> Hit | None:
    """The loss on one batch stops falling above the lowest possible loss, at every learning rate that was tried."""
    share = evidence.stuck_share
    return _stuck(evidence, share) if share is not None and share >= _NOTHING else None


@check(
    "IS402", "inputs-unused", "error", reads=("trial",), follows=(*_TRAINING, *_CAUSES, "IS406"),
    message="The model learns no more than the best constant prediction: loss {start:.3g} → {end:.3g}, a constant has "
    "{constant:.3g}.",
    why="its output does not use the inputs, or no gradient gets through",
    advice="fix the other findings first; else check that inputs and targets belong together",
    references=("Karpathy 2019, A recipe for training neural networks",),
)  # fmt: skip
def _inputs_unused(evidence: Evidence, _: float) -> Hit | None:
    """The loss on one batch stops falling at that of the best constant prediction, at every learning rate."""
    share = evidence.stuck_share
    return _stuck(evidence, share) if share is not None and share < _NOTHING else None


def _stuck(evidence: Evidence, share: float) -> Hit:
    trial = evidence.trial
    facts = {"percent": 100 * max(0.0, share), "start": trial.losses[0], "end": trial.losses[-1],
             "constant": trial.constant_loss or 0.0}  # fmt: skip
    return Hit(evidence.signal.output, share, facts=facts)


@check(
    "IS403", "learning-rate-high", "error", reads=("trial", "rate"), follows=("IS410", "IS2", "IS6"),
    message="The learning rate {rate:.2g} is too high: {suggested:.2g} learns, and is {factor:.3g} times smaller.",
    why="steps that are too large jump over the minimum, or kill units in the first step",
    advice="use a learning rate of about {suggested:.2g}", fix="lr = {suggested:.2g}",
    references=("Smith 2017, section 3.3", "Cohen et al. 2021"),
)  # fmt: skip
def _rate_high(evidence: Evidence, _: float) -> Hit | None:
    """A lower learning rate than the given one learns clearly better in the same number of steps."""
    return _rate(evidence, higher=False)


@check(
    "IS404", "learning-rate-low", "error", reads=("trial", "rate"), follows=(*_CUT, "IS410", "IS2", "IS6"),
    message="The learning rate {rate:.2g} is too low: {suggested:.2g} learns, and is {factor:.3g} times larger.",
    why="the weights hardly move in a reasonable number of steps",
    advice="use a learning rate of about {suggested:.2g}", fix="lr = {suggested:.2g}",
    references=("Smith 2017, section 3.3",),
)  # fmt: skip
def _rate_low(evidence: Evidence, _: float) -> Hit | None:
    """A higher learning rate than the given one learns clearly better in the same number of steps."""
    return _rate(evidence, higher=True)


def _rate(evidence: Evidence, higher: bool) -> Hit | None:
    trial = evidence.trial
    rate, suggested = trial.rate, trial.suggested_rate
    if not rate or not suggested or (suggested > rate) is not higher or (trial.outcome == "learns" and not trial.slow):
        return None
    factor = suggested / rate if higher else rate / suggested
    long = trial.cost is not None and len(trial.losses) > trial.cost.more_passes
    enough = factor >= (_VERY_FAR if trial.slow and not trial.late else _FAR) and (trial.learn or 0.0) >= LEARNS
    slow = trial.outcome in ("still falling", "learns") and not (long and enough)
    slow = slow or (higher and factor < 0.99 * _FAR)  # at a rate that is nearly right, chance ends a plateau
    slow = slow or (higher and trial.outcome == "learns" and trial.adapts and rate >= DEFAULT_RATE)
    facts = {"rate": rate, "suggested": suggested, "factor": factor}
    still = () if any(trial.updates.values()) else trial.unmoved  # if nothing moves at all, the rate explains it
    return Hit(evidence.signal.output, rate, level="warning" if slow else None, facts=facts, layers=still)


@check(
    "IS405", "still-falling", "info", reads=("trial",),
    message="The loss still falls after {steps} steps on one batch: {start:.3g} → {end:.3g}.",
    why="the trial is too short to say how far it goes; trial=\"long\" takes more steps",
)  # fmt: skip
def _still_falling(evidence: Evidence, _: float) -> Hit | None:
    """The loss on one batch still falls when the budget of the trial ends."""
    trial = evidence.trial
    if trial.outcome != "still falling":
        return None
    facts = {"steps": len(trial.losses), "start": trial.losses[0], "end": trial.losses[-1]}
    return Hit(evidence.signal.output, trial.use, facts=facts)


@check(
    "IS406", "below-readout", "error", reads=("trial",), follows=(*_TRAINING, *_CAUSES),
    message="The model learns {percent:.0f} % of the possible fall of the loss, a linear function of its inputs "
    "{readout:.0f} %.",
    why="layers that are frozen, saturated or badly initialized destroy what the inputs hold",
    advice="unfreeze or re-initialize the layers before the last one",
)  # fmt: skip
def _below_readout(evidence: Evidence, _: float) -> Hit | None:
    """The model learns far less than a linear readout of its own inputs."""
    share, readout = evidence.stuck_share, evidence.trial.readout
    if share is None or readout is None or readout < share + _READOUT:
        return None
    return Hit(evidence.signal.output, share, facts={"percent": 100 * max(0.0, share), "readout": 100 * readout})


@check(
    "IS407", "unmoved-parameters", "warning", reads=("trial",), learning="info",
    follows=("IS409", "IS3", "IS107", "IS809", "IS404"), local=("IS409", "IS3", "IS107", "IS809", "IS404"),
    message="{at} did not change in {steps} steps although it requires a gradient{more}.",
    why="its gradient is zero, or the optimizer does not move it",
    advice="look for what multiplies it by zero, or delete it",
)  # fmt: skip
def _unmoved(evidence: Evidence, _: float) -> Hit | None:
    """Parameters that require a gradient did not change in the trial."""
    unmoved, count = evidence.trial.unmoved, len(evidence.trial.unmoved)
    if not unmoved or evidence.trial.outcome in ("failed", "not judged"):
        return None
    facts = {"steps": len(evidence.trial.losses), "more": f" (and {count - 1} more)" if count > 1 else ""}
    return Hit(evidence.row_of(unmoved[0].rpartition(".")[0]), float(count), unmoved[0], facts=facts, layers=unmoved)


@check(
    "IS408", "diverges", "error", reads=("trial",), follows=("IS403", "IS410", "IS202", *_CAUSES),
    message="The loss grows from {start:.3g} to {end:.3g} within {steps} steps on one batch.",
    why="training ends in NaN or at useless weights",
    advice="use a lower learning rate, normalized inputs or gradient clipping",
)  # fmt: skip
def _diverges(evidence: Evidence, _: float) -> Hit | None:
    """The loss on one batch grows or becomes NaN."""
    trial = evidence.trial
    if trial.outcome != "diverges" or (trial.assumed and (trial.learn or 0.0) >= LEARNS):
        return None
    facts = {"steps": len(trial.losses), "start": trial.losses[0], "end": trial.losses[-1]}
    return Hit(evidence.signal.output, trial.losses[-1], facts=facts)


@check(
    "IS409", "parameters-left-out", "warning", reads=("trial",), stuck="error",
    message="The optimizer does not hold {at}{more}.",
    why="parameters that no optimizer holds never change",
    advice="pass model.parameters() to the optimizer, after all layers are created",
)  # fmt: skip
def _left_out(evidence: Evidence, _: float) -> Hit | None:
    """The optimizer that was given does not hold parameters that require a gradient."""
    trial, names, count = evidence.trial, evidence.trial.left_out, len(evidence.trial.left_out)
    if not names:
        return None
    learns_late = trial.slow or (trial.learn or 0.0) < LEARNS
    level: Level | None = "error" if learns_late and (trial.plain or 0.0) >= LEARNS else None
    facts = {"more": f" and {count - 1} more parameters" if count > 1 else ""}
    row = evidence.row_of(names[0].rpartition(".")[0])
    return Hit(row, float(count), names[0], level, facts=facts, layers=names)


@check(
    "IS410", "optimizer-options", "error", reads=("trial", "rate"), follows=("IS409", *_CAUSES),
    message="With {optimizer} as given the model learns {percent:.0f} % of the possible fall of the loss at every "
    "rate, with Adam without options {plain:.0f} %.",
    why="an option such as weight decay, momentum or eps stops the weights from moving, or destroys them",
    advice="use torch.optim.Adam(model.parameters(), lr=1e-3), and add other options one at a time",
)  # fmt: skip
def _optimizer_options(evidence: Evidence, _: float) -> Hit | None:
    """The given optimizer learns at no rate, and Adam without options does."""
    trial, share = evidence.trial, max(0.0, evidence.trial.learn or 0.0)
    if trial.outcome == "learns" or trial.plain is None or trial.plain < max(LEARNS, share + _READOUT):
        return None
    facts = {"optimizer": trial.optimizer, "percent": 100 * share, "plain": 100 * trial.plain}
    ended = trial.outcome in ("flat", "diverges") or share < _NOTHING
    return Hit(evidence.signal.output, share, level=None if ended else "warning", facts=facts)


@check(
    "IS411", "memorizes", "warning", reads=("trial",), follows=("IS607", "IS212", *_CAUSES),
    message="The model fits its training samples, but its predictions for other samples are no better than chance "
    "({value:.1f} standard deviations). Copying its answer for the nearest training sample is better "
    "({neighbors:.1f}).", why="similar inputs give outputs so different that the model can only memorize samples",
    advice="check what the first layers do to small differences: frequencies, scales and gains that are too large, "
    "hashes and ids",
    references=("Zhang et al. 2017, section 2",),
)  # fmt: skip
def _memorizes(evidence: Evidence, _: float) -> Hit | None:
    """Predictions for held-out samples are no better than chance, but the nearest training sample's answers are."""
    trial = evidence.trial
    if trial.outcome != "learns" or trial.held_out is None or trial.neighbors is None:
        return None
    if trial.held_out > _CHANCE or trial.neighbors < _CERTAIN:
        return None
    return Hit(evidence.start, trial.held_out, facts={"neighbors": trial.neighbors})


@check(
    "IS412", "evaluation-differs", "error", reads=("trial",), follows=("IS808",),
    message="In evaluation mode the trained model has {percent:.0f} % of the possible fall of the loss on its own "
    "batch, in training mode {training:.0f} %.",
    why="what the model learned is lost when it is used",
    advice="look for what differs between model.train() and model.eval(): running statistics that are not updated, "
    "branches on self.training, scaling by hand around dropout",
)  # fmt: skip
def _evaluation_differs(evidence: Evidence, _: float) -> Hit | None:
    """In evaluation mode the trained copy loses most of what it learned, also with settled running statistics."""
    trial, use = evidence.trial, evidence.trial.use or 0.0
    if trial.outcome != "learns" or trial.evaluation is None or not trial.evaluation < _MOSTLY * use:
        return None
    facts = {"percent": 100 * max(0.0, trial.evaluation), "training": 100 * use}
    norms = evidence.signal.norms
    row = next((index for index, kind in norms.items() if kind == "batch"), evidence.signal.output)
    return Hit(row, trial.evaluation, facts=facts)


@check(
    "IS319", "batch-leak", "error", reads=("trial",), follows=("IS301",),
    message="With equal inputs for all samples the model still learns {percent:.0f} % of the targets.",
    why="it distinguishes samples by their position in the batch, which means nothing",
    advice="look for an op that mixes or indexes samples, and for state that is kept between calls",
)  # fmt: skip
def _batch_leak(evidence: Evidence, _: float) -> Hit | None:
    """The model fits targets although all inputs of the batch are equal."""
    share, single = evidence.trial.constant_inputs, len(evidence.seen.rows[evidence.signal.output].shape) < 2
    reads = evidence.facts.reading.reads_targets
    known = share is not None and share > _LEAK and single and reads  # several positions may have their own constants
    known = known and evidence.trial.constant_loss is not None  # without it, shares count from the first loss
    return Hit(evidence.signal.output, share, facts={"percent": 100 * (share or 0.0)}) if known else None
