"""Averages over positions, through the covariances between positions; the largest of a window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope.propagate.covariances import crosses
from initscope.propagate.distributions import WindowUnits
from initscope.propagate.draws import sampled
from initscope.propagate.moments import (
    Cross,
    Draws,
    InputValues,
    Lookup,
    MomentMaps,
    NotCovered,
    Origin,
    Pair,
    State,
    Wanted,
)
from initscope.propagate.origins import PermutedPositions
from initscope.propagate.registry import Context, operation, rule
from initscope.propagate.rules.norms import channel_mean
from initscope.propagate.rules.shapes import rearranged_one
from initscope.propagate.windows import EVERY, FilterTaps, Offset, Sites

__all__ = ["adaptive_average", "average", "largest", "mean", "windows_of"]

_DRAWN_TOGETHER = 64
"""Positions of a window whose units are drawn jointly, for averages of what was drawn already."""


@rule(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, reads=("distribution", "positions"))
def average(module: Any, state: State, context: Context) -> State:
    """Average pooling."""
    if isinstance(state, InputValues):
        return state.run(module)
    padding = _each(module.padding, len(state.positions))
    if any(padding):
        if not module.count_include_pad:
            raise NotCovered("windows at the border average fewer positions")
        pad = [p for size in reversed(padding) for p in (size, size)]
        state = rearranged_one(state, lambda numbers: F.pad(numbers, pad), context)
        assert isinstance(state, MomentMaps)
    return averaged(state, *windows_of(module, state), context)


@rule(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, reads=("distribution", "positions"))
def adaptive_average(module: Any, state: State, context: Context) -> State:
    """Average pooling to a given size, where that divides the input's."""
    if isinstance(state, InputValues):
        return state.run(module)
    return averaged(state, *windows_of(module, state), context)


def windows_of(module: Any, state: MomentMaps) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Size and stride of the windows that an average pooling has on a state, which is padded already."""
    axes, positions = len(state.positions), state.positions
    if state.axis != 0 or getattr(module, "divisor_override", None) is not None:
        raise NotCovered("only plain averages over the positions after the channels are covered")
    if hasattr(module, "output_size"):
        wanted = [n if o is None else o for o, n in zip(_each(module.output_size, axes), positions)]
        if any(n % o for n, o in zip(positions, wanted)):
            raise NotCovered(f"{positions} positions do not divide into {tuple(wanted)}")
        kernel = tuple(n // o for n, o in zip(positions, wanted))
        return kernel, kernel
    kernel, stride = _each(module.kernel_size, axes), _each(module.stride, axes)
    if module.ceil_mode and any((n - k) % s for n, k, s in zip(positions, kernel, stride)):
        raise NotCovered("ceil_mode makes windows of different sizes")
    return kernel, stride


@operation("mean", reads=("distribution", "positions", "means"))
def mean(context: Context, state: State, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> State:
    """Mean over whole axes of positions."""
    if isinstance(state, InputValues):
        return state.run(lambda values: values.mean(dim=dim, keepdim=keepdim))
    rank = len(state.shape) + 1
    dims = sorted({d % rank for d in ([dim] if isinstance(dim, int) else dim or range(rank))})
    if dims == [state.axis + 1]:
        return channel_mean(state, keepdim=keepdim)
    if 0 in dims or state.axis + 1 in dims:
        raise NotCovered("it averages over samples, or over channels and positions together")
    axes = [d - 1 if d - 1 < state.axis else d - 2 for d in dims]
    kernel = tuple(n if a in axes else 1 for a, n in enumerate(state.positions))
    pooled = averaged(state, kernel, kernel, context)
    if keepdim:
        return pooled

    def drop(numbers: Tensor) -> Tensor:
        for d in reversed(dims):
            numbers = numbers.squeeze(d)
        return numbers

    return rearranged_one(pooled, drop, context)


def _each(value: Any, axes: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def averaged(state: MomentMaps, kernel: tuple[int, ...], stride: tuple[int, ...], context: Context) -> MomentMaps:
    r"""Means over windows: :math:`k^{-2}\sum_\tau\sum_t K(sp+t, sp+t+\tau)` over all offsets inside a window."""
    if all(k == 1 for k in kernel) and all(s == 1 for s in stride):
        return state
    known = state.origin is not None and not isinstance(state.origin, PermutedPositions)
    if not known and state.distribution is not None and math.prod(kernel) <= _DRAWN_TOGETHER:
        # Units that were drawn know no covariances between positions, but whole windows of them can be drawn.
        size = tuple((n - k) // s + 1 for n, k, s in zip(state.positions, kernel, stride))
        mean = WindowMean(state, stride, _grid(kernel))
        together = max((len(sites.shifts) for _, sites in mean.fields(state, Sites.aligned(size))), default=0)
        if together > _DRAWN_TOGETHER:
            raise NotCovered(f"{together} units would have to be drawn together")
        return sampled(state, mean, context, positions=size)
    inside = [tau for tau in itertools.product(*(range(1 - k, k) for k in kernel)) if tau > (0,) * len(kernel)]
    kxx, kyy, d = (_box(m.double(), kernel, stride) for m in (state.kxx, state.kyy, state.d))
    for tau, cross in zip(inside, crosses(state, inside, context.budget)):
        window = tuple(k - abs(t) for k, t in zip(kernel, tau))
        xx, yy, xy, yx = _box(cross, window, stride)
        # each offset and its opposite
        kxx, kyy, d = kxx + 2 * xx, kyy + 2 * yy, d + 2 * (xx + yy - xy - yx)
    count = math.prod(kernel)
    kxx, kyy, d = (torch.clamp_min(m / count**2, 0).to(state.kxx.dtype) for m in (kxx, kyy, d))
    distribution = state.distribution
    if distribution is not None and not distribution.lasting:
        distribution = WindowMean(state, stride, _grid(kernel))
    return state.after(kxx=kxx, kyy=kyy, d=d, distribution=distribution, origin=Pooled(state, kernel, stride))


def _grid(kernel: tuple[int, ...]) -> tuple[Offset, ...]:
    return tuple(itertools.product(*map(range, kernel)))


class WindowMean(WindowUnits):
    """The mean of a window."""

    def means(self, state: MomentMaps) -> Pair:
        """Means of the means."""
        kernel = tuple(1 + last for last in self.taps[-1])
        x, y = (_box(mean, kernel, self.stride) / len(self.taps) for mean in self.before.means())
        return x, y

    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The mean of samples."""
        return x.mean(dim=4), y.mean(dim=4)


