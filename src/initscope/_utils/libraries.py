"""Libraries that only some users have: the one way to load them, and which extra of ours brings each."""

from __future__ import annotations

import importlib
from typing import Any

from initscope.errors import MissingDependencyError

__all__ = ["LIBRARIES", "library"]

LIBRARIES = {
    "dask": ("dask", "scale"),
    "distributed": ("dask.distributed", "scale"),
    "faiss": ("faiss", "search"),
    "lightning": ("lightning", "integrations"),
    "pandas": ("pandas", "data"),
    "pyarrow": ("pyarrow", "data"),
    "pywt": ("PyWavelets", "invert"),
    "skimage": ("scikit-image", "invert"),
    "tensorboard": ("tensorboard", "integrations"),
    "timm": ("timm", None),
    "transformers": ("transformers", "integrations"),
    "wandb": ("wandb", "integrations"),
}
"""What is imported → what its makers call it, and the extra that brings it; None: no extra does."""


def library(module: str, *others: str, of: str = "") -> Any:
    """The first of these modules that can be imported, or the error that says how the library is installed.

    The library is that of the first name, or the one it is ``of``, if it comes under a name of another package.

    >>> library("a_package_nobody_has", of="timm")
    Traceback (most recent call last):
    initscope.errors.MissingDependencyError: timm is not installed; it comes with: pip install timm
    """
    failed: ImportError | None = None
    for name in (module, *others):
        try:
            importlib.import_module(name.partition(".")[0])
            return importlib.import_module(name)
        except ImportError as error:
            failed = failed or error
    raise MissingDependencyError(*LIBRARIES[of or module.partition(".")[0]]) from failed
