"""What `demo`, `predict` and `measure` share: showing a `Comparison`, and files that results go to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.disk import check_space
from initscope.cli._output import Format, emit, say, terminal_width
from initscope.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from initscope.geometry import Comparison

__all__ = ["check_suffix", "save_figure", "show", "write_pairs"]


def show(
    comparison: Comparison,
    format: Format,
    *,
    out: Path | None,
    facts: Mapping[str, object],
    images: tuple[Any, Any] | None = None,
    advice: str,
    step: str = "",
    **options: Any,
) -> None:
    """Write the page if requested, then print the comparison and, in a table, the next step.

    The next step is ``step`` or, if empty, ``advice``. ``options`` are passed to `comparison_lines`.
    """

    if out is not None:
        from initscope.rendering import write_page

        write_page(out, comparison, facts=facts, images=images, advice=advice)
        say(f"page: {out}")
    if format == "table":
        from initscope.rendering.summary import comparison_lines

        page = "" if out is not None else " --out page.html writes a page with figures."
        for line in comparison_lines(comparison, f"{step or advice}{page}", terminal_width(), **options):
            print(line)
    else:
        emit(comparison, format)


def check_suffix(path: Path | None, option: str, suffixes: tuple[str, ...]) -> None:
    """Raise an error, before any work is done, for a file name of another format or a folder that is not writable."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InputError(f"{option} {path}: the name must end in {' or '.join(suffixes)}")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; give a file name")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise InputError(f"{option} {path}: {folder} is a file, so it cannot hold others; give another folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable; give another folder")
    check_space(path)


def save_figure(drawn: Axes | Figure, path: Path) -> None:
    """Write a figure, or that of the axes."""
    from matplotlib.figure import Figure

    from initscope._utils.files import atomic_path

    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    assert isinstance(figure, Figure)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=160)
    say(f"figure: {path}")


def write_pairs(path: Path, comparison: Comparison) -> None:
    """Write the numbers of every pair after every layer, as JSON or CSV by the suffix."""
    from initscope._utils.files import write_text
    from initscope.cli._output import csv_text, json_text

    rows = comparison.pairs_table()
    write_text(path, csv_text(rows) if path.suffix.lower() == ".csv" else json_text({"rows": rows}))
    say(f"pairs: {path}")
