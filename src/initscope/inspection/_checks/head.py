"""IS2: head and loss: can these outputs reach a low loss at all, and where does it start?"""

from __future__ import annotations

from typing import Any

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence
from initscope.inspection.finding import Level

_HEAD_GAIN = 4.0
"""Scale of the logits, over that of the inputs of the head, from which the head makes the logits too large."""
_HOPELESS = 100.0
"""Multiple of the threshold of the initial loss from which it is an error, whatever makes the logits large."""

_WITHOUT_BOUND, _NEGATIVE = -100.0, 0.05
"""Loss of free outputs below which it counts as unbounded, and the distance below 0 at which it counts as negative."""
_NONE = 0.01
"""Share of the loss of a constant prediction by which other outputs must be better."""
_ALL = 0.99
"""Share of outputs without a gradient from which all outputs count as such."""
_OUTSIDE = 0.02
"""Share of targets outside of the output range from which this explains a negative loss."""
_SMALL_FLOOR = 0.2
"""Share of the way from the best constant prediction to free outputs up to which a floor must be shown to harm."""
_MOST_TARGETS, _FEWEST_TARGETS = 0.5, 4
"""Share of the targets that must be compared with wrong outputs, and the fewest targets to change."""
_SOFTMAX = "a softmax over one value is 1 whatever the value: for two classes use a sigmoid, or two outputs"


@check(
    "IS201", "loss-floor", "error", reads=("head",), follows=("IS204", "IS209"), stuck="error",
    message="The lowest loss that the outputs of {at} can reach is {value:.3g}; free outputs reach {free:.3g}{why}.",
    why="no training of the layers before it can bring the loss below this floor",
    advice="{advice}", fix="{remove}",
)  # fmt: skip
def _loss_floor(evidence: Evidence, _: float) -> Hit | None:
    """The outputs of the last layer cannot reach a low loss, because an op after it limits them."""
    head, row = evidence.head, evidence.limiting_op
    if head.outcome != "floor" or head.broadcast or evidence.flat_outputs:
        return None
    traits, why = evidence.seen.rows[row].traits, ""
    advice = "remove what limits the outputs after the last layer, or use a loss that fits them"
    if head.targets_outside and head.output_range is not None:
        low, high = head.output_range
        why = (
            f", as {100 * head.targets_outside:.0f} % of the targets lie outside of its range, {low:.3g} to {high:.3g}"
        )
        advice = "remove the activation, or scale the targets into its range"
    elif traits.drops:
        why, advice = ", as it sets outputs to zero at random", "apply dropout before the last layer, not after it"
    elif traits.probabilities and evidence.step.given:
        why = ", as its outputs are probabilities and the loss takes logits"
        advice = "remove it, or use a loss that takes probabilities"
    facts: dict[str, Any] = {"free": head.free, "why": why, "advice": advice, "remove": evidence.removal(row)}
    small = 0 < head.left < _SMALL_FLOOR and not head.targets_outside
    density = (head.free or 0.0) < -_NEGATIVE and not head.targets_outside and evidence.step.given
    level: Level | None = "warning" if small or density or evidence.ignores_targets else None
    facts |= {"start": head.start, "constant": head.constant, "fixes": evidence.removals}
    return Hit(row, head.reached, level=level, facts=facts)


@check(
    "IS202", "loss-unbounded", "error", reads=("head",),
    message="The loss of these outputs has no lower bound{limit}.",
    why="training makes outputs ever larger and learns nothing else",
    advice="use a loss that fits the outputs: cross_entropy for logits; nll_loss and kl_div take the log-probabilities "
    "of a log_softmax; binary cross-entropy takes targets from 0 to 1",
)  # fmt: skip
def _loss_unbounded(evidence: Evidence, _: float) -> Hit | None:
    """The loss has no lower bound over the outputs of the last layer, or only their range bounds it, below 0."""
    head, row = evidence.head, evidence.limiting_op
    if head.outcome == "unbounded":
        return Hit(
            evidence.signal.output, head.reached, facts={"limit": f": it fell to {head.reached:.3g} and further"}
        )
    reached, free, outside = head.reached or 0.0, head.free or 0.0, head.targets_outside or 0.0
    if reached < -_NEGATIVE and outside > _OUTSIDE:
        share = f"{100 * outside:.0f} % of the targets lie outside of the output's range"
        level: Level | None = "warning" if evidence.ignores_targets else None
        return Hit(row, reached, level=level, facts={"limit": f" at 0: it falls to {reached:.3g}, as {share}"})
    reads = evidence.facts.reading.reads_targets
    if head.outcome != "reaches" or not reads or not free < _WITHOUT_BOUND < reached < -_NEGATIVE:
        return None
    limit = f" except the range of {evidence.seen.rows[row].position}: it reaches {reached:.3g}"
    return Hit(row, reached, level="warning", facts={"limit": limit})


