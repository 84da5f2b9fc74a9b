"""Files are written under a temporary name and renamed, so that nothing already written is ever lost."""

from __future__ import annotations

import os
import platform
import re
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from initscope.errors import InputError

__all__ = ["atomic_path", "write_text"]


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; on success it is flushed and renamed, on an exception removed.

    What writers that were killed have left of ``target`` is removed first.
    """
    target = Path(target)
    host = f"{zlib.crc32(platform.node().encode()):08x}"
    temporary = target.parent / f".{target.name}.{host}.{os.getpid()}.{secrets.token_hex(4)}{target.suffix}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target, host)
        # Made here, not by the writer: with the permissions that any new file gets, and never over another file.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{target}: cannot be written ({reason}); check the path and the space on the disk") from error
    _flush_folder(target.parent)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``target`` atomically, as UTF-8."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _remove_leftovers(target: Path, host: str) -> None:
    """Remove temporary files of ``target`` whose writer, a process of this host, is gone."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{host}\.(\d+)\.[0-9a-f]{{8}}{re.escape(target.suffix)}")
    for name in os.listdir(target.parent):
        if (match := pattern.fullmatch(name)) and not _runs(int(match[1])):
            with suppress(OSError):  # somebody else's, or just removed by another writer
                (target.parent / name).unlink()


def _runs(process: int) -> bool:
    """Whether a process of that number may be running; always where one cannot ask."""
    if os.name != "posix":  # elsewhere the question would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it runs, for somebody else
        return True
    return True


def _flush_folder(folder: Path) -> None:
    """Have the renaming itself on the disk, on systems that can open a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
