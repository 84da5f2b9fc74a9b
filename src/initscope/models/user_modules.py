"""Import the user's own modules as a new process would, also in a long-running process.

Python caches imported modules by name. A worker that has imported ``net.py`` from one folder would use it for a model
of another folder, and would not notice that the file was edited.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from initscope._utils.content import file_digest

__all__ = ["FreshSource", "importing", "source_digests"]


class FreshSource(SourceFileLoader):
    """Compiles a file from its source and ignores ``__pycache__``."""

    def path_stats(self, path: str) -> Any:
        """Raise OSError, so that no cached bytecode is used."""
        raise OSError


_INSTALLED = ("site-packages", "dist-packages")
_IMPORTED: dict[str, tuple[str, str]] = {}
"""Modules that were imported for a model, and are not installed: file and digest of each."""


@contextmanager
def importing(folder: Path) -> Iterator[None]:
    """Let imports find modules of ``folder`` first, and afterwards restore the search path.

    Modules that were imported here before are imported again if one of their files has changed, or if a name now stands
    for another file. Modules that the program imported itself are not changed.
    """
    path, known, unwritten = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    # Python compares bytecode with its source by size and whole seconds: an edit from ReLU to Tanh in the same second
    # would be missed.
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    if any(_is_stale(name, *content) for name, content in _IMPORTED.items()):
        for name in _IMPORTED:  # all of them: unchanged modules hold objects of changed ones
            sys.modules.pop(name, None)
        known -= _IMPORTED.keys()
        _IMPORTED.clear()
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, unwritten
        for name in sys.modules.keys() - known:
            file = _user_file(sys.modules[name])
            if file is not None:
                _IMPORTED[name] = file, file_digest(file)


def _is_stale(name: str, file: str, digest: str) -> bool:
    try:
        if file_digest(file) != digest:
            return True
    except OSError:
        return True
    top = name.partition(".")[0]
    if top not in _IMPORTED or top.startswith("_initscope_model_"):
        return False
    spec = PathFinder.find_spec(top, sys.path)
    return spec is None or spec.origin != _IMPORTED[top][0]


def _user_file(module: Any) -> str | None:
    """Return the file of a module that is neither installed nor part of the standard library, else None."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py") or not Path(file).is_file():
        return None
    parts = Path(file).resolve().parts
    standard = getattr(module, "__name__", "").partition(".")[0] in sys.stdlib_module_names
    ours = __name__.partition(".")[0] == getattr(module, "__name__", "").partition(".")[0]
    return None if standard or ours or any(part in _INSTALLED for part in parts) else file


def source_digests(names: set[str]) -> list[str]:
    """Return sorted digests of the files of those modules that are the user's own code."""
    files = {_user_file(sys.modules[name]) for name in names if name in sys.modules}
    return sorted(file_digest(file) for file in files if file is not None)
