"""Averages over positions, through the covariances between positions; the largest of a window."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope.propagate.context import Context
from initscope.propagate.covariances import crosses
from initscope.propagate.draws import sampled
from initscope.propagate.origins.positions import AveragedWindows, box_sums
from initscope.propagate.registry import operation, rule
from initscope.propagate.rules.norms import channel_mean
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.window_distributions import WindowMaximum, WindowMean
from initscope.propagate.windows import Offset, Sites

__all__ = ["adaptive_average", "average", "largest", "mean", "windows_of"]

_DRAWN_TOGETHER = 64
"""Positions of a window whose units are drawn jointly, for averages of what was drawn already."""


@rule(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, reads=("distribution", "positions"), fixed=True)
def average(module: Any, state: MomentMaps, context: Context) -> MomentMaps:
    """Average pooling."""
    padding = _per_axis(module.padding, len(state.positions))
    if any(padding):
        if not module.count_include_pad:
            raise NotCovered("windows at the border average fewer positions")
        pad = [p for size in reversed(padding) for p in (size, size)]
        state = state.moved(lambda numbers: F.pad(numbers, pad))
    return averaged(state, *windows_of(module, state), context)


@rule(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, reads=("distribution", "positions"), fixed=True)
def adaptive_average(module: Any, state: MomentMaps, context: Context) -> MomentMaps:
    """Apply average pooling to a given size, if the size divides the input's."""
    return averaged(state, *windows_of(module, state), context)


def windows_of(module: Any, state: MomentMaps) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the size and stride of the windows that an average pooling has on a state, which is padded already."""
    axes, positions = len(state.positions), state.positions
    if state.axis != 0 or getattr(module, "divisor_override", None) is not None:
        raise NotCovered("only plain averages over the axes of positions are covered")
    if hasattr(module, "output_size"):
        wanted = [n if o is None else o for o, n in zip(_per_axis(module.output_size, axes), positions)]
        if any(n % o for n, o in zip(positions, wanted)):
            raise NotCovered(f"{positions} positions do not divide into {tuple(wanted)}")
        kernel = tuple(n // o for n, o in zip(positions, wanted))
        return kernel, kernel
    kernel, stride = _per_axis(module.kernel_size, axes), _per_axis(module.stride, axes)
    if module.ceil_mode and any((n - k) % s for n, k, s in zip(positions, kernel, stride)):
        raise NotCovered("ceil_mode makes windows of different sizes")
    return kernel, stride


@operation("mean", reads=("distribution", "positions", "means"))
def mean(context: Context, state: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Return the mean over whole axes of positions."""
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

    return pooled.moved(drop)  # type: ignore[no-any-return]


def _per_axis(value: Any, axes: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def averaged(state: MomentMaps, kernel: tuple[int, ...], stride: tuple[int, ...], context: Context) -> MomentMaps:
    r"""Return means over windows: :math:`k^{-2}\sum_\tau\sum_t K(sp+t, sp+t+\tau)` over all offsets inside a window."""
    if all(k == 1 for k in kernel) and all(s == 1 for s in stride):
        return state
    known = state.origin is not None and state.origin.knows_offsets
    if not known and state.distribution.known and math.prod(kernel) <= _DRAWN_TOGETHER:
        # Units that were drawn know no covariances between positions, but whole windows of them can be drawn.
        size = tuple((n - k) // s + 1 for n, k, s in zip(state.positions, kernel, stride))
        mean = WindowMean(state, stride, _grid(kernel))
        together = max((len(sites.shifts) for _, sites in mean.fields(state, Sites.aligned(size))), default=0)
        if together > _DRAWN_TOGETHER:
            raise NotCovered(f"{together} units would have to be drawn jointly")
        return sampled(state, mean, context, positions=size)
    inside = [tau for tau in itertools.product(*(range(1 - k, k) for k in kernel)) if tau > (0,) * len(kernel)]
    kxx, kyy, d = (box_sums(m.double(), kernel, stride) for m in (state.kxx, state.kyy, state.d))
    for tau, cross in zip(inside, crosses(state, inside, context.budget)):
        window = tuple(k - abs(t) for k, t in zip(kernel, tau))
        xx, yy, xy, yx = box_sums(cross, window, stride)
        # each offset and its opposite
        kxx, kyy, d = kxx + 2 * xx, kyy + 2 * yy, d + 2 * (xx + yy - xy - yx)
    count = math.prod(kernel)
    moments = tuple(torch.clamp_min(m / count**2, 0).to(state.kxx.dtype) for m in (kxx, kyy, d))
    distribution = state.distribution
    if distribution.known and not distribution.stable:
        distribution = WindowMean(state, stride, _grid(kernel))
    return state.after(moments, distribution=distribution, origin=AveragedWindows(state, kernel, stride))


def _grid(kernel: tuple[int, ...]) -> tuple[Offset, ...]:
    return tuple(itertools.product(*map(range, kernel)))


@rule(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, reads=("distribution", "positions"), fixed=True)
def largest(module: Any, state: MomentMaps, context: Context) -> MomentMaps:
    """Apply max pooling: windows of Gaussian units are drawn jointly, and their maximum is passed on."""
    if state.axis != 0 or module.return_indices:
        raise NotCovered("only the maximum over the axes of positions is covered")
    axes = len(state.positions)
    kernel, stride, padding, dilation = (
        _per_axis(v, axes) for v in (module.kernel_size, module.stride, module.padding, module.dilation)
    )
    taps = tuple(
        tuple(d * t - p for d, t, p in zip(dilation, tap, padding, strict=True))
        for tap in itertools.product(*map(range, kernel))
    )
    like = torch.empty((1, *state.positions), device="meta")
    return sampled(state, WindowMaximum(state, stride, taps), context, positions=tuple(module(like).shape[1:]))
