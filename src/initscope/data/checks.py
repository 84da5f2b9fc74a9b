"""Checks of input arrays for all packages: NumPy arrays and torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import array_api_compat

from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.data.image_set import ImageSet

__all__ = ["check_images", "check_pairs", "check_set"]


def check_images(x: Any, *, name: str = "x", ndim: int | tuple[int, ...] = (2, 3, 4, 5), zeros: bool = False) -> Any:
    """Return ``x`` if it is a valid batch of inputs, else raise `InputError` that names the first invalid image.

    Parameters
    ----------
    x
        NumPy array or torch tensor, batch first.
    name
        What the message calls it.
    ndim
        Number of dimensions allowed.
    zeros
        Whether an image that is zero everywhere is allowed; it has no direction, hence no cosine.

    Examples
    --------
    >>> import numpy as np
    >>> check_images(np.zeros((2, 1, 4, 4)))
    Traceback (most recent call last):
        ...
    initscope.errors.InputError: x[0] is zero everywhere: it has no direction, so no cosine; leave it out
    """
    if not array_api_compat.is_array_api_obj(x):
        raise InputError(f"{name} is of type {type(x).__name__}; give a NumPy array or a torch tensor, batch first")
    xp = array_api_compat.array_namespace(x)
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    shape = tuple(x.shape)
    if len(shape) not in allowed:
        bound = " or ".join(map(str, allowed))
        hint = f"; one single image needs a batch axis: {name}[None]" if len(shape) + 1 in allowed else ""
        raise InputError(f"{name} has shape {shape}; expected {bound} dimensions, batch first, [N, C, H, W]{hint}")
    if 0 in shape:
        raise InputError(f"{name} has shape {shape}: it holds no values; give at least one image")
    axes = tuple(range(1, len(shape)))
    if xp.isdtype(x.dtype, ("real floating", "complex floating")):
        finite = xp.all(xp.isfinite(x), axis=axes)
        if not xp.all(finite):
            bad = _first(xp, ~finite)
            raise InputError(f"{name}[{bad}] holds NaN or infinite values; repair or leave out that image")
    if not zeros:
        used = xp.any(x != 0, axis=axes)
        if not xp.all(used):
            bad = _first(xp, ~used)
            raise InputError(f"{name}[{bad}] is zero everywhere: it has no direction, so no cosine; leave it out")
    return x


def check_set(data: ImageSet) -> None:
    """Raise `InputError` if inputs are NaN or infinite; of a table, it names the column and the row.

    Parameters
    ----------
    data
        What `initscope.data.load` returned.
    """
    if data.column_names and data.images.dtype.kind == "f":
        import numpy as np

        bad = ~np.isfinite(data.images)
        if bad.any():
            column = int(bad.any(axis=0).argmax())
            rows = np.flatnonzero(bad[:, column])
            others = int(bad.any(axis=0).sum()) - 1
            more = f", and {others} more such column{'s' if others > 1 else ''}" if others else ""
            raise InputError(
                f"{data.name}: column {data.column_names[column]!r} has {len(rows)} missing or infinite values, first "
                f"in row {rows[0]} (the first is 0){more}; fill them, remove these rows, or name other columns "
                "(columns=, --columns)"
            )
    check_images(data.images, name=data.name, zeros=True)


def check_pairs(x: Any, y: Any, *, ndim: int | tuple[int, ...] = (2, 3, 4, 5), zeros: bool = False) -> tuple[Any, Any]:
    """Return ``(x, y)`` if both pass `check_images` and have one shape: pair i is ``x[i], y[i]``."""
    check_images(x, name="x", ndim=ndim, zeros=zeros)
    check_images(y, name="y", ndim=ndim, zeros=zeros)
    if tuple(x.shape) != tuple(y.shape):
        raise InputError(
            f"x has shape {tuple(x.shape)} but y {tuple(y.shape)}; pair i is x[i], y[i], so give one shape"
        )
    return x, y


def _first(xp: Any, mask: Any) -> int:
    return int(xp.argmax(xp.astype(mask, xp.uint8)))
