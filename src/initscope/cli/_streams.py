"""Checks of the standard streams before the work begins: a stdout that cannot take the results is refused at once."""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import suppress

__all__ = ["CANNOT_WRITE", "discard_output", "output_problem", "prepare_streams", "write_problem"]

CANNOT_WRITE = 74
"""Exit code where stdout is closed or full: ``EX_IOERR`` of sysexits.h, distinct from 1, which ``--fail-on`` gives."""


def prepare_streams() -> None:
    """Make stdout replace characters that its encoding lacks, and discard messages if there is no stderr.

    Without a buffer (``PYTHONUNBUFFERED``), Python drops output without an error when the disk is full. So stdout gets
    a buffer, which is flushed after each line.
    """
    if sys.stderr is None:  # print would take stdout instead
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase) and sys.stdout is sys.__stdout__:  # not one that a program has put there
        encoding = getattr(sys.stdout, "encoding", None)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="replace", line_buffering=True)
    elif getattr(sys.stdout, "errors", "") in ("strict", "surrogateescape"):
        with suppress(AttributeError, ValueError):  # a stream that a program has put there
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]


def output_problem() -> str:
    """Return why nothing can be written to stdout, as far as this is known before the work, or an empty text."""
    if sys.stdout is None or sys.stdout.closed:
        return "stdout is closed"
    try:
        handle = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):  # a stream that a program has put there
        return ""
    try:
        os.write(handle, b"")  # a device that is always full says so
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and hasattr(os, "fstatvfs") and not os.fstatvfs(handle).f_bavail:
            return "the disk that stdout goes to is full"
    except BrokenPipeError:
        return ""  # a reader that has gone is no problem
    except OSError as error:
        return f"stdout cannot be written ({error.strerror})"
    return ""


def write_problem() -> str:
    """Return why the output did not reach stdout, after an error, or an empty text."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return ""
    except (OSError, ValueError, AttributeError) as error:
        return f"stdout cannot be written ({getattr(error, 'strerror', None) or error})"
    return ""


def discard_output() -> None:
    """Redirect stdout to the null device, so that the interpreter does not try to write the rest when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
