"""`load`: data from any source: a name, a path, a table or data set of another library, or an array.

`seeded` adds a seed to synthetic data, `pairs_of` samples pairs as the commands do.
"""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from initscope.data.arrays import array_as_images
from initscope.data.checks import check_images
from initscope.data.folders import load_folder
from initscope.data.image_set import ImageSet
from initscope.data.kinds import FILES, check_source, file_kind
from initscope.data.named import load_named, names
from initscope.data.normalization import normalize as normalized
from initscope.data.pairs import Pairs, random_pairs, within_class_pairs
from initscope.data.tables import TableOptions, table_set
from initscope.data.text import is_text, text_set
from initscope.errors import InputError

__all__ = ["as_data", "is_drawn", "load", "pairs_of", "seeded"]


def load(
    source: Any,
    /,
    *,
    size: int | tuple[int, int] | None = None,
    normalize: str | None = None,
    limit: int | None = None,
    target_column: str | None = None,
    columns: Sequence[str] | None = None,
    tokenizer: Any = None,
    **options: Any,
) -> ImageSet:
    """Load data from a name, a file, a folder, a table or an array.

    Parameters
    ----------
    source
        A name of `names` (``photos``, ``digits``, ``fashion-mnist``, …), also with options after a colon
        (``photos:crop=32``); ``text`` or ``text:FILE`` for sequences of bytes; the path of a folder of images or of
        Parquet files, of an array file (.npy, .npz, .pt, .safetensors), a table (.csv, .tsv, .parquet, .feather,
        .arrow, .jsonl) or a WebDataset archive (.tar); a table of pandas, polars or pyarrow; a ``Dataset`` or
        ``DatasetDict`` of Hugging Face; an array or tensor. Give a folder with the name of a data set as ``./name``.
    size
        For images of folders, archives and tables: crop and resize to this side, or (height, width). For text: tokens
        per sequence, 64 by default.
    normalize
        ``imagenet``, ``standardize`` or ``MEAN,STD``, see `initscope.data.normalize`; after ``limit``.
    limit
        Load at most this many samples: the first of a named set, evenly spaced ones of all others.
    target_column
        Name of the column of a table that holds the targets: classes, or real numbers. Default: ``label``, ``labels``,
        ``target``, ``targets``, ``class`` or ``y``, if there is such a column.
    columns
        Names of the columns of a table that are inputs. Default: all others that hold numbers or categories.
    tokenizer
        For a text column: a tokenizer of transformers or tokenizers, its folder or cached name, or a function from a
        text to indices. Default: bytes.
    **options
        Options of a named set, such as ``crop=32``; ``split="test"`` for named sets with a test split and for a
        ``DatasetDict``.

    Returns
    -------
    ImageSet
        The inputs, with their labels or targets, and ``steps`` that say what was done to the values.

    Examples
    --------
    >>> load("photos", limit=10)
    ImageSet(photos: 10 images 3×64×64, 2 classes; bytes / 255)
    >>> load("photos:crop=32", limit=3, normalize="0.5,0.5").shape
    (3, 32, 32)
    """
    table = TableOptions(target_column, columns, tokenizer, size, limit)
    if not isinstance(source, (str, os.PathLike)):
        if options and (not isinstance(source, Mapping) or set(options) != {"split"}):
            raise InputError(f"{type(source).__name__} has no option {next(iter(options))!r}")
        data = _of_object(source, table, **options)
    else:
        data = _of_spec(os.fspath(source), table, options)
    return data if normalize is None else normalized(data, normalize)


def as_data(data: Any) -> Any:
    """Return names, paths, tables and data sets of other libraries as an `ImageSet`, and other objects unchanged.

    Parameters
    ----------
    data
        What a user gives to `initscope.inspect`. A table with a column ``input_ids`` becomes a dict of arrays, as a
        model of transformers takes it.
    """
    if isinstance(data, (str, os.PathLike)):
        return load(data)
    if (arrow := _arrow_of(data, "train")) is None:
        return data
    name, table = arrow
    from initscope.data.arrow_tables import arrow_arrays, arrow_set

    return arrow_arrays(name, table) if "input_ids" in table.column_names else arrow_set(name, table, TableOptions())


def _of_spec(spec: str, table: TableOptions, options: dict[str, Any]) -> ImageSet:
    check_source(spec)
    name, _, text = spec.partition(":")
    if is_text(spec):
        if isinstance(table.size, tuple):
            raise InputError(f"{spec} is a sequence of bytes: it takes one --size, the number of tokens")
        return text_set(spec, tokens=table.size or 64, limit=table.limit)
    if name in names():
        if table.target is not None or table.columns is not None:
            raise InputError(f"{name} is no table; leave target_column and columns out")
        if table.size is not None:
            options["size"] = table.size
        return load_named(name, **_with_limit(spec, _options(spec, text) | options, table.limit))
    if options:
        raise InputError(f"{spec} has no option {next(iter(options))!r}; only named sets have options")
    path = Path(spec)
    if not path.is_dir():
        return _of_file(path, table)
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        from initscope._utils.libraries import library

        return _of_object(library("datasets").load_from_disk(str(path)), table, name=spec)
    from initscope.data.arrow_tables import PARQUET, read_arrow

    if files := sorted(file for kind in PARQUET for file in path.rglob(f"*{kind}")):
        return read_arrow(path, table, files)
    _refuse_table_options(spec, table)
    return load_folder(path, table.size, limit=table.limit)


