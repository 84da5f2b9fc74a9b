"""`table_set`: the columns of a table as an `ImageSet`; every reader of tables ends here.

Numbers are used as they are, categories by codes, and a text column becomes sequences of tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope.data.arrays import LABEL_KEYS, array_as_images
from initscope.data.image_set import ImageSet, is_whole
from initscope.data.tokens import token_rows
from initscope.errors import InputError, check_count, did_you_mean
from initscope.results import counted

__all__ = ["TableColumn", "TableOptions", "column_names", "spread_rows", "table_set"]

TARGETS = (*LABEL_KEYS, "label", "target", "class")
"""Names of columns that hold the targets if the user names none."""
_MOST_CATEGORIES = 100
_WHOLE_CLASSES = 100


@dataclass(frozen=True)
class TableOptions:
    """What the user says about a table: target, columns, tokenizer, size, number of rows.

    ``size`` is the number of tokens for text, and the side, or (height, width), for images.
    """

    target: str | None = None
    columns: Sequence[str] | None = None
    tokenizer: Any = None
    size: int | tuple[int, int] | None = None
    limit: int | None = None


@dataclass(frozen=True)
class TableColumn:
    """Values of one column.

    Parameters
    ----------
    values
        Numbers ``[rows, …]`` with NaN where missing, or texts (None where missing), or codes of ``categories``
        (-1 where missing).
    categories
        Names of the codes, if the values are codes.
    left_out
        Why the column cannot be an input; empty if it can.
    """

    values: NDArray[Any]
    categories: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return self.values.dtype.kind == "O"

    def coded(self) -> TableColumn:
        """Return a column of texts as codes of its sorted different values."""
        if not self.is_text or self.left_out:
            return self
        names = sorted({text for text in self.values if text is not None})
        code = {name: number for number, name in enumerate(names)}
        codes = np.array([code.get(text, -1) for text in self.values], dtype=np.int64)
        return TableColumn(codes, tuple(names))


def table_set(name: str, columns: Mapping[str, TableColumn], options: TableOptions) -> ImageSet:
    """Return the inputs and the targets of a table.

    Parameters
    ----------
    name
        The source of the table, for messages.
    columns
        Columns of equal length, by name.
    options
        What the user says about the table.

    Returns
    -------
    ImageSet
        Vectors, one number for each column; or token sequences of one text column; or the images or arrays of one
        column that holds an array in each row. ``labels`` or ``targets`` come from the target column.
    """
    if not columns or not len(next(iter(columns.values())).values):
        raise InputError(f"{name} has no rows; give a table with at least one row")
    columns = _limited(columns, options.limit)
    target, chosen = _chosen(name, columns, options)
    steps: list[str] = []
    data = _inputs(name, chosen, options, steps)
    if target is None:
        return replace(data, steps=(*data.steps, *steps))
    labels, class_names, targets = _targets(name, target, columns[target])
    kind = "labels" if targets is None else "targets"
    return replace(
        data,
        labels=labels,
        class_names=class_names,
        targets=targets,
        steps=(f"{kind} from column {target!r}", *data.steps, *steps),
    )


def column_names(name: str, wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return ``wanted`` if all are columns of the table, else raise `InputError` with the available ones."""
    for column in wanted:
        if column not in known:
            listed = ", ".join(map(str, known[:12])) + (", …" if len(known) > 12 else "")
            raise InputError(
                f"{name} has no column {column!r}{did_you_mean(str(column), map(str, known))}; it has {listed}"
            )
    return list(wanted)


def spread_rows(rows: int, limit: int | None) -> NDArray[np.int64] | None:
    """Return the indices of at most ``limit`` rows, evenly spaced; None for all."""
    if limit is None or check_count("limit", limit) >= rows:
        return None
    return np.arange(limit, dtype=np.int64) * rows // limit


def _limited(columns: Mapping[str, TableColumn], limit: int | None) -> Mapping[str, TableColumn]:
    kept = spread_rows(len(next(iter(columns.values())).values), limit)
    if kept is None:
        return columns
    return {name: replace(column, values=column.values[kept]) for name, column in columns.items()}


def _chosen(
    name: str, columns: Mapping[str, TableColumn], options: TableOptions
) -> tuple[str | None, dict[str, TableColumn]]:
    """Return the name of the target column, if there is one, and the columns of inputs."""
    wanted = list(columns) if options.columns is None else column_names(name, options.columns, list(columns))
    target = options.target
    if target is not None:
        column_names(name, [target], list(columns))
    else:
        spared = list(columns) if options.columns is None else [key for key in columns if key not in wanted]
        target = next((key for key in spared if key.lower() in TARGETS), None)
    chosen = {key: columns[key] for key in wanted if key != target}
    if not chosen:
        raise InputError(f"{name} has no columns besides the target {target!r}; give at least one column of inputs")
    return target, chosen


def _inputs(name: str, chosen: dict[str, TableColumn], options: TableOptions, steps: list[str]) -> ImageSet:
    arrays = [key for key, column in chosen.items() if column.values.ndim > 1]
    if arrays:
        return _of_arrays(name, chosen, arrays, steps)
    wants_text = options.tokenizer is not None
    kept = {
        key: column if wants_text or key == "text" else _by_codes(column)
        for key, column in chosen.items()
        if not column.left_out
    }
    texts = [key for key, column in kept.items() if column.is_text]
    if texts and (len(texts) == len(kept) or "text" in texts or wants_text):
        return _of_text(name, kept, texts, options, steps)
    numbers = {key: column for key, column in kept.items() if not column.is_text}
    left = {key: chosen[key].left_out or "text" for key in chosen if key not in numbers}
    if options.columns is not None and left:
        column, why = next(iter(left.items()))
        raise InputError(f"{name}: column {column!r} holds {why}, the others numbers; take it out of columns")
    if not numbers:
        column, why = next(iter(left.items()))
        raise InputError(f"{name} has no column of numbers or text: column {column!r} holds {why}")
    if left:
        steps.append("left out: " + ", ".join(f"{column} ({why})" for column, why in left.items()))
    return _of_numbers(name, numbers, steps)


