"""Verdicts on how steps follow each other: what is missing, doubled or turned, whatever the weights are."""

from __future__ import annotations

import math
from collections import Counter

from initscope.graph import activation_row
from initscope.inspection.declaration import Declaration, Finding
from initscope.inspection.evidence import Evidence

__all__ = ["STRUCTURE_VERDICTS"]

_BENDING = ("activation", "attention", "gate", "recurrent", "other")
"""Roles that are not linear, or not known to be."""
_CLIPPING = ("relu", "relu6", "hardtanh", "hardsigmoid", "sigmoid")
_CLAMPS = ("clamp", "clip")
_WITHIN_ONE = ("tanh", "hardtanh", "softsign")
_OUT_OF_REACH = 0.1
"""Share of the targets beyond the ends of the last activation from which on it is a fault."""
_NEVER_MIXING = ("movement", "recurrent", "attention")
"""Roles of steps of one value that leave samples apart if they are used as meant."""
_TURNING = ("mT", "transpose", "permute", "movedim", "T", "getattr")
_NORMED = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


def _linear(evidence: Evidence, _: float) -> Finding | None:
    """No activation at all, or two layers in line whose product is one layer of no lower rank, or a slope of 1."""
    straight = () if evidence.facts.weights is None else evidence.facts.weights.straight
    if straight:
        words = "its slope below zero is 1, so that it changes nothing: LeakyReLU(inplace=True) sets no slope"
        return Finding(evidence.row_of(straight[0]), float(len(straight)), layer=straight[0], words=words)
    rows, trunk = evidence.seen.rows, evidence.signal.trunk
    weights = [index for index in trunk if rows[index].role == "weights"]
    carried = [rows[index] for index in evidence.signal.carrying]
    bent = [row for row in carried if row.role in _BENDING or (row.role == "pooling" and "max" in row.kind.lower())]
    if len(weights) > 1 and not bent:
        return Finding(weights[1], float(len(weights)), words="there is no activation between any of its layers")
    mixing = {} if evidence.facts.weights is None else evidence.facts.weights.mixing
    for index in weights:
        before = evidence.signal.origin(rows[index].reads[0]) if len(rows[index].reads) == 1 else index
        sizes = [mixing.get(rows[place].within) for place in (before, index)]
        if before == index or sizes[0] is None or sizes[1] is None or rows[before].role != "weights":
            continue
        if sizes[0][1] >= min(sizes[0][0], sizes[1][1]) and len(weights) > 3:
            return Finding(index, 2.0, words=f"no activation between {rows[before].layer} and it: both are one layer")
    return None


def _bottleneck(evidence: Evidence, threshold: float) -> Finding | None:
    """A hidden layer of the trunk that all samples leave as one number, if more came in."""
    signal = evidence.signal
    widths = [(index, signal.units(index)) for index in signal.trunk if index < signal.head]
    narrow = [index for index, units in widths if units <= threshold and evidence.seen.rows[index].role == "weights"]
    if not narrow or max(units for _, units in widths if units) <= 4 or signal.units(evidence.start) <= 4:
        return None
    return Finding(narrow[0], float(signal.units(narrow[0])))


def _norm_twice(evidence: Evidence, _: float) -> Finding | None:
    rows, origin = evidence.seen.rows, evidence.signal.origin
    normed = [index for index, row in enumerate(rows) if row.kind in _NORMED and len(row.reads) == 1]
    twice = [index for index in normed if rows[origin(rows[index].reads[0])].kind in _NORMED]
    return Finding(twice[0], 2.0) if twice else None


