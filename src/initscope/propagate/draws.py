"""Samples of single units, for activations of what is not Gaussian and for the largest of a window.

Only second moments go on, so one unit at each position is enough. Units that are read together are drawn jointly, from
the covariances between their positions (`gaussian_draws`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.budget import Memory
from initscope.propagate.covariances import covariances
from initscope.propagate.moments import Cross, Draws, Field, Law, Lookup, Maps, Origin, Pair, Wanted
from initscope.propagate.registry import Context
from initscope.propagate.windows import Offset, Sites, at_both

__all__ = ["Drawn", "Remembered", "Sampled", "gaussian_draws", "sampled"]

_NORMALS = 1 << 22  # random numbers of one step, all pairs and positions together
_LEAST, _MOST = 128, 1 << 18
_ROUNDING = 1e-10  # what a correlation matrix may lack of being positive
_AT_ONCE = 1 << 20  # numbers of one piece: it stays near the caches
_LEAST_APART, _FEWER_APART = 64, 32  # for covariances between positions, of which there are many


def sampled(state: Maps, law: Law, context: Context, positions: tuple[int, ...] | None = None) -> Maps:
    """The state after units of another law, drawn at every position; ``state`` is the one before.

    The samples are kept for the next such step. Covariances between positions are drawn too, when they are asked for.
    """
    sites = Sites.aligned(state.positions if positions is None else positions)
    fields = list(law.fields(state, sites))
    share = context.budget.share
    count = _count(fields, share, like=state)
    lookup = covariances(_between(fields), context.budget)
    x, y = (side[:, :, :, 0] for side in law.draw(state, sites, Draws(count, context.generator, lookup)))
    squares = [x.square(), y.square(), (x - y).square()]
    kxx, kyy, d = (values.mean(dim=0) for values in squares)
    recipe = Remembered(law.without_samples(), context.budget.memory)
    after = state.after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        unit=Sampled(x, y, recipe),
        fresh=frozenset(),
        origin=None,
        status=weakest(state.status, "sampled"),
        note=_standard_error_note(squares, state.sizes, f"{count} units at each position"),
    )
    return replace(after, origin=Drawn(recipe, after, share, context.generator))


@dataclass(frozen=True, eq=False)
class Drawn(Origin):
    """Of units that are sampled: means of products of samples at both positions."""

    law: Law
    state: Maps
    share: float
    generator: torch.Generator
    exact = False

    def _fields(self, offset: Offset) -> list[Field]:
        return list(self.law.fields(self.state, Sites.apart(self.state.positions, offset)))

    def _count(self, fields: list[Field]) -> int:
        return max(_LEAST_APART, _count(fields, self.share, like=self.state) // _FEWER_APART)

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """The covariances of all Gaussian units that are drawn."""
        return _between(self._fields(offset))

    def work(self, offset: Offset) -> int:
        """The random numbers of an entry."""
        fields = self._fields(offset)
        each = sum(2 * len(sites.shifts) * math.prod(sites.size) for _, sites in fields)
        entries = 4 * math.prod(n - abs(d) for n, d in zip(self.state.positions, offset, strict=True))
        return 1 + 2 * self._count(fields) * each // entries

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Correlations of the samples, times the sizes that are known from more of them."""
        sites = Sites.apart(self.state.positions, offset)
        count = self._count(self._fields(offset))
        x, y = self.law.draw(self.state, sites, Draws(count, self.generator, lookup))
        (xp, xq), (yp, yq) = (side.unbind(dim=3) for side in (x, y))
        products = ((xp, xq), (yp, yq), (xp, yq), (yp, xq))
        first, second = at_both(self.state.kxx.double(), self.state.kyy.double(), offset)
        return torch.stack([_correlation(a, b) for a, b in products]).double() * (first * second).sqrt()


def _correlation(a: Tensor, b: Tensor) -> Tensor:
    """Of samples along the first axis, about zero: between -1 and 1 whatever their number."""
    size = (a.square().sum(dim=0) * b.square().sum(dim=0)).sqrt()
    return torch.where(size > 0, (a * b).sum(dim=0) / size, 0)


def _between(fields: list[Field]) -> Iterable[Wanted]:
    """The covariances that joint draws rest on."""
    return ((state, offset) for state, sites in fields for _, _, offset in sites.couples())


