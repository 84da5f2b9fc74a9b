"""`UnitView`: units of token maps at other positions, as heads of attention or samples along another axis.

Attention cuts the channels of every token into heads, and torch's own folds samples and heads into one axis. A
`UnitView` holds the original maps and the number of every unit, so that ops that move units are run on the numbers. Ops
without a rule, such as rotations of queries by their position, are run on values that are drawn from the maps: jointly
for all tokens of x and y, each channel independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.geometry import Status, weakest
from initscope.propagate.numbering import Lines, channels_cut, lines, numbers, of_rows, same_units, viewed
from initscope.propagate.origins.positions import SelectedBlocks
from initscope.propagate.token_sampling import token_values
from initscope.propagate.totals import NotCovered, Totals, own_call
from initscope.propagate.values.base import Value

if TYPE_CHECKING:
    from initscope.propagate.context import Context
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["UnitView"]


@dataclass(frozen=True, eq=False)
class UnitView(Value):
    """Units of ``base``, which has one axis of positions and its channels last, at the positions of ``index``.

    ``index`` holds (sample·T + token)·channels + channel, in the shape of the op's output with all its samples.
    """

    base: MomentMaps
    index: Tensor
    note: str = ""
    entropy: float = math.nan
    view = knows_samples = True

    @property
    def status(self) -> Status:  # type: ignore[override]
        """That of the maps."""
        return self.base.status

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of one sample's output; if samples are not first, of all of them."""
        return tuple(self.index.shape[1:] if len(self.index) == len(self.base.kxx) else self.index.shape)

    @property
    def whole(self) -> tuple[int, ...]:
        """Shape of the maps' units with all samples."""
        return (len(self.base.kxx), *self.base.shape)

    def lines(self) -> Lines:
        """Return the position of the vectors along the last axis."""
        return lines(self.index, self.whole)

    def totals(self) -> Totals:
        """Return sums over units."""
        base, (tokens, channels) = self.base, self.base.shape
        if self.index.numel() == len(base.kxx) * tokens * channels:
            return base.totals()  # every unit once
        edges = torch.tensor(base.sizes).cumsum(0)
        block = torch.bucketize((self.index % channels).contiguous(), edges, right=True)
        entry = (self.index // channels * len(base.sizes) + block).flatten()
        counts = torch.bincount(entry, minlength=len(base.kxx) * tokens * len(base.sizes))
        counts = counts.reshape(len(base.kxx), tokens, -1).mT.double()
        xx, yy, distance = ((counts * maps).sum(dim=(1, 2)) for maps in (base.kxx, base.kyy, base.d))
        return Totals(xx, yy, self.index.numel() // len(base.kxx), distance)

    def units(self) -> UnitView:
        """Return the view itself."""
        return self

    def moved(self, operation: Callable[[Tensor], Any]) -> Any:
        """Return the operation, on the numbers."""
        moved = own_call(operation, self.index)
        if isinstance(moved, Tensor):
            return replace(self, index=moved, entropy=math.nan).simplest()
        return tuple(replace(self, index=part, entropy=math.nan).simplest() for part in moved)

    def simplest(self) -> MomentMaps | UnitView:
        """Return maps if units, or some of their channels, are ordered as in maps."""
        base, index = self.base, self.index
        tokens, channels = base.shape
        if index.dim() != 3 or index.shape[:2] != (len(base.kxx), tokens) or index.shape[2] == channels:
            in_place = tuple(index.shape) == self.whole and same_units(index, numbers(self.whole), self.whole)
            return replace(base, note=self.note) if in_place else self
        start, width = int(index[0, 0, 0]), index.shape[2]
        chosen = numbers(self.whole)[..., start : start + width]
        if start >= channels or chosen.shape != index.shape or not same_units(chosen, index, self.whole):
            return self
        edges = [sum(base.sizes[:k]) for k in range(len(base.sizes) + 1)]
        blocks = [k for k in range(len(base.sizes)) if edges[k] < start + width and start < edges[k + 1]]
        sizes = tuple(min(edges[k + 1], start + width) - max(edges[k], start) for k in blocks)
        moments = tuple(maps[:, blocks] for maps in (base.kxx, base.kyy, base.d))
        part = (base.order, start, start + width)
        return base.after(moments, sizes=sizes, origin=SelectedBlocks(base, tuple(blocks)), part=part)

    def cuts_channels(self) -> bool:
        """Return whether channels of a token lie along several axes now, or samples elsewhere."""
        if len(self.index) != len(self.base.kxx):
            return True
        if self.index.dim() < 3 or self.base.origin is None:
            return False
        return channels_cut(self.index, self.whole)

    def through(self, layer: Callable[[Any], MomentMaps]) -> MomentMaps | UnitView:
        """Return the units after weights that read all channels of a token, for any order of tokens and samples."""
        after = layer(self.base)
        return UnitView(after, of_rows(self.index, self.whole, after.shape[1]), note=after.note).simplest()

    def samples(self, context: Context) -> Value:
        """Return values drawn from the maps, at the positions of the view."""
        from initscope.propagate.values.sampled_units import NO_SAMPLE_AXIS, SampledUnits

        base = self.base
        x, y = (viewed(side, self.index, self.whole) for side in token_values(base, context))
        first = len(x) == len(base.kxx) and bool((self.index[0] < math.prod(base.shape)).all())
        axis = None if first else NO_SAMPLE_AXIS
        status = weakest(base.status, "sampled")
        return SampledUnits(x, y, status, weights=base.weights, sample_axis=axis, count=len(base.kxx))

    def released(self, *, origin: bool, distribution: bool) -> UnitView:
        """Do the same as the maps."""
        return replace(self, note="", base=self.base.released(origin=origin, distribution=distribution))

    def moment_maps(self) -> tuple[MomentMaps, ...]:
        """Return the maps."""
        return (self.base,)

    def whole_moments(self) -> MomentMaps:
        """Return the maps, if every unit is there once."""
        if self.index.numel() != math.prod(self.whole):
            raise NotCovered("its values per unit are not known")
        return self.base

    def placeholder(self) -> Tensor:
        """On the meta device."""
        return torch.empty(self.index.shape, dtype=self.base.kxx.dtype, device="meta")