def _by_codes(column: TableColumn) -> TableColumn:
    """Return a column of few different texts as codes; one of many is text."""
    if not column.is_text:
        return column
    different = len(set(column.values) - {None})
    few = different <= min(_MOST_CATEGORIES, max(2, len(column.values) // 2))
    longest = max((len(text) for text in column.values if text is not None), default=0)
    return column.coded() if different and few and longest <= 100 else column


def _of_numbers(name: str, numbers: Mapping[str, TableColumn], steps: list[str]) -> ImageSet:
    categories = [column for column in numbers if numbers[column].categories]
    if categories:
        steps.append("categories by codes: " + ", ".join(f"{key} ({_range(numbers[key])})" for key in categories))
        warnings.warn(
            f"{name}: the categories of {_listed(categories)} are replaced by codes, whose order has no meaning; "
            "encode them as one-hot columns, or leave them out",
            UserWarning,
            stacklevel=2,
        )
    values = np.empty((len(next(iter(numbers.values())).values), len(numbers)), dtype=np.float64)
    for index, column in enumerate(numbers.values()):
        values[:, index] = column.values
        if column.categories:
            values[column.values < 0, index] = np.nan
    largest = np.nanmax(np.abs(values), axis=0, initial=0.0, where=np.isfinite(values))
    if (largest > np.finfo(np.float32).max).any():
        widest = list(numbers)[int(np.argmax(largest))]
        raise InputError(f"{name}: column {widest!r} holds values up to {largest.max():.2g}, too large; scale it")
    return ImageSet(values.astype(np.float32), name=name, column_names=tuple(numbers))


def _listed(names: Sequence[str]) -> str:
    return f"column {names[0]!r}" if len(names) == 1 else f"columns {', '.join(map(repr, names))}"


def _range(column: TableColumn) -> str:
    """Return the codes of a column in words: 0 female, 1 male."""
    shown = ", ".join(f"{code} {name}" for code, name in list(enumerate(column.categories))[:3])
    return shown if len(column.categories) <= 3 else f"{shown}, … {len(column.categories)} in all"


def _of_arrays(name: str, chosen: dict[str, TableColumn], arrays: list[str], steps: list[str]) -> ImageSet:
    """Return the images, vectors or token sequences of the column that holds an array in each row."""
    if len(arrays) > 1:
        preferred = [key for key in arrays if key in ("image", "img", "images", "x", "data", "input_ids")]
        if len(preferred) != 1:
            raise InputError(f"{name}: each row has an array in {_listed(arrays)}; name one of them in columns")
        arrays = preferred
    if others := [key for key in chosen if key != arrays[0]]:
        steps.append(f"left out: {', '.join(others)} (next to the arrays of {arrays[0]!r})")
    data = array_as_images(Path(name), chosen[arrays[0]].values)
    return replace(data, name=name)


def _of_text(
    name: str, kept: Mapping[str, TableColumn], texts: list[str], options: TableOptions, steps: list[str]
) -> ImageSet:
    column = texts[0] if len(texts) == 1 else "text"
    if column not in texts:
        raise InputError(f"{name}: there is text in {_listed(texts)}; name one of them in columns")
    if others := [key for key in kept if key != column]:
        steps.append(f"left out: {', '.join(others)} (next to the text of {column!r})")
    values = kept[column].values
    missing = [row for row, text in enumerate(values) if not text]
    if missing:
        raise InputError(f"{name}: column {column!r} has no text in row {missing[0]} (the first is 0); remove that row")
    ids, how = token_rows(values, options.tokenizer, _tokens(name, options))
    return ImageSet(ids, name=name, steps=(how,))


def _tokens(name: str, options: TableOptions) -> int:
    if isinstance(options.size, tuple):
        raise InputError(f"{name} is text: size is one number, the tokens of a sequence, not {options.size}")
    return 64 if options.size is None else options.size


def _targets(
    name: str, target: str, column: TableColumn
) -> tuple[NDArray[np.int64] | None, tuple[str, ...], NDArray[np.float32] | None]:
    """Return labels and names of classes, or real-valued targets."""
    if column.left_out:
        raise InputError(f"{name}: the target column {target!r} holds {column.left_out}; give numbers or categories")
    if column.values.ndim > 1:
        return None, (), column.values.astype(np.float32)
    column = column.coded()
    values = column.values
    missing = np.flatnonzero(values < 0 if column.categories else np.isnan(values.astype(np.float64)))
    if len(missing):
        raise InputError(
            f"{name}: the target column {target!r} has no value in {counted(len(missing), 'row')}, "
            f"first in row {missing[0]} (the first is 0); remove these rows"
        )
    if column.categories:
        if 2 * len(column.categories) > len(values) > 4:
            raise InputError(
                f"{name}: the target column {target!r} holds {len(column.categories)} different texts in "
                f"{len(values)} rows; give a column of classes or numbers"
            )
        return values.astype(np.int64), column.categories, None
    classes, codes = np.unique(values, return_inverse=True)
    if is_whole(values) and len(classes) <= min(_WHOLE_CLASSES, max(2, len(values) // 2)):
        return codes.astype(np.int64), tuple(str(int(value)) for value in classes), None
    return None, (), values.astype(np.float32)