def _clipped_output(evidence: Evidence, _: float) -> Finding | None:
    """An activation behind the last layer: of a classifier, or one that does not reach the targets."""
    step, output = evidence.facts.step, evidence.signal.origin(evidence.signal.output)
    if step is None:
        return None
    row, last, read = evidence.seen.rows[output], evidence.seen.rows[evidence.signal.output], step.reading
    if read.classes and read.takes_logits and last.within in step.dropout.active:
        words = "it sets logits to zero by chance: drop before the last layer"
        return Finding(evidence.signal.output, 1.0, words=words)
    if read.classes and read.takes_logits and last.kind.lower() in _WITHIN_ONE:
        least = math.log1p((read.classes - 1) * math.exp(-2))
        words = f"logits between -1 and 1 leave a cross-entropy of {least:.2g} at least"
        return Finding(evidence.signal.output, least, words=words)
    clamped = row.kind in _CLAMPS and read.at_ends > _OUT_OF_REACH
    if not (row.role == "activation" or clamped) or not output > evidence.signal.head:
        return None
    if clamped and read.classes:
        return Finding(output, read.at_ends, words=f"it cuts off {100 * read.at_ends:.0f} % of the outputs")
    if read.classes and row.kind.lower() in _CLIPPING:
        return Finding(output, 1.0)
    low, high = _reach(row.kind)
    targets = evidence.seen.targets
    beyond = float(((targets < low) | (targets > high)).double().mean()) if read.distance else 0.0
    words = f"{100 * beyond:.0f} % of the targets lie outside of {low:g} to {high:g}, where its values end"
    return Finding(output, beyond, words=words) if beyond > _OUT_OF_REACH else None


def _reach(kind: str) -> tuple[float, float]:
    """Between which values the outputs of an activation lie, as far as its name tells: those of Hardtanh may be set."""
    row = activation_row(kind.lower())
    if row is None or row.ends is None or row.name == "hardtanh":
        return (0.0 if kind.lower() == "relu" else -math.inf), math.inf
    return row.ends(row.module)


def _double_softmax(evidence: Evidence, _: float) -> Finding | None:
    """A softmax at the output of a model whose loss takes logits, or two in line."""
    rows, signal, read = evidence.seen.rows, evidence.signal, evidence.facts.reading
    output = signal.origin(signal.output)
    kind = rows[output].kind.lower()
    if kind == "sigmoid" and read.takes_logits and not read.classes:
        return Finding(output, 2.0, words="the loss takes its outputs for logits, and applies a sigmoid of its own")
    if kind != "softmax":
        return None
    doubled = bool(rows[output].reads) and rows[signal.origin(rows[output].reads[0])].kind.lower() == "softmax"
    return Finding(output, 2.0) if doubled or read.takes_logits else None


def _loss_kind(evidence: Evidence, _: float) -> Finding | None:
    """A loss of log-probabilities that gets something else, or of classes on an axis where the last layer has none."""
    read, output = evidence.facts.reading, evidence.signal.output
    if read.misread:
        return Finding(output, 1.0, words=read.misread)
    if read.second_axis and evidence.seen.rows[output].kind in ("Linear", "linear"):
        words = "the loss takes its second axis for the classes, and the last layer has them on the last one"
        return Finding(output, 1.0, words=words)
    return None


def _samples_mixed(evidence: Evidence, _: float) -> Finding | None:
    """A fault where values are moved, or a softmax or a loop runs along the samples; statistics of them are meant."""
    found = evidence.facts.dependence
    if found is None or found.mixed is None:
        return None
    row = evidence.seen.rows[found.mixed]
    words = "the output of a sample depends on the other samples that it is run with"
    alone = len(row.reads) == 1 or row.kind == "scaled_dot_product_attention"
    return Finding(found.mixed, 1.0, found.apart and row.role in _NEVER_MIXING and alone, words=words)


def _axes_mixed(evidence: Evidence, _: float) -> Finding | None:
    """A view or reshape to the same axes in another order: values stay in line, so that each axis gets parts of all."""
    rows = evidence.seen.rows
    for index, row in enumerate(rows):
        if row.kind not in ("view", "reshape") or len(row.reads) != 1 or not row.shape:
            continue
        before, after = ([size for size in shape if size > 1] for shape in (rows[row.reads[0]].shape, row.shape))
        turned = before != after and sorted(before) == sorted(after)
        if turned or _heads_turned(before, after) or _heads_turned(after, before):
            told = " × ".join(str(size) for size in before), " × ".join(str(size) for size in after)
            words = f"{row.kind} turns {told[0]} into {told[1]} without moving values: is transpose or permute meant?"
            return Finding(index, 1.0, fault=False, words=words)
    return None


