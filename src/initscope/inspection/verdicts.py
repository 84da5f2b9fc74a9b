"""Verdicts: where a network loses the geometry of its data, its signal or its gradients, with number and threshold.

Each verdict is one `Declaration` in `DECLARATIONS`: its name, its test, the threshold, why it matters, what to do.
To add one, add a declaration; `judge`, the report, the page and the command line read them from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from initscope.errors import InputError
from initscope.geometry import Floats
from initscope.inspection.evidence import Evidence
from initscope.measurement.observation import Observation
from initscope.results import Result

__all__ = ["DECLARATIONS", "Declaration", "Finding", "Thresholds", "Verdict", "judge", "verdict_names"]

_FEW_DIRECTIONS = 0.1
"""Share of the directions beyond the first, by effective rank, below which outputs count as near a line."""
_ALONE = 0.2
"""Share of the threshold of collapse below which outputs count as collapsed in however many directions they differ."""


class Finding(NamedTuple):
    """What a test found: the first row where it holds, and the worst value of all rows."""

    row: int
    value: float
    fault: bool = True


@dataclass(frozen=True)
class Declaration:
    """One verdict.

    Attributes
    ----------
    name : str
        As printed, and for ``--fail-on``.
    test : callable
        ``test(evidence, threshold)`` returns a `Finding`, or None where all is well.
    source, advice : str
        Why it matters, and what to do.
    threshold : float
        Beyond which the test finds something; 0 for what is a fault however little there is of it.
    threshold_is : str
        What the threshold is compared with; empty where there is none to set.
    on_constant_data : bool
        Whether it says anything of samples that are all equal.
    """

    name: str
    test: Callable[[Evidence, float], Finding | None]
    source: str
    advice: str
    threshold: float = 0.0
    threshold_is: str = ""
    on_constant_data: bool = False

    @property
    def option(self) -> str:
        """Its name in `Thresholds`."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Verdict(Result):
    """One finding: the first layer where it holds, the worst value, the threshold, why it matters and what to do.

    ``fault`` is False for what is worth knowing but not wrong (expansion, and gradients that start at zero).
    """

    name: str
    layer: str
    value: float
    threshold: float
    source: str
    advice: str
    fault: bool = True
    block: str = ""
    code: str = ""

    def __str__(self) -> str:
        worst = f"at worst {self.value:.3g} (threshold {self.threshold:g})"
        return f"{self.name} from {self.layer} on, {worst}. {self.advice}"


def judge(seen: Observation, thresholds: Thresholds | None = None) -> tuple[Verdict, ...]:
    """Verdicts on what was measured, in the order of `DECLARATIONS`."""
    limits, evidence = Thresholds() if thresholds is None else thresholds, Evidence(seen)
    found = []
    for declared in DECLARATIONS:
        if evidence.constant and not declared.on_constant_data:
            continue
        threshold = limits.of(declared)
        finding = declared.test(evidence, threshold)
        if finding is not None:
            found.append(_verdict(declared, finding, threshold, evidence))
    return tuple(found)


def _verdict(declared: Declaration, finding: Finding, threshold: float, evidence: Evidence) -> Verdict:
    layer, block = evidence.seen.rows[finding.row].layer, evidence.blocks[finding.row]
    return Verdict(
        declared.name, layer, finding.value, threshold, declared.source, declared.advice, finding.fault, block
    )


def _first_below(values: Floats, threshold: float, *, fault: bool = True) -> Finding | None:
    beyond = np.flatnonzero(values < threshold)
    return Finding(int(beyond[0]), float(np.nanmin(values)), fault) if len(beyond) else None


def _first_above(values: Floats, threshold: float, *, fault: bool = True) -> Finding | None:
    beyond = np.flatnonzero(values > threshold)
    return Finding(int(beyond[0]), float(np.nanmax(values)), fault) if len(beyond) else None


def _not_finite(evidence: Evidence, _: float) -> Finding | None:
    """NaN or infinity that reaches the output; what is masked on the way, as before a softmax, does no harm."""
    seen = evidence.seen
    shaped = np.array([bool(row.shape) for row in seen.rows])
    nan = shaped & np.isnan(seen.norm_ratio[:, evidence.varied]).any(axis=1)
    known = np.isfinite(seen.mean_width[evidence.start])
    bad = nan | (shaped & ~np.isfinite(seen.mean_width)) if known else nan
    if not bad[-1]:
        return None
    origin = np.flatnonzero(bad & (nan | np.append(bad[1:], True)))
    return Finding(int(origin[0]), float(bad.sum()))


def _constant_data(evidence: Evidence, _: float) -> Finding | None:
    start = evidence.start
    return Finding(start, float(evidence.seen.mean_width[start])) if evidence.constant else None


def _collapse(evidence: Evidence, threshold: float) -> Finding | None:
    """The first row at which samples are no longer told apart, unless angles are back at twice the level at the end.

    Outputs turn parallel in two ways. Either their differences go onto a line (deep ReLU stacks): the effective rank
    falls with the angle. Or a vector is added to all of them, by biases or by pooled means: the differences stay as
    many-sided as they were, and train well until they are lost beside it.
    """
    kept = evidence.kept
    if not np.isfinite(kept).any():
        return None
    end = kept[np.isfinite(kept)][-1]
    levels = np.where(evidence.directions < _FEW_DIRECTIONS, threshold, _ALONE * threshold)
    below = np.flatnonzero((kept < levels) & (end <= 2 * levels))
    return Finding(int(below[0]), float(np.nanmin(kept))) if len(below) else None


