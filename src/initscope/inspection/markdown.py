"""Reports and comparisons of models as Markdown: for pull requests, issues and language-model assistants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from initscope.geometry import ROUNDING
from initscope.inspection.terminal import COLUMNS
from initscope.results import format_number, printable

if TYPE_CHECKING:
    from initscope.inspection.finding import Fix
    from initscope.inspection.model_comparison import ModelComparison
    from initscope.inspection.report import Report

__all__ = ["comparison_markdown", "render_markdown"]


def render_markdown(report: Report) -> str:
    """Return the headline, then cautions, findings with their fixes, the blocks, and what else was tried."""
    seen = report.observation
    lines = [f"## initscope: {_text(report.title)}", "", f"**{_text(report.headline)}**", ""]
    lines += [f"> {_text(caution)}\n" for caution in report.cautions]
    for finding in (*report.errors, *report.warnings):
        after = f" Follows from {finding.caused_by}." if finding.caused_by else ""
        lines.append(f"- **{finding.code} {finding.name}** ({finding.level}): {_text(finding.message)}{after}")
        if finding.fix is not None and not finding.caused_by and finding.fix != report.fix:
            lines.append(f"  Fix: {_fix(finding.fix)}")
    lines += [""] if report.errors or report.warnings else []
    shown = {"title": "op"} | {name: short for name, (_, short, _) in COLUMNS.items() if short}
    rows = [{title: line.get(name) for name, title in shown.items()} for line in report.blocks(few=True)]
    for row in rows:
        if row["angle °"] is not None and 0 < row["angle °"] < ROUNDING:
            row["angle °"] = f"<{ROUNDING:g}"
    lines += _table(rows)
    what_if = report.what_if
    if what_if is not None and what_if.alternatives:
        lines += ["", "Alternatives that were tried, best first", "", *_table(what_if.summary()[:5])]
        lines += [""] if what_if.skipped else []
        lines += [f"- not tried: {_text(name)} ({_text(why)})" for name, why in what_if.skipped.items()]
    lines += ["", f"Suggested fix: {_fix(report.fix)}"] if report.fix is not None else []
    lines += ["", f"{seen.pairs} pairs of {seen.samples} samples, {seen.mode} mode."]
    return "\n".join(lines) + "\n"


def comparison_markdown(compared: ModelComparison) -> str:
    """Return what changed first, then a column for each model: sizes, ratios, findings; then the fixes."""
    first = next(iter(compared.reports))
    lines = [f"## initscope: {len(compared.reports)} models compared", ""]
    lines += [f"> {_text(caution)}\n" for caution in compared.cautions]
    lines += [f"- {_text(name)} compared with {_text(first)}: {_text('; '.join(changes))}."
              for name, changes in compared.changes.items()]  # fmt: skip
    for title, rows in compared.tables().items():
        lines += ["", title, "", *_table(rows)]
    fixes = {name: report.fix for name, report in compared.reports.items() if report.fix is not None}
    lines += [""] * bool(fixes) + [f"- Suggested fix for {_text(name)}: {_fix(fix)}" for name, fix in fixes.items()]
    return "\n".join(lines) + "\n"


def _fix(fix: Fix) -> str:
    code = f": {_code(fix.code)}" if fix.code else f": {_text(fix.advice)}" if fix.advice != fix.name else ""
    ties = "; a tie with others" if fix.tie else ""
    return f"{_text(fix.name)}{code} ({fix.outcome}{ties})"


def _text(value: Any) -> str:
    """Return a text with everything escaped that Markdown, HTML or a terminal would interpret."""
    text = re.sub(r"&(?=#?\w+;)", "&amp;", printable(str(value)).replace("\n", " "))
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # "<1e-05" is not a tag
    return re.sub(r"([\\`*\[\]|])", r"\\\1", text)


def _code(value: str) -> str:
    """Return code between more backticks than it holds in a row."""
    text = printable(value).replace("\n", " ")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table without its empty columns."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)] if rows else []
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    return lines + ["| " + " | ".join(_text(format_number(row[name], 3)) for name in names) + " |" for row in rows]
