"""Registry of reproductions by name, from all files of this package that declare ``REPRODUCTIONS``."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from initscope import reproductions
from initscope.errors import InputError, did_you_mean
from initscope.reproductions.protocol import Declared
from initscope.theory.statements import Statement, find_statements

__all__ = ["all_reproductions", "get", "matching"]


@functools.cache
def all_reproductions() -> dict[str, Declared]:
    """Return all reproductions by name, sorted by name."""
    by_name: dict[str, Declared] = {}
    for module in pkgutil.iter_modules(reproductions.__path__):
        if module.name.startswith("_") or module.name in ("gallery", "protocol", "registry"):
            continue
        loaded = importlib.import_module(f"initscope.reproductions.{module.name}")
        for declared in getattr(loaded, "REPRODUCTIONS", ()):
            by_name[declared.id] = declared
    return dict(sorted(by_name.items()))


def get(id: str) -> Declared:
    """Return the reproduction of this name.

    >>> get("norms-figure-1").source
    'Arpit, Bengio 2019, figure 1'
    """
    known = all_reproductions()
    if id not in known:
        raise InputError(
            f"no reproduction is named {id!r}{did_you_mean(str(id), known)}; initscope reproduce --list shows the"
            " names, and a statement in quotes finds its reproductions: 'cnn theorem 3'"
        )
    return known[id]


def matching(name: str) -> tuple[str, ...]:
    """Return the names of the reproductions of a statement such as ``cnn theorem 3``; names are returned unchanged.

    If several sources have such a statement, an `InputError` lists the reproductions of each.

    >>> matching("norms lemma 3")
    ('norms-lemma-3',)
    """
    if " " not in name.strip():
        return (name,)
    best: dict[str, Statement] = {}
    for statement in find_statements(name):
        best.setdefault(statement.source, statement)
    shown = {source: statement.reproductions for source, statement in best.items() if statement.reproductions}
    if len(shown) == 1:
        return next(iter(shown.values()))
    if not shown:
        titles = "; ".join(f"{statement.source}: {statement.title}" for statement in best.values())
        raise InputError(f"{name!r} has no reproduction ({titles}); its function and test: initscope theorem {name}")
    choices = "; ".join(f"{source}: {', '.join(names)}" for source, names in shown.items())
    raise InputError(f"{name!r} is a statement of {len(shown)} sources; name one reproduction or the source. {choices}")
