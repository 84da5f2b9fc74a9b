"""Files: writes go to a temporary name and are renamed; every failed read is one `InputError`.

Writing: `atomic_path`, `scratch_path`, `write_text`; `locked` and `exclusive` keep other processes from editing at the
same time.
Reading: `open_regular` and `read_small` refuse devices and pipes, `reading` turns any failure into one `InputError`,
`check_memory` refuses files that would unpack to more than `memory_limit`.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from initscope._utils.progress import note
from initscope.errors import InputError

try:
    import fcntl
except ImportError:  # not a POSIX system: files cannot be locked there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "atomic_path",
    "check_memory",
    "exclusive",
    "locked",
    "memory_limit",
    "open_regular",
    "read_small",
    "reading",
    "scratch_path",
    "write_text",
]

_LONGEST_NAME = 255
_LONGEST_SUFFIX = 16
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_GIGABYTE = 10**9


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to ``target``; on success it is flushed and renamed, on an exception removed.

    Links are followed, so that the file they lead to is replaced. An existing file keeps its mode and, if the system
    allows it, its owner. Read-only files, folders, devices and pipes are refused. Unlocked temporary files that killed
    processes have left in the folder are removed first.
    """
    given = Path(target)
    with _write_errors(given):
        destination, before = _destination(given)
        if not destination.parent.exists():
            destination.parent.mkdir(parents=True, exist_ok=True)
            note(f"created the folder {destination.parent}")
    suffix = destination.suffix if len(os.fsencode(destination.suffix)) <= _LONGEST_SUFFIX else ""
    with _temporary(given, destination, suffix, 0o666 if before is None else 0o600) as temporary, _write_errors(given):
        yield temporary
        with temporary.open("rb+") as written:
            if before is not None:
                _restore_owner_and_mode(written.fileno(), before)
            os.fsync(written.fileno())
        temporary.replace(destination)
    _flush_folder(destination.parent)


@contextmanager
def scratch_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty file on the disk of ``target``; the file is removed at the end.

    It lies in the folder of ``target``, or in the nearest parent that exists. Targets that `atomic_path` refuses are
    refused, and temporary files of killed processes are removed.
    """
    given = Path(target)
    with _write_errors(given):
        destination, _ = _destination(given)
    folder = next(parent for parent in destination.parents if parent.exists())
    with _temporary(given, folder / destination.name, ".scratch", 0o600) as temporary:
        yield temporary


@contextmanager
def _temporary(given: Path, destination: Path, suffix: str, mode: int) -> Iterator[Path]:
    """Yield a new locked file next to ``destination`` and remove it at the end; remove leftovers first."""
    with _write_errors(given):
        _remove_leftovers(destination.parent)
        temporary, handle = _new_file(destination.parent, _prefix(destination, suffix), suffix, mode)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``target`` atomically as UTF-8; lone surrogates are written as escapes."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of the file at ``path`` while it is read, changed and replaced; other processes wait for it.

    The lock is on the file itself, so no lock file remains. It ends with the process that holds it. There is no lock
    if the file does not exist yet, or if the system or the disk has no locks.
    """
    handle = _lock_of(os.path.realpath(path))
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def exclusive(path: str | os.PathLike[str], refusal: str) -> Iterator[None]:
    """Hold the lock of the file at ``path``, created if missing; `InputError` with ``refusal`` if it is taken.

    The file is not removed; its lock ends with the process.
    """
    with _write_errors(Path(path)):
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(refusal) from error
            except OSError:  # a disk without locks
                pass
        yield
    finally:
        os.close(handle)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for binary reading; raise `InputError` for folders, devices, pipes and sockets."""
    _check_regular(path, os.stat(path))
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    try:
        _check_regular(path, os.fstat(handle))  # the file may have been replaced since
    except InputError:
        file.close()
        raise
    return file


@contextmanager
def reading(path: str | os.PathLike[str], what: str, hint: str) -> Iterator[None]:
    """Turn any exception of a reader inside the block into one `InputError` about the file.

    Readers of damaged files fail in many ways (zlib, struct, tokenize, SyntaxError, OverflowError, …), and new library
    versions add others. So every exception counts as damage, except `InputError`, disk errors and lack of memory.
    ``what`` describes the expected file, ``hint`` is the next step.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory; {hint}") from error
    except OSError as error:
        if error.strerror is None:  # raised by a format (gzip, Pillow), not by the disk
            raise InputError(f"{path} is not {what}, or damaged; {hint}") from error
        step = "check the path" if isinstance(error, FileNotFoundError) else hint
        raise InputError(f"{path} cannot be read ({error.strerror}); {step}") from error
    except Exception as error:
        if "\0" in str(path):
            raise InputError(f"{str(path)!r} is not a path: it contains a zero byte") from error
        raise InputError(f"{path} is not {what}, or damaged; {hint}") from error


