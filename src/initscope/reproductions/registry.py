"""All exhibits by name: every file of this room that declares ``EXHIBITS`` has some; to add one, add a file."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from initscope import reproductions
from initscope.errors import InputError, did_you_mean
from initscope.reproductions.protocol import Declared

__all__ = ["all_exhibits", "get"]


@functools.cache
def all_exhibits() -> dict[str, Declared]:
    """Name → exhibit, in the order of the names."""
    found: dict[str, Declared] = {}
    for module in pkgutil.iter_modules(reproductions.__path__):
        if module.name.startswith("_") or module.name in ("gallery", "protocol", "registry"):
            continue
        loaded = importlib.import_module(f"initscope.reproductions.{module.name}")
        for declared in getattr(loaded, "EXHIBITS", ()):
            found[declared.id] = declared
    return dict(sorted(found.items()))


def get(id: str) -> Declared:
    """The exhibit of that name.

    >>> get("norms-figure-1").source
    'Arpit, Bengio 2019, figure 1'
    """
    known = all_exhibits()
    if id not in known:
        raise InputError(
            f"no exhibit is called {id!r}{did_you_mean(str(id), known)}; initscope reproduce --list names them"
        )
    return known[id]
