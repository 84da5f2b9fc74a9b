"""Origins of elementwise ops: factors, shifts, products, sums, activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.propagate import loops
from initscope.propagate.bases import Cross, Factor, Lookup, Origin, Shares, Wanted
from initscope.propagate.duals import dual_matrix, slopes, transformed
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, Offset, at_both
from initscope.theory._fast import as_numpy
from initscope.theory._interpolation import LARGE
from initscope.theory.activations import Activation

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = [
    "Activations", "Multiplied", "OfOne", "OfSeveral", "Scaled", "Shifted", "StackedChannels", "SummedBranches",
    "activation_gradients", "batch_dual",
]  # fmt: skip

_INTEGRAL, _PLANE = 256, 1024  # what an entry costs that is integrated, in one dimension and in two
_INTEGRATED_GRAM = 128  # what an entry of a Gram matrix costs that is integrated
_LARGE_TABLE = 1 << 14  # entries from which on a dual is interpolated between angles
_NEARLY = 1.05  # ratio of variances between which a straight line is right to 1e-4


@dataclass(frozen=True, eq=False)
class OfOne(Origin):
    """Origin in one value, at the same offset."""

    before: MomentMaps

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return the same offset."""
        return ((self.before, offset),)

    def parents(self) -> tuple[MomentMaps, ...]:
        """Return the value before."""
        return (self.before,)


class UnitByUnit(OfOne):
    """Origin in one value, unit by unit."""

    @property
    def elementwise_of(self) -> MomentMaps:  # type: ignore[override]
        """The value before."""
        return self.before


@dataclass(frozen=True, eq=False)
class OfSeveral(Origin):
    """Origin in several values, each at the same offset."""

    terms: tuple[MomentMaps, ...]

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Return the same offset of every term."""
        return ((term, offset) for term in self.terms)

    def parents(self) -> tuple[MomentMaps, ...]:
        """Return all terms."""
        return self.terms


@dataclass(frozen=True, eq=False)
class Scaled(UnitByUnit):
    """Origin of units times a number, one per side; numbers may differ between positions."""

    x: Factor
    y: Factor

    def _sides(self) -> list[Tensor]:
        """Return factors of x and of y in float64, like the maps."""
        like = self.before.kxx
        return [
            torch.as_tensor(side, dtype=torch.float64, device=like.device).expand(like.shape)
            for side in (self.x, self.y)
        ]

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return covariances times both factors."""
        x, y = self._sides()
        first, second = at_both(x, y, offset)
        return lookup(self.before, offset) * first * second

    def scaling(self) -> tuple[MomentMaps, Factor, Factor] | None:
        """This is all."""
        return self.before, self.x, self.y

    def constant_factor(self) -> tuple[MomentMaps, float] | None:
        """Return the factor, if it is one number."""
        constant = isinstance(self.x, float) and self.x == self.y and self.before.gaussian
        return (self.before, self.x) if constant else None  # type: ignore[return-value]

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return shares times the factors."""
        return [(rows, x * self.x, y * self.y) for rows, x, y in self.before.table_shares(table)]

    def batch_parent(self) -> MomentMaps | None:
        """Return the value before."""
        return self.before

    def batch_gram(self, before: Tensor) -> Tensor:
        """Return covariances times both factors."""
        sides = [torch.as_tensor(side).double().reshape(-1).expand(len(before) // 2) for side in (self.x, self.y)]
        factors = torch.cat(sides)
        return before * factors[:, None] * factors

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Return gradients times both factors."""
        shape = self.before.kxx.shape
        factor = torch.cat(self._sides()).reshape(2 * shape[0], shape[1], -1)
        return factor[..., :, None] * gradients * factor[..., None, :]


@dataclass(frozen=True, eq=False)
class Shifted(UnitByUnit):
    """Origin of units with means ``m`` minus constants ``a``: E(X-a)(Y-b) = E XY - a E Y - b E X + ab."""

    means: tuple[Tensor, Tensor]
    shifts: tuple[Tensor, Tensor]

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return covariances minus the part of the constants."""
        shape = self.before.kxx.shape
        means, shifts = ([side.double().expand(shape) for side in both] for both in (self.means, self.shifts))
        (m, n), (a, b) = at_both(means[0], means[1], offset), at_both(shifts[0], shifts[1], offset)
        return lookup(self.before, offset) - a * n - m * b + a * b

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Return zero: constants do not change."""
        return tangents(self.before, offset)

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return zero: constants have no share."""
        return self.before.table_shares(table)

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Return zero: the subtracted mean over many channels hardly changes when a single channel changes."""
        return gradients


