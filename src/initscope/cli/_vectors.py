"""Rows for the hash and search commands: data as vectors (pixels, or GIST descriptors), and files of codes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from cyclopts import Parameter

from initscope._utils.files import reading
from initscope._utils.tensors import StoredArray, stored_arrays
from initscope.cli._help import DATA
from initscope.cli._options import Whole
from initscope.cli._output import ask_of, say
from initscope.cli._sources import DATA_HELP, DataSource, load_data
from initscope.embed.codes import check_codes
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.data import ImageSet

__all__ = ["Codes", "VectorSource", "array_in_file", "load_vectors", "mapped_vectors", "read_codes", "stored_codes",
           "write_codes"]  # fmt: skip


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class VectorSource:
    """Options that say which rows to hash."""

    data: Annotated[str | None, Parameter(help=DATA_HELP)] = None
    size: str | None = None
    """Folders: crop and resize the images to this side, or to HEIGHTxWIDTH."""
    describe: Literal["values", "gist"] = "values"
    """Describe images by their pixels or by GIST descriptors."""
    limit: Whole | None = None
    """Use at most this number of images."""


def load_vectors(source: VectorSource) -> ImageSet:
    """Return the rows that the options name, as an `ImageSet` of vectors."""
    from dataclasses import replace

    from initscope.data import gist
    from initscope.data.image_set import ImageSet

    if source.data is not None and source.limit is None and source.describe == "values" and _is_matrix(source.data):
        mapped = ImageSet(mapped_vectors(Path(source.data)), name=source.data, steps=("left on the disk",))
        say(f"data: {mapped.summary}")
        ask_of(data=source.data)
        return mapped
    data = load_data(DataSource(data=source.data, size=source.size, limit=source.limit))
    if source.describe == "gist":
        return replace(data, images=gist(data), steps=(*data.steps, "GIST"))
    return replace(data, images=data.images.reshape(len(data), -1))


def _is_matrix(path: str) -> bool:
    """Return whether this is a .npy file of a matrix of floats, which need not be read as a whole."""
    if not path.endswith(".npy") or not Path(path).is_file():
        return False
    loaded = stored_arrays(Path(path), hint=_VECTORS)
    return isinstance(loaded, StoredArray) and len(loaded.shape) == 2 and loaded.dtype.kind == "f"


@dataclass(frozen=True)
class Codes:
    """Codes of rows, their length in bits, and labels if there are any."""

    codes: np.ndarray
    bits: int
    labels: np.ndarray | None


def mapped_vectors(path: Path) -> np.ndarray:
    """Open the matrix of numbers of a .npy file; it is not loaded: rows are read when they are used."""
    loaded = array_in_file(path, "vectors", _VECTORS)
    if not isinstance(loaded, StoredArray) or len(loaded.shape) != 2 or loaded.dtype.kind not in "fiu":
        raise InputError(f"{path}: holds no matrix of numbers; {_VECTORS}")
    mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


_VECTORS = "save the vectors as one matrix [N, n]: numpy.save"


def write_codes(path: str | os.PathLike[str], codes: Codes) -> None:
    """Write codes as .npz: ``codes``, ``bits`` and, if known, ``labels``."""
    from initscope._utils.files import atomic_path

    arrays = {"codes": codes.codes, "bits": np.array(codes.bits)}
    if codes.labels is not None:
        arrays["labels"] = codes.labels
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def array_in_file(path: str | os.PathLike[str], what: str, hint: str) -> StoredArray | dict[str, StoredArray]:
    """Read the array, or arrays by name, of a NumPy file with any suffix.

    Raise `InputError` for foreign, cut and damaged files.
    """
    loaded = stored_arrays(Path(path), hint=hint)
    if not loaded:
        raise InputError(f"{path}: holds no {what}; {hint}")
    return loaded


def read_codes(path: str | os.PathLike[str]) -> Codes:
    """Read codes: the .npz of `write_codes`, or a bare .npy of packed codes."""
    hint = "make them with: initscope hash encode"
    loaded = array_in_file(path, "codes", hint)
    with reading(path, "a file of codes", hint):
        if isinstance(loaded, StoredArray):
            return _checked(path, Codes(loaded.read(), 8 * math.prod(loaded.shape[1:]), None), hint)
        if not {"codes", "bits"} <= set(loaded):
            raise InputError(f"{path}: holds no codes, only {', '.join(list(loaded)[:8])}; {hint}")
        codes, bits = loaded["codes"].read(), int(loaded["bits"].read())
        labels = loaded["labels"].read() if "labels" in loaded else None
        return _checked(path, Codes(codes, bits, labels), hint)


def stored_codes(path: str | os.PathLike[str]) -> tuple[StoredArray, int]:
    """Return codes in a file that is not read yet, and their length in bits."""
    hint = "make them with: initscope hash encode"
    loaded = array_in_file(path, "codes", hint)
    with reading(path, "a file of codes", hint):
        codes = loaded if isinstance(loaded, StoredArray) else loaded["codes"]
        if codes.dtype != np.uint8 or len(codes.shape) != 2 or 0 in codes.shape:
            raise InputError(f"{path} holds {codes.dtype} of shape {codes.shape}, no packed codes; {hint}")
        return codes, 8 * codes.shape[1] if isinstance(loaded, StoredArray) else int(loaded["bits"].read())


def _checked(path: str | os.PathLike[str], rows: Codes, hint: str) -> Codes:
    try:
        check_codes("codes", rows.codes, rows.bits or None)
    except InputError as error:
        raise InputError(f"{path}: holds no codes ({error}); {hint}") from error
    if rows.labels is not None and rows.labels.shape != rows.codes.shape[:1]:
        raise InputError(
            f"{path} holds codes of shape {rows.codes.shape} and labels of shape {rows.labels.shape}; {hint}"
        )
    return rows
