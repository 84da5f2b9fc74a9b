"""IS1: what happens to the signal: values, angles, scale, gradients, units, rank, attention."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats
from initscope.inspection._checks.declaration import Hit, check, first_above, first_below
from initscope.inspection.evidence import Evidence

__all__ = ["collapsed_rows", "dead_rows"]

_FEW_DIRECTIONS = 0.05
"""Effective rank, as a share of the possible directions beyond the first, below which outputs lie near a line."""
_ALONE, _NEAR = 0.01, 0.1
"""Shares of the threshold of collapse below which it is an error, or a warning, whatever the rank is."""
_SMALL = 1e-3
"""Scale per unit, over that of the input, below which vanishing is a warning."""
_CHANCE = 2.0
"""Standard errors by which the share of dead units must exceed its threshold: among few units many die by chance."""
_SIGNAL = {"learning": "warning", "reinitialize": True, "needs_norms": True, "on_constant_data": False}
_RESAMPLE = "initscope.initializers.{initializer}(model)"
_PRESERVE = "initscope.initializers.{keeping}(model)"


@check(
    "IS101", "not-finite", "error",
    message="Values become NaN or infinite at {at}, and the output is not finite.",
    why="NaN and infinity pass through every later op and through all gradients",
    advice="look for logarithms and roots of negative values, divisions by zero, and exp or half precision that "
    "overflows in this layer",
    reinitialize=True,
)  # fmt: skip
def _not_finite(evidence: Evidence, _: float) -> Hit | None:
    """NaN or infinity reaches the output. Values that are masked on the way, as before a softmax, do not count."""
    seen = evidence.seen
    shaped = np.array([bool(row.shape) for row in seen.rows])
    nan = shaped & np.isnan(seen.norm_ratio[:, evidence.varied]).any(axis=1)
    known = np.isfinite(seen.mean_width[evidence.start])
    bad = nan | (shaped & ~np.isfinite(seen.mean_width)) if known else nan
    if not bad[evidence.signal.output]:
        return None
    origin = np.flatnonzero(bad & (nan | np.append(bad[1:], True)))
    return Hit(int(origin[0]), float(bad.sum()))


@check(
    "IS102", "gradient-not-finite", "error", reads=("parameters",), follows=("IS101",),
    message="The gradient of {at} is not finite although all values are.",
    why="the first step of training sets these weights to NaN",
    advice="look for a root or a norm at zero, or for NaN that torch.where hides: add a small constant under the root",
)  # fmt: skip
def _gradient_not_finite(evidence: Evidence, _: float) -> Hit | None:
    """A weight whose gradient is NaN or infinite while the output is finite."""
    broken = evidence.step.broken
    return Hit(evidence.row_of(broken[0]), float(len(broken)), broken[0]) if broken else None


@check(
    "IS103", "collapse", "error", threshold=0.1, unit="median angle of pairs over the input's", fix=_PRESERVE,
    message="Inputs become indistinguishable at {at}: the median angle between samples falls to {percent:.2g} % of its "
    "input value.",
    why="training cannot separate inputs whose features are parallel",
    advice="re-initialize with initscope.initializers.{keeping}, or use fewer layers, normalization or skip "
    "connections",
    references=("Nachum et al. 2022, sections 1 and 4.2",),
    follows=("IS101", "IS804", "IS112", "IS604", "IS105", "IS109"), **_SIGNAL,
)  # fmt: skip
def _collapse(evidence: Evidence, threshold: float) -> Hit | None:
    """Samples become parallel: the angle ratio is below 0.1 and the rank is lost, or it is below 0.001 at any rank."""
    for alone, level in ((_ALONE, None), (_NEAR, "warning")):
        below = np.flatnonzero(collapsed_rows(evidence, threshold, alone))
        if len(below):
            bound = float(_levels(evidence, threshold, alone)[below[0]])
            least = float(np.nanmin(evidence.angle_ratio))
            return Hit(int(below[0]), least, level=level, threshold=bound, facts={"percent": 100 * least})  # type: ignore[arg-type]
    return None


def _levels(evidence: Evidence, threshold: float, alone: float) -> Floats:
    """Return the angle ratio below which the samples of each row count as indistinguishable."""
    return np.where(evidence.directions < _FEW_DIRECTIONS, threshold, alone * threshold)


def collapsed_rows(evidence: Evidence, threshold: float, alone: float = _ALONE) -> npt.NDArray[np.bool_]:
    """Return the rows at which samples are indistinguishable, unless the last angle is above twice the bound.

    Outputs become parallel in two ways. First, their differences lie on a line (deep ReLU stacks): the effective rank
    falls with the angle. Second, biases or pooled means add one vector to all of them: the differences keep their rank,
    and the network trains well until rounding errors exceed the differences.
    """
    kept = evidence.angle_ratio
    known = kept[np.isfinite(kept)]
    end = known[-1] if len(known) else np.nan
    levels = _levels(evidence, threshold, alone)
    return np.asarray((kept < levels) & (end <= 2 * levels))


@check(
    "IS104", "expansion", "info", threshold=1.25, unit="median angle of pairs over the input's",
    message="Angles between samples grow to {value:.2g} times the input's at {at}.",
    why="zero-sum filters and batch norm make inputs orthogonal, which is often intended",
    references=("Nachum et al. 2022, section 4.2",), on_constant_data=False,
)  # fmt: skip
def _expansion(evidence: Evidence, threshold: float) -> Hit | None:
    """The angle between samples grows above 1.25 times the input's."""
    return first_above(evidence.angle_ratio, threshold)


