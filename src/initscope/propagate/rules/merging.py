"""Sums of branches, products with constants, concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.bases import Distribution
from initscope.propagate.context import Context
from initscope.propagate.distributions import UNKNOWN, GaussianUnits, JoinedUnits, StackedUnits, SummedUnits
from initscope.propagate.origins.elementwise import StackedChannels, SummedBranches
from initscope.propagate.origins.positions import JoinedPositions
from initscope.propagate.registry import operation
from initscope.propagate.rules.gates import combined, gated, independent
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import is_random, is_value
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["add", "concatenate", "multiply", "per_channel", "stacked"]


def _values_first(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both factors or terms: a value before a constant, a random value before a known one."""
    if not is_value(a) or (is_random(b) and not a.random):
        a, b = b, a
    return a, b


@operation("add", reads=("means", "distribution"), elementwise=True)
def add(context: Context, a: Any, b: Any, alpha: float = 1) -> Any:
    """Sum of two branches, or of a value and a constant."""
    a, b = _values_first(a, multiply(context, b, alpha) if alpha != 1 else b)
    if a is b:
        return a.scaled(2.0)
    if not is_value(b):
        return _plus_constant(a, b, context)
    if a.shape != b.shape:
        raise NotCovered(f"it adds shapes {a.shape} and {b.shape}")
    return _sum_of_branches(a, b, context) if b.random else _plus_inputs(a, b, context)


@operation("sub", reads=("means",), elementwise=True)
def subtract(context: Context, a: Any, b: Any, alpha: float = 1) -> Any:
    """Subtract by adding the negative."""
    if _one_for_all_channels(a, b):
        x, y = _factors(a, b)
        return a.shifted(alpha * x, alpha * y) if bool(x.any()) or bool(y.any()) else a
    return add(context, a, multiply(context, b, -alpha))


@operation("neg", reads=(), elementwise=True)
def negative(context: Context, a: Any) -> Any:
    """Negate."""
    return multiply(context, a, -1)


@operation("mul", reads=("distribution",), elementwise=True)
def multiply(context: Context, a: Any, b: Any) -> Any:
    """Multiply by a constant: a number, or one per channel or position; two random values are a gate."""
    a, b = _values_first(a, b)
    if not is_value(a):
        return a * b
    if not is_value(b):
        return per_channel(a, torch.as_tensor(b)) if a.random else a.scaled(b)
    if b.random:
        return combined(a, b, lambda x, y: x * y, context) or gated(a, b)
    if not _one_for_all_channels(a, b):
        raise NotCovered("a product of two random values has no closed form")
    after = a.scaled(*_factors(a, b))
    if b.sampled:  # shares of experts, a gate of its own for each token
        status = weakest(after.status, "closed form after sampling")
        after = replace(after, weights=after.weights | b.weights, status=status)
    return after


@operation("div", reads=(), elementwise=True)
def divide(context: Context, a: Any, b: Any) -> Any:
    """Divide by a constant, or by one number per position."""
    if _one_for_all_channels(a, b):
        return a.scaled(*(1 / side for side in _factors(a, b)))
    if is_value(b):
        raise NotCovered("division by a random value has no closed form")
    return multiply(context, a, 1 / b)


def _one_for_all_channels(a: Any, b: Any) -> bool:
    """Return whether ``b`` is known and has one number per position of maps ``a``, as the divisor of a norm."""
    if not is_random(a) or not is_value(b) or b.random:
        return False
    shape = (1,) * (len(a.shape) - len(b.shape)) + b.shape
    whole = all(size in (1, n) for size, n in zip(shape, a.shape, strict=False))
    return b.x.is_floating_point() and len(shape) == len(a.shape) and whole and shape[a.axis] == 1


def _factors(a: MomentMaps, b: InputValues) -> tuple[Tensor, Tensor]:
    """Return those numbers, shaped like the maps."""
    x, y = (side.detach().to(a.kxx.dtype).movedim(a.axis + 1, 1) for side in (b.x, b.y))
    return x.expand(a.kxx.shape), y.expand(a.kxx.shape)


