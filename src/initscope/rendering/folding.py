"""Folding of rows by module: one line per block of a network, or per module up to a depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from initscope.geometry import Floats, Row, geometric_mean, is_number, spoken
from initscope.results import counted
from initscope.traits import RowStructure

__all__ = ["JOINS", "block_names", "few_lines", "fold", "folded_table", "folding_summary", "group", "line_title"]

_UNCHANGED = ("movement", "bookkeeping")
"""Roles that leave the geometry as it was: their rows fold into the one before."""
_OPS = " ops"
_MOST_LINES = 30
_GROUPS = 12
"""Tables with more than `_MOST_LINES` lines are folded into about `_GROUPS` groups."""
Line = tuple[str, list[int]]
"""A name, and the indices of the rows that it stands for."""


def _largest(values: Floats) -> float:
    return float(values.max())


def _mean(values: Floats) -> float:
    return float(values.mean())


JOINS: dict[str, Callable[[Floats], float]] = {
    "gradient_over_last": geometric_mean,
    "gradient_over_last_predicted": geometric_mean,
    "gradient_ratio": geometric_mean,
    "gradient_ratio_predicted": geometric_mean,
    "attention_entropy_predicted": _mean,
    "attention_entropy_measured": _mean,
    "dead_fraction": _largest,
    "saturated_fraction": _largest,
}
"""Functions by column that reduce all rows of a line to one value; other columns show the value of the last row."""


def block_names(rows: Sequence[Row | RowStructure], depth: int | None = None) -> list[str]:
    """Return for every row the name of its block.

    Parameters
    ----------
    rows : sequence of Row
        Rows with ``within``, the path of their module.
    depth : int, optional
        Fold to module paths of this length. None: fold to blocks. Blocks are the members of a list of modules that
        hold several layers with weights each. Other rows fold into their module if it has at most two such layers.
    """
    if depth is not None:
        return [_cut(row, depth) for row in rows]
    weights = Counter(prefix for row in rows if row.has_weights for prefix in _prefixes(row.within))
    blocks = _blocks(weights)
    above = {prefix for block in blocks for prefix in _prefixes(block)} - blocks
    return [_name(row, weights, blocks, above) for row in rows]


def fold(rows: Sequence[Row], depth: int | None = None) -> list[Line]:
    """Return the lines, each with its name and the indices of its rows, in the order of their first rows.

    Rows that do not change the geometry (views, inactive dropout, copies) join the line before them. With ``depth=0``
    every row is a line.
    """
    if depth == 0:
        return [(row.layer, [index]) for index, row in enumerate(rows)]
    lines: list[Line] = []
    for index, (row, name) in enumerate(zip(rows, block_names(rows, depth), strict=True)):
        alone = name == row.layer
        unchanged = alone and row.role in _UNCHANGED and bool(lines)
        if unchanged or (lines and not alone and lines[-1][0] == name):
            lines[-1][1].append(index)
        else:
            lines.append((name, [index]))
    return lines


def few_lines(
    rows: Sequence[Row], depth: int | None = None, alone: Set[int] = frozenset(), most: int | None = None
) -> list[Line]:
    """Return the lines of `fold`, grouped into about a dozen if they are too many for a terminal.

    Rows in ``alone`` are not grouped with others. With a ``depth``, lines are never grouped. With ``most`` there are at
    most that many groups, plus one for the input and one for the rest; if rows in ``alone`` would make more, they are
    grouped too.
    """
    lines = fold(rows, depth)
    if depth is not None or len(lines) <= (_MOST_LINES if most is None else most):
        return lines
    if most is None:
        return group(rows, lines, _GROUPS, alone)
    tries = (group(rows, lines, groups, apart) for apart in (alone, frozenset()) for groups in range(most, 0, -1))
    return min(tries, key=lambda groups: max(0, len(groups) - most))


def folded_table(
    rows: Sequence[Row], table: Sequence[Mapping[str, Any]], lines: Sequence[Line]
) -> list[dict[str, Any]]:
    """Return one dict per line: values of the last row that changes the geometry, or `JOINS` over all rows.

    ``table`` has a dict for each of ``rows``. In the result, ``title`` is the displayed name of a line and ``rows`` the
    number of its rows.
    """
    result = []
    for name, members in lines:
        changing = [index for index in members if rows[index].role not in _UNCHANGED] or members
        line = dict(table[changing[-1]]) | {"layer": name, "title": line_title(rows, (name, members))}
        line["rows"] = len(members)
        if len(changing) > 1:
            line["kind"] = f"{len(changing)}{_OPS}"
        for column in JOINS.keys() & line.keys():
            known = [table[index][column] for index in members if table[index].get(column) is not None]
            line[column] = JOINS[column](np.array(known)) if known else None
        result.append(line)
    return result


def folding_summary(table: Sequence[Mapping[str, Any]], how_to_see_all: str = "--depth 0 prints them all") -> str:
    """Return how many ops the lines of a `folded_table` stand for and how to see all; empty if no line was folded."""
    if not any(line["kind"].endswith(_OPS) for line in table):
        return ""
    return f"{counted(sum(line['rows'] for line in table), 'op')} in {len(table)} lines; {how_to_see_all}"


def line_title(rows: Sequence[Row], line: Line) -> str:
    """Return the displayed name of a line: “layer 11 (Linear)”, “block 3”, or the path of a module."""
    name, members = line
    first = rows[members[0]]
    return first.title if name == first.layer else spoken(name, "block")


def group(rows: Sequence[Row], lines: Sequence[Line], groups: int, alone: Set[int] = frozenset()) -> list[Line]:
    """Join adjacent lines to about ``groups`` groups, with titles as names.

    A group begins with weights. The input, and every line with a row of ``alone``, forms a group of its own.
    """
    least, closed, joined = len(lines) / groups, True, list[list[Line]]()
    for number, line in enumerate(lines):
        weighty = any(rows[index].role in ("weights", "recurrent") for index in line[1])
        single = number == 0 or not alone.isdisjoint(line[1])
        full = bool(joined) and len(joined[-1]) >= least and (weighty or len(joined[-1]) > 2 * least)
        if single or closed or full:
            joined.append([])
        joined[-1].append(line)
        closed = single
    return [(_group_title(rows, part), [index for _, members in part for index in members]) for part in joined]


def _group_title(rows: Sequence[Row], lines: Sequence[Line]) -> str:
    """Return “layers 1–16”, “blocks 2–9”, or the names of the first and the last line."""
    first, last = (line_title(rows, line) for line in (lines[0], lines[-1]))
    if first == last:
        return first
    if all(title.startswith("block ") for title in (first, last)):
        return f"blocks {first.removeprefix('block ')}–{last.removeprefix('block ')}"
    if all(is_number(rows[members[0]].layer) for _, members in (lines[0], lines[-1])):
        numbers = [rows[index].number for _, members in lines for index in members if rows[index].has_weights]
        if numbers:
            return f"layer {numbers[0]}" if len(set(numbers)) == 1 else f"layers {min(numbers)}–{max(numbers)}"
    return f"{first} to {last}"


def _prefixes(path: str) -> list[str]:
    """Return the prefixes of a path: ``a``, ``a.b``, ``a.b.c``."""
    parts = path.split(".") if path else []
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _cut(row: Row | RowStructure, depth: int) -> str:
    parts = row.within.split(".") if row.within else []
    return ".".join(parts[:depth]) if depth and len(parts) >= depth and row.role != "input" else row.layer


def _blocks(weights: Mapping[str, int]) -> set[str]:
    """Return the numbered members of lists of modules in which at least two members have two layers with weights."""
    members: dict[str, set[str]] = {}
    for path, count in weights.items():
        parent, _, last = path.rpartition(".")
        if last.isdigit() and count >= 2:
            members.setdefault(parent, set()).add(path)
    several = {member for group in members.values() if len(group) >= 2 for member in group}
    return {path for path in several if not any(other.startswith(f"{path}.") for other in several)}


def _name(row: Row | RowStructure, weights: Mapping[str, int], blocks: set[str], above: set[str]) -> str:
    if row.role == "input":
        return row.layer
    for prefix in _prefixes(row.within):
        if prefix in blocks:
            return prefix
        if prefix not in above and 0 < weights.get(prefix, 0) <= 2 and prefix != row.within:
            return prefix
    return row.layer if row.within in above or not row.within else _small_module(row, weights)


def _small_module(row: Row | RowStructure, weights: Mapping[str, int]) -> str:
    """Return the module of an op, or the small module that calls it."""
    return row.within if weights.get(row.within, 0) <= 2 and row.layer.startswith(row.within) else row.layer
