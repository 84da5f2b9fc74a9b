"""Origins with a whole Gram matrix over positions: sampled networks, embedding tables, attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.propagate.bases import Cross, Lookup, Origin, Shares, Wanted
from initscope.propagate.heads import gradients_through_heads
from initscope.propagate.totals import NotCovered
from initscope.propagate.windows import EVERY, Offset

if TYPE_CHECKING:
    from initscope.propagate.channels import Channels
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["Attended", "BatchGram", "EmbeddingTable", "KnownGram", "SampledRoot", "roots_of"]


@dataclass(frozen=True, eq=False)
class KnownGram(Origin):
    """Origin with a whole Gram matrix: ``[pairs, blocks, 2P, 2P]``, for one axis of positions."""

    matrix: Tensor

    def sources(self, offset: Offset) -> Iterable[Wanted]:
        """Nothing."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Return the matrix, or the four diagonals of its blocks."""
        if offset is EVERY:
            return self.matrix[None]
        half, (d,) = self.matrix.shape[-1] // 2, offset
        x, y = slice(None, half), slice(half, None)
        blocks = [self.matrix[..., a, b] for a, b in ((x, x), (y, y), (x, y), (y, x))]
        return torch.stack([block.diagonal(d, dim1=-2, dim2=-1) for block in blocks])

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """None: the units have new weights."""
        return []


@dataclass(frozen=True, eq=False)
class EmbeddingTable(KnownGram):
    """Origin of rows of a drawn table, ``table`` by its parameters: equal if the tokens are equal."""

    same: Tensor
    table: frozenset[object]

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Return the rows themselves."""
        return [(self, 1.0, 1.0)] if self.table == table else Origin.table_shares(self, table)


@dataclass(frozen=True, eq=False)
class SampledRoot:
    """Values drawn from a state, ``[pairs, tokens, channels]`` for x and y, that gradients refer to."""

    base: MomentMaps
    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Attended(KnownGram):
    """Origin of the output of attention: its Gram matrix, and the drawn weights that it uses.

    ``weights`` are ``[2·pairs, heads, queries, keys]``, the x first, for each draw of all heads, connected with the
    ``roots`` in the autograd graph. ``block`` is the block of the values, ``width`` the number of channels per head.
    """

    value: MomentMaps
    block: int
    width: int
    weights: tuple[Tensor, ...]
    roots: tuple[SampledRoot, ...]
    through_samples = True

    def table_shares(self, table: frozenset[object]) -> list[Any]:
        """Not known."""
        return Origin.table_shares(self, table)

    def parents(self) -> tuple[MomentMaps, ...]:
        """Return values, and the states from which queries and keys were drawn."""
        return (self.value, *(root.base for root in self.roots))

    def transposed(self, state: MomentMaps, gradients: Tensor, channels: Channels) -> Shares:
        """Return gradients at values by the drawn weights, at queries and keys by drawn gradients."""
        gradients = channels.mean(gradients)
        values = channels.gram(self.value)[:, self.block]
        tensors = [side for root in self.roots for side in (root.x, root.y)]
        by_values, by_roots = gradients_through_heads(
            self.weights, tensors, gradients[:, 0], values, self.width, channels.gaussian
        )
        value = gradients.new_zeros((len(gradients), len(self.value.sizes), *values.shape[-2:]))
        value[:, self.block] = by_values
        shares: Shares = [(self.value, value)]
        for sides in by_roots:
            for root, x, y in zip(self.roots, sides[::2], sides[1::2], strict=True):
                parts = torch.split(torch.cat([x, y]).double(), list(root.base.sizes), dim=-1)
                squares = torch.stack([part @ part.mT for part in parts], dim=1)
                shares.append((root.base, squares / (len(by_roots) * len(self.weights))))
        return shares


def roots_of(weights: Sequence[Tensor], roots: Sequence[SampledRoot]) -> tuple[SampledRoot, ...]:
    """Return those of ``roots`` that ``weights`` were computed from, by the graph of autograd."""
    leaves: set[int] = set()
    seen: set[object] = set()
    stack = [weight.grad_fn for weight in weights]
    while stack:
        function = stack.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        variable = getattr(function, "variable", None)
        if variable is not None:
            leaves.add(id(variable))
        stack += [before for before, _ in function.next_functions]
    return tuple(root for root in roots if id(root.x) in leaves or id(root.y) in leaves)


@dataclass(frozen=True, eq=False)
class BatchGram(Origin):
    """The covariance of a dense layer's unit over the whole batch, x first, then y: ``[2 pairs, 2 pairs]``."""

    gram: Tensor

    def sources(self, offset: Offset) -> tuple[()]:
        """Nothing."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """Raise an error: a dense layer has one position only."""
        raise NotCovered("a dense layer has no positions")

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Not known."""
        raise NotCovered("batch norm in training mixes the samples of a batch")

    def batch_parent(self) -> MomentMaps | None:
        """None."""
        return None

    def batch_gram(self, before: Tensor) -> Tensor:
        """Return the covariance itself."""
        return self.gram
