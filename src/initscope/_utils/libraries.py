"""Optional libraries: how to load them, and which extra of initscope installs each."""

from __future__ import annotations

import importlib
from typing import Any

from initscope.errors import MissingDependencyError

__all__ = ["LIBRARIES", "library"]

LIBRARIES = {
    "aim": ("aim", None),
    "dask": ("dask", "scale"),
    "datasets": ("datasets", None),
    "distributed": ("dask.distributed", "scale"),
    "faiss": ("faiss", "search"),
    "lightning": ("lightning", "integrations"),
    "mcp": ("mcp", "mcp"),
    "mlflow": ("mlflow", None),
    "pandas": ("pandas", "data"),
    "pyarrow": ("pyarrow", "data"),
    "pywt": ("PyWavelets", "invert"),
    "skimage": ("scikit-image", "invert"),
    "tensorboard": ("tensorboard", "integrations"),
    "timm": ("timm", None),
    "transformers": ("transformers", "integrations"),
    "wandb": ("wandb", "integrations"),
}
"""Module name → name of the distribution and the extra that installs it (None if there is no extra)."""


def library(module: str, *others: str, of: str = "") -> Any:
    """Return the first of these modules that can be imported, or raise the error that says how to install it.

    ``of`` names the library for the message if it differs from the first module name.

    >>> library("a_package_nobody_has", of="timm")
    Traceback (most recent call last):
    initscope.errors.MissingDependencyError: timm is not installed; install it with: pip install timm
    """
    failed: ImportError | None = None
    for name in (module, *others):
        try:
            importlib.import_module(name.partition(".")[0])
            return importlib.import_module(name)
        except ImportError as error:
            failed = failed or error
    raise MissingDependencyError(*LIBRARIES[of or module.partition(".")[0]]) from failed