@check(
    "IS105", "vanishing", "error", threshold=1e-6, unit="scale per unit over the input's", fix=_RESAMPLE,
    message="The signal shrinks to {value:.2g} times the input's scale; it first falls below the threshold at {at}.",
    why="outputs that hardly change with the inputs give gradients that are just as small",
    advice="re-initialize with initscope.initializers.{initializer}, or add normalization",
    references=("He et al. 2015, section 2.2",), follows=("IS101", "IS804", "IS604", "IS109"),
    **_SIGNAL | {"on_constant_data": True},
)  # fmt: skip
def _vanishing(evidence: Evidence, threshold: float) -> Hit | None:
    """The scale of the signal falls below 1e-6 of the input's before the last layer (below 1e-3: a warning).

    A product with an embedding of zeros is intended: the embedding gets a gradient first, then the other weights do.
    """
    sizes = np.where(evidence.hidden & ~evidence.after_zeros, evidence.scales, np.nan)
    return first_below(sizes, threshold) or first_below(sizes, max(threshold, _SMALL), "warning")


@check(
    "IS106", "exploding", "error", threshold=1e3, unit="scale per unit over the input's", fix=_RESAMPLE,
    message="The signal grows to {value:.2g} times the input's scale; it first exceeds the threshold at {at}.",
    why="large outputs give large gradients, and the first steps destroy the weights",
    advice="re-initialize with initscope.initializers.{initializer}, add normalization, or scale branches down",
    references=("He et al. 2015, section 2.2",), follows=("IS101",), **_SIGNAL | {"on_constant_data": True},
)  # fmt: skip
def _exploding(evidence: Evidence, threshold: float) -> Hit | None:
    """The scale of the signal rises above 1000 times the input's."""
    return first_above(evidence.scales, threshold)


@check(
    "IS107", "zero-gradient", "error", reads=("gradients",),
    message="The gradient of {at} is exactly zero{share}.",
    why="the first step does not change a layer whose gradient is zero",
    advice="re-initialize that layer or revive its dead units; intended if a later layer starts at zero (heads, "
    "residual branches)",
    follows=("IS101", "IS811", "IS812", "IS318", "IS809", "IS604", "IS109"), reinitialize=True, on_constant_data=False,
)  # fmt: skip
def _zero_gradient(evidence: Evidence, _: float) -> Hit | None:
    """Gradients are exactly zero: in all layers an error, in some of them information."""
    zero, some = np.flatnonzero(evidence.gradients == 0), bool((evidence.gradients > 0).any())
    if not len(zero):
        return None
    share = f", as in {len(zero) - 1} more layers" if len(zero) > 1 else ""
    share = share if some else ", as in all layers: nothing can learn"
    layers = tuple(evidence.seen.rows[index].within for index in zero)
    return Hit(int(zero[0]), float(len(zero)), level="info" if some else None, facts={"share": share}, layers=layers)


