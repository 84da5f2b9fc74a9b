r"""Forward values that the backward recursion needs: Gram matrices over positions, and channels drawn from them.

Both inputs of a pair are samples here: arrays are ``[2·pairs, blocks, ...]``, the x first. Positions are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from initscope.propagate.bases import Cross, Origin
from initscope.propagate.draws import factor_of
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.windows import EVERY, Offset

__all__ = ["MOST_POSITIONS", "Channels", "positions_of"]

MOST_POSITIONS = 1024
"""Positions of a layer from which on its Gram matrices take too much: an image of 32 x 32."""
_WORK = 1 << 25  # entries of all Gram matrices, times the taps of filters: some ten seconds
_ENTRIES = 1 << 22  # of gradients that are known channel by channel
_FEWEST, _MOST = 16, 4096


def positions_of(state: MomentMaps) -> int:
    """Return the number of positions, 1 where there is no axis of them."""
    return math.prod(state.positions)


class Channels:
    """Gram matrices of states, and values of some of their channels, each found once and remembered."""

    def __init__(self, generator: torch.Generator, origins: Mapping[int, Origin]) -> None:
        """``origins`` holds the origins of states that the walk sampled as a whole, by their order."""
        self._generator, self._origins = generator, origins
        self._grams: dict[int, Tensor] = {}
        self._values: dict[int, Tensor] = {}
        self._count = 0
        self._spent = 0

    def known(self, state: MomentMaps) -> MomentMaps:
        """Return a state with a more precise origin than the walk's, if one is known."""
        return replace(state, origin=self._origins[state.order]) if state.order in self._origins else state

    def gram(self, state: MomentMaps) -> Tensor:
        """Return E h_p h_p' of a unit: ``[2·pairs, blocks, P, P]``."""
        for unknown in self._unknown(state):
            self._grams[unknown.order] = self._computed(unknown)
        return self._grams[state.order]

    def variance(self, state: MomentMaps) -> Tensor:
        """Return E h_p²: ``[2·pairs, blocks, P]``."""
        return torch.cat([state.kxx, state.kyy]).double().reshape(2 * len(state.kxx), len(state.sizes), -1)

    def values(self, state: MomentMaps) -> Tensor:
        """Return some channels of a state at all positions, jointly with other states: ``[count, 2·pairs, …, P]``."""
        if state.order not in self._values:
            self._values[state.order] = state.distribution.channel_values(state, self)
        return self._values[state.order]

    def mean(self, gradients: Tensor) -> Tensor:
        """Return the average over channels of gradients that are known channel by channel (``[count, …]``)."""
        return gradients.mean(dim=0) if gradients.dim() == 5 else gradients

    def gaussian(self, root: Tensor, count: int) -> Tensor:
        """Return numbers with covariance root·rootᵀ, ``[…, P, count]``."""
        normal = torch.randn((*root.shape[:-1], count), generator=self._generator, dtype=root.dtype)
        return root @ normal

    def release(self, order: int) -> None:
        """Free what is known of a state that is not needed any more."""
        self._grams.pop(order, None)
        self._values.pop(order, None)

    def _unknown(self, state: MomentMaps) -> list[MomentMaps]:
        """Return the states whose Gram matrices are needed for this one, in their order."""
        unknown: dict[int, MomentMaps] = {}
        stack = [state]
        while stack:
            maps = self.known(stack.pop())
            if maps.order in self._grams or maps.order in unknown:
                continue
            if positions_of(maps) > MOST_POSITIONS:
                raise NotCovered(
                    f"gradients would need covariances between {positions_of(maps)} positions, which are too many"
                )
            unknown[maps.order] = maps
            if positions_of(maps) > 1 and maps.origin is not None:
                stack += [source for source, offset in maps.origin.sources(EVERY) if offset is EVERY]
        self._spent += sum(
            positions_of(maps) ** 2 * (1 if maps.origin is None else maps.origin.gram_cost) for maps in unknown.values()
        )
        if self._spent > _WORK:
            raise NotCovered(
                f"gradients need the covariances between all positions of its layers: {self._spent:.1e} entries "
                f"(bound: {_WORK:.1e})"
            )
        return [unknown[order] for order in sorted(unknown)]

    def _computed(self, state: MomentMaps) -> Tensor:
        if positions_of(state) == 1:
            return self.variance(state)[..., None]
        if state.origin is None:
            if state.gaussian:  # whose values would be drawn by this very matrix
                raise NotCovered("the covariances between its positions are not known")
            values = self.values(state)
            return torch.einsum("cnbp,cnbq->nbpq", values, values) / len(values)
        both = state.origin.cross(EVERY, self._lookup)[0]
        half = both.shape[-1] // 2
        return torch.cat([both[..., :half, :half], both[..., half:, half:]])

    def _lookup(self, state: MomentMaps, offset: Offset) -> Cross:
        """Source for `Origin.cross` in which x and y are separate samples without covariances between them."""
        x, y = self._grams[state.order].chunk(2)
        zero = torch.zeros_like(x)
        return torch.cat([torch.cat([x, zero], dim=-1), torch.cat([zero, y], dim=-1)], dim=-2)[None]

    def gaussian_values(self, state: MomentMaps) -> Tensor:
        """Return channels of Gaussian units, drawn by their Gram matrix: ``[count, 2·pairs, blocks, P]``."""
        root = factor_of(self.gram(state))
        return self.gaussian(root, self._how_many(root)).movedim(-1, 0)

    def chosen(self, sides: Tensor) -> Tensor:
        """Return channels of values ``[2·pairs, blocks, channels, P]``, chosen at random."""
        count = self._how_many(sides)
        chosen = torch.randint(sides.shape[2], (count,), generator=self._generator)
        return sides[:, :, chosen].movedim(2, 0)

    def _how_many(self, root: Tensor) -> int:
        """Return channels that are drawn: the same number for all states, that of the first that asks."""
        if not self._count:
            size = len(root) * root.shape[-1] ** 2
            self._count = min(_MOST, max(_FEWEST, _ENTRIES // size))
        return self._count