def _of_file(path: Path, table: TableOptions) -> ImageSet:
    module, _, function = FILES[file_kind(path)].partition(":")
    read = getattr(importlib.import_module(f"initscope.data.{module}"), function)
    if module == "arrays":
        _refuse_table_options(str(path), table)
        if table.size is not None:
            raise InputError(
                f"size = {table.size}: only images of folders and archives are resized; {path} has its own"
            )
        arrays: ImageSet = read(path, limit=table.limit)
        return arrays
    if module == "text":
        return _of_spec(f"text:{path}", table, {})
    if module in ("arrow_tables", "webdataset"):
        loaded: ImageSet = read(path, table)
        return loaded
    return table_set(str(path), read(path), table)


def _refuse_table_options(spec: str, table: TableOptions) -> None:
    for option in ("target", "columns", "tokenizer"):
        if getattr(table, option) is not None:
            named = "target_column" if option == "target" else option
            raise InputError(f"{named} = {getattr(table, option)!r}: {spec} is no table; leave it out")


def _of_object(source: Any, table: TableOptions, *, split: str = "train", name: str = "") -> ImageSet:
    if isinstance(source, ImageSet):
        return source if table.limit is None else source.spread(table.limit)
    if (arrow := _arrow_of(source, split)) is not None:
        from initscope.data.arrow_tables import arrow_set

        return arrow_set(name or arrow[0], arrow[1], table)
    if hasattr(source, "__array__") and hasattr(source, "shape"):
        values = np.asarray(source.detach().cpu() if hasattr(source, "detach") else source)
        data = array_as_images(Path(type(source).__name__), values)
        return data if table.limit is None else data.spread(table.limit)
    raise InputError(
        f"data of type {type(source).__name__} is not known; give a name, a path, an array, or a table of pandas, "
        "polars, pyarrow or Hugging Face"
    )


def _arrow_of(source: Any, split: str) -> tuple[str, Any] | None:
    """Return a name and the Arrow table of a table or data set of another library; None for anything else."""
    kind = type(source).__name__
    if type(source).__module__.partition(".")[0] == "datasets":
        if isinstance(source, dict):  # DatasetDict
            if split not in source:
                raise InputError(f"the {kind} has no split {split!r}; give one of {', '.join(source)} as split=")
            return f"{kind}[{split!r}]", _arrow_of(source[split], split)[1]  # type: ignore[index]
        if hasattr(source, "with_format") and hasattr(source, "__len__"):
            rows = source.with_format("arrow")[:]
            return kind, rows.replace_schema_metadata(source.features.arrow_schema.metadata)
    if hasattr(source, "__arrow_c_stream__"):
        from initscope.data.arrow_tables import arrow_table

        return kind, arrow_table(source)
    return None


def _with_limit(spec: str, options: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """Return the options with ``limit``; raise `InputError` if the options have a different one."""
    if limit is None:
        return options
    if options.get("limit", limit) != limit:
        raise InputError(f"data {spec!r} has limit={options['limit']}, but limit = {limit} is given too; give only one")
    return {**options, "limit": limit}


def _options(spec: str, text: str) -> dict[str, Any]:
    """Parse ``key=value,key=value``; numbers become numbers, AxBxC a tuple of sides, the rest stays text."""
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"data {spec!r}: {part!r} is not key=value; for example photos:crop=32")
        sides = value.split("x")
        if len(sides) > 1 and all(side.isdigit() for side in sides):
            options[key.strip()] = tuple(map(int, sides))
            continue
        try:
            options[key.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # what `literal_eval` may raise
            options[key.strip()] = value
    return options


def seeded(spec: str, seed: int) -> str:
    """Return ``spec`` with a seed added if it names synthetic data without a seed.

    >>> seeded("shapes:size=32", 3), seeded("digits", 3)
    ('shapes:size=32,seed=3', 'digits')
    """
    name, _, options = spec.partition(":")
    return f"{name}:{options},seed={seed}" if is_drawn(spec) and "seed=" not in options else spec


def is_drawn(spec: str) -> bool:
    """Return whether the data is synthetic, so that name, options and seed determine it."""
    return spec.partition(":")[0] in ("gaussian", "shapes")


def pairs_of(data: ImageSet, count: int, seed: int) -> Pairs:
    """Return ``count`` different pairs, or all if there are fewer; Gaussian data generates its own pairs."""
    check_images(data.images, name=data.name, zeros=data.images.dtype.kind == "i")
    in_twos = data.name == "gaussian"
    different = len(data) // 2 if in_twos else len(data) * (len(data) - 1) // 2
    return (within_class_pairs if in_twos else random_pairs)(data, min(count, max(different, 1)), seed)
