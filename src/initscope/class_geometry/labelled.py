"""`Labelled`: images with classes, checked once for the whole room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from initscope.data import ImageSet, check_images
from initscope.errors import InputError

__all__ = ["UNLABELLED", "Labelled", "labelled"]

UNLABELLED = -1
"""The label of a sample whose class is not known."""


@dataclass(frozen=True)
class Labelled:
    """Images as one float tensor, and the number of each one's class among ``names`` (-1: not known)."""

    images: torch.Tensor
    classes: NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def pick(self, index: Any) -> Labelled:
        """Some of the samples, with the same numbers of classes."""
        return Labelled(self.images[torch.as_tensor(index)], self.classes[index], self.names)


def labelled(images: Any, labels: Any, *, name: str = "images", each: int = 1, unlabelled: bool = False) -> Labelled:
    """Check images and labels: one label each, two classes, ``each`` samples of every class.

    Parameters
    ----------
    images
        `ImageSet` (then ``labels`` may be None: its own), NumPy array or torch tensor, batch first; or `Labelled`
        already.
    labels
        One for each image: numbers or strings.
    name
        What messages call the images.
    each
        Least number of samples of a class.
    unlabelled
        Whether the label -1 stands for "not known".
    """
    if isinstance(images, Labelled):
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
    known = values != UNLABELLED if unlabelled and values.dtype.kind in "iuf" else np.ones(len(values), dtype=bool)
    found, classes, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    if len(found) < 2:
        raise InputError(
            f"the labels of the {name} name {len(found)} class: classes are compared, so give samples of at least two"
        )
    if counts.min() < each:
        rare = found[np.argmin(counts)]
        raise InputError(
            f"class {rare} has {counts.min()} sample, at least {each} are needed to have distances within it; "
            "leave that class out or give more of it"
        )
    numbers = np.full(len(values), UNLABELLED, dtype=np.int64)
    numbers[known] = classes
    is_index = found.dtype.kind in "iu" and len(named) > found.max()
    names = tuple(named[value] if is_index else str(value) for value in found)
    return Labelled(torch.as_tensor(images).float(), numbers, names)
