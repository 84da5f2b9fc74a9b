"""`load_array`: images or vectors from .npy, .npz and .pt files. Nothing in a file is ever executed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope._hall.tensors import read_tensors
from initscope.data.image_set import ImageSet
from initscope.errors import InputError

__all__ = ["load_array"]

IMAGE_KEYS = ("images", "x", "data")
LABEL_KEYS = ("labels", "y", "targets")
CHANNELS = (1, 3, 4)


def load_array(path: str | os.PathLike[str]) -> ImageSet:
    """Images or vectors from an array file.

    ``.npy``: one array. ``.npz`` and ``.pt`` with several: ``images`` (or ``x``, ``data``, or the only array), and if
    there ``labels`` (or ``y``, ``targets``) and ``class_names``.

    Shapes: ``[N, D]`` vectors; ``[N, H, W]`` grey images; ``[N, C, H, W]``, or ``[N, H, W, C]`` if only the last axis
    can be channels (1, 3 or 4); beyond that unchanged. Values: uint8 is divided by 255, uint16 by 65535, booleans
    become 0 and 1, floats stay as they are. ``steps`` of the result says what was done.
    """
    file = Path(path)
    content = read_tensors(file, hint="save plain arrays or tensors")
    if isinstance(content, dict):
        key = next((key for key in IMAGE_KEYS if key in content), None)
        if key is None and len(content) == 1:
            key = next(iter(content))
        if key is None:
            found = ", ".join(map(str, list(content)[:8])) or "nothing"
            raise InputError(f"{file} holds {found}; name the array of images 'images'")
        labels = next((content[key] for key in LABEL_KEYS if key in content), None)
        class_names = tuple(str(name) for name in content.get("class_names", ()))
        content = content[key]
        if not hasattr(content, "ndim"):
            raise InputError(
                f"{file}: {key!r} is of type {type(content).__name__}, not an array; save arrays or tensors"
            )
    else:
        labels, class_names = None, ()
    images, steps = _as_images(file, _as_numpy(file, content))
    return ImageSet(
        images, None if labels is None else _as_numpy(file, labels), class_names, name=str(path), steps=tuple(steps)
    )


def _as_numpy(file: Path, value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value
        return np.asarray(value.numpy())
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(f"{file}: {type(value).__name__} is not an array; save arrays or tensors") from error


def _as_images(file: Path, values: NDArray[Any]) -> tuple[NDArray[np.float32], list[str]]:
    if values.ndim < 2:
        raise InputError(f"{file} holds an array of shape {values.shape}; expected [N, D], [N, H, W] or [N, C, H, W]")
    if 0 in values.shape:
        raise InputError(f"{file} is empty: its array has shape {values.shape}; give at least one image")
    steps = []
    if values.ndim == 3:
        values = values[:, None]
        steps.append("a grey channel added")
    elif values.ndim == 4 and values.shape[1] not in CHANNELS and values.shape[3] in CHANNELS:
        values = values.transpose(0, 3, 1, 2)
        steps.append("channels moved to the front")
    if values.dtype in (np.uint8, np.uint16):
        largest = np.iinfo(values.dtype).max
        steps.append(f"values / {largest}")
        return (values / np.float32(largest)).astype(np.float32), steps
    if values.dtype == np.bool_ or np.issubdtype(values.dtype, np.floating):
        return _as_float32(file, values), steps
    raise InputError(
        f"{file} holds values of type {values.dtype}, whose range is unknown; save uint8 (0 to 255), uint16 or floats"
    )


def _as_float32(file: Path, values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        images = values.astype(np.float32)
    if (np.isinf(images) & np.isfinite(values)).any():
        largest = np.abs(values[np.isfinite(values)]).max()
        raise InputError(
            f"{file} holds values up to {largest:.2g}, beyond {np.finfo(np.float32).max:.2g} of float32; scale them"
        )
    return images
