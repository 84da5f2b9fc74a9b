"""`open_blocks`: opens a .npy file, Parquet or a folder of images as blocks, with one block in memory at a time."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.content import digest_of, sampled_digest
from initscope._utils.files import reading
from initscope._utils.libraries import library
from initscope._utils.tensors import StoredArray, stored_arrays
from initscope.data.arrays import LABEL_KEYS, array_as_images
from initscope.data.arrow_tables import arrow_arrays
from initscope.data.folders import class_labels, image_files, read_images
from initscope.data.image_set import ImageSet
from initscope.data.normalization import normalize as normalized
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    import dask.array

__all__ = ["Block", "Blocks", "check_content", "open_blocks"]

_VALUES = 1 << 24  # values per block, if the number of rows is not given
_HINT = "give a .npy file, a Parquet file or folder, or a folder of images"


@dataclass(frozen=True)
class Block:
    """Rows ``start`` to ``stop`` of a source.

    The object is small and can be sent to the process that reads the rows.
    """

    source: _Source
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def read(self) -> ImageSet:
        """Load the rows, as any loader of images returns them."""
        source = self.source
        check_content(source.path, source.content(), source.opened)
        data = source.read(self.start, self.stop)
        if source.shape is not None:
            if math.prod(data.shape) != math.prod(source.shape):
                wanted = "x".join(map(str, source.shape))
                raise InputError(f"{source.path} has rows of {math.prod(data.shape)} values, not of {wanted}")
            data = replace(data, images=data.images.reshape(len(data), *source.shape))
        return data if source.normalize is None else normalized(data, source.normalize)


@dataclass(frozen=True)
class Blocks:
    """All blocks of a source, in order."""

    blocks: tuple[Block, ...]
    shape: tuple[int, ...]
    name: str

    def __len__(self) -> int:
        return self.blocks[-1].stop

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    @property
    def summary(self) -> str:
        """Return the name, rows, shape and blocks in one line."""
        return f"{self.name}: {len(self)} rows {'×'.join(map(str, self.shape))} in {len(self.blocks)} blocks"

    def dask_array(self) -> dask.array.Array:
        """Return the rows as a `dask.array`, a chunk for each block, read when computed."""
        arrays, read = library("dask.array"), library("dask.delayed").delayed(_values)
        chunks = [arrays.from_delayed(read(block), (len(block), *self.shape), np.float32) for block in self]
        joined: dask.array.Array = arrays.concatenate(chunks)
        return joined


def _values(block: Block) -> Any:
    return block.read().images


@dataclass(frozen=True)
class _Source(ABC):
    path: Path
    shape: tuple[int, ...] | None = None
    normalize: str | None = None
    size: tuple[int, int] | None = None
    opened: str = ""
    """Digest of the content when the source was opened."""

    @abstractmethod
    def content(self) -> str:
        """Return a digest of the present content of the source, quickly."""

    @abstractmethod
    def read(self, start: int, stop: int) -> ImageSet:
        """The samples from ``start`` to ``stop``."""

    @abstractmethod
    def bounds(self, rows: int | None) -> list[int]:
        """Return the first row of each block, and the end."""


def _even(count: int, rows: int) -> list[int]:
    return [*range(0, count, rows), count]


@dataclass(frozen=True)
class _ArrayFile(_Source):
    array: StoredArray | None = None

    def content(self) -> str:
        return _files_content((self.path,))

    def read(self, start: int, stop: int) -> ImageSet:
        assert self.array is not None
        return array_as_images(self.path, self.array.read(np.arange(start, stop)))

    def bounds(self, rows: int | None) -> list[int]:
        assert self.array is not None
        if self.array.by_columns:
            raise InputError(f"{self.path} is stored column by column; save it with numpy.ascontiguousarray")
        return _even(self.array.shape[0], rows or max(1, _VALUES // max(1, math.prod(self.array.shape[1:]))))


@dataclass(frozen=True)
class _Folder(_Source):
    def content(self) -> str:
        return self.opened or _listing(self.path, image_files(self.path))

    def files(self) -> list[Path]:
        return _files(self.path, self.opened)

    def read(self, start: int, stop: int) -> ImageSet:
        files = self.files()
        images = read_images(files[start:stop], self.size)
        channels = len(read_images(files[:1], self.size)[0])
        if len(images[0]) > channels:
            raise InputError(f"{self.path} holds gray images, {files[0].name} first, and color images; convert them")
        images = np.broadcast_to(images, (len(images), channels, *images.shape[2:]))
        labels, names = class_labels(self.path, files)
        return ImageSet(images, None if labels is None else labels[start:stop], names, name=str(self.path))

    def bounds(self, rows: int | None) -> list[int]:
        files = self.files()
        return _even(len(files), rows or max(1, _VALUES // read_images(files[:1], self.size).size))


@lru_cache(maxsize=2)
def _files(folder: Path, opened: str) -> list[Path]:
    """Return the files of a folder with the listing ``opened``; they are listed once, because there may be millions."""
    files = image_files(folder)
    check_content(folder, _listing(folder, files), opened)
    return files


def _listing(folder: Path, files: list[Path]) -> str:
    return digest_of(f"{file.relative_to(folder)} {file.stat().st_size}" for file in files)


def _files_content(files: Iterable[Path]) -> str:
    return digest_of(sampled_digest(file) for file in files)


def check_content(path: Path, content: str, opened: str) -> None:
    """Refuse data that have changed since the run began."""
    if content != opened:
        raise InputError(
            f"{path} has changed since the run began: it was replaced, or this machine has another copy; "
            "use the same data everywhere and run again"
        )


@dataclass(frozen=True)
class _Parquet(_Source):
    """Row groups are read completely, so blocks end at their ends."""

    groups: tuple[tuple[Path, int, int], ...] = ()
    """File, number in it, and rows of every row group."""

    def content(self) -> str:
        return _files_content(sorted({file for file, _, _ in self.groups}))

    def read(self, start: int, stop: int) -> ImageSet:
        pa, parquet = library("pyarrow"), library("pyarrow.parquet")
        tables, at = [], 0
        with reading(self.path, "a Parquet file", _HINT):
            for file, number, rows in self.groups:
                if start <= at < stop:
                    tables.append(parquet.ParquetFile(file).read_row_group(number))
                at += rows
            table = pa.concat_tables(tables)
            labels = next((name for name in (*LABEL_KEYS, "label") if name in table.column_names), None)
            values = _matrix(self.path, table.drop_columns([labels]) if labels else table)
            data = array_as_images(self.path, values)
            return replace(data, labels=None if labels is None else _labels(table[labels]))

    def bounds(self, rows: int | None) -> list[int]:
        wanted = rows or max(1, _VALUES // max(1, math.prod(self.read(0, 1).shape)))
        bounds, at = [0], 0
        for _, _, count in self.groups:
            if at > bounds[-1] and at + count - bounds[-1] > wanted:
                bounds.append(at)
            at += count
        return [*bounds, at]


def _labels(column: Any) -> Any:
    values = column.to_numpy()
    if values.dtype.kind not in "biu":
        raise InputError(f"labels of type {values.dtype} are not whole numbers; number the classes")
    return values.astype(np.int64)


def _matrix(path: Path, table: Any) -> Any:
    """Return ``[rows, values]``: the first column of lists, or all columns of numbers next to each other."""
    arrays = arrow_arrays(str(path), table)
    lists = [values for values in arrays.values() if values.ndim > 1]
    if lists:
        return lists[0].reshape(len(table), -1)
    if not arrays:
        raise InputError(f"{path} has no column of numbers or of lists of numbers, but {', '.join(table.column_names)}")
    return np.stack([values.astype(np.float32) for values in arrays.values()], axis=1)


def open_blocks(
    path: str | os.PathLike[str],
    *,
    rows: int | None = None,
    size: int | tuple[int, int] | None = None,
    shape: tuple[int, ...] | None = None,
    normalize: str | None = None,
) -> Blocks:
    """Cut a source into blocks, without reading it.

    Parameters
    ----------
    path
        A .npy file; a Parquet file or a folder of them (one column of lists, or columns of numbers; ``label``); or a
        folder of images.
    rows : int, optional
        Rows per block; by default the number that makes 16 million values. Row groups of Parquet are not cut.
    size : int or pair of int, optional
        Folders of images: crop and resize to this.
    shape : tuple, optional
        Shape of one row, if the source stores rows as flat vectors.
    normalize : str, optional
        ``imagenet`` or ``MEAN,STD``; "standardize" would need all rows at once.
    """
    from initscope.data.folders import target_size

    if rows is not None:
        check_count("rows", rows)
    if normalize is not None and normalize.strip() == "standardize":
        raise InputError("normalize = 'standardize' needs all data at once; give MEAN,STD")
    location = Path(path)
    common: dict[str, Any] = {"path": location, "shape": shape, "normalize": normalize, "size": target_size(size)}
    source = _opened(location, common)
    source = replace(source, opened=source.content())
    bounds = source.bounds(rows)
    if len(bounds) < 2 or bounds[-1] == 0:
        raise InputError(f"{path} holds no rows; {_HINT}")
    blocks = tuple(Block(source, start, stop) for start, stop in pairwise(bounds) if stop > start)
    first = Block(source, 0, 1 if not isinstance(source, _Parquet) else blocks[0].stop).read()
    return Blocks(blocks, first.shape, str(path))


def _opened(location: Path, common: dict[str, Any]) -> _Source:
    parquets = (
        sorted(location.rglob("*.parquet"))
        if location.is_dir()
        else [location]
        if location.suffix == ".parquet"
        else []
    )
    if parquets:
        parquet = library("pyarrow.parquet")
        groups = []
        for file in parquets:
            with reading(file, "a Parquet file", _HINT):
                about = parquet.ParquetFile(file).metadata
                groups += [(file, number, about.row_group(number).num_rows) for number in range(about.num_row_groups)]
        return _Parquet(**common, groups=tuple(group for group in groups if group[2]))
    if location.is_dir():
        return _Folder(**common)
    data = stored_arrays(location, hint=_HINT)
    if not isinstance(data, StoredArray):
        raise InputError(f"{location} holds several arrays, packed; {_HINT}")
    return _ArrayFile(**common, array=data)
