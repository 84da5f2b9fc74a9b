"""`save_hasher` and `load_hasher`: fitted hashes as arrays in a checked file, written atomically, never pickled."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from initscope.embed._base import Hasher
from initscope.embed._container import read_arrays, write_arrays
from initscope.errors import InputError

__all__ = ["HASHERS", "load_hasher", "save_hasher"]

HASHERS = {
    "random": "sign_hash:SignHash",
    "itq": "itq:ITQ",
    "agh": "agh:AGH",
    "diffhash": "diff_hash:DiffHash",
    "ssh": "ssh:SSH",
    "ksh": "ksh:KSH",
    "learned": "learned_hash:LearnedHash",
}
"""Short name of every hash, as the command line and the files call it."""

_MAGIC, _VERSION = b"initscope-hash1\n", 1
_PLAIN = (bool, int, float, str, type(None))


def hasher_class(name: str) -> type[Hasher]:
    """The class behind a short name."""
    if name not in HASHERS:
        raise InputError(f"method = {name!r} is unknown; choose one of {', '.join(HASHERS)}")
    module, _, attribute = HASHERS[name].partition(":")
    found: type[Hasher] = getattr(importlib.import_module(f"initscope.embed.{module}"), attribute)
    return found


def save_hasher(hasher: Hasher, path: str | os.PathLike[str]) -> None:
    """Write a fitted hash to ``path``.

    Parameters must be plain values (a seed, not a generator); a `LearnedHash` with a network of its own is refused.
    """
    names = [name for name, target in HASHERS.items() if target.endswith(f":{type(hasher).__name__}")]
    if not names or not hasattr(hasher, "n_features_in_"):
        raise InputError(f"{hasher!r} is not a fitted hash of initscope; fit it first")
    parameters = {
        name: list(value) if isinstance(value, tuple) else value for name, value in hasher.get_params().items()
    }
    for name, value in parameters.items():
        if not isinstance(value, _PLAIN) and not (
            isinstance(value, list) and all(isinstance(v, _PLAIN) for v in value)
        ):
            raise InputError(
                f"{name} = {value!r} cannot be written to a file; use plain parameters (a whole number as seed)"
            )
    arrays: dict[str, np.ndarray] = {}
    numbers: dict[str, float] = {}
    lists: dict[str, int] = {}
    for name, value in vars(hasher).items():
        if not name.endswith("_") or name.startswith("_") or name in ("n_features_in_", "feature_names_in_"):
            continue
        if isinstance(value, list):
            lists[name] = len(value)
            arrays.update({f"{name}/{place}": np.asarray(each) for place, each in enumerate(value)})
        elif isinstance(value, np.ndarray):
            arrays[name] = np.arange(len(value)) if name == "classes_" else value
        else:
            numbers[name] = float(value)
    meta = {
        "method": names[0],
        "parameters": parameters,
        "features": int(hasher.n_features_in_),
        "numbers": numbers,
        "lists": lists,
    }
    write_arrays(path, _MAGIC, _VERSION, meta, arrays)


def load_hasher(path: str | os.PathLike[str]) -> Hasher:
    """Read a fitted hash; a foreign, truncated or damaged file is refused."""
    meta, arrays = read_arrays(path, _MAGIC, _VERSION, "a fitted hash")
    try:
        parameters: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in meta["parameters"].items()
        }
        hasher = hasher_class(meta["method"])(**parameters)
        hasher._start()
        hasher.n_features_in_ = int(meta["features"])
        for name, value in meta["numbers"].items():
            setattr(hasher, name, value)
        for name, count in meta["lists"].items():
            setattr(hasher, name, [arrays.pop(f"{name}/{place}") for place in range(count)])
        for name, array in arrays.items():
            setattr(hasher, name, array)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: holds no usable hash ({error})") from error
    return hasher
