"""Attention as the origin of what is behind it, with the heads that were drawn: gradients pass through these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from initscope.propagate.moments import MomentMaps
from initscope.propagate.origins import KnownGram

__all__ = ["Attended", "SampledRoot", "roots_of"]


@dataclass(frozen=True, eq=False)
class SampledRoot:
    """Values that were drawn of a state, ``[pairs, tokens, channels]`` for x and y, which gradients are taken by."""

    base: MomentMaps
    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Attended(KnownGram):
    """What attention makes of values: its Gram matrix, and the drawn weights that it comes from.

    ``weights`` are ``[2·pairs, heads, queries, keys]``, the x first, of each draw of all heads; they know how they came
    from the ``roots``. ``block`` is that of the values, ``width`` the channels of a head.
    """

    value: MomentMaps
    block: int
    width: int
    weights: tuple[Tensor, ...]
    roots: tuple[SampledRoot, ...]


def roots_of(weights: Sequence[Tensor], roots: Sequence[SampledRoot]) -> tuple[SampledRoot, ...]:
    """Those of ``roots`` that ``weights`` were computed from."""
    found: set[int] = set()
    seen: set[object] = set()
    stack = [one.grad_fn for one in weights]
    while stack:
        step = stack.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        variable = getattr(step, "variable", None)
        if variable is not None:
            found.add(id(variable))
        stack += [before for before, _ in step.next_functions]
    return tuple(root for root in roots if id(root.x) in found or id(root.y) in found)
