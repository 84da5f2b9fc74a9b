"""Where long work is, and what becomes of it on Ctrl-C: rooms tell, whoever watches decides.

A room passes what it goes through to `steps`, or names what it does by `stage`; without a watcher nothing happens.
Around work whose parts are worth having it puts `kept_if_interrupted`: if the watcher keeps what was found, Ctrl-C ends
that work only, and `interrupted` says so from then on. The command line watches; a library call never prints.
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
    """What is being done, how far it is (``done`` of ``total``, if anybody knows), and when it ``began``."""

    what: str
    total: int | None
    began: float
    done: int = 0


@dataclass
class Watcher:
    """Who looks on: ``stages`` holds the outermost stage first."""

    stages: list[Stage] = field(default_factory=list)
    interrupted: bool = False

    def note(self, message: str) -> None:
        """A remark on what takes time."""


_WATCHERS: list[Watcher] = []
_NOTED: set[str] = set()


@contextmanager
def watching(watcher: Watcher) -> Iterator[Watcher]:
    """Let ``watcher`` look on for the time of the block."""
    _WATCHERS.append(watcher)
    try:
        yield watcher
    finally:
        _WATCHERS.remove(watcher)


@contextmanager
def stage(what: str, total: int | None = None) -> Iterator[Stage | None]:
    """Name what the block does."""
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
    """``items`` one by one, counted as done when the next one is asked for."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with stage(what, total) as begun:
        for item in items:
            yield item
            if begun is not None:
                begun.done += 1


@contextmanager
def kept_if_interrupted() -> Iterator[None]:
    """Let Ctrl-C end the block instead of the call, if the watcher keeps what was found."""
    try:
        yield
    except KeyboardInterrupt:
        if not _WATCHERS:
            raise
        _WATCHERS[-1].interrupted = True


def none_is_no_result(found: Sized) -> None:
    """Let Ctrl-C end the call after all, where nothing was ``found`` before it."""
    if interrupted() and not len(found):
        raise KeyboardInterrupt


def interrupted() -> bool:
    """Whether the watcher's work was interrupted, so that what is left of it is better left out."""
    return bool(_WATCHERS) and _WATCHERS[-1].interrupted


def note(message: str) -> None:
    """Say why nothing seems to happen, once: to the watcher, or on stderr where a person sits before it."""
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
