"""A small file format for arrays: magic, version, JSON header, payload, SHA-256 over all of it.

Nothing in a file is trusted before its size and checksum are right; nothing is ever unpickled.
Files are written atomically, so that a reader sees the old file or the new one, whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from initscope._hall.files import atomic_path
from initscope.errors import InputError

__all__ = ["expect", "read_arrays", "write_arrays"]

_PREFIX = struct.Struct("<16sII")  # magic, version, length of the header
_DIGEST = 32
_DTYPES = {"uint8", "int32", "int64", "float32", "float64"}


def write_arrays(
    path: str | os.PathLike[str], magic: bytes, version: int, meta: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write ``meta`` (JSON) and named arrays to ``path``, atomically."""
    parts = [{"name": name, "dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()]
    header = json.dumps({"meta": meta, "arrays": parts}).encode()
    digest = hashlib.sha256()
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for piece in (_PREFIX.pack(magic, version, len(header)), header, *map(_bytes, arrays.values())):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())


def read_arrays(
    path: str | os.PathLike[str], magic: bytes, version: int, kind: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write_arrays` wrote; a missing, foreign, newer, truncated or altered file raises `InputError`."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if content[: len(magic)] != magic or len(content) < _PREFIX.size + _DIGEST:
        what = "is too short" if content.startswith(magic) else "is no file of this kind"
        raise InputError(f"{path}: {what}; expected {kind} saved by initscope")
    _, found, header_length = _PREFIX.unpack_from(content)
    if found > version:
        raise InputError(f"{path}: has format version {found}, this initscope reads up to {version}; update it")
    if hashlib.sha256(memoryview(content)[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise InputError(f"{path}: is truncated or damaged (its checksum is wrong); restore it from a copy")
    payload = memoryview(content)[_PREFIX.size : -_DIGEST]
    try:
        header = json.loads(bytes(payload[:header_length]))
        arrays, offset = {}, header_length
        for part in header["arrays"]:
            if part["dtype"] not in _DTYPES or not all(isinstance(size, int) and size >= 0 for size in part["shape"]):
                raise ValueError(f"array {part}")
            count = math.prod(part["shape"])
            array = np.frombuffer(payload, dtype=part["dtype"], count=count, offset=offset).reshape(part["shape"])
            arrays[str(part["name"])] = array.copy()  # aligned, and free of the file's bytes
            offset += array.nbytes
        if offset != len(payload):
            raise ValueError("length")
        return dict(header["meta"]), arrays
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path}: its header does not describe {kind} ({error}); it was not written by initscope"
        ) from error


def expect(arrays: dict[str, np.ndarray], name: str, dtype: type[np.generic], *shape: int | None) -> np.ndarray:
    """The array of that name if it has this type and shape (None: any length), else `ValueError`."""
    array = arrays[name]
    lengths = [given if wanted is None else wanted for wanted, given in zip(shape, array.shape)]
    if array.dtype != dtype or array.ndim != len(shape) or list(array.shape) != lengths:
        raise ValueError(f"{name}: {array.dtype} {array.shape} in place of {np.dtype(dtype)} {shape}")
    return array


def _bytes(array: np.ndarray) -> Any:
    """The array's memory as a buffer of bytes, without a copy."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
