"""Checks of a layer's weights and bias, shared by all functions of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError

__all__ = ["Floats", "as_layer"]

Floats = npt.NDArray[np.float64]

LARGEST = 1e150


def as_layer(weight: Any, bias: Any = None) -> tuple[Floats, Floats | None]:
    """Return the weights as a float64 m×n array and the bias as a vector, or None if it is absent or all zero.

    Accepts arrays, nested lists and torch tensors of real numbers, integers included.
    """
    weight = _as_floats("W", weight)
    if weight.ndim != 2:
        raise InputError(
            f"W has shape {weight.shape} and must be a matrix (outputs × inputs); reshape a single row to (1, inputs)"
        )
    if 0 in weight.shape:
        raise InputError(f"W has shape {weight.shape}: it needs at least one row and one column")
    sizes = np.abs(weight).max(axis=1)
    if ((sizes > 0) & (sizes < 1 / LARGEST)).any():
        raise InputError(
            f"W holds a row of entries up to {sizes[sizes > 0].min():.2g}; below {1 / LARGEST:g} their squares "
            "underflow: multiply that row and its bias by a positive number, which does not change injectivity"
        )
    if bias is None:
        return weight, None
    bias = _as_floats("bias", bias)
    if bias.shape != weight.shape[:1]:
        raise InputError(f"bias has shape {bias.shape} and must have shape {weight.shape[:1]}, one entry per row of W")
    return weight, bias if bias.any() else None


def _as_floats(name: str, values: Any) -> Floats:
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double().numpy() if values.is_floating_point() else values.numpy()
    try:
        given = np.asarray(values)
        if np.iscomplexobj(given):
            raise InputError(f"{name} is complex; a ReLU layer has real weights")
        floats = given.astype(np.float64, copy=True)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} cannot be read as an array of real numbers: {error}") from error
    if given.dtype.kind in "iu" and given.size and np.abs(floats).max() > 2**53:
        raise InputError(f"{name} holds integers beyond 2^53, which float64 cannot represent; scale them down")
    if not np.isfinite(floats).all():
        raise InputError(f"{name} holds {int((~np.isfinite(floats)).sum())} NaN or infinite entries; remove them first")
    if floats.size and np.abs(floats).max() > LARGEST:
        raise InputError(
            f"{name} holds entries up to {np.abs(floats).max():.2g}; beyond {LARGEST:g} their squares overflow: "
            "scale weights and bias by a positive number, which does not change injectivity"
        )
    return floats
