"""IS8: the order of ops: what is missing, doubled or on the wrong axis, whatever the weights are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence

_BENDING = ("activation", "attention", "gate", "recurrent", "other")
"""Roles of ops that are not linear, or may not be."""
_STRUCTURAL = {"learning": "info", "stuck": "error"}
_ALIKE = 0.3
"""Correlation of neighboring values from which they count as similar."""
_LINEAR = "layers without an activation between them are one linear layer"


@check(
    "IS801", "no-activation", "warning", **_STRUCTURAL, why=_LINEAR, advice="put an activation between the layers",
    message="There is no activation between any of the {count} layers: together they are one linear map.",
)  # fmt: skip
def _no_activation(evidence: Evidence, _: float) -> Hit | None:
    """A network of several layers is linear."""
    weights = _main_path_weights(evidence)
    rows = [evidence.seen.rows[index] for index in evidence.signal.carrying]
    bent = any(row.role in _BENDING or (row.traits.pools and row.traits.pools.kind in ("max", "min")) for row in rows)
    return None if bent or len(weights) < 2 else Hit(weights[1], float(len(weights)), facts={"count": len(weights)})


def _main_path_weights(evidence: Evidence) -> list[int]:
    return [index for index in evidence.signal.main_path if evidence.seen.rows[index].role == "weights"]


@check(
    "IS802", "adjacent-linear", "warning", **_STRUCTURAL, reads=("weights",), follows=("IS801",), why=_LINEAR,
    message="There is no activation between {before} and {at}: both together are one linear layer.",
    advice="put an activation between them, or remove one of the two",
)  # fmt: skip
def _adjacent_linear(evidence: Evidence, _: float) -> Hit | None:
    """Two layers follow each other without an activation, and neither reduces the rank of their product."""
    rows, mixing, weights = evidence.seen.rows, evidence.weights.mixing, _main_path_weights(evidence)
    for index in weights:
        before = evidence.signal.origin(rows[index].reads[0]) if len(rows[index].reads) == 1 else index
        first, second = mixing.get(rows[before].within), mixing.get(rows[index].within)
        if before == index or first is None or second is None or rows[before].role != "weights":
            continue
        if first[1] >= min(first[0], second[1]) and len(weights) > 3:
            return Hit(index, 2.0, facts={"before": rows[before].position})
    return None


@check(
    "IS803", "linear-slope", "warning", **_STRUCTURAL, reads=("weights",), why=_LINEAR,
    message="{at} has a slope of 1 below zero, so that it changes nothing.",
    advice="set a slope such as 0.01; LeakyReLU(True) sets the slope, LeakyReLU(inplace=True) does not",
    fix='model.get_submodule("{layer}").negative_slope = 0.01',
)  # fmt: skip
def _linear_slope(evidence: Evidence, _: float) -> Hit | None:
    """A leaky activation has slope 1 on both sides."""
    straight = evidence.weights.straight
    return Hit(evidence.row_of(straight[0]), float(len(straight)), straight[0]) if straight else None


@check(
    "IS804", "bottleneck", "warning", **_STRUCTURAL, threshold=1.0, unit="values of a hidden layer per sample, at most",
    message="All of the signal passes through {at}, which has {count}.",
    why="the output of one unit puts all samples on a line", advice="give this layer more units",
)  # fmt: skip
def _bottleneck(evidence: Evidence, threshold: float) -> Hit | None:
    """A hidden layer that all of the signal passes through has one unit, although its input has more."""
    signal = evidence.signal
    widths = [(index, signal.units(index)) for index in signal.main_path if index < signal.head]
    narrow = [index for index, units in widths if units <= threshold and evidence.seen.rows[index].role == "weights"]
    if not narrow or max(units for _, units in widths if units) <= 4 or signal.units(evidence.start) <= 4:
        return None
    units = signal.units(narrow[0])
    return Hit(narrow[0], float(units), facts={"count": "1 unit" if units == 1 else f"{units} units"})


@check(
    "IS805", "norm-twice", "warning", learning="info",
    message="{at} normalizes what another batch norm has just normalized.",
    why="the second of two batch norms in a row changes nothing but doubles the parameters",
    advice="remove one of them",
)  # fmt: skip
def _norm_twice(evidence: Evidence, _: float) -> Hit | None:
    """A batch norm reads a batch norm."""
    rows, origin = evidence.seen.rows, evidence.signal.origin
    batch = {index for index, kind in evidence.signal.norms.items() if kind == "batch"}
    twice = [i for i in sorted(batch) if len(rows[i].reads) == 1 and origin(rows[i].reads[0]) in batch]
    return Hit(twice[0], 2.0) if twice else None


@check(
    "IS806", "norm-axis", "warning", **_STRUCTURAL,
    message="{at} normalizes over {count} positions instead of over the units.",
    why="a norm over tokens or positions mixes them, and their order",
    advice="do not transpose before the norm, and give it the number of units",
    references=("Ba et al. 2016, section 3",),
)  # fmt: skip
def _norm_axis(evidence: Evidence, _: float) -> Hit | None:
    """A LayerNorm runs over transposed values, or a BatchNorm1d over positions while the units are on the last axis.

    Convolutions have their channels on the first axis, and moving them to the last axis for a norm is correct.
    """
    rows, kinds = evidence.seen.rows, evidence.signal.norms
    norms = [index for index, kind in kinds.items() if kind in ("layer", "rms") and rows[index].shape]
    common = Counter(rows[index].shape[-1] for index in norms).most_common(1)
    for index in norms:
        shape, reads = rows[index].shape, rows[index].reads
        if (
            len(reads) != 1
            or not rows[reads[0]].traits.permutes_axes
            or _units_first(evidence, rows[reads[0]].reads[0])
        ):
            continue
        if len(shape) == 2 and shape[-2] == common[0][0] != shape[-1] and common[0][1] > 1:
            return Hit(index, float(shape[-1]), facts={"count": shape[-1]})
    for index, kind in kinds.items():
        row = rows[index]
        if kind == "batch" and len(row.shape) == 2 and row.reads and _units_last(evidence, row.reads[0]):
            return Hit(index, float(row.shape[0]), facts={"count": row.shape[0]})
    return None


def _units_last(evidence: Evidence, index: int) -> bool:
    """Return whether a row comes from a layer with units on the last axis, and no op has moved the axes since."""
    rows = evidence.seen.rows
    while rows[index].role in ("activation", "bookkeeping", "scaling") and len(rows[index].reads) == 1:
        index = rows[index].reads[0]
    made = rows[index].traits.unit_axis == -1 or evidence.signal.norms.get(index) in ("layer", "rms")
    return made and len(rows[index].shape) == 2


def _units_first(evidence: Evidence, index: int) -> bool:
    """Return whether the units of a row are on its first axis, as after a convolution."""
    rows = evidence.seen.rows
    while rows[index].reads and rows[index].role in ("movement", "bookkeeping", "activation", "scaling", "merge"):
        if rows[index].traits.permutes_axes:
            return not _units_first(evidence, rows[index].reads[0])
        index = rows[index].reads[0]
    first = rows[index].traits.unit_axis == 0 or evidence.signal.norms.get(index) in ("batch", "group", "instance")
    return len(rows[index].shape) > 2 or first


@check(
    "IS807", "norm-eps", "warning", reads=("weights",), threshold=0.05, unit="eps of a norm",
    message="{at} has eps = {value:g}, next to variances of about 1.",
    why="the second argument of BatchNorm2d is eps, not momentum", advice="name the arguments: eps=1e-5, momentum=0.1",
    fix='model.get_submodule("{layer}").eps = 1e-5',
)  # fmt: skip
def _norm_eps(evidence: Evidence, threshold: float) -> Hit | None:
    """A norm has an eps above 0.05."""
    return _setting(evidence, evidence.weights.norm_eps, threshold)


@check(
    "IS808", "norm-momentum", "warning", reads=("weights",), threshold=0.5, unit="momentum of a batch norm",
    message="{at} has momentum = {value:g}, so that evaluation uses the statistics of the last batch.",
    why="PyTorch's momentum is the weight of the new batch, Keras's is that of the old ones",
    advice="set momentum = 1 - the momentum of Keras", fix='model.get_submodule("{layer}").momentum = 0.1',
)  # fmt: skip
def _norm_momentum(evidence: Evidence, threshold: float) -> Hit | None:
    """A batch norm has a momentum above 0.5."""
    return _setting(evidence, evidence.weights.norm_momentum, threshold)


def _setting(evidence: Evidence, settings: dict[str, float], threshold: float) -> Hit | None:
    layer = next((path for path, value in settings.items() if value > threshold), None)
    return None if layer is None else Hit(evidence.row_of(layer), settings[layer], layer)


@check(
    "IS809", "dropout-all", "error", reads=("parameters",),
    message="{at} drops everything in training: nothing before it can learn.",
    why="with p = 1 the output is zero in training mode", advice="use a probability such as 0.1",
    fix='model.get_submodule("{layer}").p = 0.1',
)  # fmt: skip
def _dropout_all(evidence: Evidence, _: float) -> Hit | None:
    """A dropout layer has p = 1."""
    dropping = evidence.step.dropout.all
    if not dropping:
        return None
    row = evidence.row_of(dropping[0])
    before = tuple(evidence.seen.rows[index].within for index in evidence.signal.before(row))
    return Hit(row, 1.0, dropping[0], layers=before)


@check(
    "IS810", "dropout-high", "warning", reads=("parameters",), threshold=0.9, unit="probability of dropout",
    message="{at} has p = {value:g} and drops {percent:.0f} % of the values. Did you mean the keep probability?",
    why="PyTorch's p is the probability of dropping a value", advice="use 1 - p",
    fix='model.get_submodule("{layer}").p = {kept:.3g}', **_STRUCTURAL,
)  # fmt: skip
def _dropout_high(evidence: Evidence, threshold: float) -> Hit | None:
    """A dropout layer drops more than 90 % of the values."""
    shares = {path: p for path, p in evidence.step.dropout.shares.items() if threshold < p < 1}
    if not shares:
        return None
    layer, share = next(iter(shares.items()))
    return Hit(evidence.row_of(layer), share, layer, facts={"percent": 100 * share, "kept": 1 - share})


@check(
    "IS811", "softmax-single", "error", reads=("gradients",), on_constant_data=False,
    message="The softmax over the one unit of {at} is always 1, so that {at} gets no gradient.",
    why="a softmax over one value does not depend on it",
    advice="take the softmax over the axis that is to be weighed; for two classes use a sigmoid or two outputs",
)  # fmt: skip
def _softmax_single(evidence: Evidence, _: float) -> Hit | None:
    """A softmax reads a layer of one unit along that unit."""
    single = [index for index, row in enumerate(evidence.seen.rows) if row.shape[-1:] == (1,)]
    zero = [index for index in single if evidence.gradients[index] == 0 and _softmax_reads(evidence, index)]
    return Hit(zero[0], float(len(zero))) if zero else None


def _softmax_reads(evidence: Evidence, index: int) -> bool:
    """Return whether a softmax reads a row without an op in between."""
    rows, origin = evidence.seen.rows, evidence.signal.origin
    return any(row.traits.softmax_axis is not None and origin(row.reads[0]) == index for row in rows if row.reads)


@check(
    "IS812", "rounding", "error", reads=("gradients",), on_constant_data=False,
    message="{rounded} has no gradient, so that {at} before it does not learn.",
    why="rounding is flat wherever it has a slope",
    advice="let the gradient pass: x + (rounded - x).detach()", references=("Bengio et al. 2013",),
)  # fmt: skip
def _rounding(evidence: Evidence, _: float) -> Hit | None:
    """Weights whose gradient is zero because a later op rounds."""
    rows = evidence.seen.rows
    zero = [index for index in range(len(rows)) if evidence.gradients[index] == 0]
    for index in sorted(evidence.signal.carrying) if zero else ():
        if rows[index].traits.rounds and zero[0] in evidence.signal.before(index):
            return Hit(zero[0], float(len(zero)), facts={"rounded": rows[index].layer})
    return None


@check(
    "IS813", "axis-order", "warning",
    message="{kind} at {at} turns {before} into {after} without moving values{why}. Did you mean transpose or permute?",
    why="view and reshape keep the order of values in memory, so every new axis mixes values of the old axes",
    advice="use transpose or permute to swap axes",
)  # fmt: skip
def _axis_order(evidence: Evidence, _: float) -> Hit | None:
    """A view or reshape swaps the lengths of axes, also where it splits the units into heads.

    It is an error if neighboring values of the data are no longer similar after it, and information in a model that
    learns.
    """
    rows = evidence.seen.rows
    for index, row in enumerate(rows):
        if not row.traits.reshapes or len(row.reads) != 1 or not row.shape or _is_permuted(evidence, row.reads[0]):
            continue
        before, after = ([size for size in shape if size > 1] for shape in (rows[row.reads[0]].shape, row.shape))
        permuted = before != after and sorted(before) == sorted(after)
        if permuted or _heads_moved(before, after) or _heads_moved(after, before):
            sizes = {"before": " × ".join(map(str, before)), "after": " × ".join(map(str, after))}
            torn = _tears_neighbors(evidence, index)
            level = "error" if torn else "info" if evidence.harm == "none" else None
            why = ", and neighboring values of the data are no longer similar" if torn else ""
            return Hit(index, level=level, facts={"kind": row.kind, "why": why, **sizes})  # type: ignore[arg-type]
    return None


def _tears_neighbors(evidence: Evidence, index: int) -> bool:
    """Return whether neighboring values of the input are similar before a reshape of the input, but not after it."""
    row, values = evidence.seen.rows[index], evidence.seen.x
    given = hasattr(values, "reshape") and evidence.seen.rows[row.reads[0]].role == "input"
    if not given or values[0].numel() != np.prod(row.shape) or not values.is_floating_point():
        return False
    before, after = _likeness(values), _likeness(values.reshape(len(values), *row.shape))
    return before > _ALIKE and after < before / 2


def _likeness(values: Any) -> float:
    """Return the correlation of neighboring values along an axis, the mean over all axes with more than four values."""
    array = values.detach().double().cpu().numpy()
    pairs = []
    for axis in range(1, array.ndim):
        size = array.shape[axis]
        if size > 4:
            pairs.append((array.take(range(1, size), axis), array.take(range(size - 1), axis)))
    return float(np.mean([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs])) if pairs else 0.0


def _is_permuted(evidence: Evidence, index: int) -> bool:
    """Return whether axes were permuted between the last computation and a row."""
    rows = evidence.seen.rows
    while rows[index].role in ("movement", "bookkeeping") and rows[index].reads:
        if rows[index].traits.permutes_axes:
            return True
        index = rows[index].reads[0]
    return False


def _heads_moved(whole: list[int], parts: list[int]) -> bool:
    """Return whether a view reads ``[tokens, heads · units]`` as ``[heads, tokens, units]`` without a transpose."""
    if len(whole) != 2 or len(parts) != 3:
        return False
    heads, tokens, units = parts
    return whole == [tokens, heads * units] and heads != tokens
