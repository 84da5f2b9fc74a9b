r"""The state of a batch of pairs between two layers: what a wide random network remembers of them.

For each pair and position: the second moments of a unit, ``kxx`` and ``kyy``, and the mean squared difference
``d = kxx + kyy - 2 kxy``, which keeps the digits that kxy loses near cosine 1. Before the first weights nothing is
random and the state is the pair of tensors itself. What is known of a unit beyond its second moments is its `Unit`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.report.geometry import Status
from initscope.theory._fast import as_numpy, fused_loops
from initscope.theory.pair_sums import half_gap_from_sums

if TYPE_CHECKING:
    from initscope.propagate.offsets import Origin
    from initscope.propagate.units import Unit

__all__ = ["Given", "Maps", "NotCovered", "State", "Totals", "large_loops"]

_UNLIKE = 64.0  # ratio of two norms from which on squared differences are taken in double precision
_WORTH_THREADS = 1 << 15  # map entries; below, starting threads costs more than the work


class NotCovered(Exception):
    """Raised by a rule that cannot predict; the message becomes the row's reason."""


@dataclass(frozen=True)
class Totals:
    """Sums over all units, per pair, in float64: E‖x‖², E‖y‖², 1 - cosine, and the number of units."""

    xx: Tensor
    yy: Tensor
    gap: Tensor
    units: int

    @classmethod
    def of(cls, xx: Tensor, yy: Tensor, distance: Tensor, units: int) -> Totals:
        """From squared norms and squared distances."""
        return cls(xx, yy, 2 * half_gap_from_sums(xx, yy, distance), units)

    @property
    def cosine(self) -> Tensor:
        """⟨x, y⟩/(‖x‖‖y‖), through the gap."""
        return 1 - self.gap


