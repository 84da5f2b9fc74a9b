"""``initscope open``: show a saved result again, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._help import DATA, OUTPUT
from initscope.cli._output import emit, say
from initscope.cli.inspection import ReportFormat, show_report
from initscope.cli.predict_measure import Depth, Page, check_depth
from initscope.errors import InputError

__all__ = ["open_result"]


def open_result(
    file: Annotated[Path, Parameter(group=DATA, help="A file that --save or the method save() has written.")],
    /,
    *,
    verbose: Annotated[
        bool, Parameter(group=OUTPUT, help="Print every finding, the whole table and all alternatives.")
    ] = False,
    depth: Depth = None,
    format: ReportFormat = "table",
    out: Page = None,
) -> None:
    """Show a saved result again, as a table or a page, without running anything."""
    from initscope import load
    from initscope.inspection import ModelComparison, Report

    check_depth(depth)
    check_suffix(out, "--out", (".html", ".htm"))
    result = load(file)
    if isinstance(result, Report):
        show_report(result, format, out=out, verbose=verbose, depth=depth, given=("--apply",))
        return
    if format == "md" and not isinstance(result, ModelComparison):
        raise InputError(f"--format md is for reports, and {file} holds a {type(result).__name__}; use csv or json")
    if out is not None:
        result.to_html(out)
        say(f"page: {out}")
    if format == "md":
        print(result.to_markdown(), end="")
    else:
        emit(result, format)