@check(
    "IS108", "gradient-imbalance", "error", threshold=2e3, reads=("gradients",), fix=_RESAMPLE,
    unit="growth of the gradient over the depth, from the median over pairs of blocks",
    message="Gradients {trend} over the depth: {at} gets {ratio:.2g} times the gradient of the last layer.",
    why="layers with small gradients hardly change while others take full steps",
    advice="re-initialize with initscope.initializers.{initializer}, or add skip connections around every block, or "
    "normalization before the activation",
    references=("Glorot and Bengio 2010, section 4",), follows=("IS101", "IS804", "IS110"), **_SIGNAL,
)  # fmt: skip
def _gradient_imbalance(evidence: Evidence, threshold: float) -> Hit | None:
    """Gradients shrink or grow from block to block by more than 2000 times over the whole depth.

    A single jump is not a trend, and neither are alternating widths. So the check uses the smaller of two numbers: the
    median slope over all pairs of blocks (Theil and Sen) and the median step.
    """
    passed, blocks = evidence.gradient_by_block
    if len(passed) < 3:
        return None
    logs, (first, second) = np.log(passed), np.triu_indices(len(passed), 1)
    slope = np.median((logs[second] - logs[first]) / (second - first))
    total = float(np.exp(min(abs(slope), abs(np.median(np.diff(logs)))) * (len(logs) - 1)))
    if not total > threshold:
        return None
    shrink, none_left = passed[0] < passed[-1], np.flatnonzero(evidence.gradients == 0)[:1].tolist()
    row = min([blocks[0], *none_left]) if shrink else blocks[-1]
    facts = {"trend": "vanish" if shrink else "explode", "ratio": evidence.first_gradient, "total": total}
    return Hit(row, total, facts=facts)


@check(
    "IS109", "dead-units", "error", threshold=0.5, unit="share of the units that are zero for all samples",
    fix=_RESAMPLE,
    message="{percent:.0f} % of the units of the worst layer are zero for all samples; the threshold is first exceeded "
    "at {at}.", why="a unit that is zero for all samples has no gradient and stays dead",
    advice="raise the bias, re-initialize with initscope.initializers.{initializer}, or use a leaky slope; in a "
    "trained network the learning rate was too high",
    references=("Maas et al. 2013, section 2",), follows=("IS101", "IS604"), **_SIGNAL,
)  # fmt: skip
def _dead_units(evidence: Evidence, threshold: float) -> Hit | None:
    """More than half of the units after an activation are zero for all samples, by at least two standard errors."""
    dead_at = np.flatnonzero(dead_rows(evidence, threshold))
    if not len(dead_at):
        return None
    row = evidence.seen.rows[int(dead_at[0])]
    before = {evidence.seen.rows[parent].within for parent in row.reads} | {row.within}
    weights = evidence.facts.weights
    shifted = [] if weights is None else [path for path in weights.shifted if path in before]
    fix = f'torch.nn.init.zeros_(model.get_submodule("{shifted[0]}").bias)' if shifted else None
    worst = float(evidence.seen.dead_fraction[dead_at].max())
    return Hit(int(dead_at[0]), worst, fix=fix, facts={"percent": 100 * worst})