@dataclass(frozen=True, eq=False)
class Given:
    """Values that no weights have touched yet: the inputs, or a fixed function of them. ``[pairs, ...]``."""

    x: Tensor
    y: Tensor
    status: Status = "closed form"
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def real(self) -> bool:
        """Whether these are real values, several for each input: no masks, no indices, no single numbers."""
        return self.x.is_floating_point() and self.x.dim() > 1

    def run(self, function: Callable[[Tensor], Tensor]) -> Given:
        """A fixed function of the values, which an in-place function must not overwrite."""
        return replace(self, x=function(self.x.clone()), y=function(self.y.clone()))

    @cached_property
    def _squares(self) -> Tensor:
        """Means of x², y², (x-y)² over the first axis: ``[3, pairs, *positions]``."""
        x, y = self._sides
        fused = large_loops(x, y)
        if fused is not None:
            return torch.from_numpy(fused.pair_maps(as_numpy(x), as_numpy(y))).div_(self.shape[0])
        return torch.stack([v.square().mean(dim=1) for v in (x, y, x - y)])

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Both sides, in double precision where a pair's norms are so unlike that single loses the angle."""
        return (self.x.double(), self.y.double()) if self._unlike else (self.x, self.y)

    @cached_property
    def _unlike(self) -> bool:
        """Whether the norms of some pair are far apart."""
        x, y = self._norms
        return bool(((x > _UNLIKE * y) | (y > _UNLIKE * x)).any())

    @cached_property
    def _norms(self) -> tuple[Tensor, Tensor]:
        """Norms of each input, in float64."""
        x, y = (torch.linalg.vector_norm(v.flatten(1), dim=1, dtype=torch.float64) for v in (self.x, self.y))
        return x, y

    def as_maps(self, axis: int, groups: int = 1) -> Maps:
        """Mean squares over the channels (``axis`` of a sample) of each group, as if channels were random draws."""
        from initscope.propagate.offsets import Products
        from initscope.propagate.units import Constants

        channels = self.shape[axis]
        if axis == 0 and groups == 1:
            kxx, kyy, d = self._squares[:, :, None]
        else:
            x, y = self.grouped(axis, groups)
            kxx, kyy, d = (v.square().mean(dim=2) for v in (x, y, x - y))
        sizes = (channels // groups,) * groups
        unit, origin = Constants(self, axis, groups), Products(self, axis, groups)
        return Maps(kxx, kyy, d, sizes, self.status, axis, unit=unit, origin=origin)

    def grouped(self, axis: int, groups: int) -> tuple[Tensor, Tensor]:
        """Both sides as ``[pairs, groups, channels of a group, *positions]``."""
        x, y = (side.movedim(axis + 1, 1) for side in self._sides)
        shape = (len(x), groups, self.shape[axis] // groups, *x.shape[2:])
        return x.reshape(shape), y.reshape(shape)

    def totals(self) -> Totals:
        """Sums over units."""
        norms = self._norms
        xx, yy, distance = _total(self._squares, kept=2) * self.shape[0]
        units = math.prod(self.shape)
        if not self._unlike:
            return Totals.of(xx, yy, distance, units)
        # as vectors of length 1, which no ratio of the norms troubles
        x, y = (v.flatten(1).double() / n[:, None] for v, n in zip((self.x, self.y), norms, strict=True))
        return Totals(xx, yy, (x - y).square().sum(dim=1) / 2, units)


_ORDER = itertools.count()


@dataclass(frozen=True, eq=False)
class Maps:
    """Second moments ``[pairs, blocks, *positions]`` of random units.

    Channels come in blocks of equal law, ``sizes`` says how many each: a convolution with groups makes as many blocks
    as it has groups, a concatenation puts blocks side by side. ``axis`` is where channels stand in a sample's shape.

    Attributes
    ----------
    unit : Unit or None
        The law of a unit where it is known: Gaussian, an activation of a Gaussian, a sum … None: second moments only.
        A dual may be applied to a Gaussian unit alone.
    weights : frozenset
        The parameters (by ``id``) that the units depend on.
    fresh : frozenset
        Those whose zero-mean weights every unit is linear in, not empty only if so: what depends on none of them is
        uncorrelated with the units.
    mixed : bool
        Whether blocks are no longer runs of neighbouring channels, as after flattening.
    origin : Origin or None
        How covariances between different positions come from the states before; None where that is not known.
    """

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    sizes: tuple[int, ...]
    status: Status
    axis: int = 0
    unit: Unit | None = None
    weights: frozenset[object] = frozenset()
    fresh: frozenset[object] = frozenset()
    origin: Origin | None = None
    mixed: bool = False
    note: str = ""
    order: int = field(default_factory=lambda: next(_ORDER))

    @property
    def gaussian(self) -> bool:
        """Whether the units are zero-mean Gaussian."""
        return self.unit is not None and self.unit.gaussian

    @property
    def channels(self) -> int:
        """Number of channels of the layer."""
        return sum(self.sizes)

    @property
    def positions(self) -> tuple[int, ...]:
        """Sizes of the axes that are not channels."""
        return tuple(self.kxx.shape[2:])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the layer's output for one input."""
        return (*self.positions[: self.axis], self.channels, *self.positions[self.axis :])

    def means(self) -> tuple[Tensor, Tensor]:
        """E x and E y of a unit, like the maps."""
        if self.unit is None:
            raise NotCovered("the mean of its input is not known")
        return self.unit.means(self)

    def totals(self) -> Totals:
        """Sums over units."""
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=self.kxx.device)
        xx, yy, distance = ((_total(m, kept=2) * sizes).sum(dim=1) for m in (self.kxx, self.kyy, self.d))
        return Totals.of(xx, yy, distance, math.prod(self.shape))

    def after(self, **changes: Any) -> Maps:
        """A later state, equal to this one but for ``changes``."""
        new: dict[str, Any] = {"note": "", "order": next(_ORDER)} | changes
        return replace(self, **new)

    def scaled(self, x: float | Tensor, y: float | Tensor | None = None) -> Maps:
        """The state of units multiplied by ``x`` (for the second inputs by ``y``, if that differs)."""
        from initscope.propagate.offsets import Scaled
        from initscope.propagate.units import rescaled

        a, b = x, x if y is None else y
        # E(aX - bY)² = ab d + (a - b)(a kxx - b kyy): nothing cancels where a = b
        d = a * b * self.d if a is b else a * b * self.d + (a - b) * (a * self.kxx - b * self.kyy)
        return self.after(
            kxx=a * a * self.kxx, kyy=b * b * self.kyy, d=d, unit=rescaled(self, a, b), origin=Scaled(self, a, b)
        )


def _total(maps: Tensor, kept: int = 1) -> Tensor:
    """Sum in float64 over all axes but the first ``kept``."""
    flat = maps.reshape(*maps.shape[:kept], -1)
    fused = large_loops(flat)
    if fused is not None and flat.is_contiguous():
        return torch.from_numpy(fused.totals(as_numpy(flat)))
    return flat.sum(dim=-1, dtype=torch.float64)


def large_loops(*maps: Tensor) -> ModuleType | None:
    """The compiled loops, if they are loaded and these maps are large enough for threads to pay."""
    return fused_loops(*maps, entries=0) if maps[0].numel() >= _WORTH_THREADS else None


State = Given | Maps
