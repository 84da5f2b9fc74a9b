"""A small file format for arrays: magic, version, JSON header, payload, SHA-256 over all of it.

No content of a file is used before its size and checksum are verified; nothing is unpickled. Files are written
atomically, so that a reader sees the old file or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from initscope._utils.files import atomic_path, open_regular, reading
from initscope.errors import InputError

__all__ = ["expect", "read_arrays", "read_signed", "storable", "stored_digest", "write_arrays"]

_PREFIX = struct.Struct("<16sII")  # magic, version, length of the header
_DIGEST = 32
_CHUNK = 1 << 20
_DTYPES = {"uint8", "int32", "int64", "float32", "float64"}


def write_arrays(
    path: str | os.PathLike[str], magic: bytes, version: int, meta: dict[str, Any], arrays: dict[str, np.ndarray]
) -> bytes:
    """Write ``meta`` (JSON) and named arrays to ``path``, atomically; returns the checksum."""
    parts = [{"name": name, "dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()]
    header = json.dumps({"meta": meta, "arrays": parts}).encode()
    digest = hashlib.sha256()
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for piece in (_PREFIX.pack(magic, version, len(header)), header, *map(_bytes, arrays.values())):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())
    return digest.digest()


def read_arrays(
    path: str | os.PathLike[str], magic: bytes, version: int, kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write_arrays` wrote; a missing, foreign, newer, truncated or altered file raises `InputError`."""
    return read_signed(path, magic, version, kind)[:2]


def read_signed(
    path: str | os.PathLike[str], magic: bytes, version: int, kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray], bytes]:
    """Return `read_arrays`, and the checksum that the file ends with."""
    path = Path(path)
    with reading(path, f"{kind} saved by initscope", "check the path"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(_PREFIX.size)
        if prefix[: len(magic)] != magic or size < _PREFIX.size + _DIGEST:
            what = "is too short" if prefix.startswith(magic) else "is not a file of this kind"
            raise InputError(f"{path}: {what}; expected {kind} saved by initscope")
        _, file_version, header_length = _PREFIX.unpack_from(prefix)
        if file_version > version:
            raise InputError(
                f"{path}: has format version {file_version}, this initscope reads up to {version}; update it"
            )
        digest = _checked_digest(path, file, size)
        try:
            return *_unpacked(file, size - _PREFIX.size - _DIGEST, header_length), digest
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(
                f"{path}: its header does not describe {kind} ({error}); it was not written by initscope"
            ) from error


def stored_digest(path: str | os.PathLike[str]) -> bytes | None:
    """Return the checksum at the end of the file, None if there is no file; a different one means a changed file."""
    with suppress(OSError), open_regular(path) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _DIGEST, 0))
        return file.read()
    return None


def storable(array: np.ndarray) -> np.ndarray:
    """Return the array in a type that files can hold, converted to floats if needed."""
    if array.dtype.name in _DTYPES:
        return array
    return array.astype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)


def expect(arrays: dict[str, np.ndarray], name: str, dtype: type[np.generic], *shape: int | None) -> np.ndarray:
    """Return the array of that name if it has this type and shape (None: any length); otherwise raise `ValueError`."""
    array = arrays[name]
    lengths = [given if wanted is None else wanted for wanted, given in zip(shape, array.shape)]
    if array.dtype != dtype or array.ndim != len(shape) or list(array.shape) != lengths:
        raise ValueError(f"{name}: {array.dtype} {array.shape} in place of {np.dtype(dtype)} {shape}")
    return array


def _checked_digest(path: Path, file: BinaryIO, size: int) -> bytes:
    """Return the checksum at the end of the file, if it is that of all before; a piece at a time."""
    digest, left = hashlib.sha256(), size - _DIGEST
    file.seek(0)
    while left and (piece := file.read(min(_CHUNK, left))):
        digest.update(piece)
        left -= len(piece)
    if left or digest.digest() != file.read(_DIGEST):
        raise InputError(f"{path}: is truncated or damaged (its checksum is wrong); restore it from a copy")
    return digest.digest()


def _unpacked(file: BinaryIO, size: int, header_length: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return metadata and arrays of the ``size`` bytes between prefix and checksum.

    Memory is allocated only for bytes that exist.
    """
    if header_length > size:
        raise ValueError("length")
    file.seek(_PREFIX.size)
    header = json.loads(file.read(header_length))
    arrays, left = {}, size - header_length
    for part in header["arrays"]:
        if part["dtype"] not in _DTYPES or not all(isinstance(side, int) and side >= 0 for side in part["shape"]):
            raise ValueError(f"array {part}")
        length = math.prod(part["shape"]) * np.dtype(part["dtype"]).itemsize
        if length > left:
            raise ValueError("length")
        array = np.empty(part["shape"], dtype=part["dtype"])
        if length and file.readinto(_bytes(array)) != length:  # type: ignore[attr-defined]
            raise ValueError("length")
        arrays[str(part["name"])] = array
        left -= length
    if left:
        raise ValueError("length")
    return dict(header["meta"]), arrays


def _bytes(array: np.ndarray) -> Any:
    """Return the array's memory as a buffer of bytes, without a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
