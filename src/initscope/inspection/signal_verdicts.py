"""Verdicts on what becomes of the signal on its way: values, angles, sizes, gradients, units, ranks, attention."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from initscope.geometry import Floats
from initscope.inspection.declaration import Declaration, Finding, first_above, first_below
from initscope.inspection.evidence import Evidence

__all__ = ["SIGNAL_VERDICTS", "collapsed_rows", "dead_rows"]

_FEW_DIRECTIONS = 0.05
"""Share of the directions beyond the first, by effective rank, below which outputs count as near a line."""
_ALONE = 0.01
"""Share of the threshold of collapse below which outputs count as collapsed in however many directions they differ."""
_NEAR = 0.1
"""The same below which it is worth knowing."""
_SMALL = 1e-3
"""Size per unit over the input's below which it is worth knowing: training is slower, and seldom fails for it."""
_ROUNDING = ("round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "heaviside")
"""Calls whose gradient is zero wherever it exists."""
_CHANCE = 2.0
"""Standard errors by which the share of dead units has to exceed its threshold: of few units many die by chance."""


def _not_finite(evidence: Evidence, _: float) -> Finding | None:
    """NaN or infinity that reaches the output; what is masked on the way, as before a softmax, does no harm."""
    seen = evidence.seen
    shaped = np.array([bool(row.shape) for row in seen.rows])
    nan = shaped & np.isnan(seen.norm_ratio[:, evidence.varied]).any(axis=1)
    known = np.isfinite(seen.mean_width[evidence.start])
    bad = nan | (shaped & ~np.isfinite(seen.mean_width)) if known else nan
    if not bad[evidence.signal.output]:
        return _gradient_not_finite(evidence)
    origin = np.flatnonzero(bad & (nan | np.append(bad[1:], True)))
    return Finding(int(origin[0]), float(bad.sum()))


def _gradient_not_finite(evidence: Evidence) -> Finding | None:
    """NaN or infinity on the way back alone: the first step of training breaks these weights."""
    step = evidence.facts.step
    if step is None or not step.broken:
        return None
    words = "its gradient is not finite, though its values are: a root or a norm at zero, or what torch.where hides"
    return Finding(evidence.row_of(step.broken[0]), float(len(step.broken)), layer=step.broken[0], words=words)


def _constant_data(evidence: Evidence, _: float) -> Finding | None:
    start = evidence.start
    return Finding(start, float(evidence.seen.mean_width[start])) if evidence.constant else None


def _collapse(evidence: Evidence, threshold: float) -> Finding | None:
    """The first row at which samples are no longer told apart, unless angles are back at twice the level at the end.

    Outputs turn parallel in two ways. Either their differences go onto a line (deep ReLU stacks): the effective rank
    falls with the angle. Or a vector is added to all of them, by biases or by pooled means: the differences stay as
    many-sided as they were, and train well until they are lost beside it.
    """
    for alone, fault in ((_ALONE, True), (_NEAR, False)):
        below = np.flatnonzero(collapsed_rows(evidence, threshold, alone))
        if len(below):
            level = float(_levels(evidence, threshold, alone)[below[0]])
            return Finding(int(below[0]), float(np.nanmin(evidence.kept)), fault, threshold=level)
    return None


def _levels(evidence: Evidence, threshold: float, alone: float) -> Floats:
    """Below which the angles of each row count as closed."""
    return np.where(evidence.directions < _FEW_DIRECTIONS, threshold, alone * threshold)


def collapsed_rows(evidence: Evidence, threshold: float, alone: float = _ALONE) -> npt.NDArray[np.bool_]:
    """Rows at which samples are no longer told apart, and the end is not far better."""
    kept = evidence.kept
    known = kept[np.isfinite(kept)]
    end = known[-1] if len(known) else np.nan
    levels = _levels(evidence, threshold, alone)
    return np.asarray((kept < levels) & (end <= 2 * levels))


def _vanishing(evidence: Evidence, threshold: float) -> Finding | None:
    """Sizes before the head; between the threshold and a thousandth of the input's they are information.

    What a table of zeros multiplies is zero on purpose: the table gets a gradient, and then the rest.
    """
    sizes = np.where(evidence.hidden & ~evidence.behind_zeros, evidence.sizes, np.nan)
    return first_below(sizes, threshold) or first_below(sizes, _SMALL, fault=False)


def _zero_gradient(evidence: Evidence, _: float) -> Finding | None:
    """Information as long as some layer has a gradient, which others get from its steps; zeros that stay are faults."""
    step = evidence.facts.step
    if step is not None and step.stuck:
        module, told = step.stuck[0].rpartition(".")[0], ", ".join(step.stuck[:2])
        words = f"{told} and what multiplies it are zero, so that neither gets a gradient in any step"
        return Finding(evidence.row_of(module), float(len(step.stuck)), layer=step.stuck[0], words=words)
    zero = np.flatnonzero(evidence.gradients == 0)
    if not len(zero):
        return None
    rows = evidence.seen.rows
    alone = [index for index in zero if rows[index].shape[-1:] == (1,) and _softmax_reads(evidence, int(index))]
    if alone and (evidence.gradients > 0).any():
        words = "the softmax of its one unit is 1 whatever it says: take it over the axis that is to be weighed"
        return Finding(int(alone[0]), float(len(alone)), words=words)
    rounded = [index for index in sorted(evidence.signal.carrying) if rows[index].kind in _ROUNDING]
    behind = next((index for index in rounded if int(zero[0]) in evidence.signal.before(index)), None)
    words = "" if behind is None else f"{rows[behind].layer} behind it has no gradient: x + (rounded - x).detach() has"
    nothing = not (evidence.gradients > 0).any()
    return Finding(int(zero[0]), float(len(zero)), nothing or behind is not None, words=words)


def _softmax_reads(evidence: Evidence, index: int) -> bool:
    """Whether a softmax reads a row of several places, as it is."""
    rows, origin = evidence.seen.rows, evidence.signal.origin
    several = max(rows[index].shape) > 1
    return several and any(row.kind.lower() == "softmax" and origin(row.reads[0]) == index for row in rows if row.reads)


def _gradient_imbalance(evidence: Evidence, threshold: float) -> Finding | None:
    """Growth of the gradient from block to block, taken over the whole depth: single jumps are no trend.

    Nor is up and down, as of widths that alternate: the median slope of all pairs of blocks (Theil and Sen) counts
    where it is the smaller one.
    """
    passed, places = evidence.gradient_by_block
    if len(passed) < 3:
        return None
    logs, (first, second) = np.log(passed), np.triu_indices(len(passed), 1)
    slope = np.median((logs[second] - logs[first]) / (second - first))
    total = float(np.exp(min(abs(slope), abs(np.median(np.diff(logs)))) * (len(logs) - 1)))
    if not total > threshold:
        return None
    none_left = np.flatnonzero(evidence.gradients == 0)[:1].tolist()  # smaller than any number
    return Finding(min([places[0], *none_left]) if passed[0] < passed[-1] else places[-1], total)


def _rank_loss(evidence: Evidence, threshold: float) -> Finding | None:
    known = (evidence.most_directions > threshold) & (evidence.directions < _FEW_DIRECTIONS)
    return first_below(np.where(known, evidence.ranks, np.nan), threshold)


def dead_rows(evidence: Evidence, threshold: float) -> npt.NDArray[np.bool_]:
    """Rows of which more units are dead than the threshold, and than chance explains."""
    activations = np.array([row.role == "activation" for row in evidence.seen.rows])
    judged = evidence.carrying & activations | evidence.trunk & evidence.hidden & ~activations
    margin = _CHANCE * np.sqrt(threshold * (1 - min(1.0, threshold)) / evidence.channels)
    return np.asarray(judged & (evidence.seen.dead_fraction - margin > threshold))


def _dead_units(evidence: Evidence, threshold: float) -> Finding | None:
    found = np.flatnonzero(dead_rows(evidence, threshold))
    if not len(found):
        return None
    row = evidence.seen.rows[int(found[0])]
    before = {evidence.seen.rows[parent].within for parent in row.reads} | {row.within}
    weights = evidence.facts.weights
    shifted = [] if weights is None else [path for path in weights.shifted if path in before]
    code = f'torch.nn.init.zeros_(model.get_submodule("{shifted[0]}").bias)' if shifted else None
    return Finding(int(found[0]), float(evidence.seen.dead_fraction[found].max()), code=code)


def _saturated(evidence: Evidence, threshold: float) -> Finding | None:
    judged = evidence.hidden & evidence.told
    return first_above(np.where(judged, evidence.seen.saturated_fraction, np.nan), threshold)


def _token_collapse(evidence: Evidence, threshold: float) -> Finding | None:
    """1 - cosine of the tokens of a sample over the same where attention begins; only of models with attention."""
    spread = evidence.token_spread
    if not np.isfinite(spread).any():
        return None
    return first_below(spread, threshold)


def _attention_entropy(evidence: Evidence, threshold: float) -> Finding | None:
    """Weights on one key, sums that are not 1 over the keys, tokens that do not see themselves; uniform is fine."""
    entropy = evidence.attention_entropy
    sums, own = evidence.attention_sums, evidence.attention_self
    wrong = np.flatnonzero(sums > 1 + 1e-2)
    if len(wrong):
        row = int(wrong[0])
        words = "its softmax is not over the keys: their weights do not sum to 1"
        return Finding(row, float(sums[row]), words=words, measured=False)
    blind = np.flatnonzero(own == 0)
    if len(blind):
        words = "no token may look at itself: the mask is inverted"
        return Finding(int(blind[0]), 0.0, words=words, measured=False)
    return first_below(entropy, threshold)


SIGNAL_VERDICTS: tuple[Declaration, ...] = (
    Declaration(
        "not-finite",
        _not_finite,
        source="NaN and infinity pass through every layer behind, and through all gradients",
        advice="look at what enters this layer: logarithms and roots of negative values, divisions by zero, exp or "
        "half precision that overflows",
        on_constant_data=True,
    ),
    Declaration(
        "constant-data",
        _constant_data,
        source="angles, ranks and units tell nothing of samples that are all equal",
        advice="the samples are all equal: check how the data is loaded and scaled, then inspect again",
        on_constant_data=True,
        of_the_start=False,
    ),
    Declaration(
        "collapse",
        _collapse,
        source="Nachum et al. 2022, sections 1 and 4.2: training cannot tell inputs on one line apart",
        advice="draw the weights with initscope.initializers.{keeping}, or use fewer layers, normalisation or skips",
        threshold=0.1,
        threshold_is="median angle of pairs over the input's, if the outputs also differ in less than a twentieth of "
        "the directions that they could differ in; below a hundredth of it in any case; below a tenth it is told",
        code="initscope.initializers.{keeping}(model)",
        needs_norms=True,
    ),
    Declaration(
        "expansion",
        lambda evidence, threshold: first_above(evidence.kept, threshold, fault=False),
        source="Nachum et al. 2022, section 4.2: zero-sum filters and batch norm turn inputs orthogonal",
        advice="nothing to mend; to keep more of the input's angles use ZeroSum(strength=…) below 1",
        threshold=1.25,
        threshold_is="median angle of pairs over the input's",
    ),
    Declaration(
        "vanishing",
        _vanishing,
        source="He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
        advice="draw the weights with initscope.initializers.{law}, or use normalisation",
        threshold=1e-6,
        threshold_is="size per unit over the input's, on the trunk; from there to 1e-3 it is told and no fault",
        on_constant_data=True,
        code="initscope.initializers.{law}(model)",
        needs_norms=True,
    ),
    Declaration(
        "exploding",
        lambda evidence, threshold: first_above(evidence.sizes, threshold),
        source="He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
        advice="draw the weights with initscope.initializers.{law}, or use normalisation; scale residual branches down",
        threshold=1e3,
        threshold_is="size per unit over the input's, on the trunk",
        on_constant_data=True,
        code="initscope.initializers.{law}(model)",
        needs_norms=True,
    ),
    Declaration(
        "zero-gradient",
        _zero_gradient,
        source="a layer whose gradient is exactly zero is left where it is by the first step",
        advice="fine where a layer behind starts at zero on purpose (heads, residual branches); else draw the "
        "weights of that layer, or revive its dead units",
    ),
    Declaration(
        "gradient-imbalance",
        _gradient_imbalance,
        source="Glorot and Bengio 2010, section 4: gradients that shrink or grow from layer to layer leave one end "
        "of the network where it is",
        advice="draw the weights with initscope.initializers.{law}, or use skips around every block, or normalisation "
        "before the activation",
        threshold=2e3,
        threshold_is="growth of the gradient over the depth, by its median from block to block",
        code="initscope.initializers.{law}(model)",
        needs_norms=True,
    ),
    Declaration(
        "dead-units",
        _dead_units,
        source="a unit that is zero for all samples has no gradient",
        advice="raise the bias, draw the weights anew (initscope.initializers.{law}), or use a leaky slope; in a "
        "trained network the learning rate was too high",
        threshold=0.5,
        threshold_is="fraction of the units behind an activation that are zero for all samples, by two standard errors",
        code="initscope.initializers.{law}(model)",
        needs_norms=True,
    ),
    Declaration(
        "saturated",
        _saturated,
        source="Glorot and Bengio 2010, section 3: at the ends of its range an activation passes hardly any gradient",
        advice="use smaller weights (initscope.initializers.lecun_), scale the data down, or normalise "
        "before the activation",
        threshold=0.75,
        threshold_is="fraction of a bounded activation's values at an end of its range, where its slope is below 2 % "
        "of the largest",
        code="initscope.initializers.lecun_(model)",
    ),
    Declaration(
        "rank-loss",
        _rank_loss,
        source="participation ratio (tr C)²/tr C² of the outputs' covariance; near 1 the samples lie on a line",
        advice="angles have collapsed or units died before: see those verdicts first; else draw the weights with "
        "initscope.initializers.{keeping}, or use fewer layers: as deep as wide, a network loses rank by chance",
        threshold=1.5,
        threshold_is="participation ratio of a layer's outputs, if less than a twentieth of the directions is left",
        code="initscope.initializers.{keeping}(model)",
        needs_norms=True,
    ),
    Declaration(
        "token-collapse",
        _token_collapse,
        source="Dong et al. 2021, Noci et al. 2022: without strong skips attention turns tokens parallel",
        advice="put the norm before each branch, keep the skips, or scale the branches by one over the root of their "
        "number",
        threshold=0.004,
        threshold_is="1 - cosine of the tokens of a sample over the same before the first attention",
    ),
    Declaration(
        "attention-entropy",
        _attention_entropy,
        source="Zhai et al. 2023: attention of low entropy at the start makes training unstable",
        advice="divide the scores by the root of the head's size, take the softmax over the keys, let every token see "
        "itself, and draw queries and keys with Glorot's law",
        threshold=0.3,
        threshold_is="entropy of attention weights over that of uniform ones",
    ),
)
