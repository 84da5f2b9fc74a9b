"""Sums of branches, products with constants, concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.covariances import Stacked, Summed
from initscope.propagate.laws import Normal, Parts, Sum
from initscope.propagate.moments import Given, Maps, NotCovered, Rescaled, State
from initscope.propagate.registry import Context, operation

__all__ = ["add", "concatenate", "multiply", "per_channel"]


@operation("add")
def add(context: Context, a: Any, b: Any, alpha: float = 1) -> State:
    """Sum of two branches, or of a state and a number."""
    if alpha != 1:
        b = multiply(context, b, alpha)
    if not isinstance(a, (Given, Maps)):
        a, b = b, a
    if isinstance(b, (Given, Maps)):
        return _sum_of_branches(a, b)
    if isinstance(a, Given):
        return a.run(lambda values: values + b)
    number = _number(b)
    return a if number == 0 else shifted(a, -number, -number)


@operation("sub")
def subtract(context: Context, a: Any, b: Any, alpha: float = 1) -> State:
    """Difference, as the sum with the negative."""
    return add(context, a, multiply(context, b, -alpha) if isinstance(b, (Given, Maps)) else -alpha * b)


@operation("neg")
def negative(context: Context, a: State) -> State:
    """Minus."""
    result: State = multiply(context, a, -1)
    return result


@operation("mul")
def multiply(context: Context, a: Any, b: Any) -> Any:
    """Product with a constant: a number, or one number for each channel."""
    if not isinstance(a, (Given, Maps)):
        a, b = b, a
    if isinstance(b, (Given, Maps)):
        if isinstance(a, Given) and isinstance(b, Given):
            return Given(a.x * b.x, a.y * b.y, weakest(a.status, b.status))
        raise NotCovered("a product of two random values has no closed form")
    if isinstance(a, Given):
        return a.run(lambda values: values * b)
    if not isinstance(a, Maps):
        return a * b
    return per_channel(a, torch.as_tensor(b))


@operation("div")
def divide(context: Context, a: Any, b: Any) -> State:
    """Quotient by a constant."""
    if isinstance(b, (Given, Maps)):
        raise NotCovered("division by a random value has no closed form")
    result: State = multiply(context, a, 1 / b)
    return result


@operation("cat", "concat", "concatenate")
def concatenate(context: Context, tensors: Sequence[Any], dim: int = 0) -> State:
    """Channels side by side, each with its own law."""
    if all(isinstance(part, Given) for part in tensors):
        status = weakest(*(part.status for part in tensors))
        return Given(torch.cat([p.x for p in tensors], dim), torch.cat([p.y for p in tensors], dim), status)
    if not all(isinstance(part, (Given, Maps)) for part in tensors):
        raise NotCovered("it joins random values with constants")
    axis = next(part.axis for part in tensors if isinstance(part, Maps))
    shape = tensors[0].shape
    if dim % (len(shape) + 1) != axis + 1:
        raise NotCovered("it joins positions, not channels")
    return stacked([part.as_maps(axis) if isinstance(part, Given) else part for part in tensors])


def stacked(parts: Sequence[Maps]) -> Maps:
    """Blocks of several states side by side."""
    if any(part.axis != parts[0].axis or part.mixed for part in parts):
        raise NotCovered("its inputs have their channels on different axes, or in no order")
    kxx, kyy, d = (torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("kxx", "kyy", "d"))
    return parts[0].after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        sizes=tuple(size for part in parts for size in part.sizes),
        unit=Normal() if all(part.gaussian for part in parts) else Parts(tuple(parts)),
        weights=frozenset().union(*(part.weights for part in parts)),
        fresh=frozenset().union(*(part.fresh for part in parts)) if all(part.fresh for part in parts) else frozenset(),
        origin=Stacked(tuple(parts)),
        status=weakest(*(part.status for part in parts)),
    )


def _sum_of_branches(a: State, b: State) -> State:
    if isinstance(a, Given) and isinstance(b, Given):
        return Given(a.x + b.x, a.y + b.y, weakest(a.status, b.status))
    if a is b and isinstance(a, Maps):
        return a.scaled(2.0)
    if isinstance(a, Given):
        a, b = b, a
    assert isinstance(a, Maps)
    if a.shape != b.shape:
        raise NotCovered(f"it adds shapes {a.shape} and {b.shape}")
    b = b.as_maps(a.axis) if isinstance(b, Given) else b
    if a.axis != b.axis or a.mixed != b.mixed:
        raise NotCovered("its branches have their channels on different axes")
    apart = (a.fresh and not a.fresh & b.weights) or (b.fresh and not b.fresh & a.weights)
    if not apart:
        raise NotCovered("its branches share their randomness")
    a, b = _same_blocks(a, b)
    return a.after(
        kxx=a.kxx + b.kxx,
        kyy=a.kyy + b.kyy,
        d=a.d + b.d,
        unit=_sum_unit(a, b),
        weights=a.weights | b.weights,
        fresh=a.fresh | b.fresh if a.fresh and b.fresh else frozenset(),
        origin=Summed((a, b)),
        status=weakest(a.status, b.status),
    )


def _sum_unit(a: Maps, b: Maps) -> Any:
    """Independent where one branch is a fresh Gaussian; Gaussian where both are."""
    if a.gaussian and b.gaussian:
        return Normal()
    fresh = [s for s, other in ((a, b), (b, a)) if s.gaussian and s.fresh and not s.fresh & other.weights]
    return Sum((a, b)) if fresh and a.unit is not None and b.unit is not None else None


def _same_blocks(a: Maps, b: Maps) -> tuple[Maps, Maps]:
    """Both states cut into the same blocks."""
    if a.sizes == b.sizes:
        return a, b
    if a.mixed or b.mixed:
        raise NotCovered("its branches have their channels in different blocks")
    edges = sorted({sum(s.sizes[:k]) for s in (a, b) for k in range(len(s.sizes) + 1)})
    return _cut(a, edges), _cut(b, edges)


def _cut(state: Maps, edges: list[int]) -> Maps:
    ends = [sum(state.sizes[: k + 1]) for k in range(len(state.sizes))]
    blocks = [next(k for k, end in enumerate(ends) if end > start) for start in edges[:-1]]
    if blocks == list(range(len(state.sizes))):
        return state
    kxx, kyy, d = (maps[:, blocks] for maps in (state.kxx, state.kyy, state.d))
    sizes = tuple(b - a for a, b in itertools.pairwise(edges))
    return state.after(kxx=kxx, kyy=kyy, d=d, sizes=sizes, unit=state.unit if state.gaussian else None, origin=None)


def shifted(state: Maps, x: float | Tensor, y: float | Tensor) -> Maps:
    """The state of units less a constant: E(X-a)² = kxx - 2a E X + a²."""
    mx, my = state.means()
    return state.after(
        kxx=state.kxx - 2 * x * mx + x * x,
        kyy=state.kyy - 2 * y * my + y * y,
        d=state.d - 2 * (x - y) * (mx - my) + (x - y) * (x - y),
        unit=Rescaled(state, 1.0, 1.0, x, y),
        fresh=frozenset(),
        origin=None,
    )


def per_channel(state: Maps, factors: Tensor) -> Maps:
    """The state of units times fixed factors, equal for all positions."""
    values = factors.detach().double().reshape(-1)
    if values.numel() == 1 or bool((values == values[0]).all()):
        return state.scaled(float(values[0]))
    dims = (1,) * (len(state.shape) + 1 - factors.dim()) + tuple(factors.shape)
    if any(size != 1 for k, size in enumerate(dims) if k != state.axis + 1) or state.mixed:
        raise NotCovered("its factors differ from position to position")
    # Channels of one block now differ: their mean second moments are known, their common law is a mixture.
    squares = [float(part.square().mean()) for part in torch.split(values, list(state.sizes))]
    scale = torch.tensor(squares, dtype=torch.float64).sqrt().to(state.kxx).reshape(-1, *(1,) * len(state.positions))
    return state.scaled(scale).after(unit=None)


def _number(value: Any) -> float:
    values = torch.as_tensor(value).detach().double().reshape(-1)
    if values.numel() == 0 or not bool((values == values[0]).all()):
        raise NotCovered("it adds constants that differ from unit to unit")
    return float(values[0])
