"""faiss, an optional library, and the codes that its flat indexes hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from initscope.errors import MissingDependencyError

__all__ = ["load_faiss", "stored"]


def load_faiss() -> Any:
    """The module, or the error that says how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError("faiss", "search") from error
    return faiss


def stored(flat: Any) -> np.ndarray:
    """Codes held by a flat faiss index."""
    return np.asarray(load_faiss().vector_to_array(flat.xb)).reshape(flat.ntotal, flat.code_size)
