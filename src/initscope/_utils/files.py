"""Files: written under a temporary name and renamed, read with one error for whatever is wrong with them.

Writing: `atomic_path`, `scratch_path`, `write_text`; `locked` and `exclusive` keep other processes from editing at the
same time.
Reading: `open_regular` refuses what may never end, `reading` turns any failure of a reader into one `InputError`,
`check_memory` refuses what would unpack to more than `memory_limit`.
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
    """Yield a temporary path beside ``target``; on success it is flushed and renamed, on an exception removed.

    Links are followed, so that the file they lead to is replaced. A file that is there keeps its mode and, where the
    system allows it, its owner; a read-only one, a folder, a device or a pipe is refused. What killed writers have left
    in the folder is removed first: only files that nobody has locked.
    """
    given = Path(target)
    with _told(given):
        place, before = _destination(given)
        if not place.parent.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            note(f"the folder {place.parent} was not there and has been made")
    suffix = place.suffix if len(os.fsencode(place.suffix)) <= _LONGEST_SUFFIX else ""
    with _temporary(given, place, suffix, 0o666 if before is None else 0o600) as temporary, _told(given):
        yield temporary
        with temporary.open("rb+") as written:
            if before is not None:
                _restore_owner_and_mode(written.fileno(), before)
            os.fsync(written.fileno())
        temporary.replace(place)
    _flush_folder(place.parent)


@contextmanager
def scratch_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of an empty file on the disk of ``target`` that is removed in the end.

    It stands in the folder of ``target``, or in the nearest one that is there. Targets that `atomic_path` refuses are
    refused, and what killed writers have left is removed.
    """
    given = Path(target)
    with _told(given):
        place, _ = _destination(given)
    folder = next(parent for parent in place.parents if parent.exists())
    with _temporary(given, folder / place.name, ".scratch", 0o600) as temporary:
        yield temporary


