"""Samples of single units, for activations of non-Gaussian units and for the maximum of a window.

Only second moments are passed on, so one unit at each position is enough. Units that are read together are drawn
jointly, from the covariances between their positions (`gaussian_draws`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.bases import Distribution, Draws, Field, Pair, Wanted
from initscope.propagate.covariances import covariances
from initscope.propagate.windows import Sites

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.context import Context
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["Empirical", "factor_of", "gaussian_draws", "sampled"]

_NORMALS = 1 << 22  # random numbers of one step, all pairs and positions together
_LEAST, _MOST = 256, 1 << 18  # samples, all replicates together
_ROUNDING = 1e-10  # what a correlation matrix may lack of being positive
_AT_ONCE = 1 << 20  # numbers of one piece: it stays near the caches


def sampled(
    state: MomentMaps, units: Distribution, context: Context, positions: tuple[int, ...] | None = None
) -> MomentMaps:
    """Return the state after units of another distribution, sampled at every position; ``state`` is the earlier one.

    The samples are stored for the next such step. Covariances between positions are then unknown.
    """
    sites = Sites.aligned(state.positions if positions is None else positions)
    fields = list(units.fields(state, sites))
    count = _count(fields, context.budget.share, like=state, replicates=context.replicates)
    lookup = covariances(_between(fields), context.budget)
    x, y = (side[:, :, :, 0] for side in units.draw(state, sites, Draws(count, context.generator, lookup)))
    context.sampled.append("units")
    return state.after(
        tuple(values.square().mean(dim=0) for values in (x, y, x - y)),
        distribution=Empirical(x, y, units.without_samples()),
        fresh=frozenset(),
        origin=None,
        status=weakest(state.status, "sampled"),
        note=f"{context.replicates * count} units at each position sampled",
    )


def _between(fields: list[Field]) -> Iterable[Wanted]:
    """Return the covariances on which joint draws are based."""
    return ((state, offset) for state, sites in fields for _, _, offset in sites.couples())


def _count(fields: list[Field], share: float, like: MomentMaps, replicates: int) -> int:
    """Return the number of samples that the budget allows for the widest field, so that consecutive steps agree."""
    widest = max((2 * len(sites.shifts) * math.prod(sites.size) for _, sites in fields), default=0)
    numbers = (widest or 2 * math.prod(like.positions)) * math.prod(like.kxx.shape[:2])
    return min(_MOST, max(_LEAST, int(_NORMALS * share) // max(1, numbers))) // replicates


@dataclass(frozen=True, eq=False)
class Empirical(Distribution):
    """Samples after a step without closed form, ``[count, pairs, blocks, *positions]``, and others' distribution."""

    x: Tensor
    y: Tensor
    otherwise: Distribution

    def means(self, state: MomentMaps) -> Pair:
        """Return means over the samples."""
        return self.x.mean(dim=0), self.y.mean(dim=0)

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Return the samples, repeated from the first if more are needed; for several sites together, new ones."""
        if len(sites.shifts) > 1:
            return self.otherwise.draw(state, sites, draws)
        chosen = torch.arange(draws.count, device=self.x.device) % len(self.x)
        return sites.take(self.x[chosen]), sites.take(self.y[chosen])

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """Return None for stored samples."""
        return self.otherwise.fields(state, sites) if len(sites.shifts) > 1 else ()

    def without_samples(self) -> Distribution:
        """How others are drawn."""
        return self.otherwise

    @property
    def sampler(self) -> Distribution:
        """How others are drawn."""
        return self.otherwise

    def channel_values(self, state: MomentMaps, channels: Channels) -> Tensor:
        """Return new channels."""
        return self.otherwise.channel_values(state, channels)


def gaussian_draws(state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
    """Return x and y of Gaussian units at ``sites``: ``[count, pairs, blocks, shifts, *size]``."""
    covariance = _covariance(state, sites, draws)
    outputs, width = covariance.shape[2:], len(covariance)
    flat = covariance.reshape(width, width, -1)
    values = torch.empty((flat.shape[2], width, draws.count), dtype=state.kxx.dtype, device=flat.device)
    step = max(1, _AT_ONCE // (width * max(width, draws.count)))
    for start in range(0, flat.shape[2], step):
        factor = factor_of(flat[:, :, start : start + step].movedim(2, 0)).to(values.dtype)
        normal = draws.normal((len(factor), width, draws.count), like=factor)
        torch.bmm(factor, normal, out=values[start : start + step])
    values = values.reshape(*outputs, width, draws.count).movedim(-1, 0).movedim(-1, 3)
    x, gap = values[:, :, :, : width // 2], values[:, :, :, width // 2 :]
    return x, x - gap


def _covariance(state: MomentMaps, sites: Sites, draws: Draws) -> Tensor:
    """``[n, n, pairs, blocks, *size]`` of all x, then all x - y: differences of near-equal inputs keep their digits."""
    count = len(sites.shifts)
    kxx, kyy, d = (sites.take(maps.double()) for maps in (state.kxx, state.kyy, state.d))
    matrix = kxx.new_zeros((2 * count, 2 * count, *kxx.shape[:2], *kxx.shape[3:]))
    for i in range(count):
        with_gap = (kxx[:, :, i] - kyy[:, :, i] + d[:, :, i]) / 2
        matrix[i, i], matrix[count + i, count + i] = kxx[:, :, i], d[:, :, i]
        matrix[i, count + i] = matrix[count + i, i] = with_gap
    for i, j, offset in sites.couples():
        cross = draws.lookup(state, offset)
        write, read = sites.window(i, offset, tuple(cross.shape[3:]))
        xx, yy, xy, yx = cross[read]
        for row, column, values in (
            (i, j, xx), (i, count + j, xx - xy), (count + i, j, xx - yx), (count + i, count + j, xx + yy - xy - yx)
        ):  # fmt: skip
            matrix[row, column][write] = values
            matrix[column, row][write] = values
    return matrix


def factor_of(covariance: Tensor) -> Tensor:
    """Return L with L Lᵀ = covariance.

    Negative parts due to sampling or rounding are dropped, and variances are preserved.
    """
    size = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(size > 0, 1 / size, 0)
    correlation = covariance * inverse[..., :, None] * inverse[..., None, :]
    correlation.diagonal(dim1=-2, dim2=-1).copy_(torch.ones_like(size) + _ROUNDING)
    factor, failed = torch.linalg.cholesky_ex(correlation)
    if bool((failed > 0).any()):
        values, vectors = torch.linalg.eigh(correlation[failed > 0])
        nearest = vectors * values.clamp_min(0).sqrt()[..., None, :]
        factor[failed > 0] = nearest / nearest.norm(dim=-1, keepdim=True)
    result: Tensor = factor * size[..., :, None]
    return result
