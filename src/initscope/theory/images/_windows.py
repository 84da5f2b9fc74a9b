"""`Windows`: positions of a filter, from the user's arguments, with an error for every mistake."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from initscope.errors import InputError, check_count
from initscope.theory._arrays import Array, namespace
from initscope.theory._boxes import PADDING_MODES, box_sum, output_size

__all__ = ["Padding", "Windows", "check_pairs"]

Padding = str | int | Sequence[int]


@dataclass(frozen=True)
class Windows:
    """Kernel size, stride, dilation and padding per axis, as `box_sum` takes them."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    padding_mode: str = "zeros"

    @classmethod
    def read(
        cls,
        size: Sequence[int],
        kernel_size: int | Sequence[int],
        *,
        padding: Padding = "circular",
        padding_mode: str = "zeros",
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
    ) -> Windows:
        """Fill in one value per axis of images of ``size`` and check that the kernel fits.

        ``padding`` is "valid", the name of a mode (then as much of it as keeps the size at stride 1), or amounts that
        are filled in ``padding_mode``.
        """
        taps = _per_axis("kernel_size", kernel_size, size)
        spread = _per_axis("dilation", dilation, size)
        if padding == "valid":
            amounts = ((0, 0),) * len(size)
        elif isinstance(padding, str):
            if padding not in PADDING_MODES:
                raise InputError(
                    f"padding = {padding!r} must be a number, 'valid', or one of {', '.join(PADDING_MODES)}"
                )
            padding_mode = padding
            rest = [d * (k - 1) for k, d in zip(taps, spread)]
            amounts = tuple((r // 2, r - r // 2) for r in rest)
        else:
            amounts = tuple((p, p) for p in _per_axis("padding", padding, size, least=0))
        for n, k, d in zip(size, taps, spread):
            if padding_mode == "circular" and d * (k - 1) + 1 > n:  # it would see the same pixel twice
                raise InputError(
                    f"a kernel of {k} taps with dilation {d} spans {d * (k - 1) + 1} positions, more than the {n} of "
                    "the image; use a smaller kernel or larger images"
                )
        windows = cls(taps, _per_axis("stride", stride, size), spread, amounts, padding_mode)
        for axis in zip(size, windows.kernel_size, windows.stride, windows.dilation, windows.padding):
            output_size(*axis, windows.padding_mode)
        return windows

    @property
    def taps(self) -> int:
        """Number of positions under the kernel: r² for an r×r filter."""
        return math.prod(self.kernel_size)

    @property
    def options(self) -> dict[str, Any]:
        """The keywords of `box_sum`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def sum(self, maps: Array) -> Array:
        """Return sums of ``maps`` over the positions under the kernel."""
        return box_sum(maps, **self.options)


def check_pairs(x: Array, y: Array) -> tuple[Any, Array, Array]:
    """Return ``(xp, x, y)`` as floating arrays [pairs, channels, …] of one shape, or say what is wrong."""
    xp, x, y = namespace(x, y)
    if tuple(x.shape) != tuple(y.shape):
        raise InputError(f"x has shape {tuple(x.shape)} but y has {tuple(y.shape)}; pairs need images of one shape")
    if not 3 <= x.ndim <= 5 or 0 in x.shape:
        raise InputError(
            f"x and y of shape {tuple(x.shape)} must be [pairs, channels, height, width] (or one or three axes after "
            "the channels), none of them empty; add the missing axes with reshape"
        )
    return xp, x, y


def _per_axis(name: str, value: int | Sequence[int], size: Sequence[int], *, least: int = 1) -> tuple[int, ...]:
    values = (value,) * len(size) if not isinstance(value, Sequence) else tuple(value)
    if len(values) != len(size):
        raise InputError(
            f"{name} = {value} has {len(values)} entries for images with {len(size)} axes after the channels; "
            "images are [pairs, channels, height, width]"
        )
    return tuple(check_count(name, entry, least=least) for entry in values)