def read_small(path: str | os.PathLike[str], what: str, hint: str, most: int = 1 << 24) -> bytes:
    """Return the bytes of a file.

    `InputError` for more than ``most`` bytes, for devices and pipes, and for read errors.
    """
    with reading(path, what, hint), open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path} is larger than {most} bytes, which is too large for {what}; {hint}")
    return content


def memory_limit() -> int:
    """Return the largest allowed size of an unpacked file in bytes.

    This is ``INITSCOPE_MEMORY`` (in GB) if set, else half of the memory or the free memory, whichever is less.
    """
    given = os.environ.get("INITSCOPE_MEMORY", "")
    if given:
        try:
            limit = int(float(given) * _GIGABYTE)
        except (ValueError, OverflowError):
            limit = 0
        if limit <= 0:
            raise InputError(f"INITSCOPE_MEMORY = {given!r} must be a positive number of gigabytes, for example 8")
        return limit
    limits = [8 * _GIGABYTE]
    with suppress(OSError, ValueError, AttributeError):
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        with suppress(OSError, ValueError):
            limits.append(int(Path(group).read_text()))
    with suppress(OSError, ValueError, IndexError):  # what other programs leave
        limits.append(2 * 1024 * int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]))
    return min(limits) // 2


def check_memory(path: str | os.PathLike[str], needed: int, hint: str) -> None:
    """Raise `InputError` before a file is unpacked if it needs more bytes than `memory_limit`."""
    limit = memory_limit()
    if needed > limit:
        raise InputError(
            f"{path} takes {needed / _GIGABYTE:.3g} GB in memory, more than the limit of {limit / _GIGABYTE:.3g} GB "
            f"(INITSCOPE_MEMORY=GB changes it); {hint}"
        )


def _check_regular(path: str | os.PathLike[str], status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{os.fspath(path)} is {_kind(status)}, not a file; save the data to a file first")


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")


@contextmanager
def _write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{target}: cannot be written ({reason}); check the path and the space on the disk") from error


def _destination(target: Path) -> tuple[Path, os.stat_result | None]:
    """Return the file that ``target`` links to and its status; `InputError` if it may not be replaced."""
    if "\0" in str(target):
        raise InputError(f"{str(target)!r}: cannot be written (it contains a zero byte); give another name")
    destination = Path(os.path.realpath(target))
    try:
        before = os.stat(destination)
    except FileNotFoundError:
        return destination, None
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"{target}: cannot be written (it is {_kind(before)}, not a file); give the name of a file")
    # Applies to root too: a file without any write permission was protected on purpose.
    if not before.st_mode & 0o222 or not os.access(destination, os.W_OK):
        raise InputError(f"{target}: cannot be written (it is read-only); give another name, or make it writable")
    return destination, before


def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _prefix(destination: Path, suffix: str) -> str:
    """Return the prefix of temporary names: the file's name, truncated if needed, and this host."""
    length = _LONGEST_NAME - len(f"..{_host()}.") - 16 - len(os.fsencode(suffix))
    name = os.fsencode(destination.name)[:length].decode("utf-8", "ignore")
    return f".{name}.{_host()}."


def _new_file(folder: Path, prefix: str, suffix: str, mode: int) -> tuple[Path, int]:
    """Create a file with a unique name and return its path and handle; it is locked while the handle is open.

    It is created here so that it gets the usual permissions and never overwrites another file.
    """
    while True:
        path = folder / f"{prefix}{secrets.token_hex(8)}{suffix}"
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if fcntl is None:
            return path, handle
        with suppress(OSError):  # a disk without locks: then no process treats it as a leftover either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_at(handle, path):
            return path, handle
        os.close(handle)  # another process removed it as a leftover before it was locked


def _remove_leftovers(folder: Path) -> None:
    """Remove unlocked temporary files of any target: the processes of this host that wrote them are gone."""
    if fcntl is None:
        return
    pattern = re.compile(rf"\..*\.{_host()}\.[0-9a-f]{{16}}(\.[^.]*)?", re.DOTALL)
    for name in filter(pattern.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # in use, owned by another user, or just removed by another process
            handle = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / name).unlink()
            finally:
                os.close(handle)


def _lock_of(destination: str) -> int | None:
    """Return an open handle that holds the lock of the file at ``destination``."""
    while fcntl is not None:
        try:
            handle = os.open(destination, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        if _is_at(handle, destination):
            return handle
        os.close(handle)  # the file was replaced while we waited: lock the new one
    return None


def _is_at(handle: int, path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _restore_owner_and_mode(handle: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    with suppress(OSError):  # only root may change the owner
        os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _flush_folder(folder: Path) -> None:
    """Flush the renaming to the disk, on systems that can open a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
