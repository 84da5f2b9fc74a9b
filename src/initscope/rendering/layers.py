"""The table of layers on a page: columns of numbers, sections that fold, and notes as footnotes.

Without JavaScript all rows are shown. The script of the page folds, sorts, filters and exports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from initscope.geometry import ROUNDING, Floats, Row
from initscope.rendering.depth import rounded
from initscope.rendering.quantities import Quantity
from initscope.rendering.table import with_error

__all__ = ["Column", "Section", "layer_table", "page_data", "side_columns"]

_ERROR = re.compile(r"± (\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


@dataclass(frozen=True)
class Column:
    """A column of the table; ``side`` is predicted, measured or empty, and narrow pages hide ``extra`` columns."""

    name: str
    title: str
    values: Floats
    errors: Floats | None = None
    side: str = ""
    digits: int = 3
    extra: bool = False
    bad: frozenset[int] = frozenset()
    least: float = 0.0
    """Values below this are rounding errors."""

    def text(self, index: int) -> str:
        """Return the value of a row with its error, rounded."""
        value = float(self.values[index])
        error = np.nan if self.errors is None else float(self.errors[index])
        if value == 0:
            return "0"
        return with_error(value if np.isfinite(value) else None, error if error > 0 else None, self.digits, self.least)

    def joined(self, members: Sequence[int], join: Callable[[Floats], float] | None = None) -> float | None:
        """Return the last known value of several rows, or ``join`` of all known values; None without any."""
        known = self.values[list(members)]
        known = known[np.isfinite(known)]
        return float(known[-1] if join is None else join(known)) if len(known) else None

    def of_section(self, members: Sequence[int], join: Callable[[Floats], float] | None = None) -> str:
        """Return the text of `joined`."""
        value = self.joined(members, join)
        return "0" if value == 0 else with_error(value, None, self.digits, self.least)


def side_columns(
    quantity: Quantity, name: str, title: str, digits: int, bad: frozenset[int] = frozenset()
) -> list[Column]:
    """Return the columns of a quantity: predicted, if known, and measured."""
    least = ROUNDING if name == "angle" else 0.0
    measured = Column(
        f"{name}_measured", title, quantity.measured, quantity.error, "measured", digits, bad=bad, least=least
    )
    if quantity.predicted is None:
        return [measured]
    return [Column(f"{name}_predicted", title, quantity.predicted, quantity.spread, "predicted", digits), measured]


@dataclass(frozen=True)
class Section:
    """Rows that fold into one row."""

    title: str
    members: tuple[int, ...]
    is_open: bool = False
    joins: Mapping[str, Callable[[Floats], float]] = field(default_factory=dict)
    """Functions by column that reduce all rows to the folded row; other columns show the last value."""

    @property
    def path(self) -> str:
        """Prefix of the names of its rows, if the section is a block.

        >>> Section("block encoder.layers.1", (3, 4)).path
        'encoder.layers.1.'
        """
        return f"{self.title.removeprefix('block ')}."


def layer_table(
    rows: Sequence[Row],
    columns: Sequence[Column],
    sections: Sequence[Section] = (),
    faulty: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """Return the context of the template ``layers.html``; columns without values are left out."""
    columns = [column for column in columns if np.isfinite(column.values).any()]
    sections = sections or [Section("", (index,)) for index in range(len(rows))]
    notes = {note: number for number, note in enumerate(dict.fromkeys(_kind(row.note) for row in rows if row.note), 1)}
    statuses = {row.status for row in rows}
    has_statuses = len(statuses) > 1

    def line(index: int, section: Section) -> dict[str, Any]:
        row = rows[index]
        path = section.path if row.title.startswith(section.path) else ""
        return {
            "index": index,
            "path": path,
            "title": row.title.removeprefix(path),
            "cells": [_cell(c, c.text(index), index in c.bad) for c in columns],
            "status": row.status if has_statuses else None,
            "note": notes.get(_kind(row.note)),
            "says": row.note,
            "weights": row.has_weights,
            "fault": index in faulty,
        }

    return {
        "columns": columns,
        "has_statuses": has_statuses,
        "status": "" if has_statuses else next(iter(statuses)),
        "notes": [
            _footnote(number, [row.note for row in rows if _kind(row.note) == kind]) for kind, number in notes.items()
        ],
        "sections": [
            {
                "title": section.title,
                "ops": len(section.members),
                "open": section.is_open,
                "folds": len(section.members) > 1,
                "cells": [
                    _cell(
                        c, c.of_section(section.members, section.joins.get(c.name)), bool(c.bad & set(section.members))
                    )
                    for c in columns
                ],
                "rows": [line(index, section) for index in section.members],
                "fault": bool(faulty & set(section.members)),
            }
            for section in sections
        ],
    }


def _kind(note: str) -> str:
    """Return a note without its errors: rows whose notes differ only in errors share a footnote."""
    return _ERROR.sub("±", note)


def _footnote(number: int, notes: Sequence[str]) -> tuple[int, str, int]:
    """Return the number, the text and the count of a footnote; different errors become their smallest and largest.

    >>> _footnote(2, ["cosine ± 0.002", "cosine ± 5e-05", "cosine ± 0.0001"])
    (2, 'cosine ± 5e-05 to 0.002', 3)
    >>> _footnote(1, ["cosine ± 0.03; wide layers.", "cosine ± 0.01; wide layers."])
    (1, 'cosine ± 0.01 to 0.03; wide layers.', 2)
    """
    ranges = [sorted(set(errors), key=float) for errors in zip(*map(_ERROR.findall, notes), strict=True)]
    texts = iter(errors[0] if len(errors) == 1 else f"{errors[0]} to {errors[-1]}" for errors in ranges)
    return number, _ERROR.sub(lambda _: f"± {next(texts)}", notes[0]), len(notes)


def _cell(column: Column, text: str, bad: bool) -> dict[str, Any]:
    value, _, error = text.partition(" ")
    return {"value": value, "error": error, "bad": bad, "column": column}


def page_data(rows: Sequence[Row], columns: Sequence[Column], panels: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the data that the script of the page reads: names, numbers of the table, and panels."""
    numbers: dict[str, Any] = {}
    for column in columns:
        if np.isfinite(column.values).any():
            numbers[column.name] = rounded(column.values)
            if column.errors is not None and np.isfinite(column.errors).any():
                numbers[f"{column.name}_se"] = rounded(column.errors)
    texts = {
        "layer": [row.layer for row in rows],
        "kind": [row.kind for row in rows],
        "status": [row.status for row in rows],
        "note": [row.note for row in rows],
    }
    return {"titles": [row.title for row in rows], "texts": texts, "numbers": numbers, "panels": list(panels)}