def _plus_constant(a: Any, b: Any, context: Context) -> Any:
    """Add a constant to maps: one number for all units, or values per position that all samples share."""
    if not isinstance(b, Tensor) or b.numel() == 1:
        number = _number(b)
        return a if number == 0 else a.shifted(-number, -number)
    if tuple(b.shape[1:]) == a.shape and not bool(b.any()):
        return a
    values = b.detach().to(a.kxx.dtype).expand(len(a.kxx), *a.shape)
    return add(context, a, InputValues(values, values))


def _number(value: Any) -> float:
    values = torch.as_tensor(value).detach().double().reshape(-1)
    if values.numel() == 0 or not bool((values == values[0]).all()):
        raise NotCovered("it adds constants that differ from unit to unit")
    return float(values[0])


def _plus_inputs(a: MomentMaps, b: InputValues, context: Context) -> Any:
    """Add known values, whose channels are treated as random, to maps."""
    if b.zero:
        return a  # the zeros that a loop over branches starts from
    parts = a.distribution.joined_parts
    if not parts or a.axis != len(a.shape) - 1:
        return _sum_of_branches(a, b.moments(a.axis), context)
    start, sums = 0, []
    for part in parts:  # constants add to constants exactly
        stop = start + part.positions[0]
        values = InputValues(b.x[:, start:stop], b.y[:, start:stop])
        known = part.distribution.input_values
        after = add(context, part, values) if known is None else known.plus(values)
        sums.append(after.moments(part.axis))
        start = stop
    return joined(sums, 1)


def _sum_of_branches(a: MomentMaps, b: MomentMaps, context: Context) -> MomentMaps:
    """Add maps of two branches: second moments add if these do not share their randomness."""
    if a.axis != b.axis or a.mixed != b.mixed:
        raise NotCovered("its branches have their channels on different axes")
    if not independent(a, b):
        return combined(a, b, lambda x, y: x + y, context) or _refuse_shared(a, b, context)
    a, b = _same_blocks(a, b)
    return a.after(
        (a.kxx + b.kxx, a.kyy + b.kyy, a.d + b.d),
        distribution=_sum_distribution(a, b),
        weights=a.weights | b.weights,
        fresh=a.fresh | b.fresh if a.fresh and b.fresh else frozenset(),
        origin=SummedBranches((a, b)),
        part=None,
        alike=a.alike and b.alike,
        status=weakest(a.status, b.status),
    )


def _refuse_shared(a: MomentMaps, b: MomentMaps, context: Context) -> MomentMaps:
    copies = a.weights & b.weights & frozenset(context.same.values())
    why = ", for layers before it are copies with equal weights, which are drawn as one" if copies else ""
    raise NotCovered(f"its branches share their randomness{why}")


def _sum_distribution(a: MomentMaps, b: MomentMaps) -> Distribution:
    """Return the distribution of the sum: independent if one branch is a fresh Gaussian, Gaussian if both are."""
    if a.gaussian and b.gaussian:
        return GaussianUnits()
    fresh = [s for s, other in ((a, b), (b, a)) if s.gaussian and s.fresh and not s.fresh & other.weights]
    return SummedUnits((a, b)) if fresh and a.distribution.known and b.distribution.known else UNKNOWN


def _same_blocks(a: MomentMaps, b: MomentMaps) -> tuple[MomentMaps, MomentMaps]:
    """Return both, cut into the same blocks."""
    if a.sizes == b.sizes:
        return a, b
    if a.mixed or b.mixed:
        raise NotCovered("its branches have their channels in different blocks")
    edges = sorted({sum(s.sizes[:k]) for s in (a, b) for k in range(len(s.sizes) + 1)})
    return _cut(a, edges), _cut(b, edges)


def _cut(state: MomentMaps, edges: list[int]) -> MomentMaps:
    ends = [sum(state.sizes[: k + 1]) for k in range(len(state.sizes))]
    blocks = [next(k for k, end in enumerate(ends) if end > start) for start in edges[:-1]]
    if blocks == list(range(len(state.sizes))):
        return state
    moments = tuple(maps[:, blocks] for maps in (state.kxx, state.kyy, state.d))
    sizes = tuple(b - a for a, b in itertools.pairwise(edges))
    distribution = state.distribution if state.gaussian else UNKNOWN
    return state.after(moments, sizes=sizes, distribution=distribution, origin=None)


