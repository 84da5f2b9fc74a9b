"""The drawing of a network on a page: one box for each section of the table, its skips, and what is inside a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from initscope.geometry import Row
from initscope.rendering.depth import rounded
from initscope.rendering.layered import layered_layout
from initscope.rendering.layers import Column, Section
from initscope.results import counted

__all__ = ["network_figure"]

_BOX, _GAP = (250, 36), (16, 12)
_INNER_BOX, _INNER_GAP = (150, 24), (14, 14)
_MOST_INSIDE = 70
"""Blocks with more ops than this are not drawn op by op; the table has them."""
_UNCHANGED = ("movement", "bookkeeping")
_LONGEST, _LONGEST_INSIDE = 27, 19
_DECADES = 20.0
"""Columns whose largest value is over this times the smallest have a logarithmic color scale."""


def network_figure(
    rows: Sequence[Row], sections: Sequence[Section], columns: Sequence[Column], levels: Mapping[int, str]
) -> dict[str, Any]:
    """Return the context of the template ``network.html``.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the report.
    sections : sequence of Section
        The boxes: sections of the table.
    columns : sequence of Column
        Columns of the table; boxes can have the color of each.
    levels : mapping of int to str
        By row, the worst level of the findings that begin there.
    """
    owner = {index: number for number, section in enumerate(sections) for index in section.members}
    edges = sorted(
        {
            (owner[source], owner[index])
            for index, row in enumerate(rows)
            for source in row.reads
            if source in owner and index in owner and owner[source] < owner[index]
        }
    )
    layout = layered_layout(len(sections), edges, box=_BOX, gap=_GAP)
    insides: dict[tuple[Any, ...], dict[str, Any]] = {}
    boxes = []
    for number, section in enumerate(sections):
        inside = _inside(rows, section)
        known = None if inside is None else insides.setdefault(inside, _drawn_inside(*inside))
        title = section.title if len(section.members) > 1 else rows[section.members[0]].title
        level = _worst(levels, section)
        boxes.append(
            {
                "x": layout.boxes[number][0],
                "y": layout.boxes[number][1],
                "title": title,
                "label": _shortened(title, _LONGEST),
                "note": _note(rows, section, inside),
                "level": level,
                "inside": list(insides).index(inside) if known is not None and inside is not None else None,
            }
        )
    return {
        "boxes": boxes,
        "paths": layout.paths,
        "width": layout.width,
        "height": layout.height,
        "box": _BOX,
        "insides": list(insides.values()),
        "inner": _INNER_BOX,
        "columns": [column for column in columns if _colors(column)],
        "data": {
            "members": [list(section.members) for section in sections],
            "columns": {column.name: _values(column, sections) for column in columns if _colors(column)},
        },
    }


def _colors(column: Column) -> bool:
    """Return whether boxes can have the color of a column: measured values of more than one row."""
    return not column.extra and column.side != "predicted" and int(np.isfinite(column.values).sum()) > 1


def _values(column: Column, sections: Sequence[Section]) -> dict[str, Any]:
    """Return of every box the value of the column, its text, its share of the color scale and whether it is bad."""
    values = [column.joined(section.members, section.joins.get(column.name)) for section in sections]
    known = np.array([np.nan if value is None else value for value in values])
    positive = known[np.isfinite(known) & (known > max(column.least, 0.0))]
    logarithmic = bool(len(positive)) and positive.max() > _DECADES * positive.min()
    if logarithmic:
        known = np.log10(np.maximum(known, positive.min()))
    finite = known[np.isfinite(known)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    return {
        "text": [column.of_section(section.members, section.joins.get(column.name)) for section in sections],
        "share": rounded(np.round((known - low) / ((high - low) or 1.0), 3)),
        "bad": [int(bool(column.bad & set(section.members))) for section in sections],
    }


def _worst(levels: Mapping[int, str], section: Section) -> str:
    begun = {levels[index] for index in section.members if index in levels}
    return next((level for level in ("error", "warning") if level in begun), "")


def _note(rows: Sequence[Row], section: Section, inside: tuple[Any, ...] | None) -> str:
    """Return the output shape of a box, and whether it holds attention or a skip connection.

    In a block with a skip connection the input is read at least twice, and values are added.
    """
    members = [rows[index] for index in section.members]
    shape = "×".join(map(str, members[-1].shape))
    entries = 0 if inside is None else sum(source == 0 for source, _ in inside[1])
    skips = entries > 1 and any(row.traits.summand_signs for row in members)
    parts = [shape] * bool(shape)
    kinds = {row.traits.attention for row in members}  # the softmax of a classifier is one op with "weights"
    parts += ["attention"] * bool(kinds & {"fused", "module"} or ("weights" in kinds and len(members) > 1))
    parts += ["skip"] * skips
    parts += [counted(len(members), "op")] * (len(members) > 1)
    return " · ".join(parts)


def _shortened(title: str, longest: int) -> str:
    """Return a title of at most that many characters, without its middle.

    >>> _shortened("encoder.layers.11.attention.query", 20)
    'encoder.l…tion.query'
    """
    half = (longest - 1) // 2
    return title if len(title) <= longest else f"{title[:half]}…{title[-(longest - half - 1) :]}"


def _inside(rows: Sequence[Row], section: Section) -> tuple[Any, ...] | None:
    """Return kinds and edges of the ops of a block: blocks with the same ones share a drawing. 0 is the input."""
    shown = [index for index in section.members if rows[index].role not in _UNCHANGED]
    if not 2 < len(shown) <= _MOST_INSIDE:
        return None
    number = {index: position for position, index in enumerate(shown, 1)}
    edges = set()
    for index in shown:
        for source in rows[index].reads:
            while source not in number and source in section.members and rows[source].reads:
                source = rows[source].reads[0]
            edges.add((number.get(source, 0), number[index]))
    return tuple(rows[index].kind for index in shown), tuple(sorted(edges)), tuple(map(shown[0].__rsub__, shown))


def _drawn_inside(kinds: Sequence[str], edges: Sequence[tuple[int, int]], offsets: Sequence[int]) -> dict[str, Any]:
    layout = layered_layout(len(kinds) + 1, edges, box=_INNER_BOX, gap=_INNER_GAP)
    titles = [_shortened(kind, _LONGEST_INSIDE) for kind in ("input of the block", *kinds)]
    return {
        "ops": [
            {"x": x, "y": y, "title": title, "offset": offset}
            for (x, y), title, offset in zip(layout.boxes, titles, (None, *offsets), strict=True)
        ],
        "paths": layout.paths,
        "width": layout.width,
        "height": layout.height,
    }
