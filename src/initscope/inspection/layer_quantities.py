"""What a report's page shows of every layer: panels against depth, columns, sections, and what is beyond bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from initscope.geometry import Comparison, Floats, Row, geometric_mean, mean_over_pairs
from initscope.inspection.blocks import fold, group, line_title
from initscope.inspection.diagnosis import relative_gradients
from initscope.inspection.evidence import Evidence
from initscope.inspection.signal_verdicts import collapsed_rows
from initscope.pages.depth import Panel
from initscope.pages.figures import behind_activations
from initscope.pages.layers import Column, Section, side_columns
from initscope.pages.page import angle_panel, size_panel
from initscope.pages.quantities import Quantity, angles, error_over_pairs, sizes
from initscope.pages.table import OF_TOKENS

if TYPE_CHECKING:
    from initscope.inspection.report import Report

__all__ = ["LayerQuantities", "layer_quantities"]

_MOST_LINES = 40
_GROUPS = 32
"""More lines than the first are folded into about as many groups as the second."""


@dataclass(frozen=True)
class LayerQuantities:
    """Panels with their rows to be marked, columns and sections of the table, rows of faults, what errors are over."""

    panels: list[Panel]
    marked: list[frozenset[int]]
    columns: list[Column]
    sections: list[Section]
    faulty: frozenset[int]
    error_is: str


def layer_quantities(report: Report, comparison: Comparison) -> LayerQuantities:
    """All of it; values count as beyond their bounds only where a verdict says that this is a fault."""
    seen, limits, rows = report.observation, report.thresholds, report.rows
    evidence = Evidence(seen, report.facts)
    trunk = np.flatnonzero(evidence.trunk).tolist()
    angle, size, gradient = angles(comparison).at(trunk), sizes(comparison), relative_gradients(report)
    start = float(next(iter(angle.measured[np.isfinite(angle.measured)]), math.nan))
    faults = {verdict.name for verdict in report.verdicts if verdict.fault}

    def beyond(values: Floats, low: tuple[str, float] | None, high: tuple[str, float] | None) -> frozenset[int]:
        wrong = np.zeros(len(values), dtype=bool)
        if low is not None and low[0] in faults:
            wrong |= values < low[1]
        if high is not None and high[0] in faults:
            wrong |= values > high[1]
        return _where(wrong)

    imbalance = limits.gradient_imbalance
    on_trunk = size.at(trunk).measured
    rank = np.where(evidence.trunk & evidence.hidden, seen.effective_rank, np.nan)
    bad = {
        "size": beyond(on_trunk, ("vanishing", limits.vanishing), ("exploding", limits.exploding)),
        "gradient": beyond(gradient, ("gradient-imbalance", 1 / imbalance), ("gradient-imbalance", imbalance)),
        "angle": _where(collapsed_rows(evidence, limits.collapse)) if "collapse" in faults else frozenset(),
        "rank": beyond(rank, ("rank-loss", limits.rank_loss), None),
        "dead": beyond(seen.dead_fraction, None, ("dead-units", limits.dead_units)),
        "saturated": beyond(seen.saturated_fraction, None, ("saturated", limits.saturated)),
    }
    first = frozenset(index for places in report.faults_begin.values() for index in places)
    drawn = [0, *behind_activations(rows, [index for index in trunk if index > 0])]
    panels = [
        size_panel(size, drawn, limits.vanishing, limits.exploding),
        _gradient_panel(report, gradient, imbalance),
        angle_panel(angle, limits.collapse * start),
        _rank_panel(rank, limits.rank_loss),
        _share_panel("dead", "units that are zero for all samples", seen.dead_fraction, limits.dead_units),
        _share_panel(
            "saturated", "values at an end of the activation's range", seen.saturated_fraction, limits.saturated
        ),
    ]
    return LayerQuantities(
        panels,
        [bad[panel.name] for panel in panels],
        _columns(report, angles(comparison), size, bad),
        _sections(rows, first),
        frozenset().union(first, *bad.values()),
        angle.error_is,
    )


def _where(mask: npt.NDArray[np.bool_]) -> frozenset[int]:
    return frozenset(np.flatnonzero(mask).tolist())


def _gradient_panel(report: Report, gradient: Floats, imbalance: float) -> Panel:
    known = mean_over_pairs(report.observation.gradient_ratio)
    relative = np.divide(gradient, known, out=np.full(len(known), np.nan), where=known > 0)
    return Panel(
        "gradient",
        "of a layer's weights, over the last's",
        "layers whose gradient is far smaller than others stay where they are",
        gradient,
        error_over_pairs(report.observation.gradient_ratio) * relative,
        _predicted_gradients(report),
        low=1 / imbalance,
        high=imbalance,
    )


def _predicted_gradients(report: Report) -> Floats | None:
    """Predicted gradients over what the last measured one is over, so that both can be compared; None: there are none.

    Rows whose gradient was not measured, as those of weights that a call multiplies by, are left out.
    """
    predicted = None if report.prediction is None else report.prediction.gradient_ratio
    measured = mean_over_pairs(report.observation.gradient_ratio)
    last = measured[np.isfinite(measured) & (measured > 0)]
    if predicted is None or not len(last) or not np.isfinite(predicted).any():
        return None
    return np.asarray(np.where(np.isfinite(measured), predicted, np.nan) / last[-1])


def _rank_panel(rank: Floats, low: float) -> Panel:
    says = "in how many directions the outputs differ; near 1 all samples lie on a line"
    return Panel("rank", "of the outputs, effective", says, rank, low=low, digits=1, least=0.0)


def _share_panel(name: str, says: str, values: Floats, high: float) -> Panel:
    return Panel(name, "units, share of all", says, values, high=high, least=0.0, most=1.0, logarithmic=False, digits=2)


def _columns(report: Report, angle: Quantity, size: Quantity, bad: dict[str, frozenset[int]]) -> list[Column]:
    seen = report.observation
    ratio, cosine = mean_over_pairs(seen.gradient_ratio), mean_over_pairs(seen.gradient_cosine)
    return [
        *side_columns(angle, "angle", "angle °", 1, bad["angle"]),
        *side_columns(size, "rms_ratio", "size", 3, bad["size"]),
        *_token_columns(report),
        Column("gradient_over_last", "gradient", relative_gradients(report), bad=bad["gradient"]),
        Column("gradient_ratio", "gradient ratio", ratio, error_over_pairs(seen.gradient_ratio), extra=True),
        *_predicted_column(report),
        Column("gradient_cosine", "gradient cosine", cosine, extra=True),
        Column("dead_fraction", "dead", seen.dead_fraction, digits=2, bad=bad["dead"]),
        Column("saturated_fraction", "saturated", seen.saturated_fraction, digits=2, bad=bad["saturated"]),
        Column("effective_rank", "rank", seen.effective_rank, digits=1, bad=bad["rank"]),
        Column("mean_width", "mean width", seen.mean_width, seen.mean_width_error, digits=2, extra=True),
    ]


def _token_columns(report: Report) -> list[Column]:
    found = report.token_columns
    return [
        Column(f"{name}_{side}", title, found[f"{name}_{side}"], side=side, extra=side == "predicted")
        for name, title in OF_TOKENS.items()
        for side in ("predicted", "measured")
        if found and np.isfinite(found[f"{name}_{side}"]).any()
    ]


def _predicted_column(report: Report) -> list[Column]:
    expected = report.prediction
    if expected is None or expected.gradient_ratio is None or not np.isfinite(expected.gradient_ratio).any():
        return []
    errors = expected.gradient_ratio_se
    return [
        Column("gradient_ratio_predicted", "gradient ratio", expected.gradient_ratio, errors, "predicted", extra=True)
    ]


def _sections(rows: Sequence[Row], faulty: frozenset[int]) -> list[Section]:
    """Blocks, and where there are very many, groups of them; those in which a fault begins are open."""
    lines = fold(rows)
    titled = [(line_title(rows, line), line[1]) for line in lines]
    titled = titled if len(lines) <= _MOST_LINES else group(rows, lines, _GROUPS)
    joins = {
        "gradient_over_last": geometric_mean,
        "gradient_ratio": geometric_mean,
        "gradient_ratio_predicted": geometric_mean,
        "attention_entropy_predicted": _mean,
        "attention_entropy_measured": _mean,
        "dead_fraction": _largest,
        "saturated_fraction": _largest,
    }
    return [Section(title, tuple(members), bool(faulty & set(members)), joins) for title, members in titled]


def _largest(values: Floats) -> float:
    return float(values.max())


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else np.nan
