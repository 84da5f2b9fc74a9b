"""IS6: data and targets: scale, columns and channels that do not vary."""

from __future__ import annotations

import numpy as np

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence

_TINY_INPUT = 1e-3
"""Root mean square below which inputs are too small in comparison with the biases."""
_AS_EASY, _ENOUGH_SAMPLES = 0.85, 32
"""Ratio of the falls of the loss (permuted over real targets) from which both count as easy, and fewest samples."""
_CERTAIN_SAMPLES = 128
"""Samples from which it is an error that no test finds a relation between inputs and targets."""
_RELATED = 2.0
"""Permutation tests: standard deviations from which targets depend on the inputs more than by chance."""
_WIDE = 5.0
"""Angle between samples at the first weights, in degrees, from which an offset of the inputs is corrected for."""
_STANDARDIZE = "data = (data - data.mean()) / data.std()"
_BY_COLUMN = "data = (data - data.mean(0)) / (data.std(0) + 1e-6)"


@check(
    "IS601", "input-scale", "error", threshold=20.0, unit="root mean square of what enters the first weights",
    reads=("data",), learning="warning", on_constant_data=False, fix=_STANDARDIZE,
    message="What {at} feeds into the first weights has a root mean square of {value:.3g}; about 1 is usual.",
    why="initializers and learning rates are made for inputs of mean 0 and scale 1",
    advice="normalize the data: divide by 255, or subtract the mean and divide by the standard deviation",
    references=("LeCun et al. 1998, section 4.3",),
)  # fmt: skip
def _input_scale(evidence: Evidence, threshold: float) -> Hit | None:
    """Inputs of the first weights are above 20 or below 1e-3 in root mean square; a norm before them is fine."""
    data = evidence.data
    if not np.isfinite(data.size):
        return None
    size = float(data.size * evidence.entering_scale)
    if size > threshold or size < _TINY_INPUT:
        bound = threshold if size > threshold else _TINY_INPUT
        return Hit(evidence.start, size, threshold=bound, fix=_BY_COLUMN if _is_uneven(evidence, threshold) else None)
    rows = evidence.seen.rows
    inputs = [index for index, row in enumerate(rows) if row.role == "input" and row.shape]
    for index, scale in zip(inputs, data.sizes, strict=False):
        if scale > threshold and any(row.role == "weights" and index in row.reads for row in rows):
            return Hit(index, scale, fix="")
    return None


def _is_uneven(evidence: Evidence, threshold: float) -> bool:
    return evidence.data.largest_column > threshold and evidence.entering_weights == evidence.start


@check(
    "IS602", "uneven-columns", "warning", threshold=20.0, unit="RMS of a column over the median of all columns",
    reads=("data",), learning="info", on_constant_data=False, follows=("IS601",), fix=_BY_COLUMN,
    message="Column {column} is {value:.3g} times as large as most others.",
    why="the largest column decides the output, and the others hardly count",
    advice="subtract each column's mean and divide by its standard deviation",
    references=("LeCun et al. 1998, section 4.3",),
)  # fmt: skip
def _uneven_columns(evidence: Evidence, threshold: float) -> Hit | None:
    """One column of a table is 20 times as large as most others, and no norm follows."""
    if not _is_uneven(evidence, threshold):
        return None
    return Hit(evidence.start, evidence.data.largest_column, facts={"column": evidence.data.column})


@check(
    "IS603", "constant-channels", "warning", reads=("data",), stuck="error", on_constant_data=False,
    message="{constant} of {channels} channels of the input never change.",
    why="a constant channel carries no information; often an image was loaded or normalized wrongly",
    advice="check how the images are loaded and normalized",
)  # fmt: skip
def _constant_channels(evidence: Evidence, _: float) -> Hit | None:
    """A channel of the images is the same for all samples and pixels."""
    data = evidence.data
    if not data.constant_channels:
        return None
    facts = {"constant": data.constant_channels, "channels": data.channels}
    return Hit(evidence.start, float(data.constant_channels), facts=facts)


