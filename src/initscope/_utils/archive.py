"""Files of results: a ZIP archive with the fields as JSON and the arrays as ``.npy``. Nothing is ever unpickled.

Objects are the dataclasses and named tuples of this package, by the path of their class, and classes that list their
``saved_fields``. Objects that other code defines (a loss function, an initializer of the user) are saved as None.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from initscope._utils.files import atomic_path, check_memory, open_regular, reading
from initscope.errors import InputError

__all__ = ["read_archive", "write_archive"]

_FORMAT = 1
_KIND = "a result saved by initscope"
_STEP = "save it again with its save()"
_META, _VALUE, _ARRAY = "meta.json", "value.json", "arrays/{}.npy"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same result gives the same file
_SHORT = 32
"""Arrays with at most this number of values are part of the JSON."""
_CLASS = re.compile(r"(initscope(?:\.\w+)+):(\w+)")


def write_archive(path: str | os.PathLike[str], value: Any, version: str) -> None:
    """Write ``value`` to ``path`` atomically; ``version`` is that of the package."""
    arrays: list[Any] = []
    text = json.dumps(_packed(value, arrays), allow_nan=False, separators=(",", ":"))
    meta = {"format": _FORMAT, "initscope": version, "class": type(value).__name__}
    with (
        atomic_path(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file,
    ):
        _add(file, _META, json.dumps(meta).encode())
        _add(file, _VALUE, text.encode("utf-8", "backslashreplace"))
        for number, array in enumerate(arrays):
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, allow_pickle=False)
            _add(file, _ARRAY.format(number), stream.getvalue())


def read_archive(path: str | os.PathLike[str]) -> Any:
    """Read a file that `write_archive` wrote.

    Raise `InputError` for a missing, foreign, newer, damaged or too large file.
    """
    with reading(path, _KIND, _STEP), open_regular(path) as opened, zipfile.ZipFile(opened) as file:
        check_memory(path, sum(entry.file_size for entry in file.infolist()), "it was not written by initscope")
        meta = json.loads(file.read(_META))
        if meta["format"] > _FORMAT:
            raise InputError(
                f"{path} has format {meta['format']}, written by initscope {meta['initscope']}; this version reads "
                f"formats up to {_FORMAT}: update initscope"
            )
        value = _unpacked(json.loads(file.read(_VALUE)), file)
        if not dataclasses.is_dataclass(value):
            raise TypeError("no result")
        return value


def _add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    file.writestr(entry, content)


def _packed(value: Any, arrays: list[Any]) -> Any:
    """Return the JSON of a value.

    Arrays become numbers that index ``arrays``, and objects get one key that begins with ``$``.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if abs(value) < float("inf") else {"$float": repr(float(value))}
    fields = _fields(value)
    if fields is not None:
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if not _CLASS.fullmatch(name):
            return None
        return {"$class": name, "fields": {key: _packed(item, arrays) for key, item in fields}}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _packed(item, arrays) for key, item in value.items()}
        return {"$dict": [[_packed(key, arrays), _packed(item, arrays)] for key, item in value.items()]}
    for name, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            items = [_packed(item, arrays) for item in (sorted(value, key=repr) if kind in _SETS else value)]
            return items if kind is list else {name: items}
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    if hasattr(value, "detach") or isinstance(value, np.ndarray):
        return _packed_array(value, arrays)
    if _CLASS.fullmatch(f"{type(value).__module__}:{type(value).__name__}"):
        raise InputError(f"a {type(value).__name__} cannot be saved; use to_json() or to_html() instead")
    return None if callable(value) else str(value)


def _packed_array(value: Any, arrays: list[Any]) -> Any:
    """Return an array or a tensor; numbers that NumPy has no type for become float32."""
    name = "$array"
    if hasattr(value, "detach"):
        name, value = "$tensor", value.detach().cpu().resolve_conj()
        try:
            value = value.numpy()
        except TypeError:
            value = value.float().numpy()
    if value.dtype.hasobject:
        return _packed(value.tolist(), arrays)
    if name == "$array" and value.ndim == 1 and len(value) <= _SHORT and value.dtype.kind in "biuf":
        return {name: _packed(value.tolist(), arrays), "dtype": value.dtype.str}
    arrays.append(value)
    return {name: len(arrays) - 1}


_SETS: tuple[Any, ...] = (set, frozenset)
_SEQUENCES: dict[str, Any] = {"$list": list, "$tuple": tuple, "$frozenset": frozenset, "$set": set}


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """Names and values of a dataclass or a named tuple; fields with the metadata ``saved=False`` are left out."""
    if isinstance(value, type):
        return None
    shown = _plain_fields(type(value))
    if dataclasses.is_dataclass(value):
        shown = [field.name for field in dataclasses.fields(value) if field.metadata.get("saved", True)]
    return None if shown is None else [(name, getattr(value, name)) for name in shown]


def _plain_fields(cls: Any) -> Sequence[str] | None:
    """Return fields of a named tuple, or of another class that names its own; None: it is not saved."""
    names: Sequence[str] | None = getattr(cls, "_fields", None) or getattr(cls, "saved_fields", None)
    return names


def _unpacked(value: Any, file: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, file) for item in value]
    if not isinstance(value, dict):
        return value
    if "$class" in value:
        return _object(value["$class"], {name: _unpacked(item, file) for name, item in value["fields"].items()})
    if "$float" in value:
        return float(value["$float"])
    if "$dict" in value:
        return {_unpacked(key, file): _unpacked(item, file) for key, item in value["$dict"]}
    if "$array" in value or "$tensor" in value:
        number: Any = value.get("$array", value.get("$tensor"))
        if isinstance(number, list):
            return np.array(_unpacked(number, file), dtype=_dtype(value["dtype"]))
        array = np.lib.format.read_array(io.BytesIO(file.read(_ARRAY.format(int(number)))), allow_pickle=False)
        return array if "$array" in value else _tensor(array)
    for name, kind in _SEQUENCES.items():
        if name in value:
            return kind(_unpacked(item, file) for item in value[name])
    return {key: _unpacked(item, file) for key, item in value.items()}


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(str(name))
    if dtype.kind not in "biuf":
        raise TypeError(name)
    return dtype


def _tensor(array: Any) -> Any:
    return importlib.import_module("torch").from_numpy(array)  # so that no module of formulas imports torch


def _object(name: str, given: dict[str, Any]) -> Any:
    """Return an object of a class of this package with these fields; its own code does not run."""
    match = _CLASS.fullmatch(name)
    try:
        cls = None if match is None else getattr(importlib.import_module(match[1]), match[2], None)
    except ImportError:
        cls = None
    if not isinstance(cls, type) or not (dataclasses.is_dataclass(cls) or _plain_fields(cls)):
        raise InputError(f"the file holds {name!r}, which this version of initscope does not have; {_STEP}")
    if issubclass(cls, tuple):
        return cls(**given)
    result = object.__new__(cls)
    for field, value in _completed(cls, given) if dataclasses.is_dataclass(cls) else given.items():
        object.__setattr__(result, field, value)
    return result


def _completed(cls: Any, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return every field with its value in the file, or with its default if the file is older than the field."""
    for field in dataclasses.fields(cls):
        if field.name in given:
            yield field.name, given[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            yield field.name, field.default_factory()
        elif field.default is not dataclasses.MISSING:
            yield field.name, field.default
        else:
            raise InputError(f"the file has no {field.name!r} of {cls.__name__}, as this version needs; {_STEP}")