def _heads_turned(whole: list[int], parts: list[int]) -> bool:
    """Whether ``[tokens, heads · units]`` and ``[heads, tokens, units]`` are taken for the same values in line."""
    if len(whole) != 2 or len(parts) != 3:
        return False
    heads, tokens, units = parts
    return whole == [tokens, heads * units] and heads != tokens


def _sees_target(evidence: Evidence, _: float) -> Finding | None:
    found = evidence.facts.dependence
    if found is not None and found.forwards and evidence.facts.reading.own_words:
        words = "every place is asked for the entry that it reads: targets are not moved by one"
        return Finding(evidence.signal.output, 1.0, words=words)
    if found is None or found.told is None:
        return None
    return Finding(found.told, 1.0, words="outputs depend on the next entry of the sequence, which is their target")


def _order_unseen(evidence: Evidence, _: float) -> Finding | None:
    found = evidence.facts.dependence
    if found is None or not found.orderless:
        return None
    words = "words in any order give the same output: nothing tells their positions"
    return Finding(evidence.start, 1.0, fault=False, words=words)


def _dropout_in_eval(evidence: Evidence, _: float) -> Finding | None:
    found = evidence.facts.dependence
    if found is None or not found.dropping:
        return None
    rows = evidence.seen.rows
    calls = [index for index, row in enumerate(rows) if "dropout" in row.kind]
    words = "it drops values in evaluation mode too: F.dropout(x, p, training=self.training), unless it is meant"
    return Finding(calls[0] if calls else evidence.start, 1.0, fault=False, words=words)


def _broadcast(evidence: Evidence, _: float) -> Finding | None:
    if not evidence.facts.reading.broadcast:
        return None
    words = "outputs and targets differ in shape, so that the loss compares every sample with every other"
    return Finding(evidence.signal.output, 1.0, words=words)


def _norm_axis(evidence: Evidence, _: float) -> Finding | None:
    """A LayerNorm of turned values whose units lie where its tokens should: most norms say how many units there are.

    Channels of a convolution lie first, and are turned last before a norm: that is as it should be.
    """
    rows = evidence.seen.rows
    norms = [index for index, row in enumerate(rows) if row.kind in ("LayerNorm", "layer_norm") and row.shape]
    common = Counter(rows[index].shape[-1] for index in norms).most_common(1)
    for index in norms:
        shape, reads = rows[index].shape, rows[index].reads
        if len(reads) != 1 or rows[reads[0]].kind not in _TURNING or _units_first(evidence, rows[reads[0]].reads[0]):
            continue
        if len(shape) == 2 and shape[-2] == common[0][0] != shape[-1] and common[0][1] > 1:
            return Finding(index, float(shape[-1]))
    for index, row in enumerate(rows):
        if (
            row.kind == "BatchNorm1d"
            and len(row.shape) == 2
            and row.reads
            and _made_by_units_last(evidence, row.reads[0])
        ):
            words = f"it norms the {row.shape[0]} places, and the units before it lie on the last axis"
            return Finding(index, float(row.shape[0]), fault=False, words=words)
    return None


def _made_by_units_last(evidence: Evidence, index: int) -> bool:
    """Whether a layer that has its units on the last axis made a row, and nothing has moved them since."""
    rows = evidence.seen.rows
    while rows[index].role in ("activation", "bookkeeping", "scaling") and len(rows[index].reads) == 1:
        index = rows[index].reads[0]
    return rows[index].kind in ("Linear", "linear", "LayerNorm") and len(rows[index].shape) == 2


