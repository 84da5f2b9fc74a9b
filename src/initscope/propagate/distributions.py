"""Distribution of one random unit beyond second moments: means follow from it, and samples are drawn from it.

`GaussianUnits` are sums of many random weights; the other classes derive a unit from those of the value before, and
pass the question on. Input values are in `initscope.propagate.values.inputs`, stored samples in `draws`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.propagate.bases import Distribution, Draws, Expression, Factor, Field, Pair, Shares
from initscope.propagate.draws import gaussian_draws
from initscope.propagate.duals import means
from initscope.propagate.origins.elementwise import activation_gradients
from initscope.propagate.token_sampling import new_gaussian_values, token_values
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import Sites
from initscope.theory._arccos import half_gap
from initscope.theory.activations import Activation

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.context import Context
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = [
    "UNKNOWN", "WRITTEN_OUT", "ActivatedUnits", "AffineUnits", "GaussianUnits", "JoinedUnits", "KnownMeans",
    "MovedUnits", "NetworkUnits", "StackedUnits", "SummedUnits", "UnitsOfOne", "ZeroMeanUnits", "take",
]  # fmt: skip


WRITTEN_OUT = "written out"
"""Name of an activation that was put together from a model's own ops and is none of the catalogue."""


class UnknownUnits(Distribution):
    """Nothing beyond second moments."""

    known = False


UNKNOWN = UnknownUnits()


class NetworkUnits(Distribution):
    """Units of whole networks that were sampled: their means over channels may be random."""

    random_means = True


@dataclass(frozen=True, eq=False)
class KnownMeans(NetworkUnits):
    """Nothing but the means."""

    x: Tensor
    y: Tensor

    def means(self, state: MomentMaps) -> Pair:
        """Return the means."""
        return self.x, self.y


class GaussianUnits(Distribution):
    """Zero-mean Gaussian: sums over many random weights."""

    gaussian = zero_mean = stable = True

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return two correlated normal numbers at each position, or as many as there are sites."""
        if len(sites.shifts) > 1:
            return gaussian_draws(state, sites, draws)
        kxx, kyy, d = (sites.take(maps) for maps in (state.kxx, state.kyy, state.d))
        _, h = half_gap(torch, kxx, kyy, d)
        h = h.clamp(0, 1)
        first, second = (draws.normal((draws.count, *kxx.shape), like=h) for _ in range(2))
        x, y = kxx.sqrt() * first, first.mul_(1 - 2 * h).add_(second.mul_(2 * (h * (1 - h)).sqrt()))
        return x, kyy.sqrt() * y

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Return the units themselves."""
        return ((state, sites),)

    def expression(self, state: MomentMaps) -> Expression | None:
        """Return the units themselves, or those that they are a multiple of."""
        factor = None if state.origin is None else state.origin.constant_factor()
        inner = None if factor is None else factor[0].expression()
        if factor is None or inner is None:
            return state, lambda x: x
        (_, number), (before, function) = factor, inner
        return before, lambda x: function(x) * number

    def token_values(self, state: MomentMaps, context: Context) -> Pair:
        """Draw by the Gram matrix over tokens."""
        return new_gaussian_values(state, context)

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Draw by the Gram matrix over positions."""
        return channels.gaussian_values(state)


class ZeroMeanUnits(Distribution):
    """Units of zero mean with an otherwise unknown distribution: sums over few random channels."""

    zero_mean = stable = True


@dataclass(frozen=True, eq=False)
class UnitsOfOne(Distribution):
    """Units that are a function of those of one earlier value."""

    before: MomentMaps

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Return those of the value before."""
        return self.before.fields(sites)

    def without_samples(self) -> Distribution:
        """Return the same of the value before."""
        return replace(self, before=self.before.without_samples())


