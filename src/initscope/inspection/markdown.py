"""A `Report` as Markdown: for pull requests, issues and language-model assistants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from initscope.geometry import ROUNDING, spoken
from initscope.results import format_number, printable

if TYPE_CHECKING:
    from initscope.inspection.report import Report

__all__ = ["render_markdown"]

_COLUMNS = {
    "title": "layer",
    "angle_measured": "angle °",
    "rms_ratio_measured": "size",
    "gradient_over_last": "gradient",
    "dead_fraction": "dead",
    "saturated_fraction": "saturated",
    "effective_rank": "rank",
}


def render_markdown(report: Report) -> str:
    """Conclusion first, then cautions, faults with evidence and code, the blocks, and what to start otherwise."""
    seen = report.observation
    lines = [f"## initscope: {_text(report.title)}", "", f"**{_text(report.conclusion)}**"]
    lines += [""] if report.healthy else [_text(report.diagnosis), ""]
    lines += [f"> {_text(caution)}\n" for caution in report.cautions]
    helped = report.what_if is not None and report.what_if.helps
    for verdict in report.verdicts:
        if verdict.fault:
            mended = helped and verdict.of_the_start  # what to do is then the best of those tried
            said = verdict.finding if mended else str(verdict)
            said = said.removeprefix(f"{verdict.name} from {spoken(verdict.layer)} on").lstrip(":. ")
            lines += [f"- **{verdict.name}** in {_text(verdict.where)}{': ' if said else ''}{_text(said)}"]
            lines += [f"  {_code(verdict.code)}"] if verdict.code and not mended else []
    if not report.healthy:
        lines.append("")
    rows = [{title: line[name] for name, title in _COLUMNS.items()} for line in report.blocks(few=True)]
    for row in rows:
        if row["angle °"] is not None and 0 < row["angle °"] < ROUNDING:
            row["angle °"] = f"<{ROUNDING:g}"
    lines += _table(rows)
    what_if = report.what_if
    if what_if is not None and what_if.alternatives:
        lines += ["", "What if: the same network started otherwise, best first", ""]
        lines += _table(what_if.summary()[:5])
        best = what_if.best
        lines += (
            ["", f"What to type: {_code(best.code)}" if best.code else f"What to do: {_text(best.advice)}"]
            if helped
            else []
        )
        lines += [""] if what_if.skipped else []
        lines += [f"- not tried: {_text(name)} ({_text(why)})" for name, why in what_if.skipped.items()]
    lines += ["", f"{seen.pairs} pairs of {seen.samples} samples, {seen.mode} mode."]
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """A text as itself: names hold no tags, links, images or emphasis, and no character that steers a terminal."""
    text = re.sub(r"&(?=#?\w+;)", "&amp;", printable(str(value)).replace("\n", " "))
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)  # "<1e-05" is no tag
    return re.sub(r"([\\`*\[\]|])", r"\\\1", text)


def _code(value: str) -> str:
    """Code between more backticks than it holds in a row."""
    text = printable(value).replace("\n", " ")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns without any value are left out."""
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)] if rows else []
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    return lines + ["| " + " | ".join(_text(format_number(row[name], 3)) for name in names) + " |" for row in rows]
