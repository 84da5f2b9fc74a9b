"""Verdicts: where a network loses the geometry of its data, its signal or its gradients, with number and threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from initscope._results import Result
from initscope.errors import InputError
from initscope.measurement.observation import Observation
from initscope.report.geometry import Floats

__all__ = ["NAMES", "Thresholds", "Verdict", "judge"]

Name = Literal["collapse", "expansion", "vanishing", "exploding", "gradient-imbalance", "dead-units", "rank-loss"]
NAMES: tuple[Name, ...] = (
    "collapse", "expansion", "vanishing", "exploding", "gradient-imbalance", "dead-units", "rank-loss",
)  # fmt: skip


@dataclass(frozen=True)
class Thresholds(Result):
    """When a verdict is given; every default is printed with the report.

    Attributes
    ----------
    collapse
        Median angle of pairs over the input's, below which they count as collapsed.
    expansion
        The same from above; information, not a fault.
    vanishing, exploding
        Size per unit over the input's (``rms_ratio``).
    gradient_imbalance
        Largest over smallest median weight gradient (``gradient_ratio``) of the layers.
    dead_units
        Fraction of the units behind an activation that are zero for all samples.
    rank_loss
        Participation ratio of a layer's outputs.
    """

    collapse: float = 0.25
    expansion: float = 1.25
    vanishing: float = 1e-3
    exploding: float = 1e3
    gradient_imbalance: float = 100.0
    dead_units: float = 0.5
    rank_loss: float = 2.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not value > 0:
                raise InputError(f"threshold {item.name} = {value} must be positive")


@dataclass(frozen=True)
class Verdict(Result):
    """One finding: the first layer where it holds, the worst value, the threshold, why it matters and what to do.

    ``fault`` is False for what is worth knowing but not wrong (expansion).
    """

    name: Name
    layer: str
    value: float
    threshold: float
    source: str
    advice: str
    fault: bool = True

    def __str__(self) -> str:
        return f"{self.name} at {self.layer}: {self.value:.3g} (threshold {self.threshold:g}). {self.advice}"


_SOURCES: dict[Name, str] = {
    "collapse": "Nachum et al. 2022, sections 1 and 4.2: training cannot tell inputs on one line apart",
    "expansion": "Nachum et al. 2022, section 4.2: zero-sum filters and batch norm turn inputs orthogonal",
    "vanishing": "He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
    "exploding": "He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
    "gradient-imbalance": "over-parameterisation paper, section 3: at He's scale all layers' gradients are of one size",
    "dead-units": "a unit that is zero for all samples has no gradient",
    "rank-loss": "participation ratio (tr C)²/tr C² of the outputs' covariance; below 2 the samples lie near a line",
}
_ADVICE: dict[Name, str] = {
    "collapse": "use fewer layers, mirrored weights (initscope.initializers.looks_linear_), zero-sum filters "
    "(zero_sum_), normalisation or skips",
    "expansion": "nothing to mend; to keep more of the input's angles use ZeroSum(strength=…) below 1",
    "vanishing": "use initscope.initializers.he_ (gain √2 for ReLU), or normalisation",
    "exploding": "use initscope.initializers.he_ with mode='fan_in', or normalisation; scale residual branches down",
    "gradient-imbalance": "use He's scale in every layer and widths that change slowly, or normalisation",
    "dead-units": "lower the bias or the learning rate that drove them there, or use a leaky slope",
    "rank-loss": "angles have collapsed or units died before: see those verdicts first; at depths comparable to the "
    "width, independent weights lose rank by chance and initscope.initializers.looks_linear_ keeps it",
}


def judge(seen: Observation, thresholds: Thresholds | None = None) -> tuple[Verdict, ...]:
    """Verdicts on what was measured, in the order of `NAMES`."""
    limits = Thresholds() if thresholds is None else thresholds
    angles = _medians(seen.angle)
    turned = angles / angles[0]
    sizes = _medians(seen.rms_ratio)
    gradients = _medians(seen.gradient_ratio)
    steepest = np.nanmax(gradients) if np.isfinite(gradients).any() else np.nan
    imbalance = steepest / np.where(gradients > 0, gradients, np.where(gradients == 0, np.finfo(float).tiny, np.nan))
    found = [
        _verdict(seen, "collapse", turned, limits.collapse, below=True),
        _verdict(seen, "expansion", turned, limits.expansion, below=False),
        _verdict(seen, "vanishing", sizes, limits.vanishing, below=True),
        _verdict(seen, "exploding", sizes, limits.exploding, below=False),
        _verdict(seen, "gradient-imbalance", imbalance, limits.gradient_imbalance, below=False),
        _verdict(seen, "dead-units", seen.dead_fraction, limits.dead_units, below=False),
        _verdict(seen, "rank-loss", _rank_of_layers(seen, limits.rank_loss), limits.rank_loss, below=True),
    ]
    return tuple(verdict for verdict in found if verdict is not None)


def _medians(values: Floats) -> Floats:
    """Median of each row over the pairs that have a value, NaN where none has."""
    known = ~np.isnan(values).all(axis=1)
    result = np.full(len(values), np.nan)
    result[known] = np.nanmedian(values[known], axis=1)
    return result


def _rank_of_layers(seen: Observation, threshold: float) -> Floats:
    """Effective rank, where more than a few units and samples could have one; data of low rank is no layer's loss."""
    if seen.effective_rank[0] < threshold:
        return np.full(len(seen.rows), np.nan)
    units = np.array([np.prod(row.shape) if row.shape else 0 for row in seen.rows])
    return np.where((units > 4) & (seen.samples > 4), seen.effective_rank, np.nan)


def _verdict(seen: Observation, name: Name, values: Floats, threshold: float, *, below: bool) -> Verdict | None:
    """The first row beyond the threshold, with the worst value of all rows."""
    compare: Callable[[Floats, float], Floats] = np.less if below else np.greater
    beyond = np.flatnonzero(compare(np.nan_to_num(values, nan=threshold), threshold))
    if not len(beyond):
        return None
    worst = np.nanmin(values) if below else np.nanmax(values)
    layer = seen.rows[int(beyond[0])].layer
    return Verdict(name, layer, float(worst), threshold, _SOURCES[name], _ADVICE[name], fault=name != "expansion")
