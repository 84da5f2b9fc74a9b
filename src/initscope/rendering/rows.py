"""HTML tables of plain rows, and the page of a result without a special page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from initscope.rendering.page import render_part, versions
from initscope.results import Result, format_number

__all__ = ["render_result", "shown_rows"]

_NUMBER = re.compile(r"[-+]?(\d|inf|nan|–)")
_LONG = 40
"""Texts with more characters than this may wrap."""


def shown_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the context of the template ``rows.html``: columns with the CSS class of their cells, and the texts."""
    texts = [[format_number(cell) for cell in row.values()] for row in rows]
    columns = [name.replace("_", " ") for name in (rows[0] if rows else ())]
    return {"columns": list(zip(columns, map(_kind, zip(*texts, strict=True)), strict=True)), "rows": texts}


def _kind(texts: Sequence[str]) -> str:
    """Return the CSS class of a column: numbers, numbers with an interval (two lines), texts, or long texts that wrap.

    >>> _kind(["1.5", "–"]), _kind(["1.04 (0.98–1.10)"]), _kind(["relu1", "2"]), _kind(["what it rests on " * 3])
    ('', 'lines', 'text', 'note')
    """
    longest = max(map(len, texts), default=0)
    if all(_NUMBER.match(text) for text in texts):
        return "lines" if any(" (" in text for text in texts) else ""
    return "text" if longest <= _LONG else "note"


def render_result(result: Result) -> str:
    """Return the HTML page of any result: its table, with a single row shown vertically."""
    rows = result.table()
    if len(rows) == 1:
        rows = [{"of": name.replace("_", " "), "value": value} for name, value in rows[0].items()]
    return render_part(
        "page.html",
        body="result.html",
        title=re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(result).__name__).capitalize(),
        table=shown_rows(rows),
        run={"versions": ", ".join(f"{name} {number}" for name, number in versions().items())},
    )
