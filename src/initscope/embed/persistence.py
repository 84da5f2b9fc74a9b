"""`save_hasher` and `load_hasher`: fitted hashes as arrays in a checked file, written atomically, never pickled."""

from __future__ import annotations

import copy
import importlib
import os
from typing import Any

import numpy as np

from initscope.embed._base import Hasher
from initscope.embed._container import read_arrays, write_arrays
from initscope.errors import InputError, check_count, did_you_mean

__all__ = ["HASHERS", "hasher_class", "hasher_state", "load_hasher", "restored_hasher", "save_hasher"]

HASHERS = {
    "random": "sign_hash:SignHash",
    "itq": "itq:ITQ",
    "agh": "agh:AGH",
    "diffhash": "diff_hash:DiffHash",
    "ssh": "ssh:SSH",
    "ksh": "ksh:KSH",
    "learned": "learned_hash:LearnedHash",
}
"""Short name of every hash, for the command line and for files."""

_MAGIC, _VERSION = b"initscope-hash1\n", 1
_MOST_FEATURES = 1 << 26


def hasher_class(name: str) -> type[Hasher]:
    """Return the class of a short name."""
    if name not in HASHERS:
        raise InputError(
            f"method = {name!r} is unknown{did_you_mean(name, HASHERS)}; choose one of {', '.join(HASHERS)}"
        )
    module, _, attribute = HASHERS[name].partition(":")
    hasher_class: type[Hasher] = getattr(importlib.import_module(f"initscope.embed.{module}"), attribute)
    return hasher_class


def save_hasher(hasher: Hasher, path: str | os.PathLike[str]) -> None:
    """Write a fitted hash to ``path``, with the names of its columns and classes.

    Parameters must be plain values (a seed, not a generator); a `LearnedHash` with a user's network is refused.
    """
    write_arrays(path, _MAGIC, _VERSION, *hasher_state(hasher))


def hasher_state(hasher: Hasher) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the plain values and the arrays of a fitted hash, by name."""
    target = f"{type(hasher).__module__}:{type(hasher).__qualname__}"
    names = [name for name, known in HASHERS.items() if target == f"initscope.embed.{known}"]
    if not names:
        raise InputError(
            f"{hasher!r} ({target}) is not a hash of initscope, and files hold no code; save it as a pickle"
        )
    if not hasattr(hasher, "n_features_in_"):
        raise InputError(f"{hasher!r} is not fitted; fit it first")
    parameters = {name: _plain(name, value) for name, value in hasher.get_params().items()}
    arrays: dict[str, np.ndarray] = {}
    numbers: dict[str, float] = {}
    lists: dict[str, int] = {}
    labels: dict[str, list[Any]] = {}
    for name, value in vars(hasher).items():
        if not _is_learned(name) or name == "n_features_in_":
            continue
        if name in ("classes_", "feature_names_in_"):
            labels[name] = _plain(name, value)
        elif isinstance(value, list):
            lists[name] = len(value)
            arrays.update({f"{name}/{index}": np.asarray(item) for index, item in enumerate(value)})
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            numbers[name] = float(value)
    meta = {
        "method": names[0],
        "parameters": parameters,
        "features": int(hasher.n_features_in_),
        "numbers": numbers,
        "lists": lists,
        "labels": labels,
    }
    return meta, arrays


def load_hasher(path: str | os.PathLike[str]) -> Hasher:
    """Read a fitted hash; a foreign, truncated or damaged file, or a hash that cannot encode a row, is refused."""
    meta, arrays = read_arrays(path, _MAGIC, _VERSION, "a fitted hash")
    try:
        return restored_hasher(meta, arrays)
    except Exception as error:  # wrong arrays may raise anything; the cause is the file
        raise InputError(f"{path}: holds no usable hash ({error or type(error).__name__})") from error


def restored_hasher(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Hasher:
    """Return the hash of a `hasher_state`; a wrong state may raise any exception."""
    parameters = {
        name: tuple(value) if isinstance(value, list) else value for name, value in meta["parameters"].items()
    }
    hasher = hasher_class(meta["method"])(**parameters)
    hasher._start()
    features = hasher.n_features_in_ = check_count("features", meta["features"], most=_MOST_FEATURES)
    learned: dict[str, Any] = {name: float(value) for name, value in meta["numbers"].items()}
    for name, count in meta["lists"].items():
        learned[name] = [arrays.pop(f"{name}/{index}") for index in range(count)]
    for name, values in meta["labels"].items():
        learned[name] = np.array(values, dtype=object if name == "feature_names_in_" else None)
    for name, value in {**learned, **arrays}.items():
        if not _is_learned(name):
            raise ValueError(f"{name} is not learned")
        setattr(hasher, name, value)
    if len(getattr(hasher, "feature_names_in_", range(features))) != features:
        raise ValueError(f"{len(hasher.feature_names_in_)} names of {features} columns")
    _encode_a_row(hasher)
    return hasher


def _encode_a_row(hasher: Hasher) -> None:
    """Check the arrays by encoding a row: it must give one score per bit."""
    trial = copy.copy(hasher)
    trial.__dict__["device"] = None  # the graphics card of the machine that wrote the file may be missing here
    with np.errstate(all="ignore"):
        for _, block in trial._blocks(np.zeros((1, hasher.n_features_in_), dtype=np.float32)):
            shape = trial._scores(block).shape
    if shape != (1, hasher.bits):
        raise ValueError(f"a row becomes scores of shape {shape} instead of {hasher.bits} bits")


def _is_learned(name: str) -> bool:
    """Return whether an attribute is what ``fit`` leaves, by scikit-learn's naming."""
    return name.endswith("_") and not name.startswith("_")


def _plain(name: str, value: Any) -> Any:
    """Return ``value`` as a JSON value: a number, a text, a Boolean, None, or a list of these."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    raise InputError(f"{name} = {value!r} cannot be written to a file; use plain values (a whole number as seed)")
