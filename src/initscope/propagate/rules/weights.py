"""Layers with random weights: Linear and convolutions average the second moments over the taps of a filter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from initscope.geometry import weakest
from initscope.initializers import WeightDistribution
from initscope.propagate import loops
from initscope.propagate.bases import Distribution, Draws, Pair
from initscope.propagate.context import Context
from initscope.propagate.distributions import GaussianUnits, ZeroMeanUnits
from initscope.propagate.origins.weights import WeightedSums, regroup
from initscope.propagate.registry import Reads, rule
from initscope.propagate.rules.tied import tied_head
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value
from initscope.propagate.values.moment_maps import MapSums, MomentMaps
from initscope.propagate.window_distributions import WindowUnits
from initscope.propagate.windows import FilterTaps, Sites
from initscope.theory._fast import as_numpy

__all__ = ["convolution", "linear"]

NARROW_GROUP = 8
"""Fewer random channels than this in a group are far from Gaussian sums: only their second moments are known."""
WIDE_GROUP = 32
"""From here on a group's sums pass for Gaussian; between the two the row is approximate."""


@dataclass(frozen=True, eq=False)
class FilteredUnits(WindowUnits):
    """Sums over the taps of ``width`` independent channels with Gaussian weights: Gaussian only given the channels."""

    width: int
    weight_sd: float
    bias_sd: float
    zero_mean = True

    def windows(self, below: Sites, draws: Draws) -> Pair:
        """Return the windows of ``width`` channels for each sample."""
        return super().windows(below, replace(draws, count=self.width * draws.count))

    def reduce(self, x: Tensor, y: Tensor, inside: Tensor, draws: Draws) -> Pair:
        """Return one filter for all shifts and both sides."""
        weights = self.weight_sd * draws.normal((*x.shape[:3], 1, *x.shape[4:]), like=x)
        sums = ((weights * side).sum(dim=4) for side in (x, y))
        x, y = (side.reshape(self.width, -1, *side.shape[1:]).sum(dim=0) for side in sums)
        if self.bias_sd == 0:
            return x, y
        bias = self.bias_sd * draws.normal((*x.shape[:3], 1, *x.shape[4:]), like=x)
        return x + bias, y + bias


@rule(nn.Linear, reads=("means",))
def linear(module: nn.Linear, state: Value, context: Context) -> Value:
    """Every unit reads all features at its position: the average over channels."""
    shape = state.shape
    if not shape or shape[-1] != module.in_features:
        raise NotCovered(f"it expects {module.in_features} features and gets an input of shape {shape}; flatten first")
    before = state.moments(len(shape) - 1)
    if before.axis != len(shape) - 1:
        raise NotCovered("it mixes positions with weights that all channels share")
    if id(module.weight) not in context.tied:
        return weighted(module, before, context, channels=module.out_features)
    after = weighted(module, before, replace(context, tied=frozenset()), channels=module.out_features)
    return tied_head(module, before, after, context)


def _read_by_convolution(module: _ConvNd) -> tuple[Reads, ...]:
    """Return means, for zero-sum weights; with few channels in a group, the units of its windows are drawn."""
    return ("means",) if module.groups == 1 else ("means", "positions", "distribution")


@rule(_ConvTransposeNd, reads=())
def transposed_convolution(module: _ConvTransposeNd, state: Value, context: Context) -> Value:
    """Sum for every output the inputs whose taps reach it: the transposed box sum."""
    spatial = len(module.kernel_size)
    if len(state.shape) != spatial + 1 or state.shape[0] != module.in_channels:
        raise NotCovered(
            f"it expects {module.in_channels} channels and {spatial} spatial axes, not an input of shape {state.shape}"
        )
    if context.weight_distribution(module).strength > 0 or context.weight_distribution(module).center:
        raise NotCovered("this initializer has no formula for the output of a transposed convolution")
    before = state.moments(0, module.groups)
    if before.axis != 0:
        raise NotCovered("it mixes positions with weights that all channels share")
    spread = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]

    pads = [pad for pad, _ in paddings(module)]

    def sums(maps: Tensor) -> Tensor:
        ones = torch.ones(1, 1, *module.kernel_size, dtype=maps.dtype, device=maps.device)
        out: Tensor = spread(
            maps.flatten(0, 1)[:, None], ones, None, module.stride, pads, module.output_padding, 1,
            module.dilation,
        )  # fmt: skip
        return out.reshape(*maps.shape[:2], *out.shape[2:])

    after = weighted(module, before, context, channels=module.out_channels, groups=module.groups, average=sums)
    return _of_few_channels(module, state, after, ZeroMeanUnits)


@rule(_ConvNd, reads=_read_by_convolution)
def convolution(module: _ConvNd, state: Value, context: Context) -> Value:
    """Average of the maps over each filter's taps [Nachum2022]_: box sums, never patches."""
    spatial = len(module.kernel_size)
    if len(state.shape) != spatial + 1 or state.shape[0] != module.in_channels:
        raise NotCovered(
            f"it expects {module.in_channels} channels and {spatial} spatial axes, not an input of shape {state.shape}"
        )
    windows = FilterTaps(module.kernel_size, module.stride, module.dilation, paddings(module), module.padding_mode)
    taps: FilterTaps | None = windows
    if context.weight_distribution(module).center:
        state, taps = state.moved(windows.center), None
    before = state.moments(0, module.groups)
    if before.axis != 0:
        raise NotCovered("it mixes positions with weights that all channels share")
    after = weighted(module, before, context, channels=module.out_channels, groups=module.groups, windows=taps)
    if module.groups == 1:
        return after
    distribution = context.weight_distribution(module)
    return _of_few_channels(module, state, after, lambda: _narrow_group(module, before, after, taps, distribution))


