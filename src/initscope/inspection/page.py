"""The one-file page of a `Report`: verdicts first, then pictures, the table of layers, and what-if."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.geometry import Comparison, Measurement
from initscope.inspection.blocks import fold
from initscope.pages.page import render_page, render_part
from initscope.pages.table import with_error
from initscope.pages.thumbnails import Thumbnail, thumbnails

if TYPE_CHECKING:
    from initscope.inspection.report import Report

__all__ = ["as_comparison", "render_report", "table_texts"]

_DIGITS = {
    "cosine_predicted": 4,
    "cosine_measured": 4,
    "rms_ratio_predicted": 3,
    "rms_ratio_measured": 3,
    "gradient_ratio": 3,
    "gradient_cosine": 3,
    "dead_fraction": 2,
    "saturated_fraction": 2,
    "effective_rank": 1,
    "mean_width": 2,
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
    seen = report.observation
    facts = {
        "model": report.title,
        "samples": seen.samples,
        "mode": seen.mode,
        "how the model was read": seen.fallback or "symbolic trace",
    }
    images = (seen.x, seen.y) if getattr(seen.x, "ndim", 0) == 4 else None
    rows = table_texts(report)
    return render_page(
        as_comparison(report),
        facts=facts,
        images=images,
        advice=_advice(report),
        rows=rows,
        inside=_inside(report, list(rows[0])),
        findings=render_part(
            "verdicts.html",
            verdicts=report.verdicts,
            thresholds=report.thresholds.to_dict(),
            conclusion=report.conclusion,
            cautions=report.cautions,
        ),
        alternatives="".join(_parts(report)),
        fragment=fragment,
    )


def _parts(report: Report) -> Iterator[str]:
    """What stands behind the table of layers."""
    table = report.what_if
    if table is not None and table.alternatives:
        yield render_part(
            "what_if.html",
            alternatives=table.alternatives,
            current=table.current,
            score=table.score_is,
            skipped=table.skipped,
        )
    pairs = [vars(pair) | {"picture": _picture(report, pair.index)} for pair in report.deviating()]
    if pairs:
        yield render_part("deviating.html", pairs=pairs)
    if report.audit.parameters:
        yield render_part("audit.html", rows=report.audit.summary(), formats=report.precision)
    if report.expansivity:
        yield render_part("expansivity.html", layers=report.expansivity)


def _picture(report: Report, index: int) -> Thumbnail | None:
    seen = report.observation
    if getattr(seen.x, "ndim", 0) != 4:
        return None
    one = slice(index, index + 1)
    return next(iter(thumbnails(seen.x[one].cpu(), seen.y[one].cpu(), angles=seen.angle[:, one], count=1)), None)


def _advice(report: Report) -> str:
    faults = [verdict for verdict in report.verdicts if verdict.fault]
    if not faults:
        return "Nothing needs to be changed at the start of training."
    text = f"{faults[0].name} from {faults[0].layer} on: {faults[0].advice}."
    if report.what_if is not None and report.what_if.best.name != report.what_if.current:
        text += f" Best of the alternatives below: {report.what_if.best.code}"
    return text


def table_texts(report: Report, depth: int | None = None) -> list[dict[str, str]]:
    """The report's blocks as short texts (see `Report.blocks`); columns without any value are left out."""
    return _without_empty([_texts(row) for row in report.blocks(depth)])


def _inside(report: Report, columns: Sequence[str]) -> list[list[dict[str, str]]]:
    """Of every block the texts of its rows, where it has several."""
    table = [_texts(row) for row in report.table()]
    lines = [members for _, members in fold(report.rows)]
    return [
        [{name: table[index][name] for name in columns} for index in members] if len(members) > 1 else []
        for members in lines
    ]


def _without_empty(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    empty = [name for name in rows[0] if all(row[name] in ("", "–") for row in rows)]
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _texts(row: dict[str, Any]) -> dict[str, str]:
    numbers = {name.replace("_", " "): with_error(row[name], None, digits) for name, digits in _DIGITS.items()}
    return {"layer": row["layer"], "kind": row["kind"]} | numbers | {"status": row["status"], "note": row["note"]}
