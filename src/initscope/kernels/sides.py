"""What compiled loops know of each image alone: its values, its deviations before ReLUs, its variance at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope.kernels.chain import Rectified, Step
from initscope.propagate.windows import Offset

__all__ = ["Ends", "Part", "Side"]

Floats = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Images ``[channels, height, width, …]`` and their deviations before the ReLUs, ``[2, height, width, …]``.

    Behind the width there are the lanes of a block, or nothing if it is one image.
    """

    images: Floats
    deviations: dict[int, Floats]

    def cut(self, offsets: Sequence[Offset]) -> Part:
        """Positions that have a partner at an offset, given for the maps before every step: ``[…, positions, …]``."""
        return self._each(_with_partner, offsets)

    def rolled(self, offsets: Sequence[Offset]) -> Part:
        """At every position the one at an offset from it, around the edges: ``[…, positions, …]``."""
        return self._each(_partners, offsets)

    def _each(self, change: Callable[[Floats, Offset], Floats], offsets: Sequence[Offset]) -> Part:
        def flat(maps: Floats, offset: Offset) -> Floats:
            return np.ascontiguousarray(change(maps, offset)).reshape(len(maps), -1, *maps.shape[3:])

        changed = {place: flat(maps, offsets[place]) for place, maps in self.deviations.items()}
        return Part(flat(self.images, offsets[0]), changed)


def _with_partner(maps: Floats, offset: Offset) -> Floats:
    rows, columns = (slice(max(0, -d), n - max(0, d)) for n, d in zip(maps.shape[1:3], offset))
    return maps[:, rows, columns]


def _partners(maps: Floats, offset: Offset) -> Floats:
    return np.roll(maps, [-d for d in offset], axis=(1, 2))


class Side:
    """Images of one side on their way through maps.

    ``deviations``: before the ReLUs, by their place, deviations and their inverses, ``[images, 2, height, width]``, 0
    where 0. ``variance`` and ``tangent``: behind the last step, ``[images, positions]`` in float64. ``sizes``: heights
    and widths before every step and behind the last.
    """

    def __init__(self, steps: Iterable[Step], images: Tensor, *, tangent: bool) -> None:
        self.images = images.float().numpy()
        self.deviations: dict[int, Floats] = {}
        k = images.double().square().sum(dim=1)
        theta = torch.zeros_like(k)
        self.sizes = [tuple(k.shape[1:])]
        for place, step in enumerate(steps):
            if isinstance(step, Rectified):
                self.deviations[place] = _deviations(k)
            k, theta = _alone(step, k, theta, tangent)
            self.sizes.append(tuple(k.shape[1:]))
        self.variance, self.tangent = (maps.flatten(1) for maps in (k, theta))

    def __len__(self) -> int:
        return len(self.images)

    def single(self) -> list[Part]:
        """Image by image."""
        each = range(len(self))
        return [Part(self.images[i], {place: maps[i] for place, maps in self.deviations.items()}) for i in each]

    def blocks(self, lanes: int) -> list[Part]:
        """The images by ``lanes``, which stand innermost, the last block filled up with zeros."""
        count = -(-len(self) // lanes)
        images = _innermost(self.images, count, lanes)
        deviations = {place: _innermost(each, count, lanes) for place, each in self.deviations.items()}
        return [Part(images[b], {place: each[b] for place, each in deviations.items()}) for b in range(count)]


class Ends:
    """Variances and tangents ``[images]`` on their way through vectors, and deviations before the ReLUs there."""

    def __init__(self, steps: Iterable[Step], variance: Tensor, tangent: Tensor, *, tangents: bool) -> None:
        self.deviations: dict[int, Floats] = {}
        for place, step in enumerate(steps):
            if isinstance(step, Rectified):
                self.deviations[place] = _deviations(variance[:, None])
            variance, tangent = _alone(step, variance, tangent, tangents)
        self.value = (tangent if tangents else variance).numpy()


def _innermost(values: Floats, count: int, lanes: int) -> Floats:
    """``[images, …]`` as ``[count, …, lanes]``."""
    whole = np.zeros((count * lanes, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return np.ascontiguousarray(np.moveaxis(whole.reshape(count, lanes, *values.shape[1:]), 1, -1))


def _deviations(variance: Tensor) -> Floats:
    """And their inverses, 0 where 0, in float32: ``[images, 2, …]``."""
    root = variance.sqrt()
    return torch.stack([root, torch.where(root > 0, 1 / root, 0)], dim=1).float().numpy()


def _alone(step: Step, k: Tensor, theta: Tensor, tangents: bool) -> tuple[Tensor, Tensor]:
    """Variances and tangents of each image with itself behind a step; without ``tangents`` these stay 0."""
    if isinstance(step, Rectified):
        return k / 2, theta / 2
    sums = step.taps.sum if step.taps is not None else torch.clone
    k = step.gain * sums(k) + step.bias
    return k, step.gain * sums(theta) + k if tangents else torch.zeros_like(k)
