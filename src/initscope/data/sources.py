"""`load_any`: data from a specification as on the command line: a name, a folder of images, or an array file.

`seeded` adds a seed to synthetic data, `pairs_of` samples pairs as the commands do.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from initscope._utils.tensors import TENSOR_SUFFIXES
from initscope.data.arrays import load_array
from initscope.data.checks import check_images
from initscope.data.folders import load_folder
from initscope.data.image_set import ImageSet
from initscope.data.named import load, names
from initscope.data.normalization import normalize as normalized
from initscope.data.pairs import Pairs, random_pairs, within_class_pairs
from initscope.data.text import is_text, text_set
from initscope.errors import InputError, did_you_mean

__all__ = ["is_drawn", "load_any", "pairs_of", "seeded"]


def load_any(
    spec: str,
    *,
    size: int | tuple[int, int] | None = None,
    normalize: str | None = None,
    limit: int | None = None,
) -> ImageSet:
    """Load a named data set, a folder of images or an array file.

    Parameters
    ----------
    spec
        A name of `load`, with options after a colon if wanted (``photos:crop=32``, ``gaussian:rho=0.9``,
        ``fashion-mnist:split=test``); the path of a folder (`load_folder`); or of a .npy, .npz or .pt file
        (`load_array`); ``text`` or ``text:FILE`` for sequences of bytes (`initscope.data.text`). Give a folder with
        the name of a data set as ``./name``.
    size
        For folders: crop and resize to this side, or (height, width). For text: tokens per sequence, 64 by default.
    normalize
        ``imagenet``, ``standardize`` or ``MEAN,STD``, see `initscope.data.normalize`; after ``limit``.
    limit
        Load at most this many images: the first of a named set, evenly spaced ones of a folder or file.

    Examples
    --------
    >>> load_any("photos:crop=32", limit=3, normalize="0.5,0.5").shape
    (3, 32, 32)
    """
    if not spec:
        raise InputError(f"data is empty; give a name ({', '.join(_known())}), a folder or a file")
    if is_text(spec):
        if isinstance(size, tuple) or normalize is not None:
            raise InputError(
                f"{spec} is a sequence of bytes: it takes one --size, the number of tokens, and no --normalize"
            )
        return text_set(spec, tokens=size or 64, limit=limit)
    name, _, options = spec.partition(":")
    path = Path(spec)
    if name in names():
        data = load(name, **_with_limit(spec, _options(spec, options), limit))
    elif "\0" not in spec and path.is_dir():
        data = load_folder(path, size, limit=limit)
    elif "\0" not in spec and (path.exists() or path.suffix in TENSOR_SUFFIXES):
        data = load_array(path, limit=limit)
    else:
        raise InputError(
            f"data {spec!r} is neither a name ({', '.join(_known())}) nor a folder or file"
            + (did_you_mean(name, [*_known(), *_siblings(path)]) or "; check the spelling")
        )
    if size is not None and (name in names() or not path.is_dir()):
        raise InputError(f"size = {size}: only folders of images are resized; {spec} has its own size {data.shape}")
    return data if normalize is None else normalized(data, normalize)


def _known() -> tuple[str, ...]:
    """Return the names of data sets, with "text"."""
    return (*names(), "text")


def _siblings(path: Path) -> list[str]:
    """Return the paths in the folder of a missing path."""
    try:
        return [str(other) for other in path.parent.iterdir()]
    except (OSError, ValueError):  # no such folder, or not a valid path
        return []


def _with_limit(spec: str, options: dict[str, Any], limit: int | None) -> dict[str, Any]:
    """Return the options with ``limit``; raise `InputError` if the options have a different one."""
    if limit is None:
        return options
    if options.get("limit", limit) != limit:
        raise InputError(f"data {spec!r} has limit={options['limit']}, but limit = {limit} is given too; give only one")
    return {**options, "limit": limit}


def _options(spec: str, text: str) -> dict[str, Any]:
    """Parse ``key=value,key=value``; numbers become numbers, AxBxC a tuple of sides, the rest stays text."""
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"data {spec!r}: {part!r} is not key=value; for example photos:crop=32")
        sides = value.split("x")
        if len(sides) > 1 and all(side.isdigit() for side in sides):
            options[key.strip()] = tuple(map(int, sides))
            continue
        try:
            options[key.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # what `literal_eval` may raise
            options[key.strip()] = value
    return options


def seeded(spec: str, seed: int) -> str:
    """Return ``spec`` with a seed added if it names synthetic data without a seed.

    >>> seeded("shapes:size=32", 3), seeded("digits", 3)
    ('shapes:size=32,seed=3', 'digits')
    """
    name, _, options = spec.partition(":")
    return f"{name}:{options},seed={seed}" if is_drawn(spec) and "seed=" not in options else spec


def is_drawn(spec: str) -> bool:
    """Return whether the data is synthetic, so that name, options and seed determine it."""
    return spec.partition(":")[0] in ("gaussian", "shapes")


def pairs_of(data: ImageSet, count: int, seed: int) -> Pairs:
    """Return ``count`` different pairs, or all if there are fewer; Gaussian data has pairs of its own."""
    check_images(data.images, name=data.name, zeros=data.images.dtype.kind == "i")
    in_twos = data.name == "gaussian"
    different = len(data) // 2 if in_twos else len(data) * (len(data) - 1) // 2
    return (within_class_pairs if in_twos else random_pairs)(data, min(count, max(different, 1)), seed)