@contextmanager
def _temporary(given: Path, place: Path, suffix: str, mode: int) -> Iterator[Path]:
    """A new file beside ``place``, locked and in the end removed; leftovers of killed writers go first."""
    with _told(given):
        _remove_leftovers(place.parent)
        temporary, handle = _new_file(place.parent, _prefix(place, suffix), suffix, mode)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``target`` atomically, as UTF-8; what UTF-8 cannot hold is written as an escape."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of the file at ``path`` while it is read, changed and replaced; others who ask for it wait.

    The lock is the file's own, so that no second file is left behind; it goes with the process that holds it. A file
    that is not there yet has none, nor has one on a system or a disk without locks.
    """
    handle = _lock_of(os.path.realpath(path))
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def exclusive(path: str | os.PathLike[str], refusal: str) -> Iterator[None]:
    """Hold the lock of the file at ``path``, made if it is not there; `InputError` with ``refusal`` if another does.

    The file stays; its lock goes with the process, however that ends.
    """
    with _told(Path(path)):
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
    """Open a file for reading, binary; folders, devices, pipes and sockets, which may never end, are `InputError`."""
    _check_regular(path, os.stat(path))
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    try:
        _check_regular(path, os.fstat(handle))  # another file may have taken its place meanwhile
    except InputError:
        file.close()
        raise
    return file


@contextmanager
def reading(path: str | os.PathLike[str], what: str, hint: str) -> Iterator[None]:
    """Turn whatever a reader raises inside into one `InputError` on the file.

    Readers of damaged files fail in many ways (zlib, struct, tokenize, SyntaxError, OverflowError, …), and new versions
    of their libraries bring others: so everything counts as damage but what we refuse ourselves, errors of the disk and
    lack of memory. ``what`` is what the file should be, ``hint`` the next step.
    """
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory; {hint}") from error
    except OSError as error:
        if error.strerror is None:  # of a format (gzip, Pillow), not of the disk
            raise InputError(f"{path} is not {what}, or damaged; {hint}") from error
        step = "check the path" if isinstance(error, FileNotFoundError) else hint
        raise InputError(f"{path} cannot be read ({error.strerror}); {step}") from error
    except Exception as error:
        if "\0" in str(path):
            raise InputError(f"{str(path)!r} is no path: it holds a zero byte") from error
        raise InputError(f"{path} is not {what}, or damaged; {hint}") from error


def memory_limit() -> int:
    """Most bytes that a file may unpack to: ``INITSCOPE_MEMORY`` (in GB), else half of the memory, or what is free."""
    given = os.environ.get("INITSCOPE_MEMORY", "")
    if given:
        try:
            limit = int(float(given) * _GIGABYTE)
        except (ValueError, OverflowError):
            limit = 0
        if limit <= 0:
            raise InputError(f"INITSCOPE_MEMORY = {given!r} must be a positive number of gigabytes, for example 8")
        return limit
    found = [8 * _GIGABYTE]
    with suppress(OSError, ValueError, AttributeError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # of a container
        with suppress(OSError, ValueError):
            found.append(int(Path(group).read_text()))
    with suppress(OSError, ValueError, IndexError):  # what other programs leave
        found.append(2 * 1024 * int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]))
    return min(found) // 2


def check_memory(path: str | os.PathLike[str], needed: int, hint: str) -> None:
    """Refuse, before any of it is unpacked, a file that needs more bytes than `memory_limit`."""
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
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{target}: cannot be written ({reason}); check the path and the space on the disk") from error


def _destination(target: Path) -> tuple[Path, os.stat_result | None]:
    """Where the links of ``target`` lead, and what is there; `InputError` if it may not be replaced."""
    if "\0" in str(target):
        raise InputError(f"{str(target)!r}: cannot be written (a name holds no zero byte); give another name")
    place = Path(os.path.realpath(target))
    try:
        before = os.stat(place)
    except FileNotFoundError:
        return place, None
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"{target}: cannot be written (it is {_kind(before)}, not a file); give the name of a file")
    # Who may do everything is asked too: a file without any right to write was protected on purpose.
    if not before.st_mode & 0o222 or not os.access(place, os.W_OK):
        raise InputError(f"{target}: cannot be written (it is read-only); give another name, or make it writable")
    return place, before


def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _prefix(place: Path, suffix: str) -> str:
    """What the temporary names of a file begin with: its name as far as it fits, and this host."""
    room = _LONGEST_NAME - len(f"..{_host()}.") - 16 - len(os.fsencode(suffix))
    name = os.fsencode(place.name)[:room].decode("utf-8", "ignore")
    return f".{name}.{_host()}."


def _new_file(folder: Path, prefix: str, suffix: str, mode: int) -> tuple[Path, int]:
    """A new file under a name of its own, locked as long as the handle is open.

    Made here, not by the writer: with the permissions that any new file gets, and never over another file.
    """
    while True:
        path = folder / f"{prefix}{secrets.token_hex(8)}{suffix}"
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if fcntl is None:
            return path, handle
        with suppress(OSError):  # a disk without locks: then nobody takes it for a leftover either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_at(handle, path):
            return path, handle
        os.close(handle)  # taken for a leftover before it was locked


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files, of whatever target, of writers of this host that are gone: nobody holds their lock."""
    if fcntl is None:
        return
    pattern = re.compile(rf"\..*\.{_host()}\.[0-9a-f]{{16}}(\.[^.]*)?", re.DOTALL)
    for name in filter(pattern.fullmatch, os.listdir(folder)):
        with suppress(OSError):  # alive, somebody else's, or just removed by another writer
            handle = os.open(folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / name).unlink()
            finally:
                os.close(handle)


def _lock_of(place: str) -> int | None:
    """An open handle that holds the lock of the file that is at ``place`` when the lock is got."""
    while fcntl is not None:
        try:
            handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
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
        if _is_at(handle, place):
            return handle
        os.close(handle)  # replaced while we waited: the lock that counts is that of the new file
    return None


def _is_at(handle: int, path: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _restore_owner_and_mode(handle: int, before: os.stat_result) -> None:
    if not hasattr(os, "fchmod"):
        return
    with suppress(OSError):  # only a superuser gives files away
        os.fchown(handle, before.st_uid, before.st_gid)
    os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _flush_folder(folder: Path) -> None:
    """Have the renaming itself on the disk, on systems that can open a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
