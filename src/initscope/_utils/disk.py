"""Room on the disk, looked at before the work: `check_room` and `reserved_array`.

A mapped file grows as it is written, and a full disk then ends the process by a signal (SIGBUS), without a message.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.files import scratch_path
from initscope.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_room", "reserve", "reserved_array"]

_SMALL = 1 << 16
"""Bytes that a file has room for at least, if nobody says how many it needs."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_room(target: str | os.PathLike[str], needed: int = _SMALL) -> None:
    """Refuse, before any work is done, a file that cannot be written or does not fit on its disk."""
    with scratch_path(target) as temporary:
        reserve(temporary, needed, target)


def reserve(path: Path, size: int, target: str | os.PathLike[str]) -> None:
    """Have the first ``size`` bytes of a file on the disk, so that writing them cannot fail; else `InputError`.

    ``target`` is the name that the message gives. Where the system cannot reserve, the free space is looked at.
    """
    if size <= 0:
        return
    try:
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except (OSError, AttributeError) as error:  # a disk or a system that cannot reserve
        free = shutil.disk_usage(path.parent).free
        if getattr(error, "errno", None) in _FULL or size > free:
            reason = getattr(error, "strerror", None) or "the disk is full"
            raise InputError(
                f"{os.fspath(target)}: cannot be written ({reason}): it needs {_shown(size)}, and the disk has "
                f"{_shown(free)} free; make room, or give a name on another disk"
            ) from error


def reserved_array(path: Path, dtype: type[np.generic], shape: tuple[int, ...], target: str | os.PathLike[str]) -> Any:
    """A new .npy file as an array in memory, with all its room on the disk; ``target`` as in `reserve`."""
    import numpy as np

    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    reserve(path, path.stat().st_size, target)
    return array


def _shown(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"
