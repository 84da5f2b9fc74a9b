r"""`RoutedTokens`: tokens that a router sends to some of its experts, in an order that was drawn.

Logits of a router are drawn like heads, and the selection (top-k, sorting, offsets, masks) is run on the drawn values.
Experts have the same distribution and are independent: `RoutedTokens` hold the output of one expert for every token,
and for each row its token, its factor and its expert. `rules.routing` returns them to their tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initscope.geometry import Status
from initscope.propagate.totals import NotCovered, Totals
from initscope.propagate.values.base import Value

if TYPE_CHECKING:
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["RoutedTokens"]

Sides = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class RoutedTokens(Value):
    """Rows ``[..., channels]``: each is a token of ``base``, in the order of x and of y, times a factor.

    Attributes
    ----------
    base : MomentMaps
        Output of one expert for all tokens.
    token : tuple of Tensor
        Token of every row of x and of y, as sample·T + token.
    factor : tuple of Tensor
        Factor of the row.
    expert : tuple of Tensor
        Expert of the row: rows of two experts have no covariance.
    onto : MomentMaps or None
        A value at the same tokens to which the rows were added.
    weights : frozenset
        Those that the order was drawn from.
    """

    base: MomentMaps
    token: Sides
    factor: Sides
    expert: Sides
    onto: MomentMaps | None = None
    weights: frozenset[object] = frozenset()
    note: str = ""
    routed = knows_samples = True

    @property
    def status(self) -> Status:  # type: ignore[override]
        """Return the shape of the maps, after a drawn order."""
        return "closed form after sampling"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample's rows, where they lie sample by sample."""
        lead, samples = self.token[0].shape, len(self.base.kxx)
        return (lead[0] // samples, *lead[1:], self.base.channels)

    @property
    def in_order(self) -> bool:
        """Return whether rows are ordered by sample, with those of x and of y at the same tokens."""
        x, y = self.token
        samples, tokens = self.base.kxx.shape[0], self.base.kxx.shape[2]
        if x.shape != y.shape or x.numel() == 0 or len(x) % samples or not torch.equal(x, y):
            return False
        return bool((x.reshape(samples, -1) // tokens == torch.arange(samples)[:, None]).all())

    @property
    def plain(self) -> bool:
        """Whether these are the tokens as they are."""
        return self.onto is None and not any(bool((side != 1).any()) for side in self.factor)

    def same_rows(self, other: RoutedTokens) -> bool:
        """Return whether rows of both are the same tokens of the same experts."""
        sides = zip((*self.token, *self.expert), (*other.token, *other.expert), strict=True)
        return all(a is b or torch.equal(a, b) for a, b in sides)

    def totals(self) -> Totals:
        """Return sums over units."""
        if not self.in_order:
            return super().totals()
        base, (a, b) = self.base, self.factor
        token, samples = self.token[0].flatten(), len(self.base.kxx)
        xx, yy, d = (maps[:, 0].flatten()[token].double() for maps in (base.kxx, base.kyy, base.d))
        a, b = (side.flatten().double() for side in (a, b))
        both = a * b * (self.expert[0] == self.expert[1]).flatten()
        square_a, square_b = a * a, b * b
        distance = (square_a - both) * xx + (square_b - both) * yy + both * d
        sums = [
            term.reshape(samples, -1).sum(dim=1) * base.channels for term in (square_a * xx, square_b * yy, distance)
        ]
        return Totals(sums[0], sums[1], token.numel() // samples * base.channels, sums[2])

    def reordered(self, operation: Callable[[Tensor, int], Tensor]) -> RoutedTokens:
        """Return the rows after an operation on numbers of rows, of x (0) and of y (1)."""
        rows = [
            operation(torch.arange(side.numel()).reshape(side.shape), index).long()
            for index, side in enumerate(self.token)
        ]
        changed: dict[str, Any] = {
            name: tuple(side.reshape(-1)[where] for side, where in zip(getattr(self, name), rows, strict=True))
            for name in ("token", "factor", "expert")
        }
        return replace(self, note="", **changed)

    def with_base(self, base: MomentMaps) -> RoutedTokens:
        """Return the same rows of other maps, with the note of these."""
        return replace(self, base=replace(base, note=""), note=base.note)

    def through(self, layer: Callable[[Any], MomentMaps]) -> RoutedTokens:
        """Return the rows after a layer that reads all channels of each."""
        if not self.plain:
            raise NotCovered("it reads sums of experts before they are back at their tokens")
        return self.with_base(layer(self.base))

    def released(self, *, origin: bool, distribution: bool) -> RoutedTokens:
        """Do the same as the maps."""
        return replace(self, note="", base=self.base.released(origin=origin, distribution=distribution))
