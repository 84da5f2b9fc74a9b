"""Reading of .npy, .npz, .pt and .pth files; nothing in a file is ever executed."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from initscope.errors import InputError

__all__ = ["TENSOR_SUFFIXES", "read_tensors"]

_ZIP, _PICKLE = b"PK", b"\x80"
_BEGINNINGS = {".npy": (b"\x93NUMPY",), ".npz": (_ZIP,), ".pt": (_ZIP, _PICKLE), ".pth": (_ZIP, _PICKLE)}
TENSOR_SUFFIXES = tuple(_BEGINNINGS)


def read_tensors(file: Path, *, hint: str) -> Any:
    """What ``file`` holds: a NumPy array (.npy), a dict of them (.npz), or what ``torch.save`` wrote (.pt, .pth).

    Objects other than tensors and plain containers are refused (``weights_only=True``, ``allow_pickle=False``);
    and so are damaged files; ``hint`` ends the message.
    """
    if not file.is_file():
        raise InputError(f"{file} is not a file; give a {', '.join(TENSOR_SUFFIXES)} file")
    if file.suffix not in TENSOR_SUFFIXES:
        raise InputError(f"{file}: files of kind {file.suffix!r} are not read; give {', '.join(TENSOR_SUFFIXES)}")
    try:
        with file.open("rb") as stream:
            if not stream.read(8).startswith(_BEGINNINGS[file.suffix]):
                raise _Damaged
            stream.seek(0)
            return _read(stream, file.suffix)
    except pickle.UnpicklingError as error:
        raise InputError(f"{file} holds Python objects, which cannot be read without executing them; {hint}") from error
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or type(error).__name__}); {hint}") from error
    except (EOFError, ValueError, RuntimeError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} is damaged or not a {file.suffix} file; {hint}") from error


class _Damaged(ValueError):
    """The file does not begin as its suffix says."""


def _read(stream: BinaryIO, suffix: str) -> Any:
    try:
        if suffix in (".pt", ".pth"):
            import torch

            return torch.load(stream, map_location="cpu", weights_only=True)
        import numpy as np

        content = np.load(stream, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else {name: content[name] for name in content.files}
    except (ValueError, RuntimeError) as error:
        # Both libraries have one kind of error for damage and for what only runs as a programme.
        if any(word in str(error) for word in ("allow_pickle", "TorchScript")):
            raise pickle.UnpicklingError from error
        raise
