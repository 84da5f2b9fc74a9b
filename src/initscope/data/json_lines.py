"""`read_json_lines`: the columns of a file with one JSON object, or one text, in each line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from initscope._utils.files import check_memory, open_regular
from initscope.data.tables import TableColumn
from initscope.errors import InputError

__all__ = ["column_of_values", "read_json_lines"]

_BYTES_A_BYTE = 12


def read_json_lines(file: Path) -> dict[str, TableColumn]:
    """Return the columns of a JSONL file by name; lines that are plain strings make one column, ``text``.

    Parameters
    ----------
    file
        One JSON value in each line, as UTF-8; empty lines are skipped. A key that a line lacks is missing there.

    Returns
    -------
    dict of TableColumn
        Numbers, texts, or arrays if all lines hold lists of one shape.
    """
    check_memory(file, _BYTES_A_BYTE * file.stat().st_size, "split the file, or save it as Parquet")
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    with open_regular(file) as stream:
        for line, raw in enumerate(stream, 1):
            if not raw.strip():
                continue
            try:
                value = json.loads(raw.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file}: line {line} is not JSON ({error}); give one object in each line") from error
            if not isinstance(value, (dict, str)):
                raise InputError(f"{file}: line {line} holds a {type(value).__name__}; give one object in each line")
            rows.append({"text": value} if isinstance(value, str) else value)
            lines.append(line)
    names = list(dict.fromkeys(name for row in rows for name in row))
    where = [f"line {line}" for line in lines]
    return {name: column_of_values(str(file), name, [row.get(name) for row in rows], where) for name in names}


def column_of_values(source: str, name: str, values: Sequence[Any], where: Sequence[str]) -> TableColumn:
    """Return Python values as a column; ``where`` says where each of them stands, for messages."""
    kinds = {_kind(value) for value in values} - {"nothing"}
    if len(kinds) > 1:
        usual = max(kinds, key=[_kind(value) for value in values].count)
        row = next(row for row, value in enumerate(values) if _kind(value) not in (usual, "nothing"))
        raise InputError(
            f"{source}: column {name!r} holds a {_kind(values[row])} in {where[row]}, but mostly a {usual}; "
            "repair that row, or leave the column out"
        )
    kind = kinds.pop() if kinds else "nothing"
    if kind in ("number", "nothing"):
        return TableColumn(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
    if kind == "text":
        return TableColumn(np.array(values, dtype=object))
    if kind != "list":
        return TableColumn(np.array([None] * len(values), dtype=object), left_out=f"a {kind} in each row")
    if None in values:
        raise InputError(f"{source}: column {name!r} has no list in {where[values.index(None)]}; remove that row")
    shapes = [np.shape(value) if _is_regular(value) else None for value in values]
    odd = next((row for row, shape in enumerate(shapes) if shape is None or shape != shapes[0]), None)
    array = None if odd is not None else np.array(values)
    if array is None or array.dtype.kind not in "biuf":
        texts = array is not None and array.dtype.kind == "U"
        return TableColumn(
            np.array([None] * len(values), dtype=object),
            left_out="lists of texts" if texts else f"lists of different lengths, first in {where[odd or 0]}",
        )
    return TableColumn(array)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (bool, int, float)):
        return "number"
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else "object"


def _is_regular(value: Any) -> bool:
    try:
        np.shape(value)
    except ValueError:
        return False
    return True
