"""Samples of single units (docs: prediction): for activations of what is not Gaussian, as after an identity skip or a
depthwise filter, and for the largest of a window. Only second moments go on, so one unit at each position is enough."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from initscope.propagate.joint import Draws
from initscope.propagate.offsets import Cross, Lookup, Offset, Origin, Wanted, at_both, covariances
from initscope.propagate.registry import Context
from initscope.propagate.sites import Sites
from initscope.propagate.state import Maps
from initscope.propagate.units import Field, Remembered, Sampled, Unit, without_samples
from initscope.report.geometry import weakest
from initscope.theory.pair_sums import filter_influence

__all__ = ["sampled"]

_NORMALS = 1 << 22  # random numbers of one step, all pairs and positions together
_LEAST, _MOST = 128, 1 << 18
_LEAST_APART, _FEWER_APART = 64, 32  # for covariances between positions, of which there are many


def sampled(state: Maps, law: Unit, context: Context, positions: tuple[int, ...] | None = None) -> Maps:
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
    recipe = Remembered(without_samples(law), context.budget.memory)
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

    law: Unit
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
    _, influence = filter_influence(xx, yy, (xx + yy - gap) / 2, axis=0)
    error = float(influence.nan_to_num().mean(dim=1).std() * len(xx) ** 0.5)
    return f"{what} sampled: cosine ± {error:.1g}"