class WindowMaximum(WindowUnits):
    """The largest of a window, padding left out."""

    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """The largest of samples."""
        if not bool(inside.all()):
            x, y = (side.masked_fill(~inside, -math.inf) for side in (x, y))
        return x.amax(dim=4), y.amax(dim=4)


@rule(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, reads=("distribution", "positions"))
def largest(module: Any, state: State, context: Context) -> State:
    """Max pooling: windows of Gaussian units are drawn jointly, and their largest go on."""
    if isinstance(state, InputValues):
        return state.run(module)
    if state.axis != 0 or module.return_indices:
        raise NotCovered("only the largest of positions after the channels is covered")
    axes = len(state.positions)
    kernel, stride, padding, dilation = (
        _each(v, axes) for v in (module.kernel_size, module.stride, module.padding, module.dilation)
    )
    taps = tuple(
        tuple(d * t - p for d, t, p in zip(dilation, tap, padding, strict=True))
        for tap in itertools.product(*map(range, kernel))
    )
    like = torch.empty((1, *state.positions), device="meta")
    return sampled(state, WindowMaximum(state, stride, taps), context, positions=tuple(module(like).shape[1:]))


def _box(maps: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    axes = len(kernel)
    return FilterTaps(tuple(kernel), tuple(stride), (1,) * axes, ((0, 0),) * axes).sum(maps)


@dataclass(frozen=True, eq=False)
class Pooled(Origin):
    """Covariances between windows: sums over all pairs of their positions."""

    before: MomentMaps
    kernel: tuple[int, ...]
    stride: tuple[int, ...]

    def _inside(self) -> Iterable[Offset]:
        return itertools.product(*(range(1 - k, k) for k in self.kernel))

    def _inner(self, offset: Offset, tau: Offset) -> Offset:
        return tuple(s * d + t for s, d, t in zip(self.stride, offset, tau))

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Every offset between a position of one window and one of the other."""
        if offset is EVERY:
            return ((self.before, EVERY),)
        return ((self.before, self._inner(offset, tau)) for tau in self._inside())

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """The sum over those offsets."""
        if offset is EVERY:
            return self._every(lookup(self.before, EVERY))
        size = [
            (n - k) // s + 1 - abs(d) for n, k, s, d in zip(self.before.positions, self.kernel, self.stride, offset)
        ]
        shape = (4, *self.before.kxx.shape[:2], *size)
        total = torch.zeros(shape, dtype=torch.float64, device=self.before.kxx.device)
        cut: Any = (..., *(slice(0, n) for n in size))
        for tau in self._inside():
            inner = self._inner(offset, tau)
            # first entry of the inner map that the first pair of windows reads
            start = [s * max(0, -d) + max(0, -t) - max(0, -i) for s, d, t, i in zip(self.stride, offset, tau, inner)]
            index: Any = (..., *(slice(s, None) for s in start))
            window = [k - abs(t) for k, t in zip(self.kernel, tau)]
            total += _box(lookup(self.before, inner)[index], window, self.stride)[cut]
        return total / math.prod(self.kernel) ** 2

    def averages(self) -> Tensor:
        """What every output takes of every position: ``[outputs, positions]``."""
        axes, count = len(self.kernel), math.prod(self.before.positions)
        windows = FilterTaps(self.kernel, self.stride, (1,) * axes, ((0, 0),) * axes)
        places = torch.stack(list(windows.places(self.before.positions)))
        mean = torch.zeros(places.shape[1], count, dtype=torch.float64)
        return mean.scatter_(1, places.T, 1 / len(places))

    def _every(self, inner: Cross) -> Cross:
        """Averages of rows and of columns."""
        mean, count = self.averages(), math.prod(self.before.positions)
        both = torch.zeros(2 * len(mean), 2 * count, dtype=torch.float64)
        both[: len(mean), :count] = both[len(mean) :, count:] = mean
        pooled: Cross = both @ inner @ both.T
        return pooled
