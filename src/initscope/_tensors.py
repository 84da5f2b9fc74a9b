"""Reading of .npy, .npz, .pt and .pth files; nothing in a file is ever executed."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

from initscope.errors import InputError

__all__ = ["TENSOR_SUFFIXES", "read_tensors"]

TENSOR_SUFFIXES = (".npy", ".npz", ".pt", ".pth")


def read_tensors(file: Path, *, hint: str) -> Any:
    """What ``file`` holds: a NumPy array (.npy), a dict of them (.npz), or what ``torch.save`` wrote (.pt, .pth).

    Objects other than tensors and plain containers are refused (``weights_only=True``, ``allow_pickle=False``);
    ``hint`` ends the message of that error.
    """
    if not file.is_file():
        raise InputError(f"{file} is not a file; give a {', '.join(TENSOR_SUFFIXES)} file")
    if file.suffix not in TENSOR_SUFFIXES:
        raise InputError(f"{file}: files of kind {file.suffix!r} are not read; give {', '.join(TENSOR_SUFFIXES)}")
    try:
        with file.open("rb") as stream:
            if file.suffix in (".pt", ".pth"):
                import torch

                return torch.load(stream, map_location="cpu", weights_only=True)
            import numpy as np

            content = np.load(stream, allow_pickle=False)
            return content if isinstance(content, np.ndarray) else {name: content[name] for name in content.files}
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{file} cannot be read without executing it ({reason}); {hint}") from error