def _zero_gradient(evidence: Evidence, _: float) -> Finding | None:
    """Information as long as some layer has a gradient, which the others get from its steps."""
    zero = np.flatnonzero(evidence.gradients == 0)
    return Finding(int(zero[0]), float(len(zero)), not (evidence.gradients > 0).any()) if len(zero) else None


def _gradient_imbalance(evidence: Evidence, threshold: float) -> Finding | None:
    gradients = evidence.block_gradients
    steepest = np.nanmax(gradients, initial=0.0)
    return _first_above(steepest / gradients, threshold)


def _rank_loss(evidence: Evidence, threshold: float) -> Finding | None:
    return _first_below(np.where(evidence.most_directions <= threshold, np.nan, evidence.ranks), threshold)


DECLARATIONS: tuple[Declaration, ...] = (
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
    ),
    Declaration(
        "collapse",
        _collapse,
        source="Nachum et al. 2022, sections 1 and 4.2: training cannot tell inputs on one line apart",
        advice="use fewer layers, mirrored weights (initscope.initializers.looks_linear_), zero-sum filters "
        "(zero_sum_), normalisation or skips",
        threshold=0.25,
        threshold_is="median angle of pairs over the input's, if the outputs also differ in less than a tenth of the "
        "directions that they could differ in; below a fifth of it in any case",
    ),
    Declaration(
        "expansion",
        lambda evidence, threshold: _first_above(evidence.kept, threshold, fault=False),
        source="Nachum et al. 2022, section 4.2: zero-sum filters and batch norm turn inputs orthogonal",
        advice="nothing to mend; to keep more of the input's angles use ZeroSum(strength=…) below 1",
        threshold=1.25,
        threshold_is="median angle of pairs over the input's",
    ),
    Declaration(
        "vanishing",
        lambda evidence, threshold: _first_below(np.where(evidence.hidden, evidence.sizes, np.nan), threshold),
        source="He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
        advice="use initscope.initializers.he_ (gain √2 for ReLU), or normalisation",
        threshold=1e-3,
        threshold_is="size per unit over the input's",
        on_constant_data=True,
    ),
    Declaration(
        "exploding",
        lambda evidence, threshold: _first_above(evidence.sizes, threshold),
        source="He et al. 2015: the variance of each layer should neither shrink nor grow with depth",
        advice="use initscope.initializers.he_ with mode='fan_in', or normalisation; scale residual branches down",
        threshold=1e3,
        threshold_is="size per unit over the input's",
        on_constant_data=True,
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
        source="over-parameterisation paper, section 3: at He's scale all layers' gradients are of one size",
        advice="use He's scale in every layer and widths that change slowly, or normalisation",
        threshold=100.0,
        threshold_is="largest over smallest median weight gradient of the layers",
    ),
    Declaration(
        "dead-units",
        lambda evidence, threshold: _first_above(
            np.where(evidence.carrying, evidence.seen.dead_fraction, np.nan), threshold
        ),
        source="a unit that is zero for all samples has no gradient",
        advice="raise the bias, draw the weights anew (initscope.initializers.he_), or use a leaky slope; in a "
        "trained network the learning rate was too high",
        threshold=0.5,
        threshold_is="fraction of the units behind an activation that are zero for all samples",
    ),
    Declaration(
        "saturated",
        lambda evidence, threshold: _first_above(
            np.where(evidence.hidden & evidence.told, evidence.seen.saturated_fraction, np.nan), threshold
        ),
        source="Glorot and Bengio 2010, section 3: at the ends of its range an activation passes hardly any gradient",
        advice="use smaller weights (initscope.initializers.glorot_ or lecun_), scale the data down, or normalise "
        "before the activation",
        threshold=0.5,
        threshold_is="fraction of a bounded activation's values at an end of its range, where its slope is below 2 % "
        "of the largest",
    ),
    Declaration(
        "rank-loss",
        _rank_loss,
        source="participation ratio (tr C)²/tr C² of the outputs' covariance; below 2 the samples lie near a line",
        advice="angles have collapsed or units died before: see those verdicts first; at depths comparable to the "
        "width, independent weights lose rank by chance and initscope.initializers.looks_linear_ keeps it",
        threshold=2.0,
        threshold_is="participation ratio of a layer's outputs",
    ),
)


def verdict_names() -> tuple[str, ...]:
    """Names of all verdicts, in the order in which they are given."""
    return tuple(declared.name for declared in DECLARATIONS)


class Thresholds(Result):
    """When a verdict is given: the defaults of `DECLARATIONS`, or others by name; printed with every report.

    >>> Thresholds(collapse=0.1).collapse, Thresholds().rank_loss
    (0.1, 2.0)
    """

    def __init__(self, **limits: float) -> None:
        defaults = {declared.option: declared.threshold for declared in DECLARATIONS if declared.threshold_is}
        if unknown := sorted(set(limits) - set(defaults)):
            raise InputError(f"no threshold is called {', '.join(unknown)}; known: {', '.join(defaults)}")
        for name, value in limits.items():
            if not value > 0:
                raise InputError(f"threshold {name} = {value} must be positive")
        self._limits = defaults | limits

    def __getattr__(self, name: str) -> float:
        limits: dict[str, float] = self.__dict__.get("_limits", {})
        if name not in limits:
            raise AttributeError(name)
        return limits[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thresholds) and self._limits == other._limits

    def __hash__(self) -> int:
        return hash(tuple(self._limits.items()))

    def __repr__(self) -> str:
        return f"Thresholds({', '.join(f'{name}={value:g}' for name, value in self._limits.items())})"

    def of(self, declared: Declaration) -> float:
        """The threshold of a verdict."""
        return self._limits.get(declared.option, declared.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Name → threshold."""
        return dict(self._limits)
