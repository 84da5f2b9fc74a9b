"""The one-file page of a `Report`: the diagnosis, what to type, before and after, pictures, verdicts, layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.geometry import ROUNDING, Comparison, Measurement
from initscope.inspection.alternatives import Alternative
from initscope.inspection.diagnosis import layer_title
from initscope.inspection.layer_quantities import layer_quantities
from initscope.inspection.verdicts import DECLARATIONS, Verdict
from initscope.rendering.depth import drawn_panels
from initscope.rendering.folding import folding_told
from initscope.rendering.layers import layer_table, page_data
from initscope.rendering.page import comparison_context, render_part
from initscope.rendering.summary import headline
from initscope.rendering.table import with_error
from initscope.rendering.thumbnails import Thumbnail, thumbnails

if TYPE_CHECKING:
    from initscope.inspection.report import Report

__all__ = ["as_comparison", "render_report", "table_texts"]

_DIGITS = {
    "angle_predicted": 1,
    "angle_measured": 1,
    "rms_ratio_predicted": 3,
    "rms_ratio_measured": 3,
    "gradient_over_last_predicted": 3,
    "gradient_over_last": 3,
    "gradient_cosine": 3,
    "dead_fraction": 2,
    "saturated_fraction": 2,
    "effective_rank": 1,
    "mean_width": 2,
    "token_cosine_predicted": 3,
    "token_cosine_measured": 3,
    "attention_entropy_predicted": 3,
    "attention_entropy_measured": 3,
}


def as_comparison(report: Report) -> Comparison:
    """Prediction and measurement of the report's pairs; without draws those of the weights as they are."""
    measured = report.measurement
    if measured is None:
        seen = report.observation
        unknown = np.full_like(seen.cosine, np.nan)
        single = np.full(len(seen.rows), np.nan)
        measured = Measurement(
            seen.rows,
            seen.cosine,
            seen.norm_ratio,
            seen.rms_ratio,
            unknown,
            unknown,
            single,
            single,
            draws=0,
            seed=0,
            gap=seen.gap,
        )
    return Comparison(report.prediction, measured, report.title)


def render_report(report: Report, *, fragment: bool = False) -> str:
    """The page as text, or what of it a notebook's cell shows."""
    seen, comparison = report.observation, as_comparison(report)
    facts = {
        "model": report.title,
        "mode": seen.mode,
        "how the model was read": seen.fallback or "symbolic trace",
    }
    images = (seen.x, seen.y) if getattr(seen.x, "ndim", 0) == 4 else None
    found = layer_quantities(report, comparison)
    depth = drawn_panels(found.panels, [row.title for row in report.rows], found.marked)
    to_do = _what_to_do(report)
    context = comparison_context(comparison, facts, images) | to_do
    context |= {
        "body": "report.html",
        "title": report.diagnosis,
        "subtitle": f"{report.title}: {seen.pairs} pairs, {seen.mode} mode",
        "cautions": report.cautions,
        "versus": _versus(report),
        "what_if": _what_if(report),
        "verdicts": [
            vars(verdict) | _told(report, verdict, to_do["code"])
            for verdict in sorted(report.verdicts, key=lambda one: not one.fault)
        ],
        "faults": sum(verdict.fault for verdict in report.verdicts),
        "headline": headline(comparison),
        "depth": depth,
        "error_is": found.error_is,
        "has_gradients": True,
        "layers": layer_table(report.rows, found.columns, found.sections, found.faulty),
        "data": page_data(report.rows, found.columns, depth["data"]),
        "deviating": _deviating(report),
        "more": "".join(_parts(report)),
        "thresholds": report.thresholds.to_dict(),
    }
    return render_part("report.html" if fragment else "page.html", **context)


def _told(report: Report, verdict: Verdict, code: str) -> dict[str, str]:
    """Where a verdict holds and what its value is, in words; what to type, unless that is ``code``, at the top."""
    told = next((declared.threshold_is for declared in DECLARATIONS if declared.name == verdict.name), "")
    number_is = told if told != verdict.value_is else ""
    own = "" if verdict.code is None or _typed(verdict.code) == code else verdict.code
    at = layer_title(report, verdict.layer)
    return {"where": at, "value_is": verdict.value_is, "number_is": number_is, "code": own}


def _what_to_do(report: Report) -> dict[str, str]:
    """What to type, what it is, and what to do beside: the best start if it helps, else the first fault's code.

    Where the best start changes the architecture by hand, the best weight law is what can be typed.
    """
    nothing = {"code": "", "code_is": "", "advice": ""}
    table = report.what_if
    if report.healthy:
        return nothing
    if table is not None and table.helps:
        best, law = table.best, table.best_law
        if best.code:
            return {"code": _typed(best.code), "code_is": best.name, "advice": best.advice}
        said = {"advice": f"Best of what was tried, {best.name}: {best.advice}"}
        if law is not None and law.code and law.name != table.current and not law.crossed:
            return (
                nothing
                | said
                | {"code": _typed(law.code), "code_is": f"{law.name}, the best that changes weights only"}
            )
        return nothing | said
    untried = {"advice": "" if table is None else table.untried}
    for verdict in report.verdicts:
        if verdict.fault and verdict.code:
            return untried | {"code": _typed(verdict.code), "code_is": f"against {verdict.name}"}
    return nothing | untried


