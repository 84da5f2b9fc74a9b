"""``initscope reproduce``: reproductions of figures, tables and statements of the sources."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix, save_figure
from initscope.cli._help import OUTPUT
from initscope.cli._options import Whole
from initscope.cli._output import Format, csv_text, emit, json_text, print_table, provenance, say
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.reproductions.protocol import Reproduction

__all__ = ["reproduce"]


def reproduce(
    *ids: Annotated[
        str, Parameter(help="Names of reproductions, as --list shows them, or statements: 'cnn theorem 3'.")
    ],
    list: Annotated[bool, Parameter(negative="", help="List the reproductions without running them.")] = False,
    all: Annotated[bool, Parameter(negative="", help="Run all reproductions.")] = False,
    scale: Annotated[
        Literal["small", "full"], Parameter(help="small: seconds each, bundled data; full: the published sizes.")
    ] = "small",
    out: Annotated[Path, Parameter(group=OUTPUT, help="Folder for index.html, results.json and the figures.")] = Path(
        "gallery"
    ),
    figure: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="Run one reproduction and write its figure to this .pdf, .svg or .png file only."),
    ] = None,
    again: Annotated[bool, Parameter(negative="", help="Also run reproductions that the folder already has.")] = False,
    workers: Annotated[Whole, Parameter(help="Number of processes.")] = 1,
    format: Format = "table",
) -> None:
    """Reproduce figures, tables and statements of the sources, and compare with the published numbers on one page."""
    from initscope.reproductions import all_reproductions, gallery
    from initscope.reproductions.protocol import full_scale_status

    if list:
        described = [declared.describe() for declared in all_reproductions().values()]
        _list([entry | {"full_scale": full_scale_status(str(entry["id"]))} for entry in described], format)
        return
    if all == bool(ids):
        raise InputError(
            "name some reproductions or give --all, not both; initscope reproduce --list shows their names"
            if all
            else "no reproduction is named; initscope reproduce --list shows their names, --all runs all of them"
        )
    if figure is not None:
        emit(_drawn(ids, scale, figure), format)
        return
    if out.suffix.lower() in (".html", ".htm"):
        raise InputError(f"--out {out} is a page; give the name of a folder, which gets index.html and the figures")
    results = gallery.reproduce(None if all else ids, out=out, scale=scale, again=again, workers=workers, progress=say)
    if format == "json":
        versions = {"versions": provenance()["versions"]}
        print(json_text([result | versions for result in results.results()]), end="")
    else:
        emit(results, format)
    say(f"page: {out / 'index.html'}")
    if results.failed:
        say(f"failed: {', '.join(results.failed)}")
        sys.exit(1)


def _drawn(ids: Sequence[str], scale: Literal["small", "full"], path: Path) -> Reproduction:
    """Run the reproduction that is named, and write its figure."""
    from initscope.reproductions.registry import get, matching

    check_suffix(path, "--figure", (".pdf", ".svg", ".png"))
    names = [id for name in ids for id in matching(name)]
    if len(names) != 1:
        raise InputError(f"--figure writes one figure, and {len(names)} reproductions are named; name one")
    result = get(names[0]).run(scale=scale)
    shown = result.figure()
    if shown is None:
        raise InputError(f"{names[0]} has no figure; leave --figure out")
    save_figure(shown, path)
    return result


def _list(described: list[dict[str, object]], format: Format) -> None:
    if format == "json":
        print(json_text(described), end="")
        return
    rows = [
        entry | {"published": _in_words(entry["published"]), "full_scale": _status(entry["full_scale"])}
        for entry in described
    ]
    if format == "csv":
        print(csv_text(rows), end="")
    else:
        first = ("id", "full_scale", "statement")
        print_table([{name: entry[name] for name in dict.fromkeys([*first, *entry])} for entry in rows])


def _status(full_scale: object) -> str:
    """Status at full scale, with the reason if the statement is not confirmed."""
    if not isinstance(full_scale, dict):
        return "not run"
    reason = f": {full_scale['why']}" if full_scale["status"] == "not confirmed" else ""
    return f"{full_scale['status']}{reason}"


def _in_words(published: object) -> str:
    """Return some published numbers as one cell."""
    if not isinstance(published, dict):
        return "–"
    shown = ", ".join(f"{name} {value:g}" for name, value in [*published.items()][:3])
    return shown + (f" and {len(published) - 3} more" if len(published) > 3 else "")