@operation("cat", "concat", "concatenate", reads=())
def concatenate(context: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate channels, each with its own distribution, or positions."""
    tensors = [part for part in tensors if not (isinstance(part, Tensor) and part.numel() == 0)]
    if len(tensors) == 1:
        return tensors[0]
    like: Any = next(part for part in tensors if is_random(part))
    along = dim % (len(like.shape) + 1)
    if along != like.axis + 1:
        return joined([_as_maps(part, like) for part in tensors], along)
    if not all(is_value(part) for part in tensors):
        raise NotCovered("it joins random values with constants")
    return stacked([part.moments(like.axis) for part in tensors])


def _as_maps(part: Any, like: MomentMaps) -> MomentMaps:
    """Return known values, or a constant for all samples, as maps."""
    if isinstance(part, Tensor) and len(part) == len(like.kxx):
        values = part.detach().to(like.kxx.dtype)
        part = InputValues(values, values)
    maps: MomentMaps | None = part.moments(like.axis) if is_value(part) else None
    if maps is None or maps.axis != like.axis:
        raise NotCovered("it joins random values with constants of another shape")
    return maps


def _concatenated(parts: Sequence[MomentMaps], dim: int, **changes: Any) -> MomentMaps:
    """Concatenate maps of several values along channels."""
    return parts[0].after(
        tuple(torch.cat(maps, dim=dim) for maps in zip(*((part.kxx, part.kyy, part.d) for part in parts), strict=True)),
        weights=frozenset().union(*(part.weights for part in parts)),
        alike=all(part.alike for part in parts),
        status=weakest(*(part.status for part in parts)),
        **changes,
    )


def joined(parts: Sequence[MomentMaps], along: int) -> MomentMaps:
    """Concatenate positions of several values, such as a token before others."""
    if any(part.mixed or len(part.positions) != 1 or len(part.sizes) > 1 for part in parts) or along == 0:
        raise NotCovered("it joins positions, not channels")
    # A constant token has nothing in common with random ones.
    if not all(independent(a, b) for a, b in itertools.combinations([part for part in parts if part.weights], 2)):
        raise NotCovered("it joins positions of states that share their randomness")
    distribution, origin = JoinedUnits(tuple(parts)), JoinedPositions(tuple(parts))
    return _concatenated(parts, 2, distribution=distribution, fresh=frozenset(), origin=origin, part=None)


def stacked(parts: Sequence[MomentMaps]) -> MomentMaps:
    """Concatenate blocks of several values."""
    if any(part.axis != parts[0].axis or part.mixed for part in parts):
        raise NotCovered("its inputs have their channels on different axes, or in no order")
    return _concatenated(
        parts,
        1,
        sizes=tuple(size for part in parts for size in part.sizes),
        distribution=GaussianUnits() if all(part.gaussian for part in parts) else StackedUnits(tuple(parts)),
        fresh=frozenset().union(*(part.fresh for part in parts)) if all(part.fresh for part in parts) else frozenset(),
        origin=StackedChannels(tuple(parts)),
    )


def per_channel(state: MomentMaps, factors: Tensor) -> MomentMaps:
    """Return the value of units times fixed factors, equal at all positions."""
    values = factors.detach().double().reshape(-1)
    if values.numel() == 1 or bool((values == values[0]).all()):
        return state.scaled(float(values[0]))
    dims = (1,) * (len(state.shape) + 1 - factors.dim()) + tuple(factors.shape)
    if any(size != 1 for k, size in enumerate(dims) if k != state.axis + 1) or state.mixed:
        raise NotCovered("its factors differ from position to position")
    if not state.alike:
        raise NotCovered("its factors differ from channel to channel, and so do its inputs")
    # Channels of one block now differ: their mean second moments are known, their common distribution is a mixture.
    squares = [float(part.square().mean()) for part in torch.split(values, list(state.sizes))]
    scale = torch.tensor(squares, dtype=torch.float64).sqrt().to(state.kxx).reshape(-1, *(1,) * len(state.positions))
    return state.scaled(scale).after(distribution=UNKNOWN, alike=False)
