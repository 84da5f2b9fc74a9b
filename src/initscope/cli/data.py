"""``initscope data``: what enters a network, before any model is involved."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._help import DATA, OUTPUT
from initscope.cli._options import Whole
from initscope.cli._output import ask_of, emit, few_rows, print_sentence, print_table, say
from initscope.cli._sources import DataSource, read_data
from initscope.cli.predict_measure import Page

if TYPE_CHECKING:
    from initscope.data import Overview

__all__ = ["data"]

_FEW_COLUMNS = 24


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class _Options:
    """Options of data without a model."""

    size: Annotated[str | None, Parameter(help="Images: crop and resize them. Text: tokens of a sequence.")] = None
    target_column: Annotated[str | None, Parameter(help="Column of a table that holds the targets.")] = None
    columns: Annotated[str | None, Parameter(help="Columns of a table that are inputs, with commas.")] = None
    tokenizer: Annotated[str | None, Parameter(help="Folder or cached name of a transformers tokenizer.")] = None
    normalize: str | None = None
    """Normalization: imagenet, standardize, or MEAN,STD; default: none."""
    limit: Whole | None = None
    """Use at most this number of samples."""


def data(
    data: Annotated[str, Parameter(help="A name, a folder, or a file, as for --data of other commands.")],
    /,
    *,
    options: _Options | None = None,
    format: Annotated[
        Literal["table", "json", "csv", "md"],
        Parameter(group=OUTPUT, help="table for people, json or csv for programs, md for pull requests."),
    ] = "table",
    out: Page = None,
) -> None:
    """Show what enters a network: range, scale, missing values, duplicates, classes, intrinsic dimension."""
    check_suffix(out, "--out", (".html", ".htm"))
    loaded = read_data(DataSource(data=data, **vars(options or _Options())))
    from initscope.data import overview

    summary = overview(loaded)
    ask_of(data=data)
    if out is not None:
        summary.to_html(out)
        say(f"page: {out}")
    if format == "md":
        print(summary.to_markdown(), end="")
    elif format == "table":
        _print(summary, _spelled(data, options or _Options()), out)
    else:
        emit(summary, format)


def _spelled(data: str, options: _Options) -> str:
    """Return the data and the options as they are typed after ``--data``."""
    given = {name.replace("_", "-"): value for name, value in vars(options).items() if value is not None}
    return shlex.join([data, *(word for name, value in given.items() for word in (f"--{name}", str(value)))])


def _print(summary: Overview, data: str, out: Path | None) -> None:
    """Print the conclusion, the facts, a row for each column or channel, and the next step."""
    print_sentence(f"{summary.headline}.")
    for problem in summary.problems[1:]:
        print_sentence(f"  {problem}")
    print()
    print_sentence(summary.summary)
    for name, text in summary.facts().items():
        print_sentence(f"  {name}: {text}")
    print()
    rows = [row if any(other["note"] for other in summary.table()) else _without_note(row) for row in summary.table()]
    print_table(few_rows(rows, _FEW_COLUMNS))
    page = "" if out is not None else f"; initscope data {data} --out data.html writes the page"
    print_sentence(f"Next: initscope inspect MODEL --data {data}{page}")


def _without_note(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "note"}