@dataclass(frozen=True, eq=False)
class AffineUnits(UnitsOfOne):
    """(unit - shift)·scale, each side with its own numbers."""

    x_scale: Factor
    y_scale: Factor
    x_shift: Factor = 0.0
    y_shift: Factor = 0.0

    @property
    def written_out(self) -> bool:  # type: ignore[override]
        """As the value before."""
        return self.before.distribution.written_out

    def means(self, state: MomentMaps) -> Pair:
        """Return means after the affine map."""
        x, y = self.before.means()
        return (x - self.x_shift) * self.x_scale, (y - self.y_shift) * self.y_scale

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return samples after the affine map."""
        x, y = self.before.draw(sites, draws)

        def at(numbers: Factor) -> Factor:
            return sites.take(numbers.expand(state.kxx.shape)) if isinstance(numbers, Tensor) else numbers

        return (x - at(self.x_shift)) * at(self.x_scale), (y - at(self.y_shift)) * at(self.y_scale)

    def expression(self, state: MomentMaps) -> Expression | None:
        """Return the affine map of an expression, if it is the same for all units and both sides."""
        numbers = (self.x_scale, self.y_scale, self.x_shift, self.y_shift)
        inner = self.before.expression() if all(isinstance(number, (int, float)) for number in numbers) else None
        if inner is None or self.x_scale != self.y_scale or self.x_shift != self.y_shift:
            return None
        (before, function), scale, shift = inner, self.x_scale, self.x_shift
        return before, lambda x: (function(x) - shift) * scale

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return the affine map of channels."""
        shape = (len(state.kxx), len(state.sizes), math.prod(state.positions))
        shift, scale = (
            torch.cat(
                [torch.as_tensor(side, dtype=torch.float64).expand(state.kxx.shape).reshape(shape) for side in both]
            )
            for both in ((self.x_shift, self.y_shift), (self.x_scale, self.y_scale))
        )
        return (channels.values(self.before) - shift) * scale


@dataclass(frozen=True, eq=False)
class ActivatedUnits(UnitsOfOne):
    """An activation of the units of another value."""

    sigma: Activation

    @property
    def written_out(self) -> bool:  # type: ignore[override]
        """Whether the activation is."""
        return self.sigma.name == WRITTEN_OUT

    @property
    def activation(self) -> Activation | None:  # type: ignore[override]
        """Of Gaussian units."""
        return self.sigma if self.before.gaussian else None

    def means(self, state: MomentMaps) -> Pair:
        """Return E σ of a Gaussian."""
        return means(self.sigma, self.before.kxx, self.before.kyy)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return σ of samples of the value before."""
        x, y = self.before.draw(sites, draws)
        return self.sigma(x), self.sigma(y)

    def expression(self, state: MomentMaps) -> Expression | None:
        """Return σ of an expression."""
        inner = self.before.expression()
        if inner is None:
            return None
        before, function = inner
        return before, lambda x: self.sigma(function(x))

    def token_values(self, state: MomentMaps, context: Context) -> Pair:
        """Return σ of the values before."""
        x, y = token_values(self.before, context)
        return self.sigma(x), self.sigma(y)

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return σ of channels."""
        values: Tensor = self.sigma(channels.values(self.before))
        return values

    def parents(self) -> tuple[MomentMaps, ...]:
        """Return the value before."""
        return (self.before,)

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Pass gradients back by the slopes of drawn channels."""
        return [(self.before, activation_gradients(self.sigma, self.before, gradients, channels))]


@dataclass(frozen=True, eq=False)
class MovedUnits(UnitsOfOne):
    """Units of another value at other positions.

    ``index`` holds flattened positions (of blocks and positions together if ``flat``), -1 for a constant 0; ``blocks``
    the chosen blocks, None for all; ``whole`` says whether a unit is one unit of the other value at all positions.
    """

    index: Tensor
    blocks: tuple[int, ...] | None = None
    flat: bool = False
    whole: bool = True

    def means(self, state: MomentMaps) -> Pair:
        """Return the moved means."""
        x, y = self.before.means()
        return self._move(x), self._move(y)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return the moved samples."""
        x, y = self.before.draw(self._below(sites), draws)
        if self._in_place:
            return self._chosen(x, 2), self._chosen(y, 2)
        x, y = (self._move(side[:, :, :, 0].flatten(0, 1)) for side in (x, y))
        shape = (draws.count, -1, *x.shape[1:])
        return sites.take(x.reshape(shape)), sites.take(y.reshape(shape))

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Return those of the value before."""
        return self.before.fields(self._below(sites))

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return channels at the new positions."""
        if not self.whole or self.flat or self.blocks is not None:
            return super().channel_values(state, channels)
        return take(channels.values(self.before), self.index.flatten(), leading=3)

    @property
    def _in_place(self) -> bool:
        """Whether positions do not change, and only the axis of the channels moves."""
        same = self.whole and not self.flat and tuple(self.index.shape) == self.before.positions
        return same and bool((self.index.flatten() == torch.arange(self.index.numel())).all())

    def _below(self, sites: Sites) -> Sites:
        if self._in_place:
            return sites
        if len(sites.shifts) > 1:
            raise NotCovered("the units it reads together were moved from other positions")
        return Sites.aligned(self.before.positions)

    def _chosen(self, values: Tensor, axis: int) -> Tensor:
        if self.blocks is None:
            return values
        return values.index_select(axis, torch.tensor(self.blocks, device=values.device))

    def _move(self, values: Tensor) -> Tensor:
        """Return ``[leading, blocks, *positions]`` at the new positions."""
        return take(self._chosen(values, 1), self.index, leading=1 if self.flat else 2)


