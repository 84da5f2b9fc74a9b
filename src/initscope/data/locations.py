"""Locations of data files: folders of ``INITSCOPE_DATA``, Debian's data sets, else a download with a checksum.

``INITSCOPE_DATA``: folders, separated by ``:``. ``INITSCOPE_MIRROR``: a base URL to download from instead of the
official one. ``INITSCOPE_CACHE``: the folder for downloads (by default the user's cache folder).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from initscope.errors import InputError

__all__ = ["Remote", "fetch", "find", "missing", "search_path"]

SYSTEM_FOLDERS = (Path("/usr/share/datasets"),)
"""Debian's ``dataset-*`` packages install here."""


@dataclass(frozen=True)
class Remote:
    """A file to download: ``url`` is the official address, a mirror is asked for ``mirror/dataset/file``."""

    dataset: str
    url: str
    sha256: str
    megabytes: int

    @property
    def file(self) -> str:
        """Name of the file, the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


def search_path() -> list[Path]:
    """Return the folders to search: those of ``INITSCOPE_DATA`` in order, then the system's."""
    given = os.environ.get("INITSCOPE_DATA", "")
    return [Path(part).expanduser() for part in given.split(os.pathsep) if part] + list(SYSTEM_FOLDERS)


def find(*candidates: str) -> Path | None:
    """Return the first of the ``candidates`` (paths inside a data folder) in the first folder that contains one."""
    for folder in search_path():
        for candidate in candidates:
            if (folder / candidate).exists():
                return folder / candidate
    return None


def fetch(remote: Remote, *, mirror: str | None = None) -> Path:
    """Download ``remote`` once, verify its SHA-256, and return the path of the cached file.

    Raises
    ------
    OSError
        No network, or the server refuses.
    ValueError
        The file does not have the expected checksum.
    """
    import pooch

    mirror = mirror or os.environ.get("INITSCOPE_MIRROR")
    url = f"{mirror.rstrip('/')}/{remote.dataset}/{remote.file}" if mirror else remote.url
    cache = Path(os.environ.get("INITSCOPE_CACHE") or pooch.os_cache("initscope"))
    file = pooch.retrieve(
        url,
        known_hash=f"sha256:{remote.sha256}",
        fname=remote.file,
        path=cache / remote.dataset,
        progressbar=sys.stderr.isatty(),
    )
    return Path(file)


def missing(name: str, ways: tuple[str, str, str], cause: Exception | None = None) -> InputError:
    """Return the error for missing data: the folders searched, and three ways to get the data."""
    looked = ", ".join(map(str, search_path()))
    text = f"{name} was not found (looked in {looked}). Three ways to get it: "
    text += "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1))
    return InputError(text + (f". The download failed: {cause}" if cause else ""))