@dataclass(frozen=True, eq=False)
class Multiplied(OfSeveral):
    """Origin of products of two uncorrelated units, one of which is linear in its own zero-mean weights."""

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the product of the covariances."""
        first, second = self.terms
        return lookup(first, offset) * lookup(second, offset)

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Return the rule of products."""
        (first, moved), (second, moved_too) = ((values(term, offset), tangents(term, offset)) for term in self.terms)
        return first * moved_too + moved * second

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Multiply by the Gram matrix of the other factor."""
        first, second = self.terms
        return [(first, gradients * channels.gram(second)), (second, gradients * channels.gram(first))]


@dataclass(frozen=True, eq=False)
class SummedBranches(OfSeveral):
    """Origin of a sum of uncorrelated units."""

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the sum of the covariances."""
        first, *rest = (lookup(term, offset) for term in self.terms)
        return sum(rest, first)

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return those of every term."""
        return [share for term in self.terms for share in term.table_shares(table)]

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Return the same for every term."""
        return gradients


@dataclass(frozen=True, eq=False)
class StackedChannels(OfSeveral):
    """Origin of concatenated channels of several values."""

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Concatenate the blocks of both."""
        return torch.cat([lookup(term, offset) for term in self.terms], dim=2)

    def layers(self, state: MomentMaps) -> tuple[MomentMaps, ...]:
        """Return the layers of the terms, if all of them are layers."""
        layers = [term.layers() for term in self.terms]
        return tuple(layer for stacked in layers for layer in stacked) if all(layers) else ()

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Return for every term its blocks."""
        sizes = [len(term.sizes) for term in self.terms]
        return list(zip(self.terms, torch.split(gradients, sizes, dim=-3), strict=True))


@dataclass(frozen=True, eq=False)
class Activations(UnitByUnit):
    """Origin of an activation of Gaussian units: the dual, with the variances at both positions."""

    sigma: Activation

    @property
    def gram_cost(self) -> int:  # type: ignore[override]
        """Much more if it is integrated."""
        return _INTEGRATED_GRAM if self.sigma.integrated else 1

    def cost(self, offset: Offset) -> int:
        """Return the cost: an integral costs more than a formula."""
        if self.sigma.planar:
            return _PLANE
        return _INTEGRAL if self.sigma.method == "quadrature" else 1

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the four duals."""
        covariance = lookup(self.before, offset)
        first, second = at_both(self.before.kxx.double(), self.before.kyy.double(), offset)
        if offset is EVERY:
            return self._every(first, second, covariance)
        return self._duals(first, second, covariance)

    def _every(self, first: Tensor, second: Tensor, covariance: Cross) -> Cross:
        """Return the dual by the series; for nearly equal variances, as after a norm, from a table.

        Otherwise compute one half of the symmetric matrix.
        """
        whole = dual_matrix(self.sigma, first[..., 0], covariance)
        if whole is not None:
            return whole
        least, most = float(first.min()), float(first.max())
        if self.sigma.integrated and covariance.numel() > _LARGE_TABLE and 0 < most <= _NEARLY * least:
            return _from_tables(self._duals, least, most, (first * second).sqrt(), covariance)
        size = covariance.shape[-1]
        rows, columns = torch.triu_indices(size, size)
        half = (part.expand_as(covariance)[..., rows, columns] for part in (first, second, covariance))
        duals = self._duals(*half)
        whole = torch.empty_like(covariance)
        whole[..., rows, columns] = duals
        whole[..., columns, rows] = duals
        return whole

    def _duals(self, first: Tensor, second: Tensor, covariance: Tensor) -> Tensor:
        fused = loops.large_loops(covariance) if self.sigma.name == "relu" else None
        if fused is not None:
            gap = (first + second - 2 * covariance).contiguous()
            fused.relu_step(as_numpy(first), as_numpy(second), as_numpy(gap))
            return (first + second - gap) / 2
        limit = (first * second).sqrt()  # rounding must not carry a cosine beyond 1
        covariance = covariance.clamp(-limit, limit)
        if self.sigma.integrated and (self.sigma.planar or covariance.numel() >= LARGE):  # many are interpolated
            moments = transformed(self.sigma, first, second, first + second - 2 * covariance)
            return (moments[0] + moments[1] - moments[2]) / 2
        result: Tensor = self.sigma.dual(first, second, covariance)
        return result

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Multiply by E σ'(X)σ'(Y), as gradients are."""
        first, second = at_both(self.before.kxx.double(), self.before.kyy.double(), offset)
        return slopes(self.sigma, first, second, values(self.before, offset)) * tangents(self.before, offset)

    def batch_parent(self) -> MomentMaps | None:
        """Return the value before."""
        return self.before

    def batch_gram(self, before: Tensor) -> Tensor:
        """Return the dual."""
        return batch_dual(self.sigma, before)

    def back(self, gradients: Tensor, channels: Channels) -> Tensor:
        """Multiply gradients by E σ'(X_p)σ'(X_p')."""
        return activation_gradients(self.sigma, self.before, gradients, channels)


