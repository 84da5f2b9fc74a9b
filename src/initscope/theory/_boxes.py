"""`box_sum`: sums over the taps of a convolution kernel, without patches and without subtraction.

A layer depends on an image pair through box sums of x², y² and (x - y)². Each axis is summed by doubling: windows of 1,
2, 4, … taps are sums of two shorter ones, and a window of k taps is assembled from the binary digits of k. That takes
about 2 log₂ k passes. A summed-area table needs two passes, but subtracts large totals: in float32 dark patches lose
all digits there. Here sums of zeros are exactly 0 and sums of positive terms keep full relative accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat

from initscope.errors import InputError
from initscope.theory._arrays import Array

__all__ = ["PADDING_MODES", "box_sum", "output_size"]

PADDING_MODES = ("zeros", "circular", "reflect", "replicate")


def box_sum(
    maps: Array,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
    padding_mode: str = "zeros",
) -> Array:
    """Sum ``maps`` over the taps of a convolution kernel, along the trailing ``len(kernel_size)`` axes.

    The result is that of a convolution of each map with a kernel of ones, with the meaning of stride, dilation and
    padding that ``torch.nn.Conv1d/2d/3d`` gives them; ``padding`` holds one pair (before, after) per axis.
    Runs on NumPy and torch alike, on any device, and is differentiable in torch.

    >>> import numpy as np
    >>> same = dict(stride=(1,), dilation=(1,), padding=((1, 1),))
    >>> box_sum(np.asarray([1.0, 2.0, 3.0, 4.0]), kernel_size=(3,), padding_mode="circular", **same)
    array([7., 6., 9., 8.])
    """
    xp = array_api_compat.array_namespace(maps)
    first = maps.ndim - len(kernel_size)
    for offset, (taps, step, spread, (before, after)) in enumerate(zip(kernel_size, stride, dilation, padding)):
        axis = first + offset
        output_size(maps.shape[axis], taps, step, spread, (before, after), padding_mode)
        maps = _pad(xp, maps, axis, before, after, padding_mode)
        maps = _window_sum(maps, axis, taps, spread)[_along(axis, slice(None, None, step))]
    return maps


def output_size(
    size: int, taps: int, stride: int = 1, dilation: int = 1, padding: tuple[int, int] = (0, 0), mode: str = "zeros"
) -> int:
    """Return the number of kernel positions along one axis; refuse arguments that ``torch.nn.ConvNd`` would refuse."""
    if mode not in PADDING_MODES:
        raise InputError(f"padding_mode = {mode!r} must be one of {', '.join(PADDING_MODES)}")
    widest, limit = max(padding), {"circular": size, "reflect": size - 1}.get(mode)
    if limit is not None and widest > limit:
        raise InputError(
            f"padding = {widest} must be at most {limit} for {mode} padding of an axis of {size} positions; "
            "use a smaller kernel or zero padding"
        )
    span = dilation * (taps - 1) + 1
    padded = size + sum(padding)
    if span > padded:
        raise InputError(
            f"a kernel of {taps} taps with dilation {dilation} spans {span} positions, more than the {padded} of the "
            "padded image; use a smaller kernel or more padding"
        )
    return (padded - span) // stride + 1


def _along(axis: int, index: slice) -> tuple[slice, ...]:
    return (slice(None),) * axis + (index,)


def _pad(xp: Any, maps: Array, axis: int, before: int, after: int, mode: str) -> Array:
    if before == after == 0:
        return maps
    size = maps.shape[axis]

    def part(start: int, stop: int) -> Array:
        return maps[_along(axis, slice(start, stop))]

    def repeated(edge: Array, count: int) -> Array:
        return xp.broadcast_to(edge, (*maps.shape[:axis], count, *maps.shape[axis + 1 :]))

    if mode == "zeros":
        nothing = xp.zeros_like(part(0, 1))
        low, high = repeated(nothing, before), repeated(nothing, after)
    elif mode == "circular":
        low, high = part(size - before, size), part(0, after)
    elif mode == "reflect":
        low = xp.flip(part(1, 1 + before), axis=axis)
        high = xp.flip(part(size - 1 - after, size - 1), axis=axis)
    else:
        low, high = repeated(part(0, 1), before), repeated(part(size - 1, size), after)
    return xp.concat([low, maps, high], axis=axis)


def _window_sum(maps: Array, axis: int, taps: int, spread: int) -> Array:
    """Sum ``taps`` entries, ``spread`` apart, starting at every position where they fit."""
    count = maps.shape[axis] - spread * (taps - 1)
    power, width, covered, total = maps, 1, 0, None
    while True:
        if taps & width:  # this binary digit of the window length: append a run of ``width`` taps
            start = spread * covered
            run = power[_along(axis, slice(start, start + count))]
            total = run if total is None else total + run
            covered += width
        if covered == taps:
            return total
        reach = power.shape[axis] - spread * width
        power = power[_along(axis, slice(0, reach))] + power[_along(axis, slice(spread * width, None))]
        width *= 2
