"""Matrices of users: checks, and the orthonormal basis of their span."""

from __future__ import annotations

import numpy as np

from initscope.errors import InputError
from initscope.theory._arrays import Array

__all__ = ["checked_matrix", "orthonormal"]


def checked_matrix(name: str, value: Array) -> np.ndarray:
    """Return ``value`` as a finite matrix in float64, or the error that names it."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
        raise InputError(f"{name} of shape {array.shape} must be a finite matrix with at least one row and column")
    return array


def orthonormal(matrix: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the column span; dependent columns are dropped."""
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    rank = int((values > values[0] * max(matrix.shape) * np.finfo(np.float64).eps).sum()) if values[0] > 0 else 0
    if rank == 0:
        raise InputError("a basis or factor is zero: it spans no direction")
    return np.asarray(left[:, :rank])
