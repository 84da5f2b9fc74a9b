"""What moves units without changing them: flatten, reshape, permute, slices, padding, nearest upsampling, dropout.

All of these are one rule: the operation itself, run on a tensor of unit numbers, tells where every output comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import padding

from initscope.propagate.distributions import MovedUnits, ZeroMeanUnits, take
from initscope.propagate.moments import Cross, InputValues, Lookup, MomentMaps, NotCovered, Origin, State, Wanted
from initscope.propagate.numbering import cuts_channels
from initscope.propagate.origins import GatheredPositions, PermutedPositions
from initscope.propagate.registry import Context, operation, rule
from initscope.propagate.totals import own_call
from initscope.propagate.units import UnitView, is_tokens, moved_units, units_of
from initscope.propagate.windows import EVERY, Offset

__all__ = ["MOVES", "move_of", "moves_units", "rearranged"]


@rule(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, reads=())
def dropout(module: nn.Module, state: State, context: Context) -> State:
    """Off, as in evaluation."""
    return state


@rule(nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle, nn.UpsamplingNearest2d, reads=())
@rule(padding._ReflectionPadNd, padding._ReplicationPadNd, padding._CircularPadNd, reads=())
def moves_units(module: nn.Module, state: State, context: Context) -> State:
    """The units at their new places."""
    return rearranged_one(state, module, context)


@rule(padding._ConstantPadNd, reads=())
def constant_padding(module: Any, state: State, context: Context) -> State:
    """Zeros around; other constants have no place in zero-mean maps."""
    if isinstance(state, MomentMaps) and module.value != 0:
        raise NotCovered(f"it pads with {module.value}, which is not random")
    return rearranged_one(state, module, context)


@rule(nn.Upsample, reads=())
def upsample(module: nn.Upsample, state: State, context: Context) -> State:
    """Nearest neighbours are copies; interpolation averages positions."""
    if isinstance(state, MomentMaps) and not module.mode.startswith("nearest"):
        raise NotCovered(f"{module.mode} interpolation averages positions")
    return rearranged_one(state, module, context)


MOVES = (
    "view", "reshape", "flatten", "unflatten", "permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis",
    "t", "unsqueeze", "squeeze", "expand", "chunk", "split", "tensor_split", "unbind", "narrow", "select", "getitem",
    "index_select", "flip", "roll", "repeat", "tile", "repeat_interleave", "pad", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle",
)  # fmt: skip


def _move(name: str) -> Callable[..., Any]:
    """The rule of a function or method of that name."""

    def moved(context: Context, state: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "getitem" and not isinstance(state, (InputValues, MomentMaps)):
            return state[args[0]]
        if name == "pad" and isinstance(state, MomentMaps) and _pad_value(*args, **kwargs) != 0:
            raise NotCovered("it pads with a constant, which is not random")

        return rearranged(state, lambda values: move_of(name, values, *args, **kwargs), context)

    return moved


def move_of(name: str, values: Tensor, *args: Any, **kwargs: Any) -> Any:
    """The call of that name, on values or on numbers of units."""
    if name == "getitem":
        return values[args[0]]
    if hasattr(values, name):
        return getattr(values, name)(*args, **kwargs)
    return getattr(nn.functional, name)(values, *args, **kwargs)


for _name in MOVES:
    operation(_name, reads=())(_move(_name))


def _pad_value(pad: Any, mode: str = "constant", value: float | None = None) -> float:
    return 0.0 if value is None or mode != "constant" else value


def rearranged_one(state: State, operation: Callable[[Tensor], Tensor], context: Context) -> State:
    """`rearranged` for an operation with one result."""
    result: State = rearranged(state, operation, context)
    return result


def rearranged(state: State, operation: Callable[[Tensor], Any], context: Context) -> Any:
    """The state after an operation that only moves, copies or drops units, or fills in zeros.

    Operations with several results give a tuple of states.
    """
    if isinstance(state, InputValues):
        x, y = own_call(operation, state.x.clone()), own_call(operation, state.y.clone())
        if isinstance(x, Tensor):
            return InputValues(x, y, state.status)
        return tuple(InputValues(a, b, state.status) for a, b in zip(x, y, strict=True))
    if is_tokens(state) and state.gaussian | isinstance(state.distribution, ZeroMeanUnits):
        cut = moved_units(units_of(state), operation)
        if all(one.part is not None if isinstance(one, MomentMaps) else _cuts_channels(one) for one in _each(cut)):
            return cut
    batch = len(state.kxx)
    # Numbered from 1, so that zeros that are filled in come out as -1; in float64, which every operation accepts.
    numbers = torch.arange(1, math.prod(state.shape) + 1, dtype=torch.float64).reshape(state.shape)
    moved = own_call(operation, numbers.expand(batch, *state.shape))
    if isinstance(moved, Tensor):
        return _moved(state, moved, batch)
    return tuple(_moved(state, part, batch) for part in moved)


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _cuts_channels(units: UnitView) -> bool:
    """Whether channels of a token lie along several axes now, or samples elsewhere."""
    source, base = units.source, units.base
    if len(source) != len(base.kxx):
        return True
    if source.dim() < 3 or base.origin is None:
        return False
    return cuts_channels(source, units.whole)


def _moved(state: MomentMaps, moved: Tensor, batch: int) -> MomentMaps:
    if moved.dim() < 2 or len(moved) != batch or not bool((moved == moved[:1]).all()):
        raise NotCovered("it mixes samples with other axes")
    source = moved[0].round().long() - 1
    if tuple(source.shape) == state.shape and torch.equal(source.flatten(), torch.arange(source.numel())):
        return state  # every unit is where it was
    zero = source < 0
    place = [torch.where(zero, -1, index) for index in torch.unravel_index(source.clamp_min(0), state.shape)]
    channel = place.pop(state.axis)
    position = torch.zeros_like(source)
    for index, size in zip(place, state.positions, strict=True):
        position = position * size + index
    position = torch.where(zero, torch.tensor(-1), position)
    edges = torch.tensor(state.sizes).cumsum(0)
    block = torch.bucketize(channel.contiguous(), edges, right=True)
    if source.dim() == 1 and len(state.shape) > 1:
        return _flattened(state, position, block)
    if state.mixed:
        raise NotCovered("the units it moves have lost their order")
    for axis in _channel_axes(source, position, channel, state.channels):
        where, channels = position.select(axis, 0), block.movedim(axis, 0).reshape(source.shape[axis], -1)
        whole = _along(channel, axis) is not None
        if len(state.sizes) == 1:
            return _at(state, where, axis, (0,), (source.shape[axis],), place, whole)
        if bool((channels == channels[:, :1]).all()):
            chosen, sizes = torch.unique_consecutive(channels[:, 0], return_counts=True)
            return _at(state, where, axis, tuple(chosen.tolist()), tuple(sizes.tolist()), place, whole)
    raise NotCovered("no axis of its output holds the channels of one position")


def _channel_axes(source: Tensor, position: Tensor, channel: Tensor, channels: int) -> list[int]:
    """Axes along which the position does not change; those along which the channel does come first."""
    fixed = [a for a in range(source.dim()) if bool((position == position.narrow(a, 0, 1)).all())]
    return sorted(fixed, key=lambda a: source.shape[a] == 1 and channels > 1)


def _flattened(state: MomentMaps, position: Tensor, block: Tensor) -> MomentMaps:
    """Every (block, position) becomes a block of its own; their order is given up, which no Linear layer sees."""
    count = math.prod(state.positions)
    keys, sizes = torch.unique(torch.where(position < 0, -1, block * count + position), return_counts=True)
    flat = tuple(torch.where(keys < 0, 0, m.flatten(1)[:, keys.clamp_min(0)]) for m in (state.kxx, state.kyy, state.d))
    distribution = (
        state.distribution
        if state.distribution is None or state.distribution.lasting
        else MovedUnits(state, keys, flat=True)
    )
    return state.after(
        kxx=flat[0],
        kyy=flat[1],
        d=flat[2],
        sizes=tuple(sizes.tolist()),
        axis=0,
        distribution=distribution,
        origin=FlattenedPositions(state, keys),
        mixed=True,
    )


@dataclass(frozen=True, eq=False)
class FlattenedPositions(Origin):
    """Of positions that have become blocks of channels (``keys``, -1 for a zero): no other position is left."""

    before: MomentMaps
    keys: Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Every position with itself."""
        if offset is EVERY:
            return ()
        return ((self.before, (0,) * len(self.before.positions)),)

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Its covariances, side by side."""
        if offset is EVERY:
            raise NotCovered("no positions are left")
        inner = lookup(*next(iter(self.sources(offset)))).flatten(2)
        return torch.where(self.keys < 0, 0, inner[:, :, self.keys.clamp_min(0)])


def _at(
    state: MomentMaps,
    where: Tensor,
    axis: int,
    blocks: tuple[int, ...],
    sizes: tuple[int, ...],
    place: list[Tensor],
    whole: bool,
) -> MomentMaps:
    """``whole``: each channel is one channel of ``state`` at all positions, so that they are correlated as there."""
    every = blocks == tuple(range(len(state.sizes)))
    origin = _sites(state, where, place, axis) if every and whole else None
    if origin is None and every and whole and state.origin is not None and where.dim() == 1:
        origin = PermutedPositions(state, where)
    kxx, kyy, d = (take(maps[:, list(blocks)], where) for maps in (state.kxx, state.kyy, state.d))
    distribution = state.distribution
    if distribution is not None and not distribution.lasting:
        distribution = MovedUnits(state, where, None if every else blocks, whole=whole)
    return state.after(kxx=kxx, kyy=kyy, d=d, sizes=sizes, axis=axis, distribution=distribution, origin=origin)


def _sites(state: MomentMaps, where: Tensor, place: list[Tensor], axis: int) -> Origin | None:
    """How offsets move along, where every output axis reads along one input axis alone."""
    if where.dim() == 0 and len(state.sizes) == 1:
        return FlattenedPositions(state, where.reshape(1))
    if where.dim() != len(state.positions) or not bool((where >= 0).any()):
        return None
    sites = [line for a, index in enumerate(place) if (line := _along(index.select(axis, 0), a)) is not None]
    return GatheredPositions(state, tuple(sites)) if len(sites) == len(place) else None


def _along(index: Tensor, axis: int) -> Tensor | None:
    """What is read along an axis, if it is the same on all others; -1, which stands for a filled-in zero, fits all."""
    lines = index.movedim(axis, 0).reshape(index.shape[axis], -1)
    line = lines.max(dim=1).values
    return line if bool(((lines == line[:, None]) | (lines < 0)).all()) else None
