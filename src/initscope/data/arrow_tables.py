"""`read_arrow` and `arrow_set`: tables of Parquet, Feather and Arrow files, and tables in memory.

pandas, polars and pyarrow tables, and all others with ``__arrow_c_stream__``, are read by the same function, and so
are data sets of Hugging Face, whose tables say in their metadata which columns are classes and images.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import check_memory, reading
from initscope._utils.libraries import library
from initscope.data.folders import decoded, stacked, target_size
from initscope.data.image_set import ImageSet
from initscope.data.tables import TARGETS, TableColumn, TableOptions, column_names, spread_rows, table_set
from initscope.errors import InputError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["PARQUET", "arrow_arrays", "arrow_set", "arrow_table", "read_arrow"]

PARQUET = (".parquet", ".pq")
_INDEX = re.compile(r"__index_level_\d+__")
_DAY = 86_400_000_000  # microseconds


def read_arrow(file: Path, options: TableOptions, parts: Sequence[Path] = ()) -> ImageSet:
    """Return the table of a Parquet file, a Feather file, or an Arrow file or stream.

    Parameters
    ----------
    file
        The suffix says the kind: .parquet and .pq, or .feather, .arrow and .ipc.
    options
        What the user says about the table.
    parts
        The Parquet files of a folder, which is then ``file``.
    """
    pa, folder = library("pyarrow"), file if parts else file.parent
    if file.suffix.lower() in PARQUET or parts:
        return arrow_set(str(file), _parquet(file, parts or [file]), options, folder)
    with (
        reading(file, "a Feather or Arrow file", "save the table again, or as CSV"),
        pa.memory_map(str(file)) as source,
    ):
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:  # a stream, as Hugging Face writes it
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
        return arrow_set(str(file), table, options, folder)


def _parquet(source: Path, files: Sequence[Path]) -> Any:
    pa, parquet = library("pyarrow"), library("pyarrow.parquet")
    tables, size = [], 0
    for file in files:
        with reading(file, "a Parquet file", "save the table again, or as CSV"):
            opened = parquet.ParquetFile(file)
            about = opened.metadata
            size += sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
            check_memory(source, 2 * size, "split the file, or read it in blocks (--rows)")
            tables.append(opened.read())
            if tables[-1].schema.names != tables[0].schema.names:
                raise InputError(f"{file} has other columns than {files[0]}; give files of one table")
    return pa.concat_tables(tables, promote_options="permissive")


def arrow_set(name: str, table: pyarrow.Table, options: TableOptions, folder: Path | None = None) -> ImageSet:
    """Return the inputs and targets of an Arrow table; only the rows that are asked for are converted.

    Parameters
    ----------
    name
        The source of the table, for messages.
    table
        The table; the index of a pandas table is left out.
    options
        What the user says about the table.
    folder
        Where the image files that the table names must be; None: anywhere, for tables in memory.
    """
    kept = spread_rows(table.num_rows, options.limit)
    table = table if kept is None else table.take(kept)
    features = _features(table)
    names = [column for column in table.column_names if not _INDEX.fullmatch(column)]
    if double := next((column for column in names if names.count(column) > 1), None):
        raise InputError(f"{name} has two columns {double!r}; rename one of them")
    wanted = names
    if options.columns is not None:  # the target may be any other
        wanted = [key for key in names if key in options.columns or key == options.target or key.lower() in TARGETS]
        column_names(name, options.columns, names)
    size = target_size(options.size) if features and options.size else None
    columns = {key: _column(name, key, table[key], features.get(key, {}), size, folder) for key in wanted}
    return table_set(name, columns, options)


def arrow_table(source: Any) -> pyarrow.Table:
    """Return a table of pandas, polars, pyarrow or any library with the Arrow stream interface as an Arrow table."""
    pa = library("pyarrow")
    if isinstance(source, pa.Table):
        return source
    try:
        return pa.table(source)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        message = " ".join(str(part) for part in reversed(error.args))
        raise InputError(f"the {type(source).__name__} cannot be read: {message}; give each column one type") from error


def arrow_arrays(name: str, table: pyarrow.Table) -> dict[str, NDArray[Any]]:
    """Return the columns of numbers and of lists of numbers as arrays by name: arguments of a model of transformers.

    Parameters
    ----------
    name
        The source of the table, for messages.
    table
        The table.
    """
    columns = {key: _column(name, key, table[key], {}, None) for key in table.column_names}
    return {
        key: column.values for key, column in columns.items() if column.values.dtype != object and not column.categories
    }


def _features(table: Any) -> dict[str, Any]:
    """Return what Hugging Face says about the columns of a table."""
    stored = (table.schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(stored)["info"]["features"] if stored else {}
    except (ValueError, KeyError, TypeError):
        return {}
    return {name: about for name, about in features.items() if isinstance(about, dict)}


def _column(
    source: str,
    name: str,
    column: Any,
    feature: dict[str, Any],
    size: tuple[int, int] | None,
    folder: Path | None = None,
) -> TableColumn:
    pa = library("pyarrow")
    types, kind = pa.types, column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = (
            pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type),
            kind.storage_type,
        )
    if types.is_null(kind):
        return _left_out(column, "no value in any row")
    if feature.get("names") and types.is_integer(kind):  # classes of Hugging Face
        return TableColumn(column.cast(pa.int64()).fill_null(-1).to_numpy(), tuple(map(str, feature["names"])))
    if types.is_struct(kind) and {"bytes", "path"} <= {field.name for field in kind}:
        return _images(source, name, column, size, folder)
    if types.is_dictionary(kind):
        return _categories(column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return TableColumn(np.array(column.to_pylist(), dtype=object))
    if types.is_date(kind) or types.is_timestamp(kind):
        microseconds = column.cast(pa.timestamp("us", getattr(kind, "tz", None))).cast(pa.int64())
        return TableColumn(_floats(microseconds) / _DAY)
    if _is_number(kind):
        whole = types.is_integer(kind) and column.null_count == 0
        return TableColumn(column.to_numpy() if whole else _floats(column))
    if _is_list(kind):
        values = _nested(source, name, column.combine_chunks())
        return _left_out(column, "lists of texts or objects") if values is None else TableColumn(values)
    return _left_out(column, f"values of type {kind}")


def _left_out(column: Any, why: str) -> TableColumn:
    return TableColumn(np.full(len(column), None, dtype=object), left_out=why)


def _floats(column: Any) -> NDArray[np.float64]:
    pa = library("pyarrow")
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return values


def _is_number(kind: Any) -> bool:
    types = library("pyarrow").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_list(kind: Any) -> bool:
    types = library("pyarrow").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _categories(column: Any) -> TableColumn:
    merged = column.unify_dictionaries().combine_chunks()
    merged = merged.chunk(0) if hasattr(merged, "chunk") else merged
    names = tuple(str(value) for value in merged.dictionary.to_pylist())
    codes = merged.indices.cast(library("pyarrow").int64()).fill_null(-1)
    return TableColumn(codes.to_numpy(zero_copy_only=False), names)


def _nested(source: str, name: str, column: Any) -> NDArray[Any] | None:
    """Return ``[rows, …]`` from lists of equal lengths, at any depth; None if they hold no numbers."""
    types = library("pyarrow").types
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    shape: tuple[int, ...] = (len(column),)
    while _is_list(column.type):
        fixed = types.is_fixed_size_list(column.type)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) // int(np.prod(shape[1:]))
            raise InputError(f"{source}: column {name!r} has no list in row {row} (the first is 0); remove that row")
        if not fixed:
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            odd = np.flatnonzero(lengths != lengths[:1])
            if len(odd):
                row = int(odd[0]) // int(np.prod(shape[1:]))
                raise InputError(
                    f"{source}: lists of column {name!r} have different lengths, {lengths[0]} in row 0 and "
                    f"{lengths[odd[0]]} in row {row}; cut or pad them to one length, or leave the column out"
                )
        shape += (column.type.list_size if fixed else int(lengths[0]) if len(lengths) else 0,)
        column = column.flatten()
    if not _is_number(column.type):
        return None
    whole = types.is_integer(column.type) and column.null_count == 0
    values = column.to_numpy(zero_copy_only=False) if whole else _floats(column)
    # Arrow's memory is read-only, and torch warns about read-only arrays.
    return np.require(values.reshape(shape), requirements="W")


def _images(source: str, name: str, column: Any, size: tuple[int, int] | None, folder: Path | None) -> TableColumn:
    """Return encoded images, as Hugging Face stores them, as an array of pixels."""

    def pixels() -> Iterator[NDArray[np.float32]]:
        for row, cell in enumerate(column.to_pylist()):
            content = cell and cell.get("bytes")
            where = f"{source}: column {name!r}, row {row}"
            if content is None and cell and cell.get("path"):
                content = _image_file(where, cell["path"], folder)
            if content is None:
                raise InputError(f"{where} (the first is 0) has no image; remove that row")
            yield decoded(where, io.BytesIO(content), size)

    return TableColumn(stacked(pixels(), len(column), source))


def _image_file(where: str, path: str, folder: Path | None) -> bytes | None:
    """Return the bytes of an image file that a table names, which must not be just any file of the user."""
    file = Path(path) if folder is None else folder / path
    if folder is not None and not file.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{where} names {path!r}, outside of the folder of the table; move the images into that folder"
        )
    return file.read_bytes() if file.is_file() else None
