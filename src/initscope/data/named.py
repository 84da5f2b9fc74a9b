"""`load_named`: data sets by name. ``LOADERS`` lists them, with the module and function that loads each."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from initscope.data.image_set import ImageSet

__all__ = ["load_named", "names"]

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
    """Return names of the data sets that `initscope.data.load` knows."""
    return tuple(LOADERS)


def load_named(name: str, /, *, split: str = "train", limit: int | None = None, **options: Any) -> ImageSet:
    """Return a data set by name; ``options`` are those of its loader.

    Parameters
    ----------
    name
        A name of `names`.
    split
        ``train`` or ``test``; sets without an official split are all ``train``.
    limit
        The first ``limit`` images only (fewer if there are fewer).
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
    module, _, function = LOADERS[name].partition(":")
    loader: Callable[..., ImageSet] = getattr(importlib.import_module(f"initscope.data.{module}"), function)
    return loader