def _count(fields: list[Field], share: float, like: Maps) -> int:
    """Samples that the budget allows: by the widest of the fields, so that steps in a row draw equally many."""
    widest = max((2 * len(sites.shifts) * math.prod(sites.size) for _, sites in fields), default=0)
    numbers = (widest or 2 * math.prod(like.positions)) * math.prod(like.kxx.shape[:2])
    return min(_MOST, max(_LEAST, int(_NORMALS * share) // max(1, numbers)))


def _standard_error_note(squares: list[Tensor], sizes: tuple[int, ...], what: str) -> str:
    """Standard error of the mean cosine over pairs, from samples of x², y², (x-y)² ``[count, pairs, blocks, …]``."""
    weights = torch.tensor(sizes, dtype=torch.float64, device=squares[0].device)
    xx, yy, gap = (
        (v.flatten(3).sum(dim=3, dtype=torch.float64) if v.dim() > 3 else v.double()) @ weights for v in squares
    )
    total = [v.mean(dim=0) for v in (xx, yy, gap)]
    product = (total[0] * total[1]).sqrt()
    cosine = (total[0] + total[1] - total[2]) / (2 * product)
    # the influence of each sample on the cosine, first order
    influence = (xx + yy - gap) / (2 * product) - cosine * (xx / total[0] + yy / total[1]) / 2
    error = float(influence.nan_to_num().mean(dim=1).std() / len(xx) ** 0.5)
    return f"{what} sampled: cosine ± {error:.1g}"


@dataclass(frozen=True, eq=False)
class Sampled(Law):
    """Samples kept from a step without a closed form, ``[count, pairs, blocks, *positions]``, and the law of others."""

    x: Tensor
    y: Tensor
    law: Law

    def means(self, state: Maps) -> Pair:
        """Means over the samples."""
        return self.x.mean(dim=0), self.y.mean(dim=0)

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """The samples, from the first again when more are asked for; at several sites together new ones."""
        if len(sites.shifts) > 1:
            return self.law.draw(state, sites, draws)
        chosen = torch.arange(draws.count, device=self.x.device) % len(self.x)
        return sites.take(self.x[chosen]), sites.take(self.y[chosen])

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """None for kept samples."""
        return self.law.fields(state, sites) if len(sites.shifts) > 1 else ()

    def without_samples(self) -> Law:
        """How others are drawn."""
        return self.law


@dataclass(frozen=True, eq=False)
class Remembered(Law):
    """Another law, whose joint samples are kept for a while, so that a chain of such steps is drawn once."""

    law: Law
    memory: Memory

    def draw(self, state: Maps, sites: Sites, draws: Draws) -> Pair:
        """As the law draws, or what it drew there."""
        key = (self, sites, draws.count)
        found = self.memory.get(key)
        if found is None:
            found = self.law.draw(state, sites, draws)
            self.memory.put(key, found)
        return found

    def fields(self, state: Maps, sites: Sites) -> Iterable[Field]:
        """Those of the law."""
        return self.law.fields(state, sites)


def gaussian_draws(state: Maps, sites: Sites, draws: Draws) -> Pair:
    """x and y of Gaussian units at ``sites``: ``[count, pairs, blocks, shifts, *size]``."""
    covariance = _covariance(state, sites, draws)
    outputs, width = covariance.shape[2:], len(covariance)
    flat = covariance.reshape(width, width, -1)
    values = torch.empty((flat.shape[2], width, draws.count), dtype=state.kxx.dtype, device=flat.device)
    step = max(1, _AT_ONCE // (width * max(width, draws.count)))
    for start in range(0, flat.shape[2], step):
        factor = _factor(flat[:, :, start : start + step].movedim(2, 0)).to(values.dtype)
        normal = draws.normal((len(factor), width, draws.count), like=factor)
        torch.bmm(factor, normal, out=values[start : start + step])
    values = values.reshape(*outputs, width, draws.count).movedim(-1, 0).movedim(-1, 3)
    x, gap = values[:, :, :, : width // 2], values[:, :, :, width // 2 :]
    return x, x - gap


def _covariance(state: Maps, sites: Sites, draws: Draws) -> Tensor:
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


def _factor(covariance: Tensor) -> Tensor:
    """L with L Lᵀ = covariance; what sampling or rounding made negative is left out, and variances stay as they are."""
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
