"""Quantities of every layer on the page of a report: panels against depth, columns, sections, and marked rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from initscope.geometry import Comparison, Floats, Row, mean_over_pairs
from initscope.inspection._checks.signal import collapsed_rows, dead_rows
from initscope.inspection.evidence import Evidence
from initscope.rendering.depth import Panel
from initscope.rendering.figures import rows_after_activations
from initscope.rendering.folding import JOINS, fold, group, line_title
from initscope.rendering.layers import Column, Section, side_columns
from initscope.rendering.page import angle_panel, size_panel
from initscope.rendering.quantities import Quantity, angles, error_over_pairs, sizes
from initscope.rendering.table import OF_TOKENS

if TYPE_CHECKING:
    from initscope.inspection.report import Report

__all__ = ["LayerQuantities", "layer_quantities"]

_MOST_LINES = 40
_GROUPS = 32
"""Above the first number, lines are folded into about the second number of groups."""


@dataclass(frozen=True)
class LayerQuantities:
    """Figure panels, rows to mark, table columns and sections, rows with findings, and the unit of the errors."""

    panels: list[Panel]
    marked: list[frozenset[int]]
    columns: list[Column]
    sections: list[Section]
    faulty: frozenset[int]
    error_is: str


def layer_quantities(report: Report, comparison: Comparison) -> LayerQuantities:
    """Return the quantities of a report; values beyond their bounds are marked if a check reports them."""
    seen, limits, rows = report.observation, report.thresholds, report.rows
    evidence = Evidence(seen, report.facts)
    main_path = np.flatnonzero(evidence.main_path).tolist()
    angle, size, gradient = angles(comparison).at(main_path), sizes(comparison), _gradients(report)
    start = float(next(iter(angle.measured[np.isfinite(angle.measured)]), math.nan))
    faults = {finding.name for finding in (*report.errors, *report.warnings)}

    def beyond(values: Floats, low: tuple[str, float] | None, high: tuple[str, float] | None) -> frozenset[int]:
        wrong = np.zeros(len(values), dtype=bool)
        if low is not None and low[0] in faults:
            wrong |= values < low[1]
        if high is not None and high[0] in faults:
            wrong |= values > high[1]
        return _where(wrong)

    imbalance = limits.gradient_imbalance
    on_main_path = size.at(main_path).measured
    rank = np.where(evidence.main_path & evidence.hidden, seen.effective_rank, np.nan)
    bad = {
        "RMS ratio": beyond(on_main_path, ("vanishing", limits.vanishing), ("exploding", limits.exploding)),
        "gradient": beyond(gradient.measured, ("gradient-imbalance", 1 / imbalance), ("gradient-imbalance", imbalance)),
        "angle": _where(collapsed_rows(evidence, limits.collapse)) if "collapse" in faults else frozenset(),
        "rank": beyond(rank, ("rank-loss", limits.rank_loss), None),
        "dead": _where(dead_rows(evidence, limits.dead_units)) if "dead-units" in faults else frozenset(),
        "saturated": beyond(seen.saturated_fraction, None, ("saturated", limits.saturated)),
    }
    first = frozenset(index for rows_of_block in report.begins.values() for index in rows_of_block)
    drawn = [0, *rows_after_activations(rows, [index for index in main_path if index > 0])]
    panels = [
        size_panel(size, drawn, limits.vanishing, limits.exploding),
        _gradient_panel(gradient, imbalance),
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
        _columns(report, angles(comparison), size, gradient, bad),
        _sections(rows, first),
        frozenset().union(first, *bad.values()),
        angle.error_is,
    )


def _where(mask: npt.NDArray[np.bool_]) -> frozenset[int]:
    return frozenset(np.flatnonzero(mask).tolist())


def _gradients(report: Report) -> Quantity:
    """Return the gradients of the weights over the last layer's; the errors are over the pairs."""
    ratio, columns = report.observation.gradient_ratio, report.gradients_over_last
    measured, expected = columns["gradient_over_last"], columns["gradient_over_last_predicted"]
    known = mean_over_pairs(ratio)
    over = np.divide(measured, known, out=np.full(len(known), np.nan), where=known > 0)
    return Quantity(measured, error_over_pairs(ratio) * over, expected if np.isfinite(expected).any() else None)


def _gradient_panel(gradient: Quantity, imbalance: float) -> Panel:
    return Panel(
        "gradient",
        "of a layer's weights, over the last layer's",
        "layers whose gradient is far smaller than others stay where they are",
        gradient.measured,
        gradient.error,
        gradient.predicted,
        low=1 / imbalance,
        high=imbalance,
    )


def _rank_panel(rank: Floats, low: float) -> Panel:
    says = "in how many directions the outputs differ; near 1 all samples lie on a line"
    return Panel("rank", "of the outputs, effective", says, rank, low=low, least=0.0)


def _share_panel(name: str, says: str, values: Floats, high: float) -> Panel:
    return Panel(name, "units, share of all", says, values, high=high, least=0.0, most=1.0, logarithmic=False)


def _columns(
    report: Report, angle: Quantity, size: Quantity, gradient: Quantity, bad: dict[str, frozenset[int]]
) -> list[Column]:
    seen = report.observation
    predicted = np.full(len(seen.rows), np.nan) if gradient.predicted is None else gradient.predicted
    cosine = mean_over_pairs(seen.gradient_cosine)
    return [
        *side_columns(angle, "angle", "angle °", 1, bad["angle"]),
        *side_columns(size, "rms_ratio", "RMS ratio", 3, bad["RMS ratio"]),
        *_token_columns(report),
        Column("gradient_over_last_predicted", "gradient", predicted, side="predicted", extra=True),
        Column("gradient_over_last", "gradient", gradient.measured, gradient.error, "measured", bad=bad["gradient"]),
        Column("gradient_cosine", "gradient cosine", cosine, extra=True),
        Column("dead_fraction", "dead", seen.dead_fraction, digits=2, bad=bad["dead"]),
        Column("saturated_fraction", "saturated", seen.saturated_fraction, digits=2, bad=bad["saturated"]),
        Column("effective_rank", "rank", seen.effective_rank, digits=1, bad=bad["rank"]),
        Column("mean_width", "mean width", seen.mean_width, seen.mean_width_error, digits=2, extra=True),
    ]


def _token_columns(report: Report) -> list[Column]:
    columns = report.token_columns
    return [
        Column(f"{name}_{side}", title, columns[f"{name}_{side}"], side=side, extra=side == "predicted")
        for name, title in OF_TOKENS.items()
        for side in ("predicted", "measured")
        if columns and np.isfinite(columns[f"{name}_{side}"]).any()
    ]


def _sections(rows: Sequence[Row], faulty: frozenset[int]) -> list[Section]:
    """Return blocks, or groups of them if there are very many; those in which a finding begins are open."""
    lines = fold(rows)
    titled = [(line_title(rows, line), line[1]) for line in lines]
    titled = titled if len(lines) <= _MOST_LINES else group(rows, lines, _GROUPS)
    return [Section(title, tuple(members), bool(faulty & set(members)), JOINS) for title, members in titled]