def _typed(code: str) -> str:
    return f"import initscope\n{code}" if code.startswith("initscope.") else code


def _versus(report: Report) -> dict[str, Any] | None:
    """The network as it is beside the best start, number by number, each marked by its threshold."""
    table = report.what_if
    if table is None or report.healthy or not table.helps:
        return None
    before = next((item for item in table.alternatives if item.name == table.current), None)
    if before is None:
        return None
    both, limits = (before, table.best), report.thresholds

    def line(name: str, texts: list[str], bad: list[bool]) -> dict[str, Any]:
        marks = ["bad" if wrong else "fine" for wrong in bad] if any(bad) else ["", ""]
        return {"name": name, "before": texts[0], "after": texts[1], "mark": marks}

    def numbers(name: str, attribute: str, low: float, high: float) -> dict[str, Any]:
        values = [float(getattr(item, attribute)) for item in both]
        return line(name, [_short(value) for value in values], [not low <= value <= high for value in values])

    return {
        "before": before.name,
        "after": table.best.name,
        "lines": [
            line("faults", [_faults(item) for item in both], [bool(item.crossed) for item in both]),
            numbers("angle kept, of\u00a01", "angle_ratio", limits.collapse, np.inf),
            numbers("size at the end, of\u00a01", "rms_ratio", limits.vanishing, limits.exploding),
            numbers("largest over smallest gradient", "gradient_spread", 0.0, limits.gradient_imbalance),
            numbers("score, of\u00a01", "score", 0.0, np.inf),
        ],
    }


def _faults(item: Alternative) -> str:
    return ", ".join(item.crossed) or "none"


def _what_if(report: Report) -> str:
    table = report.what_if
    if table is None or not table.alternatives:
        return ""
    return render_part(
        "what_if.html",
        alternatives=table.alternatives,
        current=table.current,
        score=table.score_is,
        skipped=table.skipped,
        short=_short,
    )


def _short(value: float | None) -> str:
    return "0" if value == 0 else with_error(value, None, 3)


def _deviating(report: Report) -> str:
    """Pairs whose angle is seen to be another than predicted; where a network closes all angles there are none."""
    pairs = [
        vars(pair) | {"picture": _picture(report, pair.index)}
        for pair in report.deviating()
        if f"{pair.predicted:.1f}" != f"{pair.measured:.1f}"
    ]
    return render_part("deviating.html", pairs=pairs) if pairs else ""


def _parts(report: Report) -> Iterator[str]:
    """What stands beside the pairs of samples: the start, and which layers can be inverted."""
    if report.audit.parameters:
        yield render_part("audit.html", rows=report.audit.summary(), formats=report.precision)
    if report.expansivity:
        yield render_part("expansivity.html", layers=_alike(report))


def _alike(report: Report) -> list[dict[str, Any]]:
    """The layers of equal sizes and equal answers in one line."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for item in report.expansivity:
        groups.setdefault((item.inputs, item.outputs, item.stands, item.injective), []).append(item)
    title = {row.layer: row.title for row in reversed(report.observation.rows)}  # of equal names the first counts
    lines = []
    for items in groups.values():
        titles = [title.get(item.layer, item.layer) for item in items]
        names = ", ".join(titles) if len(titles) < 4 else f"{len(titles)} layers: {titles[0]} to {titles[-1]}"
        lines.append(vars(items[0]) | {"names": names})
    return lines


def _picture(report: Report, index: int) -> Thumbnail | None:
    seen = report.observation
    if getattr(seen.x, "ndim", 0) != 4:
        return None
    one = slice(index, index + 1)
    return next(iter(thumbnails(seen.x[one].cpu(), seen.y[one].cpu(), angles=seen.angle[:, one], count=1)), None)


def table_texts(report: Report, depth: int | None = None) -> tuple[list[dict[str, str]], str]:
    """The report's blocks as short texts, few of them (see `Report.blocks`), and how many steps they fold."""
    lines = report.blocks(depth, few=True)
    return [_texts(row) for row in lines], folding_told(lines)


def _texts(row: dict[str, Any]) -> dict[str, str]:
    least = {"angle_measured": ROUNDING}
    numbers = {
        name.replace("_", " "): with_error(row.get(name), None, digits, least.get(name, 0.0))
        for name, digits in _DIGITS.items()
    }
    told = {"layer": row["title"], "verdict": ", ".join(row["faults"])}
    return told | numbers | {"status": row["status"], "note": row["note"]}