@dataclass(frozen=True, eq=False)
class _OfSeveral(Distribution):
    """Units that are a function of those of several values."""

    parts: tuple[MomentMaps, ...]

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Return those of every part."""
        return [field for part in self.parts for field in part.fields(sites)]

    def without_samples(self) -> Distribution:
        """Return the same of every part."""
        return replace(self, parts=tuple(part.without_samples() for part in self.parts))


class SummedUnits(_OfSeveral):
    """A sum of independent units."""

    def means(self, state: MomentMaps) -> Pair:
        """Return the sum of the means."""
        return _added([part.means() for part in self.parts])

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return the sum of independent samples."""
        return _added([part.draw(sites, draws) for part in self.parts])

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return the sum of the channels."""
        return torch.stack([channels.values(part) for part in self.parts]).sum(dim=0)


def _added(pairs: list[Pair]) -> Pair:
    x, y = zip(*pairs, strict=True)
    return sum(x[1:], x[0]), sum(y[1:], y[0])


class StackedUnits(_OfSeveral):
    """Concatenated channels of several values."""

    @property
    def stacked_parts(self) -> tuple[MomentMaps, ...]:  # type: ignore[override]
        """The values."""
        return self.parts

    def means(self, state: MomentMaps) -> Pair:
        """Concatenate them."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=1), torch.cat(y, dim=1)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Concatenate them."""
        x, y = zip(*(part.draw(sites, draws) for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Concatenate them."""
        return torch.cat([channels.values(part) for part in self.parts], dim=2)


@dataclass(frozen=True, eq=False)
class JoinedUnits(Distribution):
    """Concatenated positions of several values."""

    parts: tuple[MomentMaps, ...]

    @property
    def joined_parts(self) -> tuple[MomentMaps, ...]:  # type: ignore[override]
        """The values."""
        return self.parts

    def means(self, state: MomentMaps) -> Pair:
        """Concatenate them."""
        x, y = zip(*(part.means() for part in self.parts), strict=True)
        return torch.cat(x, dim=2), torch.cat(y, dim=2)


def take(values: Tensor, index: Tensor, leading: int = 2) -> Tensor:
    """Return ``values`` at the flattened positions ``index``, which may have any shape; 0 at -1."""
    flat = values.flatten(leading) if values.dim() > leading else values[..., None]
    taken = flat[..., index.clamp_min(0)]
    return torch.where(index < 0, torch.zeros((), dtype=taken.dtype, device=taken.device), taken)
