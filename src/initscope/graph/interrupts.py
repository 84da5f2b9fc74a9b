"""Delayed interrupts: a protected call that has begun is finished before Ctrl-C takes effect.

Python raises ``KeyboardInterrupt`` between any two instructions, also between the end of a ``with`` block and the first
line of its ``__exit__``, which then never runs. While `hear` is active, a handler checks where the signal arrived: in a
call of an `uninterrupted` function it waits, elsewhere it is passed on at once. In the few lines of torch and Python
that enter and leave contexts, the signal is repeated a moment later: otherwise the garbage collector would finish a
half-left context at an arbitrary moment.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.utils.weak
from torch.autograd import grad_mode

__all__ = ["give_back", "hear", "pass_on", "uninterrupted"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Ear:
    """The handler that was there before ours, and whether a signal waits."""

    before: Any = None
    waits = False


def hear() -> bool:
    """Take over the signal; return False if that is impossible or unnecessary: in another thread, or already done.

    Only a Python handler is replaced.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    before = signal.getsignal(signal.SIGINT)
    if before is _handle or not callable(before):
        return False
    _Ear.before, _Ear.waits = before, False
    signal.signal(signal.SIGINT, _handle)
    return True


def give_back() -> None:
    """Undo `hear`, unless other code has set another handler in the meantime."""
    if signal.getsignal(signal.SIGINT) is _handle:
        signal.signal(signal.SIGINT, _Ear.before)


def uninterrupted(function: _Function) -> _Function:
    """Let interrupts wait during every call of ``function``, until it calls `pass_on`."""

    @functools.wraps(function)
    def protected(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    _PROTECTED.add(protected.__code__)  # type: ignore[attr-defined]  # one object for all functions: there is one definition
    return protected  # type: ignore[return-value]


def pass_on(depth: int = 2) -> None:
    """Raise a waiting interrupt; protected functions call this at points where they can be stopped safely.

    This does nothing inside another protected call, or if an interrupt is already being raised. ``depth`` is the number
    of calls from the wrapper of the protected function to this one.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not (ours and _Ear.waits) or _is_protected(sys._getframe(depth + 1)):
        return
    _Ear.waits = False
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        _Ear.before(signal.SIGINT, sys._getframe(1))


_PROTECTED: set[Any] = set()


_CONTEXTS = (contextlib, torch.overrides, torch.utils._contextlib, grad_mode)
_CALLBACKS = (weakref, torch.utils.weak)  # from which nothing is ever raised: the interrupt would be lost
_BRIEF = {module.__file__ for module in (*_CONTEXTS, *_CALLBACKS)}


def _handle(number: int, frame: FrameType | None) -> None:
    _Ear.waits = _is_protected(frame)
    if _Ear.waits:
        return
    if frame is not None and frame.f_code.co_filename in _BRIEF:
        _thread.start_new_thread(_again, ())
    else:
        _Ear.before(number, frame)


def _again() -> None:
    time.sleep(0.0002)
    _thread.interrupt_main()


def _is_protected(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _PROTECTED:
            return True
        frame = frame.f_back
    return False
