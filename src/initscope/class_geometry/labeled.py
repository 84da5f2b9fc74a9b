"""`Labeled`: images with classes, checked once for this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from initscope.data import ImageSet, check_images
from initscope.errors import InputError
from initscope.results import counted

__all__ = ["UNLABELED", "Labeled", "labeled"]

UNLABELED = -1
"""The label of a sample whose class is not known."""


@dataclass(frozen=True)
class Labeled:
    """Images as one float tensor, and the index of each image's class in ``names`` (-1: unknown)."""

    images: torch.Tensor
    classes: NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def pick(self, index: Any) -> Labeled:
        """Return some of the samples, with the same numbering of classes."""
        return Labeled(self.images[torch.as_tensor(index)], self.classes[index], self.names)


def labeled(images: Any, labels: Any, *, name: str = "images", least: int = 1, unlabeled: bool = False) -> Labeled:
    """Check that each image has one label, and that there are two classes with at least ``least`` samples each.

    Parameters
    ----------
    images
        `ImageSet` (then ``labels`` may be None: its own), NumPy array or torch tensor, batch first; or `Labeled`
        already.
    labels
        One for each image: numbers or strings.
    name
        What messages call the images.
    least
        Least number of samples of a class.
    unlabeled
        Whether the label -1 stands for "not known".
    """
    if isinstance(images, Labeled):
        return images
    named: tuple[str, ...] = ()
    if isinstance(images, ImageSet):
        labels = images.labels if labels is None else labels
        images, named = images.images, images.class_names
    if labels is None:
        raise InputError(f"{name} come without labels, so without classes; give labels=, one for each image")
    check_images(images, name=name, zeros=True)
    values = np.asarray(labels)
    if values.shape != (len(images),):
        raise InputError(f"{len(images)} {name} but labels of shape {values.shape}; give one label for each image")
    known = values != UNLABELED if unlabeled and values.dtype.kind in "iuf" else np.ones(len(values), dtype=bool)
    present, classes, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    if len(present) < 2:
        raise InputError(f"the labels of the {name} contain {len(present)} class; give samples of at least two classes")
    if counts.min() < least:
        rare = present[np.argmin(counts)]
        raise InputError(
            f"class {rare} has {counted(int(counts.min()), 'sample')}, but distances within a class need at least "
            f"{least}; leave that class out or give more samples of it"
        )
    numbers = np.full(len(values), UNLABELED, dtype=np.int64)
    numbers[known] = classes
    is_index = present.dtype.kind in "iu" and len(named) > present.max()
    names = tuple(named[value] if is_index else str(value) for value in present)
    return Labeled(torch.as_tensor(images).float(), numbers, names)
