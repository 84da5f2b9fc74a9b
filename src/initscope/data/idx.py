"""Reading of IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import check_memory, open_regular, reading
from initscope.errors import InputError

__all__ = ["read_idx"]

UNSIGNED_BYTE = 8


def read_idx(path: Path, *, limit: int | None = None) -> NDArray[np.uint8]:
    """Return the array of an IDX file of unsigned bytes; with ``limit`` only its first items.

    The file opens with two zero bytes, the type (8: unsigned byte), the number of dimensions, then each dimension as a
    big-endian 32-bit number; the values follow, the last dimension fastest.
    """
    with reading(path, "an IDX file", "fetch it again"), open_regular(path) as stored:
        with gzip.open(stored) if path.suffix == ".gz" else stored as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] != UNSIGNED_BYTE or head[3] == 0:
                raise InputError(
                    f"{path} is not an IDX file of unsigned bytes (it starts with {head!r}); fetch it again"
                )
            shape = [int(side) for side in np.frombuffer(file.read(4 * head[3]), dtype=">u4")]
            if limit is not None and shape:
                shape[0] = min(shape[0], limit)
            check_memory(path, math.prod(shape), "use fewer images (--limit on the command line)")
            values = file.read(math.prod(shape))
        if len(shape) != head[3] or len(values) != math.prod(shape):
            raise InputError(f"{path} ends too early: {len(values)} of {math.prod(shape)} bytes; fetch it again")
        return np.frombuffer(values, dtype=np.uint8).reshape(shape)
