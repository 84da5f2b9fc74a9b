"""`load`: data sets by name. ``LOADERS`` lists them, with the module and function that loads each."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError, check_count, did_you_mean

if TYPE_CHECKING:
    from initscope.data.image_set import ImageSet

__all__ = ["load", "names"]

LOADERS = {
    "photos": "bundled:photos",
    "digits": "bundled:digits",
    "fashion-mnist": "published:fashion_mnist",
    "cifar10": "published:cifar10",
    "imagenet-sample": "published:imagenet_sample",
    "cifar10-gist": "gist_descriptor:cifar10_gist",
    "gaussian": "synthetic:gaussian",
    "shapes": "synthetic:shapes",
}


def names() -> tuple[str, ...]:
    """Names that `load` knows."""
    return tuple(LOADERS)


def load(name: str, /, *, split: str = "train", limit: int | None = None, **options: Any) -> ImageSet:
    """Load a data set by name.

    Parameters
    ----------
    name
        ``photos`` (option ``crop``, ``stride``), ``digits``, ``fashion-mnist`` and ``cifar10`` (``download``,
        ``mirror``), ``cifar10-gist``, ``imagenet-sample`` (``resolution``), ``gaussian`` (``rho``, ``shape``,
        ``seed``), ``shapes`` (``size``, ``seed``).
    split
        ``train`` or ``test``; sets without an official split are all ``train``.
    limit
        The first ``limit`` images only (fewer if there are fewer).
    options
        Options of that set.

    Raises
    ------
    InputError
        Unknown name or option, or missing data (the message gives three ways to get it).

    Examples
    --------
    >>> load("photos", limit=10)
    ImageSet(photos: 10 images 3×64×64, 2 classes; bytes / 255)
    >>> load("digits").images.shape
    (1797, 1, 8, 8)
    """
    loader = _loader(name)
    if limit is not None:
        limit = check_count("limit", limit)
    if split not in ("train", "test"):
        raise InputError(f"split = {split!r} must be 'train' or 'test'")
    known = [option for option in inspect.signature(loader).parameters if option not in ("split", "limit")]
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; it has: {', '.join(known) or 'none'}")
    if "split" in inspect.signature(loader).parameters:
        options["split"] = split
    elif split != "train":
        raise InputError(f"{name} has no test split; all of it is split='train'; slice that instead")
    return loader(limit=limit, **options)


def _loader(name: str) -> Callable[..., ImageSet]:
    if name not in LOADERS:
        meant = did_you_mean(str(name), LOADERS)
        raise InputError(f"data {name!r} is not known{meant}; names: {', '.join(LOADERS)}; or give a folder or a file")
    module, _, function = LOADERS[name].partition(":")
    loader: Callable[..., ImageSet] = getattr(importlib.import_module(f"initscope.data.{module}"), function)
    return loader
