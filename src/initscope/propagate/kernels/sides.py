"""Data of each single image for the compiled loops: its values, its deviations before ReLUs, its final variance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope.propagate.kernels.relu_stack import Rectified, Step

__all__ = ["Ends", "Part", "Side", "innermost", "meetings"]

Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Images ``[channels, positions, …]`` and their deviations before the ReLUs, ``[2, positions, …]``.

    The last axis, after the positions, is the lanes of a block; it is missing for a single image.
    """

    images: Floats
    deviations: dict[int, Floats]


class Side:
    """Images of one side during their walk through maps.

    ``deviations`` holds, by index of the ReLU, deviations before it and their inverses, ``[images, 2, height, width]``,
    0 where the deviation is 0. ``variance`` and ``tangent``: after the last step, ``[images, positions]`` in float64.
    ``sizes``: heights and widths before every step and after the last.
    """

    def __init__(self, steps: Iterable[Step], images: Tensor, *, tangent: bool) -> None:
        self.images = images.float().numpy()
        self.deviations: dict[int, Floats] = {}
        k = images.double().square().sum(dim=1)
        theta = torch.zeros_like(k)
        self.sizes = [tuple(k.shape[1:])]
        for index, step in enumerate(steps):
            if isinstance(step, Rectified):
                self.deviations[index] = _deviations(k)
            k, theta = _alone(step, k, theta, tangent)
            self.sizes.append(tuple(k.shape[1:]))
        self.variance, self.tangent = (maps.flatten(1) for maps in (k, theta))

    def __len__(self) -> int:
        return len(self.images)

    def single(self) -> list[Part]:
        """Image by image."""
        images, deviations = self._flat()
        return [Part(images[i], {index: maps[i] for index, maps in deviations.items()}) for i in range(len(self))]

    def blocks(self, lanes: int) -> list[Part]:
        """Return the images in blocks of ``lanes``, which are innermost; the last block is padded with zeros."""
        images, deviations = self._flat()
        blocks = innermost(images, lanes)
        others = {index: innermost(maps, lanes) for index, maps in deviations.items()}
        return [Part(block, {index: maps[b] for index, maps in others.items()}) for b, block in enumerate(blocks)]

    def _flat(self) -> tuple[Floats, dict[int, Floats]]:
        """Heights and widths together."""
        deviations = {index: maps.reshape(*maps.shape[:2], -1) for index, maps in self.deviations.items()}
        return self.images.reshape(*self.images.shape[:2], -1), deviations


class Ends:
    """Variances and tangents ``[images]`` on their way through vectors, and deviations before the ReLUs there."""

    def __init__(self, steps: Iterable[Step], variance: Tensor, tangent: Tensor, *, tangents: bool) -> None:
        self.deviations: dict[int, Floats] = {}
        for index, step in enumerate(steps):
            if isinstance(step, Rectified):
                self.deviations[index] = _deviations(variance[:, None])
            variance, tangent = _alone(step, variance, tangent, tangents)
        self.value = (tangent if tangents else variance).numpy()


def meetings(images: int, blocks: int, lanes: int, *, alike: bool) -> list[tuple[int, int]]:
    """Yield pairs of an image and a block; if both sides are ``alike``, only those on and above the diagonal.

    The order is block by block, so that the data of a block stay in the caches.
    """
    return [(i, b) for b in range(blocks) for i in range(min(images, (b + 1) * lanes) if alike else images)]


def innermost(values: Floats, lanes: int) -> Floats:
    """Return ``[images, …]`` as ``[blocks, …, lanes]``."""
    count = -(-len(values) // lanes)
    whole = np.zeros((count * lanes, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return np.ascontiguousarray(np.moveaxis(whole.reshape(count, lanes, *values.shape[1:]), 1, -1))


def _deviations(variance: Tensor) -> Floats:
    """Return deviations and their inverses, 0 where they are 0, in float32: ``[images, 2, …]``."""
    root = variance.sqrt()
    return torch.stack([root, torch.where(root > 0, 1 / root, 0)], dim=1).float().numpy()


def _alone(step: Step, k: Tensor, theta: Tensor, tangents: bool) -> tuple[Tensor, Tensor]:
    """Return variances and tangents of each image with itself after a step; without ``tangents`` these are 0."""
    if isinstance(step, Rectified):
        return k / 2, theta / 2
    sums = step.taps.sum if step.taps is not None else torch.clone
    k = step.gain * sums(k) + step.bias
    return k, step.gain * sums(theta) + k if tangents else torch.zeros_like(k)