def dead_rows(evidence: Evidence, threshold: float) -> npt.NDArray[np.bool_]:
    """Return the rows in which the share of dead units exceeds the threshold by more than chance."""
    activations = np.array([row.role == "activation" for row in evidence.seen.rows])
    judged = evidence.carrying & activations | evidence.main_path & evidence.hidden & ~activations
    margin = _CHANCE * np.sqrt(threshold * (1 - min(1.0, threshold)) / evidence.channels)
    return np.asarray(judged & (evidence.seen.dead_fraction - margin > threshold))


@check(
    "IS110", "saturated", "error", threshold=0.75, unit="share of a bounded activation's values at an end of its range",
    message="{percent:.0f} % of the values of {at} lie at the ends of its range.",
    why="at the ends a bounded activation has less than 2 % of its largest slope and passes hardly any gradient",
    advice="use smaller weights (initscope.initializers.lecun_), scale the data down, or normalize before the "
    "activation",
    fix="initscope.initializers.lecun_(model)", references=("Glorot and Bengio 2010, section 3",),
    follows=("IS101", "IS601"), **_SIGNAL | {"needs_norms": False},
)  # fmt: skip
def _saturated(evidence: Evidence, threshold: float) -> Hit | None:
    """Most values of a bounded activation before the last layer lie at an end of its range."""
    judged = evidence.hidden & evidence.carrying_or_gates
    hit = first_above(np.where(judged, evidence.seen.saturated_fraction, np.nan), threshold)
    return None if hit is None else Hit(hit.row, hit.value, facts={"percent": 100 * (hit.value or 0.0)})


@check(
    "IS111", "rank-loss", "error", threshold=1.5, unit="participation ratio of a layer's outputs", fix=_PRESERVE,
    message="From {at} on, samples differ in hardly more than one direction (effective rank {value:.2f}).",
    why="points on a line can only be separated into intervals",
    advice="re-initialize with initscope.initializers.{keeping}, or use fewer layers: a network as deep as wide loses "
    "rank by chance",
    references=("Daneshmand et al. 2020, section 3",),
    follows=("IS101", "IS103", "IS109", "IS804", "IS112", "IS604"), **_SIGNAL,
)  # fmt: skip
def _rank_loss(evidence: Evidence, threshold: float) -> Hit | None:
    """The effective rank of the outputs falls below 1.5, although data and widths allow more than 20 times that."""
    known = (evidence.most_directions > threshold) & (evidence.directions < _FEW_DIRECTIONS)
    return first_below(np.where(known, evidence.ranks, np.nan), threshold)


@check(
    "IS112", "token-collapse", "error", threshold=0.004,
    unit="1 - cosine of the tokens of a sample, over its value before the first attention",
    message="The tokens of a sample become parallel at {at}: 1 - cosine falls to {value:.2g} times its input value.",
    why="parallel tokens carry the same information, and attention cannot separate them again",
    advice="put the norm before each branch, keep the skip connections, or divide the branches by the root of their "
    "number",
    references=("Dong et al. 2021", "Noci et al. 2022"), follows=("IS101",),
    learning="warning", reinitialize=True, on_constant_data=False,
)  # fmt: skip
def _token_collapse(evidence: Evidence, threshold: float) -> Hit | None:
    """The tokens of a sample become parallel after attention."""
    spread = evidence.token_spread
    return first_below(spread, threshold) if np.isfinite(spread).any() else None


@check(
    "IS113", "attention-peaked", "error", threshold=0.3, unit="entropy of attention weights over that of uniform ones",
    message="Attention at {at} puts nearly all weight on one key: its entropy is {value:.2g} times the uniform one.",
    why="attention of low entropy at initialization makes training unstable",
    advice="divide the scores by the root of the head's size, and initialize queries and keys with Glorot's "
    "distribution",
    references=("Zhai et al. 2023",), follows=("IS101", "IS106"), learning="warning", reinitialize=True,
    on_constant_data=False,
)  # fmt: skip
def _attention_peaked(evidence: Evidence, threshold: float) -> Hit | None:
    """The entropy of attention weights is below 0.3 times that of uniform weights; uniform weights are fine."""
    return first_below(evidence.attention_entropy, threshold)
