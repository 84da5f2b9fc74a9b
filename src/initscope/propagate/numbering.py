"""Numbers of all units of a state: code that moves units is run on them, which shows the move of every unit.

Cutting channels into heads, turning axes and back again only changes how the same memory is looked at. Layers and
replicates repeat the same moves, so results for a view are cached by its sizes and strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from initscope.propagate.totals import NotCovered

__all__ = ["Lines", "View", "channels_cut", "lines", "numbers", "of_rows", "same_units", "view_of", "viewed"]

Shape = tuple[int, ...]
View = tuple[Shape, Shape, int]
"""Sizes, strides and start of a view of `numbers`."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Lines:
    """Units ``[..., tokens, channels]`` of which every leading index is a head: sample, its tokens, its channels."""

    sample: Tensor
    token: Tensor
    channel: Tensor


@lru_cache(maxsize=4)
def numbers(shape: Shape) -> Tensor:
    """(sample·T + token)·channels + channel of ``[samples, T, channels]``; not to be written into."""
    return torch.arange(math.prod(shape)).reshape(shape)


def view_of(source: Tensor, shape: Shape) -> View | None:
    """Return how ``source`` views the numbers of that shape; None if it is a copy."""
    if source.untyped_storage().data_ptr() != numbers(shape).untyped_storage().data_ptr():
        return None
    return tuple(source.shape), source.stride(), int(source.storage_offset())


def viewed(values: Tensor, source: Tensor, shape: Shape) -> Tensor:
    """Return ``values`` of that shape at the positions of ``source``."""
    view = view_of(source, shape)
    return values.reshape(-1)[source] if view is None else values.contiguous().as_strided(*view)


def same_units(source: Tensor, other: Tensor, shape: Shape) -> bool:
    """Return whether both have the same numbers at the same positions."""
    views = view_of(source, shape), view_of(other, shape)
    return views[0] == views[1] if None not in views else torch.equal(source, other)


def _remembered(find: Callable[[Tensor, Shape], _Result]) -> Callable[[Tensor, Shape], _Result]:
    """Return results for a view, computed once."""

    @lru_cache(maxsize=64)
    def of_view(view: View, shape: Shape) -> _Result:
        return find(numbers(shape).as_strided(*view), shape)

    def remembered(source: Tensor, shape: Shape) -> _Result:
        view = view_of(source, shape)
        return find(source, shape) if view is None else of_view(view, shape)

    return remembered


@_remembered
def lines(source: Tensor, shape: Shape) -> Lines:
    """Return the position of the vectors along the last axis."""
    _, tokens, channels = shape
    sample = source[..., 0, 0] // (tokens * channels)
    token = source.reshape(-1, *source.shape[-2:])[0, :, 0] // channels % tokens
    channel = source[..., 0, :] % channels
    expected = (sample[..., None] * tokens + token)[..., None] * channels + channel[..., None, :]
    if not torch.equal(expected, source):
        raise NotCovered("tokens and channels of its heads are mixed")
    return Lines(sample, token, channel)


@_remembered
def channels_cut(source: Tensor, shape: Shape) -> bool:
    """Return whether channels of a token lie along several axes now."""
    token = source // shape[-1]
    along = [bool((token == token.narrow(a, 0, 1)).all()) for a in range(1, source.dim())]
    return sum(along) > 1 or not any(along)


def of_rows(source: Tensor, shape: Shape, width: int) -> Tensor:
    """Return the numbers of ``width`` units for every token that ``source`` holds, instead of all its channels."""
    after, channels, view = (*shape[:2], width), shape[-1], view_of(source, shape)
    if view is not None and source.shape[-1] == channels and source.stride(-1) == 1:
        sizes, (*strides, _), start = view
        if start % channels == 0 and all(stride % channels == 0 for stride in strides):
            wide = [stride // channels * width for stride in strides]
            return numbers(after).as_strided((*sizes[:-1], width), (*wide, 1), start // channels * width)
    row = source[..., 0] // channels
    if not torch.equal(row[..., None] * channels + torch.arange(channels), source):
        raise NotCovered("it mixes positions with weights that all channels share")
    return row[..., None] * width + torch.arange(width)
