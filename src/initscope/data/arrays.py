"""`load_array`: images or vectors from .npy, .npz, .pt and .safetensors files. Nothing in a file is ever executed."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import check_memory, reading
from initscope._utils.tensors import StoredArray, check_kind, read_tensors, stored_arrays
from initscope.data.image_set import ImageSet, is_whole
from initscope.errors import InputError, check_count

__all__ = ["LABEL_KEYS", "array_as_images", "load_array"]

IMAGE_KEYS = ("images", "x", "data")
LABEL_KEYS = ("labels", "y", "targets")
CHANNELS = (1, 3, 4)
HINT = "save plain arrays or tensors"


def load_array(path: str | os.PathLike[str], *, limit: int | None = None) -> ImageSet:
    """Load images or vectors from an array file; with ``limit``, read only that many, evenly spaced.

    ``.npy``: one array. The others, with several arrays: ``images`` (or ``x``, ``data``, or the only array), and
    optionally ``labels`` (or ``y``, ``targets``) and ``class_names``. Floats that are not whole numbers, or that have
    more than one axis, become ``targets`` of the result.

    Shapes: ``[N, D]`` vectors; ``[N, H, W]`` gray images; ``[N, C, H, W]``, or ``[N, H, W, C]`` if only the last axis
    can be channels (1, 3 or 4); others are unchanged. Values: uint8 is divided by 255, uint16 by 65535, booleans become
    0 and 1, floats are unchanged. ``steps`` of the result lists these changes.
    """
    file = Path(path)
    check_kind(file)
    stored = file.suffix in (".npy", ".npz")
    content = (stored_arrays if stored else read_tensors)(file, hint=HINT)
    if isinstance(content, dict):
        images, labels, class_names = _chosen(file, content)
    else:
        images, labels, class_names = content, None, ()
    with reading(file, "a file of arrays", HINT):
        rows = _rows(file, images, labels, limit)
        names = class_names.read() if isinstance(class_names, StoredArray) else class_names
        values, steps = _as_images(file, _as_numpy(file, images, rows))
        given = None if labels is None else _as_numpy(file, labels, rows)
        real = given is not None and given.dtype.kind == "f" and (given.ndim > 1 or not is_whole(given))
        return ImageSet(
            values,
            None if real else given,
            tuple(str(name) for name in names),
            name=str(path),
            steps=tuple(steps),
            targets=given if real else None,
        )


def array_as_images(file: Path, values: NDArray[Any]) -> ImageSet:
    """Return the rows of an array as `load_array` reads them."""
    images, steps = _as_images(file, values)
    return ImageSet(images, name=str(file), steps=tuple(steps))


def _chosen(file: Path, content: dict[Any, Any]) -> tuple[Any, Any, Any]:
    """Return images, labels (or None) and names of classes from the arrays of a file."""
    key = next((key for key in IMAGE_KEYS if key in content), None)
    if key is None and len(content) == 1:
        key = next(iter(content))
    if key is None:
        keys = ", ".join(map(str, list(content)[:8])) or "nothing"
        raise InputError(f"{file} holds {keys}; name the array of images 'images'")
    if not hasattr(content[key], "shape"):
        raise InputError(
            f"{file}: {key!r} is of type {type(content[key]).__name__}, not an array; save arrays or tensors"
        )
    labels = next((content[key] for key in LABEL_KEYS if key in content), None)
    return content[key], labels, content.get("class_names", ())


def _rows(file: Path, images: Any, labels: Any, limit: int | None) -> NDArray[np.int64] | None:
    """Return the indices of the images to read, None for all; raise `InputError` if they do not fit into memory."""
    total = images.shape[0] if images.shape else 0
    known = labels is None or not hasattr(labels, "shape") or tuple(labels.shape[:1]) == (total,)
    if not known:
        raise InputError(f"{file}: {total} images but labels of shape {tuple(labels.shape)}; give one for each image")
    count = total if limit is None else min(check_count("limit", limit), total)
    stored = images.dtype.itemsize if isinstance(images, StoredArray) else images.element_size()
    both = stored + 4  # and float32
    check_memory(file, count * math.prod(images.shape[1:]) * both, "use fewer images (--limit on the command line)")
    return None if limit is None else np.arange(count, dtype=np.int64) * total // max(count, 1)


def _as_numpy(file: Path, value: Any, rows: NDArray[np.int64] | None) -> NDArray[Any]:
    if isinstance(value, StoredArray):
        return value.read(rows)
    if hasattr(value, "detach"):
        value = value.detach() if rows is None else value.detach()[rows]
        small = value.is_floating_point() and value.element_size() < 4  # NumPy lacks most of them
        return np.array((value.float() if small else value).numpy())
    try:
        return np.asarray(value) if rows is None else np.asarray(value)[rows]
    except ValueError as error:
        raise InputError(f"{file}: {type(value).__name__} is not an array; save arrays or tensors") from error


def _as_images(file: Path, values: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    if values.ndim < 2:
        raise InputError(f"{file} holds an array of shape {values.shape}; expected [N, D], [N, H, W] or [N, C, H, W]")
    if 0 in values.shape:
        raise InputError(f"{file} is empty: its array has shape {values.shape}; give at least one image")
    if values.ndim == 2 and values.dtype in (np.int32, np.int64):
        return values.astype(np.int64), ["whole numbers, used as indices"]
    steps = []
    if values.ndim == 3:
        values = values[:, None]
        steps.append("a gray channel added")
    elif values.ndim == 4 and values.shape[1] not in CHANNELS and values.shape[3] in CHANNELS:
        values = values.transpose(0, 3, 1, 2)
        steps.append("channels moved to the front")
    if values.dtype in (np.uint8, np.uint16):
        largest = np.iinfo(values.dtype).max
        steps.append(f"values / {largest}")
        return np.asarray(values / np.float32(largest), dtype=np.float32), steps
    if values.dtype == np.bool_ or np.issubdtype(values.dtype, np.floating):
        return _as_float32(file, values), steps
    raise InputError(
        f"{file} holds values of type {values.dtype}, whose range is unknown; save uint8 (0 to 255), uint16, floats, "
        "or rows of indices as int64 [N, length]"
    )


def _as_float32(file: Path, values: NDArray[Any]) -> NDArray[np.float32]:
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        images = values.astype(np.float32)
    if (np.isinf(images) & np.isfinite(values)).any():
        largest = np.abs(values[np.isfinite(values)]).max()
        raise InputError(
            f"{file} holds values up to {largest:.2g}, beyond {np.finfo(np.float32).max:.2g} of float32; scale them"
        )
    return images
