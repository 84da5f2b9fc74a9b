"""Moves of units of maps: any code that moves units is run on their numbers, which shows where each comes from."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.propagate.bases import Origin
from initscope.propagate.distributions import MovedUnits, take
from initscope.propagate.origins.positions import FlattenedPositions, GatheredPositions, PermutedPositions
from initscope.propagate.totals import NotCovered, own_call

if TYPE_CHECKING:
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["moved_maps"]


def moved_maps(state: MomentMaps, operation: Callable[[Tensor], Any]) -> Any:
    """Return the maps after an operation that only moves, copies or drops units, or fills in zeros.

    Parameters
    ----------
    state : MomentMaps
        The maps before.
    operation : callable
        The operation, on a tensor ``[pairs, *state.shape]``.

    Returns
    -------
    MomentMaps, or a tuple of them
        One for each result of the operation.
    """
    batch = len(state.kxx)
    # Numbered from 1, so that zeros that are filled in come out as -1; in float64, which every operation accepts.
    numbers = torch.arange(1, math.prod(state.shape) + 1, dtype=torch.float64).reshape(state.shape)
    moved = own_call(operation, numbers.expand(batch, *state.shape))
    if isinstance(moved, Tensor):
        return _moved(state, moved, batch)
    return tuple(_moved(state, part, batch) for part in moved)


def _moved(state: MomentMaps, moved: Tensor, batch: int) -> MomentMaps:
    if moved.dim() < 2 or len(moved) != batch or not bool((moved == moved[:1]).all()):
        raise NotCovered("it mixes samples with other axes")
    source = moved[0].round().long() - 1
    if tuple(source.shape) == state.shape and torch.equal(source.flatten(), torch.arange(source.numel())):
        return state  # every unit is where it was
    zero = source < 0
    indices = [torch.where(zero, -1, index) for index in torch.unravel_index(source.clamp_min(0), state.shape)]
    channel = indices.pop(state.axis)
    position = torch.zeros_like(source)
    for index, size in zip(indices, state.positions, strict=True):
        position = position * size + index
    position = torch.where(zero, torch.tensor(-1), position)
    edges = torch.tensor(state.sizes).cumsum(0)
    block = torch.bucketize(channel.contiguous(), edges, right=True)
    if source.dim() == 1 and len(state.shape) > 1:
        return _flattened(state, position, block)
    if state.mixed:
        raise NotCovered("the order of the units that it moves is not known")
    for axis in _channel_axes(source, position, state.channels):
        where, channels = position.select(axis, 0), block.movedim(axis, 0).reshape(source.shape[axis], -1)
        whole = _along(channel, axis) is not None
        if len(state.sizes) == 1:
            return _at(state, where, axis, (0,), (source.shape[axis],), indices, whole)
        if bool((channels == channels[:, :1]).all()):
            chosen, sizes = torch.unique_consecutive(channels[:, 0], return_counts=True)
            return _at(state, where, axis, tuple(chosen.tolist()), tuple(sizes.tolist()), indices, whole)
    raise NotCovered("no axis of its output holds the channels of one position")


def _channel_axes(source: Tensor, position: Tensor, channels: int) -> list[int]:
    """Return the order of axes with those first along which the channel changes."""
    fixed = [axis for axis in range(source.dim()) if bool((position == position.narrow(axis, 0, 1)).all())]
    return sorted(fixed, key=lambda axis: source.shape[axis] == 1 and channels > 1)


def _flattened(state: MomentMaps, position: Tensor, block: Tensor) -> MomentMaps:
    """Turn every (block, position) into its own block.

    Their order is dropped, because a Linear layer does not depend on it.
    """
    count = math.prod(state.positions)
    keys, sizes = torch.unique(torch.where(position < 0, -1, block * count + position), return_counts=True)
    flat = tuple(torch.where(keys < 0, 0, m.flatten(1)[:, keys.clamp_min(0)]) for m in (state.kxx, state.kyy, state.d))
    keeps = state.distribution.stable or not state.distribution.known
    return state.after(
        flat,
        sizes=tuple(sizes.tolist()),
        axis=0,
        distribution=state.distribution if keeps else MovedUnits(state, keys, flat=True),
        origin=FlattenedPositions(state, keys),
        mixed=True,
    )


def _at(
    state: MomentMaps,
    where: Tensor,
    axis: int,
    blocks: tuple[int, ...],
    sizes: tuple[int, ...],
    indices: list[Tensor],
    whole: bool,
) -> MomentMaps:
    """``whole``: each channel is the same channel of ``state`` at all positions, so that they have its correlations."""
    every = blocks == tuple(range(len(state.sizes)))
    origin = _origin(state, where, indices, axis) if every and whole else None
    if origin is None and every and whole and state.origin is not None and where.dim() == 1:
        origin = PermutedPositions(state, where)
    moments = tuple(take(maps[:, list(blocks)], where) for maps in (state.kxx, state.kyy, state.d))
    distribution = state.distribution
    if distribution.known and not distribution.stable:
        distribution = MovedUnits(state, where, None if every else blocks, whole=whole)
    return state.after(moments, sizes=sizes, axis=axis, distribution=distribution, origin=origin)


def _origin(state: MomentMaps, where: Tensor, indices: list[Tensor], axis: int) -> Origin | None:
    """Return how offsets change, if every output axis reads along a single input axis."""
    if where.dim() == 0 and len(state.sizes) == 1:
        return FlattenedPositions(state, where.reshape(1))
    if where.dim() != len(state.positions) or not bool((where >= 0).any()):
        return None
    sites = [line for a, index in enumerate(indices) if (line := _along(index.select(axis, 0), a)) is not None]
    return GatheredPositions(state, tuple(sites)) if len(sites) == len(indices) else None


def _along(index: Tensor, axis: int) -> Tensor | None:
    """Return the index that is read along an axis, if it is the same on all others.

    -1, which represents an inserted zero, matches all.
    """
    lines = index.movedim(axis, 0).reshape(index.shape[axis], -1)
    line = lines.max(dim=1).values
    return line if bool(((lines == line[:, None]) | (lines < 0)).all()) else None
