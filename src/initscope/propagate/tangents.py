r"""The neural tangent kernel of a state, along the same recursion as covariances between positions.

In the parametrization of [Jacot2018]_ (weights are their deviation times standard normal numbers, which are trained)
the inner product of two inputs' gradients is the derivative of their covariance, when the covariance after every layer
of weights is multiplied by :math:`1+\varepsilon` and nothing else moves: each layer adds its own covariance, averages
carry it on, activations multiply it by :math:`E\,\sigma'(X)\sigma'(Y)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from initscope.propagate.bases import Cross, Lookup
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.covariances import KnownCrosses, canonical, closure, covariances, nothing, outside
from initscope.propagate.windows import Offset

if TYPE_CHECKING:
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["tangent"]


def tangent(state: MomentMaps, budget: CovarianceBudget) -> Tensor:
    """The tangent kernel of a unit of ``state`` at every position: ``[pairs, blocks, *positions]``, in float64."""
    start = (state, (0,) * len(state.positions))
    needed = closure([start], also_aligned=True)
    values = covariances([pair for pair in needed if any(pair[1])], budget)
    known: KnownCrosses = {}
    lookup = _lookup(known)
    for maps, offset in sorted(needed, key=lambda pair: pair[0].order):
        assert maps.origin is not None
        known[maps.order, offset] = maps.origin.tangent(offset, values, lookup)
    return lookup(*start)[2]


def _lookup(known: KnownCrosses) -> Lookup:
    def lookup(state: MomentMaps, offset: Offset) -> Cross:
        if outside(state, offset):
            return nothing(state, offset)
        plain, swapped = canonical(offset)
        cross = known[state.order, plain]
        return cross[[0, 1, 3, 2]] if swapped else cross

    return lookup