def _narrow_group(
    module: _ConvNd, before: MomentMaps, after: MomentMaps, windows: FilterTaps | None, drawn_as: WeightDistribution
) -> Distribution:
    """Return the distribution of sums over few channels, if their windows can be sampled."""
    axes = len(module.kernel_size)
    plain = windows is None or windows.padding_mode == "zeros"
    if not plain or drawn_as.strength > 0 or len(before.sizes) != len(after.sizes):
        return ZeroMeanUnits()
    stride, taps = ((1,) * axes, ((0,) * axes,)) if windows is None else (windows.stride, windows.shifts)
    width = module.in_channels // module.groups
    return FilteredUnits(before, stride, taps, width, math.sqrt(drawn_as.variance), math.sqrt(drawn_as.bias_variance))


def _of_few_channels(
    module: _ConvNd, state: Value, after: MomentMaps, narrow: Callable[[], Distribution]
) -> MomentMaps:
    """Note that sums over few random channels are not Gaussian; for very few, ``narrow`` gives the distribution."""
    width = module.in_channels // module.groups
    if not state.random or module.groups == 1 or width >= WIDE_GROUP:
        return after
    if width < NARROW_GROUP:
        return after.after(distribution=narrow(), note=after.note)
    note = f"only {width} channels in a group: their sums are not quite Gaussian"
    return after.after(status=weakest(after.status, "approximate"), note=note)


def paddings(module: _ConvNd) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis, "same" and "valid" included."""
    if module.padding == "valid":
        return ((0, 0),) * len(module.kernel_size)
    if module.padding == "same":
        totals = [dilation * (size - 1) for dilation, size in zip(module.dilation, module.kernel_size, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((int(pad), int(pad)) for pad in module.padding)


def weighted(
    module: Any,
    before: MomentMaps,
    context: Context,
    *,
    channels: int,
    groups: int = 1,
    windows: FilterTaps | None = None,
    average: Callable[[Tensor], Tensor] | None = None,
) -> MomentMaps:
    """Second moments after weights: n v (⟨k⟩ - λ⟨m⟩²) + v_b, n the fan-in, ⟨·⟩ the average over taps and channels.

    ``average`` replaces the sum over the taps of ``windows``; covariances between positions are then unknown.
    """
    if context.tied.intersection(map(id, module.parameters())):
        raise NotCovered("another step reads its weights in a different way")
    drawn_as = context.weight_distribution(module)
    scale, taps = drawn_as.variance * (before.channels // groups), 1 if windows is None else windows.taps

    sums = average or (None if windows is None else windows.sum)  # over taps; None: there is one
    read = regroup((before.kxx, before.kyy, before.d), before.sizes, groups)
    summed, means = None, None
    if windows is not None and average is None and drawn_as.strength == 0:
        summed = _by_loops(windows, read, scale, drawn_as.bias_variance)
    if summed is not None:
        kxx, kyy, d = summed.kxx, summed.kyy, summed.d
    else:
        if drawn_as.strength > 0:
            mx, my = regroup(before.means(), before.sizes, groups)
            means = (mx, my) if sums is None else (sums(mx) / taps, sums(my) / taps)
        kxx, kyy, d = _weighted(read if sums is None else [sums(maps) for maps in read], means, drawn_as, scale, taps)
    blocks = kxx.shape[1]
    if channels % blocks:
        raise NotCovered(f"its {channels} channels cannot be split into {blocks} blocks of equal distribution")
    layer = context.drawn(module.parameters())  # not the module's: several may hold the same weights
    return MomentMaps(
        kxx=kxx,
        kyy=kyy,
        d=d,
        sizes=(channels // blocks,) * blocks,
        status="closed form after sampling" if before.status == "sampled" else before.status,
        axis=before.axis,
        distribution=GaussianUnits(),
        weights=before.weights | layer,
        fresh=layer,
        origin=None if average is not None else WeightedSums(before, drawn_as, groups, windows, scale * taps, means),
        note=drawn_as.note,
        summed=summed,
    )


def _by_loops(windows: FilterTaps, maps: list[Tensor], gain: float, bias: float) -> MapSums | None:
    """Return second moments after weights whose sum is free, by the compiled loops, if these maps are for them."""
    fused = loops.large_loops(*maps) if len(windows.kernel_size) == 2 else None
    if fused is None:
        return None
    return MapSums.of_arrays(*fused.weighted(*map(as_numpy, maps), gain=gain, bias=bias, **windows.options))


def _weighted(
    sums: list[Tensor], means: tuple[Tensor, Tensor] | None, distribution: WeightDistribution, scale: float, taps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return second moments after weights from sums over taps."""
    kxx, kyy, d = sums
    if means is not None:
        mx, my, share = *means, distribution.strength * taps
        # Where a patch is constant nothing is left, and rounding must not make it negative.
        kxx = torch.clamp_min(kxx - share * mx.square(), 0)
        kyy = torch.clamp_min(kyy - share * my.square(), 0)
        d = torch.clamp_min(d - share * (mx - my).square(), 0)
    bias = distribution.bias_variance
    if bias > 0:
        return scale * kxx + bias, scale * kyy + bias, scale * d
    return scale * kxx, scale * kyy, scale * d
