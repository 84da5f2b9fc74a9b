r"""`MomentMaps`: what a wide random network remembers of pairs after its first weights.

For each pair and position: the second moments of a unit, ``kxx`` and ``kyy``, and the mean squared difference
``d = kxx + kyy - 2 kxy``, which keeps the digits that kxy loses near cosine 1. Maps also carry what is known of a unit
beyond its second moments (`Distribution`), and where covariances between positions come from (`Origin`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.geometry import Status
from initscope.propagate.bases import Distribution, Draws, Expression, Factor, Field, Origin, Pair
from initscope.propagate.covariances import gram, unscaled
from initscope.propagate.distributions import UNKNOWN, AffineUnits
from initscope.propagate.moves import moved_maps
from initscope.propagate.numbering import numbers
from initscope.propagate.origins.elementwise import Scaled, Shifted
from initscope.propagate.token_cosines import LEAST_TOKENS, mean_cosine
from initscope.propagate.totals import NotCovered, Totals, total
from initscope.propagate.values.base import Value
from initscope.propagate.values.unit_view import UnitView
from initscope.propagate.windows import Sites, filled

if TYPE_CHECKING:
    from initscope.propagate.context import Context

__all__ = ["MapSums", "MomentMaps"]


@dataclass(frozen=True, eq=False)
class MapSums:
    """Maps of kxx, kyy and d as compiled loops return them, with their sums over positions, ``[3, pairs, blocks]``."""

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    sums: Tensor

    @classmethod
    def of_arrays(cls, maps: Any, sums: Any) -> MapSums:
        """From arrays ``[3, …]``."""
        kxx, kyy, d = torch.from_numpy(maps).unbind()
        return cls(kxx, kyy, d, torch.from_numpy(sums))

    def of(self, *maps: Tensor) -> tuple[Tensor, ...] | None:
        """The sums, if these are the maps that they are of."""
        same = all(first is second for first, second in zip((self.kxx, self.kyy, self.d), maps, strict=True))
        return self.sums.unbind() if same else None


_ORDER = itertools.count()


@dataclass(frozen=True, eq=False)
class MomentMaps(Value):
    """Second moments ``[pairs, blocks, *positions]`` of random units.

    Channels come in blocks of equal distribution, ``sizes`` says how many each: a convolution with groups makes one
    block for each group, a concatenation puts blocks one after the other. ``axis`` is where channels stand in a
    sample's shape.

    Attributes
    ----------
    distribution : Distribution
        What is known of a unit: Gaussian, an activation of a Gaussian, a sum … A dual may be applied to a Gaussian unit
        alone.
    weights : frozenset
        The parameters (by ``id``) that the units depend on.
    fresh : frozenset
        Those whose zero-mean weights every unit is linear in, not empty only if so: what depends on none of them is
        uncorrelated with the units.
    mixed : bool
        Whether blocks are no longer runs of neighboring channels, as after flattening.
    alike : bool
        Whether the channels of a block have one distribution. Those of input values and of sampled networks are
        averaged over as if they had: a factor or a mean of each channel's own cannot be applied to them.
    origin : Origin or None
        How covariances between different positions come from the values before; None where that is not known.
    part : tuple of int, or None
        Of which value, by its order, these are the channels from … to: two that do not overlap are independent.
    summed : MapSums or None
        Sums over the positions, where the loop that made the maps has them.
    """

    kxx: Tensor
    kyy: Tensor
    d: Tensor
    sizes: tuple[int, ...]
    status: Status
    axis: int = 0
    distribution: Distribution = UNKNOWN
    weights: frozenset[object] = frozenset()
    fresh: frozenset[object] = frozenset()
    origin: Origin | None = None
    mixed: bool = False
    alike: bool = True
    part: tuple[int, int, int] | None = None
    note: str = ""
    summed: MapSums | None = None
    order: int = field(default_factory=_ORDER.__next__)

    @property
    def gaussian(self) -> bool:
        """Whether the units are zero-mean Gaussian."""
        return self.distribution.gaussian

    @property
    def channels(self) -> int:
        """Number of channels of the layer."""
        return sum(self.sizes)

    @property
    def positions(self) -> tuple[int, ...]:
        """Sizes of the axes that are not channels."""
        return tuple(self.kxx.shape[2:])

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the layer's output for one input."""
        shape = list(self.kxx.shape[2:])
        shape.insert(self.axis, sum(self.sizes))
        return tuple(shape)

    @property
    def is_tokens(self) -> bool:
        """Whether these are tokens with their channels last."""
        return not self.mixed and self.kxx.dim() == 3 and self.axis == 1

    def moments(self, axis: int, groups: int = 1) -> MomentMaps:
        """The maps themselves."""
        return self

    def means(self) -> Pair:
        """E x and E y of a unit, like the maps."""
        return self.distribution.means(self)

    def gram(self, context: Context) -> Tensor:
        """By the recursion over the origins."""
        return gram(self, context.grams)

    def draw(self, sites: Sites, draws: Draws) -> Pair:
        """Samples of the units at ``sites``, 0 where there is no position."""
        x, y = self.distribution.draw(self, sites, draws)
        inside = sites.inside(self.positions)
        if bool(inside.all()):
            return x, y
        outside = ~inside.to(x.device)
        return filled(x, outside, 0.0), filled(y, outside, 0.0)

    def fields(self, sites: Sites) -> Iterable[Field]:
        """The Gaussian units that drawing units at ``sites`` needs."""
        return self.distribution.fields(self, sites)

    def without_samples(self) -> MomentMaps:
        """The same maps, their distribution known by how it is drawn, with no samples kept."""
        return replace(self, distribution=self.distribution.without_samples()) if self.distribution.known else self

    def expression(self) -> Expression | None:
        """The Gaussian value that the units are a function of, one by one, and the function."""
        return self.distribution.expression(self)

    def history(self) -> Origin | Distribution:
        """What gradients go back along: the origin, or how the units were drawn."""
        return self.distribution.sampler if self.origin is None else self.origin

    def layers(self) -> tuple[MomentMaps, ...]:
        """The values right after weights that this one consists of."""
        return () if self.origin is None else self.origin.layers(self)

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """How much of the rows of an embedding table is in the units: (rows, factor of x, factor of y), see `tied`."""
        uncorrelated = self.fresh and not self.fresh & table
        if uncorrelated or not self.weights & table:
            return []
        return Origin.table_shares(self, table) if self.origin is None else self.origin.table_shares(table)  # type: ignore[arg-type]

    def totals(self) -> Totals:
        """Sums over units."""
        sizes = torch.tensor(self.sizes, dtype=torch.float64, device=self.kxx.device)
        maps = self.kxx, self.kyy, self.d
        sums = None if self.summed is None else self.summed.of(*maps)
        xx, yy, distance = [(maps_of_side * sizes).sum(dim=1) for maps_of_side in sums or total(*maps, kept=2)]
        return Totals(xx, yy, math.prod(self.shape), distance)

    def token_cosine(self, context: Context) -> float:
        """From the Gram matrix over tokens."""
        if not self.is_tokens or min(self.shape) < LEAST_TOKENS or self.distribution.written_out:
            return math.nan  # to integrate what is written out for all tokens would cost more than all the rest
        source, x, y = unscaled(self)
        if len(self.sizes) > 1 or not all(isinstance(side, float) or bool((side > 0).all()) for side in (x, y)):
            source = self  # blocks or signs of their own: cosines are not those before
        if source.order not in context.cosines:
            try:
                context.cosines[source.order] = mean_cosine(source.gram(context), source.sizes)
            except NotCovered:
                return math.nan
        return context.cosines[source.order]

    def after(self, moments: tuple[Tensor, ...] | None = None, **changes: Any) -> MomentMaps:
        """A later value, equal to this one but for its second moments and ``changes``."""
        new: dict[str, Any] = {"note": "", "order": next(_ORDER)} | changes
        if moments is not None:
            new.update(zip(("kxx", "kyy", "d"), moments, strict=True))
        return replace(self, **new)

    def scaled(self, x: Factor, y: Factor | None = None) -> MomentMaps:
        """Units times ``x``, for the second inputs times ``y``: E(aX - bY)² = ab d + (a - b)(a kxx - b kyy)."""
        a, b = x, x if y is None else y
        # nothing cancels where a = b
        d = a * b * self.d if a is b else a * b * self.d + (a - b) * (a * self.kxx - b * self.kyy)
        keeps = self.distribution.stable or not self.distribution.known
        return self.after(
            (a * a * self.kxx, b * b * self.kyy, d),
            distribution=self.distribution if keeps else AffineUnits(self, a, b),
            origin=Scaled(self, a, b),
        )

    def shifted(self, x: Factor, y: Factor) -> MomentMaps:
        """Units less a constant: E(X-a)² = kxx - 2a E X + a²."""
        mx, my = self.means()
        moments = (
            self.kxx - 2 * x * mx + x * x,
            self.kyy - 2 * y * my + y * y,
            self.d - 2 * (x - y) * (mx - my) + (x - y) * (x - y),
        )
        return self.after(
            moments,
            distribution=AffineUnits(self, 1.0, 1.0, x, y),
            fresh=frozenset(),
            origin=Shifted(self, (mx, my), (torch.as_tensor(x), torch.as_tensor(y))),
        )

    def moved(self, operation: Callable[[Tensor], Any]) -> Any:
        """By the numbers of units; tokens that are cut into heads become views."""
        if self.is_tokens and (self.gaussian or self.distribution.zero_mean):
            cut = self.units().moved(operation)
            if all(part.cuts_channels() for part in (cut if type(cut) is tuple else (cut,))):
                return cut
        return moved_maps(self, operation)

    def cuts_channels(self) -> bool:
        """Whether these are some of the channels of another value."""
        return self.part is not None

    def units(self) -> UnitView:
        """All units of tokens."""
        if not self.is_tokens:
            raise NotCovered("its input is not known as tokens with channels")
        return UnitView(self, numbers((len(self.kxx), *self.shape)))

    def samples(self, context: Context) -> Value:
        """Values of all units of tokens."""
        return self.units().samples(context)

    def released(self, *, origin: bool, distribution: bool) -> MomentMaps:
        """Early maps are freed with what points to them."""
        kept = self.distribution if distribution else UNKNOWN
        return replace(self, note="", origin=self.origin if origin else None, distribution=kept)

    def moment_maps(self) -> tuple[MomentMaps, ...]:
        """The maps themselves."""
        return (self,)

    def whole_moments(self) -> MomentMaps:
        """The maps themselves."""
        return self

    def placeholder(self) -> Tensor:
        """On the meta device."""
        return torch.empty((len(self.kxx), *self.shape), dtype=self.kxx.dtype, device="meta")
