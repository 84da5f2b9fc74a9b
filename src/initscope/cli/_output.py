"""Printing of results: ``--format table|json|csv``, data on stdout, messages on stderr."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any, Literal

from initscope._results import Result, format_number, plain

__all__ = ["Format", "csv_text", "emit", "json_text", "say"]

Format = Literal["table", "json", "csv"]


def say(message: str) -> None:
    """A message for the person at the terminal: stderr, so that stdout stays data."""
    print(message, file=sys.stderr)


def emit(result: Result, format: Format = "table", *, title: str = "") -> None:
    """Print ``result``: its `to_dict` as JSON, its `table` as CSV or as a rich table."""
    if format == "json":
        print(json_text(result.to_dict()), end="")
        return
    rows = [plain(row) for row in result.table()]
    if format == "csv":
        print(csv_text(rows), end="")
        return
    print_table(rows, title=title)


def json_text(value: Any) -> str:
    """Readable JSON of plain values, with a newline at its end."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def csv_text(rows: list[dict[str, Any]]) -> str:
    """CSV of dicts that share their keys, with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def print_table(rows: list[dict[str, Any]], *, title: str = "") -> None:
    """Print dicts that share their keys as a rich table; numbers are aligned right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name in rows[0] if rows else []:
        numeric = all(isinstance(row[name], (int, float, type(None))) for row in rows)
        table.add_column(str(name).replace("_", " "), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(format_number(cell) for cell in row.values()))
    console = Console()
    # A file or a pipe has no width of its own.
    (console if console.is_terminal else Console(width=120)).print(table)
