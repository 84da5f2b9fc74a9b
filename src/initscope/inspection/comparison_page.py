"""The self-contained page of a `ModelComparison`: what changed, findings side by side, curves of all models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from initscope.inspection.layer_quantities import LayerQuantities, layer_quantities
from initscope.inspection.page import as_comparison
from initscope.rendering.layers import Column, layer_table, page_data
from initscope.rendering.overlay import overlaid_panels
from initscope.rendering.page import render_part
from initscope.rendering.rows import shown_rows
from initscope.results import counted

if TYPE_CHECKING:
    from initscope.inspection.model_comparison import ModelComparison
    from initscope.inspection.report import Report

__all__ = ["render_comparison"]

_SHOWN = ("angle_measured", "rms_ratio_measured", "gradient_over_last", "dead_fraction", "effective_rank")


def render_comparison(compared: ModelComparison, *, fragment: bool = False) -> str:
    """Return the page as text, or the fragment that a notebook cell shows."""
    reports, same = compared.reports, compared.same_rows
    quantities_of = {name: layer_quantities(report, as_comparison(report)) for name, report in reports.items()}
    first, seen = next(iter(reports)), next(iter(reports.values())).observation
    titles = [row.title for row in seen.rows] if same else []
    depth = overlaid_panels({name: of.panels for name, of in quantities_of.items()}, titles) | {"same": same}
    columns = list(_columns(quantities_of)) if same else []
    data = page_data(seen.rows, columns, depth["data"]) if same else {"titles": depth["titles"], "texts": {}}
    context = {
        "body": "compare.html",
        "title": f"{counted(len(reports), 'model')} compared: {', '.join(reports)}",
        "subtitle": f"{counted(seen.samples, 'sample')}, {counted(seen.pairs, 'pair')}, {seen.mode} mode",
        "cautions": compared.cautions,
        "first": first,
        "changes": compared.changes,
        "tables": {title: shown_rows(rows) for title, rows in compared.tables().items()},
        "depth": depth,
        "layers": layer_table(seen.rows, columns) if same else None,
        "has_predicted": False,
        "each": [_report_facts(name, report) for name, report in reports.items()],
        "run": _run(reports),
        "data": data | {"panels": depth["data"]},
    }
    return render_part("compare.html" if fragment else "page.html", **context)


def _columns(quantities_of: dict[str, LayerQuantities]) -> Iterator[Column]:
    """Return the measured columns of all models, grouped by quantity."""
    for wanted in _SHOWN:
        for number, (name, quantities) in enumerate(quantities_of.items()):
            for column in quantities.columns:
                if column.name == wanted:
                    yield replace(column, name=f"{wanted}_{number}", title=f"{column.title} {name}", side="")


def _report_facts(name: str, report: Report) -> dict[str, Any]:
    fix = report.fix
    return {
        "name": name,
        "headline": report.headline,
        "size": report.provenance.size,
        "command": report.provenance.command,
        "code": "" if fix is None else fix.code or "",
        "code_is": "" if fix is None else f"{fix.name} ({fix.outcome})",
        "advice": "" if fix is None else f"Suggested fix: {fix.advice} ({fix.outcome})",
    }


def _run(reports: dict[str, Report]) -> dict[str, str]:
    """Return date, seed and versions of the reports; different ones side by side."""
    provenances = [report.provenance for report in reports.values()]
    values = {
        "date": {made.date for made in provenances},
        "seed": {str(made.seed) for made in provenances},
        "versions": {", ".join(f"{name} {number}" for name, number in made.versions.items()) for made in provenances},
    }
    return {name: "; ".join(sorted(texts)) for name, texts in values.items() if any(texts)}
