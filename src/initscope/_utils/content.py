"""Digests of the contents of files, arrays and this package; file names and times do not identify a content.

The driver of a distributed run sends digests, and every worker compares them with the content that it has loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["array_digest", "code_digest", "digest_of", "file_digest", "sampled_digest"]

_SAMPLES = 64
_SAMPLE_BYTES = 4096


def digest_of(parts: Iterable[str | bytes | NDArray[Any]]) -> str:
    """Return the SHA-256 of texts, bytes and arrays, in their order; each part's length and kind counts too."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            part = part.encode("utf-8", "surrogatepass")
        if isinstance(part, bytes):
            digest.update(f"{len(part)} bytes ".encode())
            digest.update(part)
            continue
        import numpy as np

        digest.update(f"{part.shape} {part.dtype.str} ".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def array_digest(*arrays: NDArray[Any] | None) -> str:
    """Return the SHA-256 of arrays, of which some may be absent."""
    return digest_of("absent" if array is None else array for array in arrays)


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of all bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sampled_digest(path: str | os.PathLike[str]) -> str:
    """Return a SHA-256 of a file's size and of 64 pieces of it, evenly spaced, first and last bytes included.

    Quick for a file of any size. It distinguishes different data sets and replaced files; a copy that differs in a
    few bytes between the pieces has the same digest.
    """
    status = os.stat(path)
    return _sampled(os.fspath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@lru_cache(maxsize=1024)
def _sampled(path: str, size: int, *_changes_with_the_content: int) -> str:
    last = max(0, size - _SAMPLE_BYTES)
    offsets = sorted({last * sample // (_SAMPLES - 1) for sample in range(_SAMPLES)})
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        for offset in offsets:
            file.seek(offset)
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """Return the SHA-256 of what computes: the sources of this package, and versions of numpy, scipy and torch.

    The sources are those at the first call of this process. Two processes with one digest compute the same; the
    version of this package does not show that sources were edited. Builds of one version (``+cpu``) count as the same.
    """
    package = Path(__file__).parents[1]
    files = sorted(package.rglob("*.py"))
    sources = (part for file in files for part in (file.relative_to(package).as_posix(), file.read_bytes()))
    return digest_of([*sources, *(version(name).partition("+")[0] for name in ("numpy", "scipy", "torch"))])