def _units_first(evidence: Evidence, index: int) -> bool:
    """Whether the units of a row lie on its first axis, as behind a convolution."""
    rows = evidence.seen.rows
    while rows[index].reads and rows[index].role in ("movement", "bookkeeping", "activation", "scaling", "merge"):
        if rows[index].kind in _TURNING:
            return not _units_first(evidence, rows[index].reads[0])
        index = rows[index].reads[0]
    return len(rows[index].shape) > 2 or rows[index].kind.lower().startswith(("conv", "batchnorm", "groupnorm"))


def _norm_settings(evidence: Evidence, _: float) -> Finding | None:
    strange = {} if evidence.facts.weights is None else evidence.facts.weights.norm_settings
    if not strange:
        return None
    layer, words = next(iter(strange.items()))
    return Finding(evidence.row_of(layer), float(len(strange)), False, layer, words)


STRUCTURE_VERDICTS: tuple[Declaration, ...] = (
    Declaration(
        "linear",
        _linear,
        source="layers without an activation between them are one linear layer, whatever their number",
        advice="put an activation between them",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "bottleneck",
        _bottleneck,
        source="what passes through one unit lies on a line behind it",
        advice="give this layer more units",
        threshold=1.0,
        threshold_is="values of a hidden layer for each sample, at most",
        on_constant_data=True,
    ),
    Declaration(
        "norm-twice",
        _norm_twice,
        source="the second of two batch norms in line changes nothing but doubles the parameters",
        advice="remove one of them",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "norm-axis",
        _norm_axis,
        source="Ba et al. 2016: layer norm is over the units of a token; over tokens it mixes them, and their order",
        advice="do not transpose before the norm, and give it the number of units",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "norm-settings",
        _norm_settings,
        source="BatchNorm2d(c, 0.8) sets eps; momentum is the weight of the new batch, and in Keras of the old ones",
        advice="name the arguments: eps=1e-5, momentum=0.1",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "clipped-output",
        _clipped_output,
        source="logits may have any sign; what an activation cuts off has no gradient",
        advice="remove the activation behind the last layer, or scale the targets to where its values end",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "loss-kind",
        _loss_kind,
        source="nll_loss takes logarithms of probabilities, and torch's losses have the classes on the second axis",
        advice="use cross_entropy on logits, or end with log_softmax over the axis of the classes; "
        "transpose(1, 2) brings the classes of sequences to the second axis",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "samples-mixed",
        _samples_mixed,
        source="samples of a batch are independent; a wrong axis or shape lets one see another, and its label",
        advice="check along which axis the samples lie there (batch_first=True, dim=1, reshape before permute)",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "axes-mixed",
        _axes_mixed,
        source="view and reshape keep the order of values in memory; transpose and permute move axes",
        advice="use transpose or permute where axes are to change places",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "sees-target",
        _sees_target,
        source="what sees its target copies it, and has nothing to copy when it is used",
        advice="mask the attention so that a place sees those before it and itself only, or pad on one side; ask each "
        "place for the next entry",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "order-unseen",
        _order_unseen,
        source="attention treats words as a set; Vaswani et al. 2017, section 3.5, add their positions",
        advice="add positions to the words, unless their order does not matter",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "dropout-in-eval",
        _dropout_in_eval,
        source="F.dropout drops unless it is told not to; nn.Dropout knows the mode of the model",
        advice="give training=self.training to F.dropout, or use nn.Dropout",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "broadcast",
        _broadcast,
        source="outputs [N] and targets [N, 1] are broadcast to [N, N]: the best that can be learned is their mean",
        advice="give both one shape: squeeze(1) or unsqueeze(1)",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "double-softmax",
        _double_softmax,
        source="cross-entropy takes logits; of probabilities it can never be small",
        advice="remove the softmax or sigmoid at the end, or use a loss that takes probabilities",
        on_constant_data=True,
        of_the_start=False,
    ),
)