@check(
    "IS604", "constant-data", "error",
    message="All samples are equal.",
    why="nothing can be learned from, or said about, samples that are all equal",
    advice="check how the data is loaded and scaled, then inspect again",
)  # fmt: skip
def _constant_data(evidence: Evidence, _: float) -> Hit | None:
    """All samples are equal."""
    return Hit(evidence.start) if evidence.constant else None


@check(
    "IS605", "constant-targets", "error", reads=("targets",),
    message="All targets are equal.", why="a constant solves the task, and nothing is learned about the inputs",
    advice="check how the targets are loaded: a wrong column, a cast to whole numbers, or one folder",
)  # fmt: skip
def _constant_targets(evidence: Evidence, _: float) -> Hit | None:
    """All targets are equal, and the loss reads them."""
    targets, level = evidence.seen.targets, None if evidence.facts.loss_name else "warning"
    known = hasattr(targets, "flatten") and targets.numel() > 1
    ignored = evidence.step.given and not evidence.facts.reading.reads_targets
    equal = known and not ignored and bool((targets == targets.flatten()[0]).all())
    return Hit(evidence.signal.output, level=level) if equal else None  # type: ignore[arg-type]


@check(
    "IS608", "input-offset", "warning", threshold=0.02, unit="RMS of inputs around their mean over their RMS",
    reads=("data",), learning="info", stuck="error", on_constant_data=False, follows=("IS601", "IS602"),
    fix=_STANDARDIZE,
    message="The inputs vary by {percent:.2g} % of their root mean square: a constant makes up nearly all of them.",
    why="what differs between samples is lost next to what is common to all; often data are normalized twice",
    advice="subtract the mean of the data, and divide by their standard deviation",
    references=("LeCun et al. 1998, section 4.3",),
)  # fmt: skip
def _input_offset(evidence: Evidence, threshold: float) -> Hit | None:
    """Inputs vary by less than 2 % of their root mean square, and no norm follows."""
    variation, entering = evidence.data.variation, evidence.entering_angle
    if variation >= threshold or entering > _WIDE:
        return None
    return Hit(evidence.start, variation, facts={"percent": 100 * variation})


@check(
    "IS607", "shuffled-targets", "error", reads=("trial",), follows=("IS201", "IS320"),
    message="The targets are no easier to learn than permuted ones: {real:.0f} % of the possible fall of the loss "
    "against {permuted:.0f} %.",
    why="inputs and targets that do not belong together can be memorized, but nothing is learned",
    advice="check that inputs and targets are in the same order: shuffle both together",
    references=("Zhang et al. 2017, section 2",),
)  # fmt: skip
def _shuffled_targets(evidence: Evidence, _: float) -> Hit | None:
    """Permuted targets are learned as fast as the real ones, no test finds a relation, and nothing carries over."""
    trial, use = evidence.trial, evidence.trial.use or 0.0
    few = trial.samples < _ENOUGH_SAMPLES
    if trial.outcome != "learns" or trial.permuted is None or few or evidence.ignores_targets:
        return None
    relation = evidence.data.relation
    level = None if relation is not None and evidence.seen.samples >= _CERTAIN_SAMPLES else "warning"
    related = any(value is not None and value > _RELATED for value in (relation, trial.held_out))
    if trial.permuted < _AS_EASY * use or related:
        return None
    shares = {"real": 100 * use, "permuted": 100 * trial.permuted, "relation": relation}
    return Hit(evidence.start, trial.permuted / use, level=level, facts=shares)  # type: ignore[arg-type]


@check(
    "IS606", "target-scale", "warning", threshold=1e3, unit="RMS of the targets over that of the outputs",
    reads=("loss", "parameters"), learning="info", stuck="error",
    message="The targets are {value:.3g} times as large as the outputs.",
    why="one step moves the outputs by about the learning rate: targets far away are not reached",
    advice="standardize the targets, and undo it in the predictions",
    fix="targets = (targets - targets.mean()) / targets.std()",
)  # fmt: skip
def _target_scale(evidence: Evidence, threshold: float) -> Hit | None:
    """Real-valued targets have a root mean square above 1000 times that of the outputs, or of 1."""
    size = evidence.facts.reading.target_size
    return Hit(evidence.signal.output, size) if size > threshold else None
