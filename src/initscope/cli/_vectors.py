"""Rows for the hash and search commands: data as vectors (pixels, or GIST descriptors), and files of codes."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from initscope.cli._sources import DATA_HELP, DataSource, load_data
from initscope.embed.codes import check_codes
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.data import ImageSet

__all__ = ["Codes", "VectorSource", "array_file", "load_vectors", "read_codes", "write_codes"]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VectorSource:
    """Options that say which rows to hash."""

    data: Annotated[str | None, Parameter(help=DATA_HELP)] = None
    size: str | None = None
    """Folders: crop and resize the images to this side, or to HEIGHTxWIDTH."""
    describe: Literal["values", "gist"] = "values"
    """Images as their pixel values, or as GIST descriptors."""
    limit: int | None = None
    """Use at most so many images."""


def load_vectors(source: VectorSource) -> ImageSet:
    """The rows that the options name, as an `ImageSet` of vectors."""
    from dataclasses import replace

    from initscope.data import gist

    data = load_data(DataSource(data=source.data, size=source.size, limit=source.limit))
    if source.describe == "gist":
        return replace(data, images=gist(data), steps=(*data.steps, "GIST"))
    return replace(data, images=data.images.reshape(len(data), -1))


@dataclass(frozen=True)
class Codes:
    """Codes of rows, their length in bits, and labels if there are any."""

    codes: np.ndarray
    bits: int
    labels: np.ndarray | None


def write_codes(path: str | os.PathLike[str], codes: Codes) -> None:
    """Write codes as .npz: ``codes``, ``bits`` and, if known, ``labels``."""
    from initscope._hall.files import atomic_path

    arrays = {"codes": codes.codes, "bits": np.array(codes.bits)}
    if codes.labels is not None:
        arrays["labels"] = codes.labels
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


@contextmanager
def array_file(path: str | os.PathLike[str], what: str, hint: str) -> Iterator[Any]:
    """What NumPy reads from the file; foreign, cut and damaged ones, or ones of other contents, are `InputError`."""
    try:
        with Path(path).open("rb") as file:
            yield np.load(file, allow_pickle=False)
    except (OSError, ValueError, KeyError, EOFError, TypeError, IndexError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{Path(path)}: holds no {what} ({error}); {hint}") from error


def read_codes(path: str | os.PathLike[str]) -> Codes:
    """Read codes: the .npz of `write_codes`, or a bare .npy of packed codes."""
    with array_file(path, "codes", "make them with: initscope hash encode") as content:
        if isinstance(content, np.ndarray):
            codes, bits, labels = content, 8 * content.shape[-1], None
        else:
            codes, bits, labels = content["codes"], int(content["bits"]), content.get("labels")
        if labels is not None and labels.shape != codes.shape[:1]:
            raise ValueError(f"codes of shape {codes.shape} and labels of shape {labels.shape}")
        return Codes(check_codes("codes", codes, bits), bits, labels)
