"""`load_tar`: samples of a WebDataset archive: the files of a tar archive that share a name up to the first point."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np

from initscope._utils.files import check_memory, open_regular, reading
from initscope.data.folders import SUFFIXES, decoded, stacked, target_size
from initscope.data.image_set import ImageSet
from initscope.data.json_lines import column_of_values
from initscope.data.tables import TableColumn, TableOptions, spread_rows, table_set
from initscope.errors import InputError

__all__ = ["load_tar"]

_HINT = "give a tar archive of samples: 000.jpg and 000.cls, 001.jpg and 001.cls, …"
_TEXTS = (".txt", ".text", ".transcript")
_NUMBERS = (".cls", ".cls2", ".index", ".id")


def load_tar(file: Path, options: TableOptions) -> ImageSet:
    """Return the samples of a WebDataset archive.

    Parameters
    ----------
    file
        A tar archive, also compressed. Files of one sample follow each other and share their name up to the first
        point: an image or ``.npy`` array, ``.cls`` with a number or name of the class, ``.txt``, ``.json``.
    options
        What the user says about columns; the columns are the suffixes without the point, and the keys of ``.json``.
    """
    shape = target_size(options.size) if options.size is not None else None
    with reading(file, "a tar archive", _HINT), open_regular(file) as raw:
        check_memory(file, 4 * file.stat().st_size, "split the archive")
        with tarfile.open(fileobj=raw, mode="r:*") as archive:
            members = _members(archive)
            if not members:
                raise InputError(f"{file} holds no samples; {_HINT}")
            rows = spread_rows(len(members), options.limit)
            keys = list(members) if rows is None else [list(members)[row] for row in rows]
            samples = [_sample(file, archive, members[key], shape) for key in keys]
    names = list(dict.fromkeys(name for sample in samples for name in sample))
    columns = {name: _column(file, name, [sample.get(name) for sample in samples], keys) for name in names}
    target = options.target or next((name for name in ("cls", "label", "class", "target") if name in columns), None)
    return table_set(str(file), columns, replace(options, target=target))


def _members(archive: tarfile.TarFile) -> dict[str, dict[str, tarfile.TarInfo]]:
    """Return the files of each sample by their suffixes, the samples by the common part of their names."""
    samples: dict[str, dict[str, tarfile.TarInfo]] = {}
    for member in archive:
        path = PurePosixPath(member.name)
        stem, point, suffix = path.name.partition(".")
        if member.isfile() and point and stem:
            samples.setdefault(str(path.parent / stem), {})[f".{suffix.lower()}"] = member
    return samples


def _sample(
    file: Path, archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo], size: tuple[int, int] | None
) -> dict[str, Any]:
    sample: dict[str, Any] = {}
    for suffix, member in members.items():
        check_memory(file, member.size, "split the archive")
        stream = archive.extractfile(member)
        assert stream is not None
        sample.update(_part(f"{file}: {member.name}", suffix, io.BytesIO(stream.read()), size))
    return sample


def _part(where: str, suffix: str, content: BinaryIO, size: tuple[int, int] | None) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that one file of a sample holds."""
    last = f".{suffix.rpartition('.')[2]}"
    name = suffix.strip(".")
    if last in SUFFIXES:
        yield ("image" if suffix == last else name.rpartition(".")[0]), decoded(where, content, size)
    elif last == ".npy":
        with reading(where, "a .npy file", "save plain arrays"):
            yield name, np.lib.format.read_array(content, allow_pickle=False)
    elif last in _TEXTS or last in _NUMBERS:
        text = content.read().decode("utf-8", errors="replace").strip()
        yield name, float(text) if last in _NUMBERS and text.lstrip("-").isdigit() else text
    elif last == ".json":
        try:
            value = json.load(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON ({error}); repair it") from error
        yield from value.items() if isinstance(value, dict) else [(name, value)]


def _column(file: Path, name: str, values: list[Any], keys: list[str]) -> TableColumn:
    where = [f"sample {key!r}" for key in keys]
    if not any(isinstance(value, np.ndarray) for value in values):
        return column_of_values(str(file), name, values, where)
    missing = next((member for member, value in zip(where, values) if value is None), None)
    if missing is not None:
        raise InputError(f"{file}: {missing} has no {name!r}; every sample needs one")
    if all(value.dtype == np.float32 and value.ndim == 3 for value in values):
        return TableColumn(stacked(values, len(values), str(file), names=where))
    odd = next((member for member, value in zip(where, values) if value.shape != values[0].shape), None)
    if odd is not None:
        raise InputError(f"{file}: arrays {name!r} have different shapes, first in {odd}; give one shape")
    return TableColumn(np.stack(values))
