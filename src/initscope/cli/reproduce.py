"""``initscope reproduce``: figures, tables and statements of the sources, run and set beside what was published."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from initscope.cli._help import OUTPUT
from initscope.cli._options import Whole
from initscope.cli._output import Format, csv_text, emit, json_text, print_table, provenance, say
from initscope.errors import InputError

__all__ = ["reproduce"]


def reproduce(
    *ids: Annotated[
        str, Parameter(help="Names of reproductions, as --list shows them, or statements: 'cnn theorem 3'.")
    ],
    list: Annotated[bool, Parameter(negative="", help="List the reproductions and run none.")] = False,
    all: Annotated[bool, Parameter(negative="", help="Run all reproductions.")] = False,
    scale: Annotated[
        Literal["small", "full"], Parameter(help="small: seconds each, bundled data; full: the published sizes.")
    ] = "small",
    out: Annotated[Path, Parameter(group=OUTPUT, help="Folder for index.html, results.json and the pictures.")] = Path(
        "gallery"
    ),
    again: Annotated[bool, Parameter(negative="", help="Run also what the folder has already.")] = False,
    workers: Annotated[Whole, Parameter(help="Processes that run reproductions.")] = 1,
    format: Format = "table",
) -> None:
    """Run figures, tables and statements of the sources, with the published value beside ours, on one page."""
    from initscope.reproductions import all_reproductions, gallery

    if list:
        _list([declared.describe() for declared in all_reproductions().values()], format)
        return
    if all == bool(ids):
        raise InputError(
            "name some reproductions or give --all, not both; initscope reproduce --list shows their names"
            if all
            else "no reproduction is named; initscope reproduce --list shows their names, --all runs all of them"
        )
    found = gallery.reproduce(None if all else ids, out=out, scale=scale, again=again, workers=workers, progress=say)
    if format == "json":
        versions = {"versions": provenance()["versions"]}
        print(json_text([result | versions for result in found.results()]), end="")
    else:
        emit(found, format)
    say(f"page: {out / 'index.html'}")
    if found.failed:
        say(f"failed: {', '.join(found.failed)}")
        sys.exit(1)


def _list(described: list[dict[str, object]], format: Format) -> None:
    if format == "json":
        print(json_text(described), end="")
        return
    rows = [told | {"published": _in_words(told["published"])} for told in described]
    if format == "csv":
        print(csv_text(rows), end="")
    else:
        first = ("id", "statement")
        print_table([{name: told[name] for name in dict.fromkeys([*first, *told])} for told in rows])


def _in_words(published: object) -> str:
    """Some published numbers in one cell."""
    if not isinstance(published, dict):
        return "–"
    shown = ", ".join(f"{name} {value:g}" for name, value in [*published.items()][:3])
    return shown + (f" and {len(published) - 3} more" if len(published) > 3 else "")