@check(
    "IS203", "loss-constant", "error", reads=("head",), follows=("IS605", "IS811"),
    message="The loss is {value:.3g} whatever the last layer gives: {at} does not depend on it.",
    why="a loss that does not change with the outputs has no gradient", advice="{advice}",
)  # fmt: skip
def _loss_constant(evidence: Evidence, _: float) -> Hit | None:
    """The loss is the same for all outputs of the last layer."""
    head, row = evidence.head, evidence.limiting_op
    if head.outcome != "constant" and not (head.outcome == "reaches" and head.flat > _ALL):
        return None
    single = evidence.signal.units(evidence.signal.output) == 1
    advice = _SOFTMAX if single else "look at what stands between the last layer and the loss"
    return Hit(row, head.start, facts={"advice": advice})


@check(
    "IS210", "loss-stuck", "error", reads=("head",), learning="info", stuck="error", follows=("IS312",),
    local=("IS312",),
    message="{at} passes no gradient to {percent:.0f} % of the outputs of the last layer, although others would have a "
    "lower loss.",
    why="training starts where the loss is flat and stays there",
    advice="remove what stands after the last layer, or initialize the last layer so that its outputs lie where the "
    "loss has a slope", fix="{remove}",
)  # fmt: skip
def _loss_stuck(evidence: Evidence, _: float) -> Hit | None:
    """Other outputs of the last layer have a lower loss, but no gradient leads there: of all (error) or of some."""
    row, head = evidence.limiting_op, evidence.head
    facts, last = {"remove": evidence.removal(row), "percent": 100 * head.flat}, evidence.last_layers
    dead = evidence.above_constant and evidence.seen.rows[row].traits.zero_is_off
    if head.outcome == "stuck" or dead:
        return Hit(row, head.flat, facts=facts, layers=last)
    some = evidence.flat_outputs or evidence.above_constant
    return Hit(row, head.flat, level="warning", facts=facts, layers=last) if some else None


@check(
    "IS204", "loss-broadcast", "error", reads=("head",),
    message="Outputs and targets differ in shape, so that the loss compares every sample with every other: the lowest "
    "loss is {value:.3g}, with equal shapes {paired:.3g}.",
    why="[N] and [N, 1] are broadcast to [N, N], and the best prediction is the mean of the targets",
    advice="give both the same shape: squeeze(1) or unsqueeze(1)",
)  # fmt: skip
def _loss_broadcast(evidence: Evidence, _: float) -> Hit | None:
    """Outputs and targets have the same number of values but different shapes, and the loss broadcasts them."""
    head = evidence.head
    return Hit(evidence.signal.output, head.reached, facts={"paired": head.paired}) if head.broadcast else None


@check(
    "IS211", "constant-best", "error", reads=("head", "parameters"), follows=("IS605", "IS203"),
    message="No outputs have a lower loss than the best constant prediction ({value:.3g}), although the targets vary.",
    why="the loss does not compare each output with its own target, so that there is nothing to learn from the inputs",
    advice="check what the loss takes for targets: class indices or one-hot rows, and their shape",
)  # fmt: skip
def _constant_best(evidence: Evidence, _: float) -> Hit | None:
    """The best constant prediction is as good as any outputs, although the targets vary."""
    head, output = evidence.head, evidence.signal.output
    if head.outcome != "reaches" or head.constant is None or head.reached is None or head.start is None:
        return None
    scale = max(abs(head.constant), abs(head.start - head.constant))
    useless = head.reached > head.constant - _NONE * scale and not evidence.above_constant
    level: Level | None = "warning" if evidence.ignores_targets else None
    return Hit(output, head.constant, level=level) if useless and evidence.targets_vary else None


@check(
    "IS212", "targets-elsewhere", "error", reads=("pairing",), follows=("IS204", "IS207", "IS605"),
    message="The loss compares {percent:.0f} % of the targets with the outputs of other {what}.",
    why="the targets then belong to other inputs, so the model can only memorize them",
    advice="check how outputs and targets are reshaped before the loss: transpose or permute an axis before view or "
    "reshape, and do not roll or sort one of the two",
)  # fmt: skip
def _targets_elsewhere(evidence: Evidence, _: float) -> Hit | None:
    """Changing single targets changes the loss at outputs of other samples or positions, but not at their own."""
    pairing = evidence.pairing
    for what, share in (("samples", pairing.other_samples), ("positions", pairing.other_positions)):
        if pairing.probed >= _FEWEST_TARGETS and share > _MOST_TARGETS:
            return Hit(evidence.signal.output, share, facts={"percent": 100 * share, "what": what})
    return None