def _from_tables(
    duals: Callable[[Tensor, Tensor, Tensor], Tensor], least: float, most: float, size: Tensor, covariance: Cross
) -> Cross:
    """Return the dual as a function of the angle at two variances, by cubics, and between these by a straight line."""
    nodes = 513
    position = torch.arccos((covariance / size).clamp(-1, 1)).mul_((nodes - 1) / math.pi)
    below = position.long().clamp_(1, nodes - 3)
    t = position.sub_(below)
    cubic = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    angle = torch.linspace(0, math.pi, nodes, dtype=torch.float64)
    tables = []
    for variance in (least, most):
        same = torch.full_like(angle, variance)
        known = duals(same, same, variance * angle.cos())
        tables.append(
            sum((weight * known[below + shift - 1] for shift, weight in enumerate(cubic)), angle.new_zeros(()))
        )
    share = (size - least) / (most - least) if most > least else 0.0
    result: Cross = tables[0] + share * (tables[1] - tables[0])
    return result


def batch_dual(sigma: Activation, gram: Tensor) -> Tensor:
    """Return the dual of a whole covariance matrix ``[n, n]``."""
    square = gram.diagonal()
    limit = (square[:, None] * square).sqrt()
    result: Tensor = sigma.dual(square[:, None].expand_as(gram), square.expand_as(gram), gram.clamp(-limit, limit))
    return result


def activation_gradients(sigma: Activation, before: MomentMaps, gradients: Tensor, channels: Channels) -> Tensor:
    """Return gradients before an activation: by E σ'(X_p)σ'(X_p') or, for drawn channels, by their slopes."""
    if before.gaussian and gradients.dim() == 4:
        return gradients * _slopes(sigma, channels.gram(before))
    slope = torch.as_tensor(sigma.derivative(channels.values(before)))
    return slope[..., :, None] * slope[..., None, :] * gradients


def _slopes(sigma: Activation, gram: Tensor) -> Tensor:
    """Return E σ'(X_p)σ'(X_p') of Gaussian units; for nearly equal variances, interpolated over angles."""
    if not bool(torch.isfinite(gram).all()):
        raise NotCovered("the mean square before it is beyond the largest number of its precision")
    variance = gram.diagonal(dim1=-2, dim2=-1)
    first, second = (side.expand_as(gram) for side in (variance[..., :, None], variance[..., None, :]))
    limit = (first * second).sqrt()
    least, most = float(variance.min()), float(variance.max())
    if not sigma.integrated or gram.numel() <= _LARGE_TABLE or not 0 < most <= _NEARLY * least:
        return torch.as_tensor(sigma.derivative_dual(first, second, gram.clamp(-limit, limit)))
    count = 257
    angle = torch.linspace(0, math.pi, count, dtype=torch.float64)
    middle = torch.full_like(angle, math.sqrt(least * most))
    nodes = torch.as_tensor(sigma.derivative_dual(middle, middle, middle * angle.cos()))
    position = torch.arccos((gram / limit).clamp(-1, 1)) * ((count - 1) / math.pi)
    below = position.long().clamp(0, count - 2)
    return torch.lerp(nodes[below], nodes[below + 1], position - below)
