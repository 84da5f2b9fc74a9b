"""One namespace for every formula: NumPy or torch in, the same library out, Python numbers promoted.

`namespace` is all a formula needs. This module adds functions that the array API standard lacks (`erf` and related),
and `safe_sqrt`, whose gradient at 0 is 0 instead of infinity: ``where`` alone would produce NaN in autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

from initscope.errors import InputError

__all__ = ["Array", "cosines", "erf", "erfc", "erfcx", "flattened", "in_chunks", "namespace", "safe_sqrt"]

Array = Any
"""A NumPy array, a torch tensor, or a Python number where a formula accepts one."""
_CHUNK = 1 << 10  # elements worked on at once: some hundred numbers for each stay near the caches


def namespace(*values: Array) -> tuple[Any, ...]:
    """Return ``(xp, *arrays)``: the array namespace of ``values`` and the values as floating arrays of one dtype.

    Python numbers and lists get the library, dtype and device of the arrays next to them; without arrays they become
    NumPy float64. Integer arrays become the library's float64, half precision its float32, in which sums of squares do
    not overflow. Arrays of two libraries together are refused.

    >>> xp, a, b = namespace(1, [0.5, 0.25])
    >>> xp.sum(a * b)
    np.float64(0.75)
    """
    arrays = [value for value in values if array_api_compat.is_array_api_obj(value)]
    try:
        xp = array_api_compat.array_namespace(*arrays) if arrays else array_api_compat.array_namespace(np.zeros(()))
    except TypeError as error:
        kinds = ", ".join(sorted({type(value).__module__.split(".")[0] for value in arrays}))
        raise InputError(
            f"arrays of different libraries ({kinds}) cannot be mixed; convert them to one first"
        ) from error
    floating = [value.dtype for value in arrays if xp.isdtype(value.dtype, "real floating")]
    dtype = xp.result_type(xp.float32, *floating) if floating else xp.float64
    if len(arrays) == len(floating) == len(values) and set(floating) == {dtype}:
        return xp, *values
    device = array_api_compat.device(arrays[0]) if arrays else None
    return xp, *(_convert(xp, value, dtype, device) for value in values)


def cosines(rho: Array) -> tuple[Any, Array]:
    """Return `namespace` of cosines; raise `InputError` if they are NaN or leave [-1, 1] by more than rounding."""
    xp, rho = namespace(rho)
    if not bool(xp.all((rho >= -1 - 1e-6) & (rho <= 1 + 1e-6))):
        raise InputError("a cosine lies in [-1, 1] and is not NaN; divide the inner product by both norms")
    return xp, rho


def _convert(xp: Any, value: Array, dtype: Any, device: Any) -> Array:
    if array_api_compat.is_array_api_obj(value):
        return value if value.dtype == dtype else xp.astype(value, dtype)
    return xp.asarray(value, dtype=dtype, device=device)


def flattened(xp: Any, *arrays: Array) -> tuple[Any, tuple[int, ...], list[Array]]:
    """Return the common dtype and shape of arrays, and each of them as a vector of float64."""
    shape = np.broadcast_shapes(*(tuple(array.shape) for array in arrays))
    flat = [xp.reshape(xp.broadcast_to(xp.astype(array, xp.float64), shape), (-1,)) for array in arrays]
    return xp.result_type(*arrays), shape, flat


def erf(xp: Any, x: Array) -> Array:
    """Return the error function of the namespace's own arrays."""
    if array_api_compat.is_torch_namespace(xp):
        return xp.erf(x)
    from scipy.special import erf as numpy_erf

    return numpy_erf(x)


def erfc(xp: Any, x: Array) -> Array:
    """Return 1 - erf, with all its digits if it is small."""
    if array_api_compat.is_torch_namespace(xp):
        return xp.special.erfc(x)
    from scipy.special import erfc as numpy_erfc

    return numpy_erfc(x)


def erfcx(xp: Any, x: Array) -> Array:
    """exp(x²) erfc(x)."""
    if array_api_compat.is_torch_namespace(xp):
        return xp.special.erfcx(x)
    from scipy.special import erfcx as numpy_erfcx

    return numpy_erfcx(x)


def in_chunks(xp: Any, function: Callable[..., Array], *arrays: Array) -> Array:
    """Return an elementwise function of arrays that broadcast, few elements at once."""
    shape = np.broadcast_shapes(*(tuple(array.shape) for array in arrays))
    flat = [xp.reshape(xp.broadcast_to(array, shape), (-1,)) for array in arrays]
    firsts = range(0, max(1, flat[0].shape[0]), _CHUNK)
    return xp.reshape(xp.concat([function(*(a[k : k + _CHUNK] for a in flat)) for k in firsts]), shape)


def safe_sqrt(xp: Any, x: Array) -> Array:
    """Return the square root of max(x, 0), with gradient 0, not infinity, for x ≤ 0."""
    positive = x > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, x, xp.ones_like(x))), xp.zeros_like(x))