@check(
    "IS213", "neglected-outputs", "error", reads=("trial",), follows=("IS204", "IS212"), learning="warning",
    message="The loss hardly depends on {what} of the outputs: the trial does not learn {them}, but learns {them} with "
    "equal weights.",
    why="the errors of a column count by its scale and its weight, so the largest column decides every step",
    advice="standardize each column of the targets, or give the terms of the loss weights of the same size",
    fix="targets = (targets - targets.mean(0)) / targets.std(0)",
)  # fmt: skip
def _neglected_outputs(evidence: Evidence, _: float) -> Hit | None:
    """Output columns have less than a thousandth of the weight of another, and are learned only with equal weights."""
    columns = evidence.trial.neglected
    if not columns:
        return None
    several = len(columns) > 1
    named = ", ".join(map(str, columns[:3])) + (", …" if len(columns) > 3 else "")
    facts = {"what": f"column{'s' if several else ''} {named}", "them": "them" if several else "it"}
    return Hit(evidence.signal.output, float(len(columns)), facts=facts)


@check(
    "IS205", "step-fails", "error",
    message="One step of training raises: {error}",
    why="a model that raises in its first step never trains",
    advice="run loss(model(inputs), targets).backward() on a few samples: check shapes, that classes count from 0 to "
    "the number of outputs minus 1, and that no tensor which a gradient needs is overwritten in place",
)  # fmt: skip
def _step_fails(evidence: Evidence, _: float) -> Hit | None:
    """Forward, loss or backward on a few samples raises; without a loss that is information."""
    step = evidence.facts.step
    if step is None or not step.failed:
        return None
    return Hit(evidence.signal.output, level=None if step.given else "info", facts={"error": step.failed})


@check(
    "IS206", "initial-loss", "error", threshold=8.0, unit="cross-entropy minus ln K, in nats", reads=("parameters",),
    message="The loss at initialization is {loss:.3g} where a uniform guess has {chance:.3g}: the logits of {at} are "
    "too large.",
    why="a network that knows nothing has cross-entropy ln K; the first steps only shrink the logits",
    advice="initialize the last layer smaller, or at zero; check that the labels are those of the outputs",
    fix='torch.nn.init.zeros_(model.get_submodule("{layer}").weight)', learning="warning", needs_norms=True,
    follows=("IS106", "IS601"),
)  # fmt: skip
def _initial_loss(evidence: Evidence, threshold: float) -> Hit | None:
    """The cross-entropy at initialization is far above ln K: an error if the last layer makes the logits large."""
    loss, chance = evidence.facts.reading.loss, evidence.facts.reading.chance
    if loss is None or chance is None or not loss - chance > threshold:
        return None
    excess = loss - chance
    error = excess > _HOPELESS * threshold or not evidence.head_gain <= _HEAD_GAIN
    row, weights = min(evidence.signal.head, evidence.signal.output), evidence.facts.weights
    tied = weights is not None and evidence.seen.rows[row].within in weights.tied
    fix = 'torch.nn.init.normal_(model.get_submodule("{layer}").weight, std=0.02)  # tied: changes the embedding too'
    facts = {"loss": loss, "chance": chance}
    return Hit(row, excess, level=None if error else "warning", fix=fix if tied else None, facts=facts)


@check(
    "IS207", "class-axis", "error", reads=("parameters", "loss"),
    message="The loss takes the second axis of the output as the classes, but {at} has the classes on the last axis.",
    why="PyTorch's losses expect the classes on the second axis",
    advice="call output.transpose(1, 2) before the loss",
)  # fmt: skip
def _class_axis(evidence: Evidence, _: float) -> Hit | None:
    """The loss takes the classes from another axis than the last layer does, and both axes have the same length."""
    output = evidence.signal.output
    last = evidence.seen.rows[output].traits.unit_axis == -1
    return Hit(output) if evidence.facts.reading.second_axis and last else None


@check(
    "IS208", "probability-output", "warning",
    message="The outputs of {at} are probabilities. With them, losses that take logits, such as cross_entropy, stay "
    "above a floor.", why="cross_entropy and binary_cross_entropy_with_logits apply a softmax or sigmoid themselves",
    advice="return logits and use cross_entropy, or use nll_loss of the logarithm, or binary_cross_entropy; pass loss= "
    "to be sure", fix="{remove}",
)  # fmt: skip
def _probability_output(evidence: Evidence, _: float) -> Hit | None:
    """The model ends in a softmax or sigmoid, and no loss is given."""
    output = evidence.signal.origin(evidence.signal.output)
    ends = evidence.seen.rows[output].traits.probabilities == "probability"
    return Hit(output, facts={"remove": evidence.removal(output)}) if ends and not evidence.step.given else None


@check(
    "IS209", "double-softmax", "warning", stuck="error",
    message="{at} is a softmax of a softmax.",
    why="a softmax of probabilities is nearly uniform, whatever they are",
    advice="remove one of the two",
)  # fmt: skip
def _double_softmax(evidence: Evidence, _: float) -> Hit | None:
    """A softmax at the output reads a softmax."""
    rows, signal = evidence.seen.rows, evidence.signal
    output = signal.origin(signal.output)
    reads = rows[output].reads
    softmaxes = [rows[index].traits.softmax_axis is not None for index in (output, *map(signal.origin, reads[:1]))]
    return Hit(output) if len(softmaxes) == 2 and all(softmaxes) else None
