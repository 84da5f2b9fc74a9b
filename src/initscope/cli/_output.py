"""Printing of results: ``--format table|json|csv``, data on stdout, messages on stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from initscope import __version__
from initscope.cli._help import OUTPUT
from initscope.errors import InputError
from initscope.results import Result, plain, printable

__all__ = ["Format", "ask_of", "command_line", "csv_text", "emit", "few_rows", "json_text", "print_sentence",
           "print_table", "provenance", "say", "terminal_width", "text_width", "user_code"]  # fmt: skip

Format = Annotated[
    Literal["table", "json", "csv"],
    Parameter(group=OUTPUT, help="table for reading; json or csv for programs, with all columns."),
]

_FORMULA = ("=", "+", "-", "@", "\t")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|-?(inf|nan)", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
"""Controls that JSON lets through."""
_FILE_WIDTH = 100
"""Columns of running text, which is wrapped in files too."""


def say(message: str) -> None:
    """Print a message to stderr, wrapped on a terminal; stdout is for data."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).print(printable(message), highlight=False, markup=False)
    else:
        print(printable(message), file=sys.stderr)


@contextmanager
def user_code() -> Iterator[None]:
    """The user's own code runs inside: its prints go to stderr, and an exit of it is a failure.

    This redirects Python's ``sys.stdout`` and the output of the process, so that prints of C code and programs go there
    too.
    """
    with _output_to_stderr(), redirect_stdout(sys.stderr):
        try:
            yield
        except SystemExit as leaving:
            raise InputError(
                f"the code of the model calls exit({leaving.code}); remove this call. Nothing was computed"
            ) from leaving


@contextmanager
def _output_to_stderr() -> Iterator[None]:
    try:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError):  # one of the two is closed
        yield
        return
    try:
        yield
    finally:
        if sys.__stdout__ is not None:
            with suppress(OSError, ValueError):
                sys.__stdout__.flush()
        os.dup2(kept, 1)
        os.close(kept)


_ASKED: dict[str, Any] = {}


def ask_of(**asked: Any) -> None:
    """Remember the inputs of this run (model, data, seed) for its JSON. No words: forget all."""
    if not asked:
        _ASKED.clear()
    _ASKED.update(asked)


_TYPED: list[str] = []


def command_line(tokens: list[str] | None = None) -> str:
    """Return the command as the user can type it again; with ``tokens``, remember them first."""
    if tokens is not None:
        _TYPED[:] = tokens
    return shlex.join(["initscope", *_TYPED])


def provenance(best: Any = None) -> dict[str, Any]:
    """Return the first entries of every JSON: inputs, versions, and the best answer if there are several."""
    import platform

    loaded = {name: sys.modules[name].__version__ for name in ("numpy", "torch") if name in sys.modules}
    versions = {"initscope": __version__, "python": platform.python_version()} | loaded
    return dict.fromkeys(("model", "data", "seed")) | _ASKED | {"best": plain(best), "versions": versions}


def emit(result: Result, format: Format = "table", *, best: Any = None, **options: Any) -> None:
    """Print ``result``: its `to_dict` as JSON, with its `provenance`; its `table` as CSV or by `print_table`."""
    if format == "json":
        print(json_text(provenance(best) | result.to_dict()), end="")
        return
    rows = [plain(row) for row in result.table()]
    if format == "csv":
        print(csv_text(rows), end="")
        return
    print_table(few_rows(rows), **options)


def few_rows(rows: list[dict[str, Any]], most: int = 40) -> list[dict[str, Any]]:
    """Return the first and the last rows if there are too many to read, and print how many there are."""
    if len(rows) <= most:
        return rows
    say(f"the first and the last {most // 2} of {len(rows)} rows; --format csv has all")
    return [*rows[: most // 2], *rows[-(most // 2) :]]


def json_text(value: Any) -> str:
    """Return readable JSON with a newline at the end; non-ASCII characters are escaped if stdout cannot encode them."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not unicode)
    return _UNPRINTABLE.sub(lambda result: json.dumps(result[0])[1:-1], text) + "\n"


def csv_text(rows: list[dict[str, Any]]) -> str:
    """Return the CSV of dicts with the same keys, with a header; no cell is a formula for a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in [list(rows[0]), *(row.values() for row in rows)] if rows else [[]]:
        writer.writerow([_csv_cell(cell) for cell in row])
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return texts without control characters; those that a spreadsheet would evaluate begin with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def print_table(rows: Sequence[Mapping[str, Any]], **options: Any) -> None:
    """Print dicts that share their keys as a `rich_table` of the terminal's width.

    A file or a pipe has no width, so the table gets no limit, and nothing is cut, folded or left out. Text above and
    below a table has the width of running text, not of the table.
    """
    from rich.console import Console

    from initscope.rendering.table import rich_table, table_width

    console = Console()
    made = rich_table(rows, width=console.width if console.is_terminal else None, **options)
    if not console.is_terminal:
        console = Console(width=max(_FILE_WIDTH, table_width(made)))
    title, caption, made.title, made.caption = made.title, made.caption, None, None
    text: dict[str, Any] = {"width": min(console.width, _FILE_WIDTH), "highlight": False}
    if title:
        console.print(title, style="table.title", **text)
    console.print(made)
    if caption:
        console.print(caption, style="table.caption", **text)


def text_width() -> int:
    """Return columns of running text: those of the terminal, and no more than a line is easily read."""
    import shutil

    return min(shutil.get_terminal_size().columns, _FILE_WIDTH) if sys.stdout.isatty() else _FILE_WIDTH


def terminal_width() -> int | None:
    """Return the width of the terminal in columns; None for a file or a pipe."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def print_sentence(text: str) -> None:
    """Print a sentence, wrapped between words on a terminal, on one line in a file or a pipe."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(printable(text), highlight=False, markup=False)
    else:
        print(printable(text))
