"""Printing of results: ``--format table|json|csv``, data on stdout, messages on stderr."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from initscope.results import Result, plain

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Format", "csv_text", "emit", "json_text", "print_fitted", "print_table", "prints_to_stderr", "say"]

Format = Annotated[
    Literal["table", "json", "csv"], Parameter(help="table for people, json or csv for programs (and all columns).")
]

_FILE_WIDTH = 100
"""Columns of running text, which is wrapped in files too."""


def say(message: str) -> None:
    """A message for the person at the terminal: stderr, so that stdout stays data."""
    print(message, file=sys.stderr)


def prints_to_stderr() -> AbstractContextManager[object]:
    """Inside, what a user's model prints on import, when it is built or when it runs goes where messages go."""
    return redirect_stdout(sys.stderr)


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


def print_table(rows: Sequence[Mapping[str, Any]], *, title: str = "") -> None:
    """Print dicts that share their keys as a table."""
    from initscope.pages.table import rich_table

    print_fitted(lambda width: rich_table(rows, title=title, width=width))


def print_fitted(table: Callable[[int | None], Table], *sentences: str) -> None:
    """Print what ``table`` makes of the terminal's width, and sentences below it.

    A file or a pipe has no width of its own: the table is made for none, so that nothing is cut, folded or left out.
    """
    from rich.console import Console

    from initscope.pages.table import table_width

    console = Console()
    made = table(console.width if console.is_terminal else None)
    if not console.is_terminal:
        console = Console(width=max(_FILE_WIDTH, table_width(made)))
    console.print(made)
    for sentence in sentences:
        console.print(sentence, width=min(console.width, _FILE_WIDTH), highlight=False, markup=False)
