"""Disk space, checked before the work begins: `check_space` and `reserved_array`.

A memory-mapped file grows as it is written. A full disk then kills the process by SIGBUS, without a message.
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

__all__ = ["check_space", "reserve", "reserved_array"]

_SMALL = 1 << 16
"""Bytes to check for if the caller does not give the size of the file."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_space(target: str | os.PathLike[str], needed: int = _SMALL) -> None:
    """Raise `InputError` before any work is done if a file cannot be written or does not fit on its disk."""
    with scratch_path(target) as temporary:
        reserve(temporary, needed, target)


def reserve(path: Path, size: int, target: str | os.PathLike[str]) -> None:
    """Reserve the first ``size`` bytes of a file on the disk, so that writing cannot fail.

    Raises `InputError` if there is no space.

    Raise `InputError` if there is no space.

    ``target`` is the name for the message. If the system cannot reserve space, the free space is checked instead.
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
                f"{_shown(free)} free; free some space, or give a name on another disk"
            ) from error


def reserved_array(path: Path, dtype: type[np.generic], shape: tuple[int, ...], target: str | os.PathLike[str]) -> Any:
    """Return a new memory-mapped .npy file with all its disk space reserved; ``target`` as in `reserve`."""
    import numpy as np

    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    reserve(path, path.stat().st_size, target)
    return array


def _shown(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"
