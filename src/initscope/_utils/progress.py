"""Progress of long work, and its behavior on Ctrl-C: packages report progress, a watcher shows it.

A package passes its loop to `steps`, or names its current work by `stage`; without a watcher both do nothing.
`kept_if_interrupted` wraps work whose partial results are useful. If there is a watcher, Ctrl-C ends only that work,
and `interrupted` returns True from then on. The command line has a watcher; a library call never prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

__all__ = [
    "Stage",
    "Watcher",
    "interrupted",
    "kept_if_interrupted",
    "none_is_no_result",
    "note",
    "stage",
    "steps",
    "watching",
]

Item = TypeVar("Item")


@dataclass
class Stage:
    """A piece of work: its description, its progress (``done`` of ``total``, if known), and when it ``began``."""

    what: str
    total: int | None
    began: float
    done: int = 0


@dataclass
class Watcher:
    """An observer of progress: ``stages`` holds the outermost stage first."""

    stages: list[Stage] = field(default_factory=list)
    interrupted: bool = False

    def note(self, message: str) -> None:
        """Show a remark about slow work."""


_WATCHERS: list[Watcher] = []
_NOTED: set[str] = set()


@contextmanager
def watching(watcher: Watcher) -> Iterator[Watcher]:
    """Send the progress of the block to ``watcher``."""
    _WATCHERS.append(watcher)
    try:
        yield watcher
    finally:
        _WATCHERS.remove(watcher)


@contextmanager
def stage(what: str, total: int | None = None) -> Iterator[Stage | None]:
    """Name the work of the block."""
    import time

    if not _WATCHERS:
        yield None
        return
    begun, stages = Stage(what, total, time.monotonic()), _WATCHERS[-1].stages
    stages.append(begun)
    try:
        yield begun
    finally:
        stages.remove(begun)


def steps(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Yield ``items``; each counts as done when the next one is requested."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with stage(what, total) as begun:
        for item in items:
            yield item
            if begun is not None:
                begun.done += 1


@contextmanager
def kept_if_interrupted() -> Iterator[None]:
    """Let Ctrl-C end the block instead of the call, if there is a watcher; results so far are kept."""
    try:
        yield
    except KeyboardInterrupt:
        if not _WATCHERS:
            raise
        _WATCHERS[-1].interrupted = True


def none_is_no_result(results: Sized) -> None:
    """Let Ctrl-C end the call after all, if there are no ``results`` yet."""
    if interrupted() and not len(results):
        raise KeyboardInterrupt


def interrupted() -> bool:
    """Return whether the work was interrupted, so that the rest of it is skipped."""
    return bool(_WATCHERS) and _WATCHERS[-1].interrupted


def note(message: str) -> None:
    """Explain a delay once per message: to the watcher, or on stderr in an interactive session."""
    if message in _NOTED:
        return
    _NOTED.add(message)
    if _WATCHERS:
        _WATCHERS[-1].note(message)
    elif _is_interactive():
        print(f"initscope: {message}", file=sys.stderr)


def _is_interactive() -> bool:
    import builtins

    stderr: Any = sys.stderr
    return hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1") or (stderr is not None and stderr.isatty())
