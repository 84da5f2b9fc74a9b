"""Verdicts: where a network loses the geometry of its data, its signal or its gradients, with number and threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError
from initscope.geometry import Floats, median_over_pairs
from initscope.measurement.observation import Observation
from initscope.results import Result

__all__ = ["NAMES", "Thresholds", "Verdict", "judge"]

Name = Literal[
    "not-finite", "constant-data", "collapse", "expansion", "vanishing", "exploding", "zero-gradient",
    "gradient-imbalance", "dead-units", "saturated", "rank-loss",
]  # fmt: skip
NAMES: tuple[Name, ...] = get_args(Name)
_FEW_UNITS = 4
"""Layers of so few units have neither angles nor a rank worth judging."""
_FEW_DIRECTIONS = 0.1
"""Share of the directions beyond the first, by effective rank, below which outputs count as near a line."""
_ALONE = 0.2
"""Share of the threshold of collapse below which outputs count as collapsed in however many directions they differ."""


@dataclass(frozen=True)
class Thresholds(Result):
    """When a verdict is given; every default is printed with the report.

    Attributes
    ----------
    collapse
        Median angle of pairs over the input's, below which they count as collapsed if the outputs also differ in less
        than a tenth of the directions that they could differ in; below a fifth of it they do in any case.
    expansion
        The same from above; information, not a fault.
    vanishing, exploding
        Size per unit over the input's (``rms_ratio``).
    gradient_imbalance
        Largest over smallest median weight gradient (``gradient_ratio``) of the layers.
    dead_units
        Fraction of the units behind an activation that are zero for all samples.
    saturated
        Fraction of a bounded activation's values at an end of its range, where its slope is below 2 % of the largest.
    rank_loss
        Participation ratio of a layer's outputs.
    """

    collapse: float = 0.25
    expansion: float = 1.25
    vanishing: float = 1e-3
    exploding: float = 1e3
    gradient_imbalance: float = 100.0
    dead_units: float = 0.5
    saturated: float = 0.5
    rank_loss: float = 2.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not value > 0:
                raise InputError(f"threshold {item.name} = {value} must be positive")


@dataclass(frozen=True)
class Verdict(Result):
    """One finding: the first layer where it holds, the worst value, the threshold, why it matters and what to do.

    ``fault`` is False for what is worth knowing but not wrong (expansion, and gradients that start at zero).
    """

    name: Name
    layer: str
    value: float
    threshold: float
    source: str
    advice: str
    fault: bool = True

    def __str__(self) -> str:
        worst = f"at worst {self.value:.3g} (threshold {self.threshold:g})"
        return f"{self.name} from {self.layer} on, {worst}. {self.advice}"


_SOURCES: dict[Name, str] = {
    "not-finite": "NaN and infinity pass through every layer behind, and through all gradients",
    "constant-data": "angles, ranks and units tell nothing of samples that are all equal",
    "collapse": "Nachum et al. 2022, sections 1 and 4.2: training cannot tell inputs on one line apart",
    "expansion": "Nachum et al. 2022, section 4.2: zero-sum filters and batch norm turn inputs orthogonal",
    "vanishing": "He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
    "exploding": "He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
    "zero-gradient": "a layer whose gradient is exactly zero is left where it is by the first step",
    "gradient-imbalance": "over-parameterisation paper, section 3: at He's scale all layers' gradients are of one size",
    "dead-units": "a unit that is zero for all samples has no gradient",
    "saturated": "Glorot and Bengio 2010, section 3: at the ends of its range an activation passes hardly any gradient",
    "rank-loss": "participation ratio (tr C)²/tr C² of the outputs' covariance; below 2 the samples lie near a line",
}
_ADVICE: dict[Name, str] = {
    "not-finite": "look at what enters this layer: logarithms and roots of negative values, divisions by zero, exp or "
    "half precision that overflows",
    "constant-data": "the samples are all equal: check how the data is loaded and scaled, then inspect again",
    "collapse": "use fewer layers, mirrored weights (initscope.initializers.looks_linear_), zero-sum filters "
    "(zero_sum_), normalisation or skips",
    "expansion": "nothing to mend; to keep more of the input's angles use ZeroSum(strength=…) below 1",
    "vanishing": "use initscope.initializers.he_ (gain √2 for ReLU), or normalisation",
    "exploding": "use initscope.initializers.he_ with mode='fan_in', or normalisation; scale residual branches down",
    "zero-gradient": "fine where a layer behind starts at zero on purpose (heads, residual branches); else draw the "
    "weights of that layer, or revive its dead units",
    "gradient-imbalance": "use He's scale in every layer and widths that change slowly, or normalisation",
    "dead-units": "raise the bias, draw the weights anew (initscope.initializers.he_), or use a leaky slope; in a "
    "trained network the learning rate was too high",
    "saturated": "use smaller weights (initscope.initializers.glorot_ or lecun_), scale the data down, or normalise "
    "before the activation",
    "rank-loss": "angles have collapsed or units died before: see those verdicts first; at depths comparable to the "
    "width, independent weights lose rank by chance and initscope.initializers.looks_linear_ keeps it",
}


def judge(seen: Observation, thresholds: Thresholds | None = None) -> tuple[Verdict, ...]:
    """Verdicts on what was measured, in the order of `NAMES`."""
    limits = Thresholds() if thresholds is None else thresholds
    start = first_real_row(seen)
    varied = np.isfinite(seen.norm_ratio[start])  # samples of zeros have no size to compare with
    sizes = median_over_pairs(seen.rms_ratio[:, varied])
    found = [
        _not_finite(seen, start, varied),
        _verdict(seen, "vanishing", sizes, limits.vanishing, below=True),
        _verdict(seen, "exploding", sizes, limits.exploding, below=False),
    ]
    if seen.mean_width[start] >= 0 and np.isnan(seen.effective_rank[start]):
        found.append(_named(seen, "constant-data", start, float(seen.mean_width[start]), 0.0))
    else:
        found += _on_varied_data(seen, start, median_over_pairs(seen.gradient_ratio[:, varied]), limits)
    return tuple(sorted((item for item in found if item is not None), key=lambda item: NAMES.index(item.name)))


def first_real_row(seen: Observation) -> int:
    """The input, or the first step that makes real values of indices."""
    return int(np.argmax(np.isfinite(seen.norm_ratio).any(axis=1)))


def angles_kept(seen: Observation) -> Floats:
    """Median angle of pairs over that of the input, at every row whose angles tell something, else NaN.

    Few units have none that do. What the last weights make is left out too: a vector that is common to all outputs,
    from the bias, closes the angles there, and training moves it with the first steps. Global pooling averages places
    away by design, so that behind it angles count from those that go in.
    """
    units = _units(seen)
    judged = (units > _FEW_UNITS) & (np.arange(len(units)) < _last_weights(seen))
    angles = np.where(judged, median_over_pairs(seen.angle), np.nan)
    known = np.flatnonzero(np.isfinite(angles))
    if not len(known) or not angles[known[0]] > 0:
        return np.full(len(angles), np.nan)
    start, pooled = angles[known[0]], _global_pooling(seen)
    if pooled is not None and known[0] < pooled and angles[pooled] > 0:
        angles[pooled:] *= angles[known[known < pooled][-1]] / angles[pooled]
    return np.asarray(angles / start)


def _on_varied_data(seen: Observation, start: int, gradients: Floats, limits: Thresholds) -> list[Verdict | None]:
    kept, hidden = angles_kept(seen), np.arange(len(seen.rows)) < _last_weights(seen)
    steepest = np.nanmax(gradients, initial=0.0)
    ranks, most = _rank_of_layers(seen), _most_directions(seen, start)
    directions = np.divide(ranks - 1, most - 1, out=np.ones(len(ranks)), where=most > 1)
    return [
        _collapse(seen, kept, directions, limits.collapse),
        _verdict(seen, "expansion", kept, limits.expansion, below=False),
        _zero_gradient(seen, gradients),
        _verdict(
            seen,
            "gradient-imbalance",
            steepest / np.where(gradients > 0, gradients, np.nan),
            limits.gradient_imbalance,
            below=False,
        ),
        _verdict(seen, "dead-units", seen.dead_fraction, limits.dead_units, below=False),
        _verdict(seen, "saturated", np.where(hidden, seen.saturated_fraction, np.nan), limits.saturated, below=False),
        _verdict(seen, "rank-loss", np.where(most <= limits.rank_loss, np.nan, ranks), limits.rank_loss, below=True),
    ]


def _not_finite(seen: Observation, start: int, varied: npt.NDArray[np.bool_]) -> Verdict | None:
    """NaN or infinity that reaches the output; what is masked on the way, as before a softmax, does no harm."""
    shaped = np.array([bool(row.shape) for row in seen.rows])
    nan = shaped & np.isnan(seen.norm_ratio[:, varied]).any(axis=1)
    bad = nan | (shaped & ~np.isfinite(seen.mean_width)) if np.isfinite(seen.mean_width[start]) else nan
    if not bad[-1]:
        return None
    origin = np.flatnonzero(bad & (nan | np.append(bad[1:], True)))
    return _named(seen, "not-finite", int(origin[0]), float(bad.sum()), 0.0)


def _collapse(seen: Observation, kept: Floats, directions: Floats, threshold: float) -> Verdict | None:
    """The first row at which samples are no longer told apart, unless angles are back at twice the level at the end.

    Outputs turn parallel in two ways. Either their differences go onto a line (deep ReLU stacks): the effective rank
    falls with the angle. Or a vector is added to all of them, by biases or by pooled means: the differences stay as
    many-sided as they were, and train well until they are lost beside it.
    """
    if not np.isfinite(kept).any():
        return None
    end = kept[np.isfinite(kept)][-1]
    levels = np.where(directions < _FEW_DIRECTIONS, threshold, _ALONE * threshold)
    below = np.flatnonzero((kept < levels) & (end <= 2 * levels))
    return _named(seen, "collapse", int(below[0]), float(np.nanmin(kept)), threshold) if len(below) else None


def _zero_gradient(seen: Observation, gradients: Floats) -> Verdict | None:
    """Information as long as some layer has a gradient, which the others get from its steps."""
    zero = np.flatnonzero(gradients == 0)
    if not len(zero):
        return None
    return _named(seen, "zero-gradient", int(zero[0]), float(len(zero)), 0.0, fault=not (gradients > 0).any())


def _units(seen: Observation) -> Floats:
    """Number of units of each row, NaN where it has no values."""
    return np.array([math.prod(row.shape) if row.shape else np.nan for row in seen.rows])


def _last_weights(seen: Observation) -> int:
    """The row of the last weights; the end if there are none."""
    weights = [index for index, row in enumerate(seen.rows) if row.role == "weights"]
    return weights[-1] if weights else len(seen.rows)


def _global_pooling(seen: Observation) -> int | None:
    """The row that averages all places away, for good."""
    several = [index for index, row in enumerate(seen.rows) if math.prod(row.shape[1:]) > 1]
    pooled = several[-1] + 1 if several else 0
    return pooled if pooled < len(seen.rows) and seen.rows[pooled].role == "pooling" else None


def _most_directions(seen: Observation, start: int) -> Floats:
    """Effective rank that each row could have: the data's, or the units of the narrowest layer before it."""
    return np.asarray(np.fmin(seen.effective_rank[start], np.fmin.accumulate(_units(seen))))


def _rank_of_layers(seen: Observation) -> Floats:
    """Effective rank, where more than a few units and samples could have one."""
    return np.where((_units(seen) > _FEW_UNITS) & (seen.samples > _FEW_UNITS), seen.effective_rank, np.nan)


def _verdict(seen: Observation, name: Name, values: Floats, threshold: float, *, below: bool) -> Verdict | None:
    """The first row beyond the threshold, with the worst value of all rows."""
    beyond = np.flatnonzero(values < threshold if below else values > threshold)
    if not len(beyond):
        return None
    worst = np.nanmin(values) if below else np.nanmax(values)
    return _named(seen, name, int(beyond[0]), float(worst), threshold, fault=name != "expansion")


def _named(seen: Observation, name: Name, row: int, value: float, threshold: float, *, fault: bool = True) -> Verdict:
    return Verdict(name, seen.rows[row].layer, value, threshold, _SOURCES[name], _ADVICE[name], fault)
