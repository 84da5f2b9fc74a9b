"""`read_csv`: the columns of a CSV file, also as Excel writes it (semicolons, a byte-order mark, decimal commas)."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from initscope._utils.files import check_memory, open_regular
from initscope.data.tables import TableColumn
from initscope.errors import InputError

__all__ = ["read_csv"]

_DELIMITERS = ",;\t|"
_MISSING = {"", "-", "?", "na", "n/a", "nan", "none", "null", "#n/a", "#na", "#value!", "#div/0!", "missing"}
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?([eE][-+]?\d+)?%?")
"""A number with a decimal comma, and points between thousands."""
_MOSTLY = 0.9
"""Share of numbers in a column from which another text in it is a mistake."""
_BYTES_A_BYTE = 12
"""Memory for each byte of the file while its cells are Python texts."""


def read_csv(file: Path) -> dict[str, TableColumn]:
    """Return the columns of a CSV file by name.

    Parameters
    ----------
    file
        Separated by commas, semicolons, tabs or vertical bars; UTF-8 (with or without a byte-order mark), UTF-16 or
        Windows-1252. The first row holds the names, unless all of its cells are numbers. With semicolons or tabs,
        numbers may have decimal commas.

    Returns
    -------
    dict of TableColumn
        Numbers if all cells of a column are numbers or missing (empty, NA, NaN, ?, …), else texts.
    """
    text = _text(file)
    delimiter, text = _delimiter(text)
    rows, lines = _rows(file, text, delimiter)
    names, body = _header(file, rows, lines)
    comma = delimiter != ","
    cells = zip(*rows[body:], strict=True)
    values = zip(names, cells, strict=True)
    columns = {name: _column(file, name, texts, lines[body:], comma) for name, texts in values}
    if body and not rows[0][0].strip():
        columns[names[0]] = _without_row_numbers(columns[names[0]])
    return columns


def _without_row_numbers(column: TableColumn) -> TableColumn:
    """Return the first column, which has no name, as one that is left out if it is the index that pandas writes."""
    numbers = not column.is_text and np.array_equal(column.values, np.arange(len(column.values)))
    return replace(column, left_out="row numbers") if numbers else column


def _text(file: Path) -> str:
    check_memory(file, _BYTES_A_BYTE * file.stat().st_size, "split the file, or save it as Parquet")
    with open_regular(file) as stream:
        raw = stream.read()
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace")
    if b"\0" in raw[:4096]:
        raise InputError(f"{file} is not a CSV file: it holds binary data; save the table as CSV (UTF-8)")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def _delimiter(text: str) -> tuple[str, str]:
    """Return the delimiter that cuts the first lines into most and equally many cells; Excel may name it first."""
    if text[:4].lower() == "sep=":
        first, _, rest = text.partition("\n")
        return first[4:5] or ";", rest
    lines = [line for line in text[:65536].splitlines()[:20] if line.strip()]
    lines = lines[:-1] if len(lines) > 2 and len(text) > 65536 else lines

    def quality(delimiter: str) -> tuple[float, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        common = max(set(counts), key=counts.count, default=1)
        return (counts.count(common) / len(counts), common) if common > 1 else (0.0, 1)

    best = max(_DELIMITERS, key=quality)
    return (best if quality(best)[1] > 1 else ","), text


def _rows(file: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the rows that are not empty and the line of the file in which each ends."""
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, skipinitialspace=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not row or not any(cell.strip() for cell in row):
                continue
            if rows and len(row) != len(rows[0]):
                raise InputError(
                    f"{file}: line {reader.line_num} has {len(row)} cells but line {lines[0]} has {len(rows[0])}; "
                    f"repair that line (cells are separated by {delimiter!r})"
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{file}: line {reader.line_num} cannot be read ({error}); repair that line") from error
    if not rows:
        raise InputError(f"{file} has no rows; give a table with at least one row")
    return rows, lines


def _header(file: Path, rows: list[list[str]], lines: list[int]) -> tuple[list[str], int]:
    """Return the names of the columns and the index of the first row of values."""
    first = [cell.strip() for cell in rows[0]]
    if all(_is_number(cell) for cell in first):
        return [str(index) for index in range(len(first))], 0
    names = [name or f"column {index}" for index, name in enumerate(first)]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{file}: line {lines[0]} names two columns {double!r}; rename one of them")
    if len(rows) == 1:
        raise InputError(f"{file} has a line of names but no rows; give a table with at least one row")
    return names, 1


def _is_number(cell: str) -> bool:
    return cell.lower() in _MISSING - {""} or _float(cell) is not None or bool(_COMMA.fullmatch(cell))


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _column(file: Path, name: str, cells: Sequence[str], lines: Sequence[int], comma: bool) -> TableColumn:
    try:
        return TableColumn(np.array(cells).astype(np.float64))  # quickly, if no cell is missing
    except ValueError:
        pass
    stripped = [cell.strip() for cell in cells]
    texts = [None if cell.lower() in _MISSING else cell for cell in stripped]
    numbers = [np.nan if text is None else _number(text, comma) for text in texts]
    odd = [row for row, number in enumerate(numbers) if number is None]
    if not odd:
        return TableColumn(np.array(numbers, dtype=np.float64))
    present = sum(text is not None for text in texts)
    if len(odd) <= (1 - _MOSTLY) * present:
        row = odd[0]
        raise InputError(
            f"{file}: column {name!r} holds {stripped[row]!r} in line {lines[row]}, but numbers in most other lines; "
            "repair that line, or leave the column out"
        )
    return TableColumn(np.array(texts, dtype=object))


def _number(text: str, comma: bool) -> float | None:
    if comma and "," in text and _COMMA.fullmatch(text):
        text = text.replace(".", "").replace(",", ".")
    percent = text.endswith("%")
    number = _float(text.rstrip("% "))
    return number if number is None or not percent else number / 100
