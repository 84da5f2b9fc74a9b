"""Sums of branches, products with constants, concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.distributions import GaussianUnits, JoinedUnits, StackedUnits, SummedUnits
from initscope.propagate.moments import AffineUnits, InputChannels, InputValues, MomentMaps, NotCovered, State
from initscope.propagate.origins import JoinedPositions, Shifted, StackedChannels, SummedBranches
from initscope.propagate.registry import Context, operation
from initscope.propagate.rules.gates import combined, gated, independent
from initscope.propagate.units import SampledUnits

__all__ = ["add", "concatenate", "multiply", "per_channel"]


@operation("add", reads=("means", "distribution"))
def add(context: Context, a: Any, b: Any, alpha: float = 1) -> State:
    """Sum of two branches, or of a state and a number."""
    if alpha != 1:
        b = multiply(context, b, alpha)
    if not isinstance(a, (InputValues, MomentMaps)):
        a, b = b, a
    if isinstance(b, (InputValues, MomentMaps)):
        return _sum_of_branches(a, b, context)
    if isinstance(a, InputValues):
        return a.run(lambda values: values + b)
    if isinstance(b, Tensor) and tuple(b.shape[1:]) == a.shape and not bool(b.any()):
        return a  # type: ignore[no-any-return]
    if isinstance(b, Tensor) and b.numel() > 1:
        return _sum_of_branches(a, _for_every_sample(b, a), context)
    number = _number(b)
    return a if number == 0 else shifted(a, -number, -number)


@operation("sub", reads=("means",))
def subtract(context: Context, a: Any, b: Any, alpha: float = 1) -> State:
    """Difference, as the sum with the negative."""
    if isinstance(a, MomentMaps) and isinstance(b, InputValues) and _one_for_all_channels(a, b):
        x, y = _factors(a, b)
        return shifted(a, alpha * x, alpha * y) if bool(x.any()) or bool(y.any()) else a
    return add(context, a, multiply(context, b, -alpha) if isinstance(b, (InputValues, MomentMaps)) else -alpha * b)


@operation("neg", reads=())
def negative(context: Context, a: State) -> State:
    """Minus."""
    result: State = multiply(context, a, -1)
    return result


@operation("mul", reads=("distribution",))
def multiply(context: Context, a: Any, b: Any) -> Any:
    """Product with a constant: a number, one for each channel or position; of two states, a gate."""
    if not isinstance(a, (InputValues, MomentMaps)):
        a, b = b, a
    if isinstance(b, (InputValues, MomentMaps)):
        if isinstance(a, InputValues) and isinstance(b, InputValues):
            return InputValues(a.x * b.x, a.y * b.y, weakest(a.status, b.status))
        if isinstance(a, MomentMaps) and isinstance(b, MomentMaps):
            return combined(a, b, lambda x, y: x * y, context) or gated(a, b)
        maps, given = (a, b) if isinstance(a, MomentMaps) else (b, a)
        assert isinstance(maps, MomentMaps)
        assert isinstance(given, InputValues)
        if not _one_for_all_channels(maps, given):
            raise NotCovered("a product of two random values has no closed form")
        after = maps.scaled(*_factors(maps, given))
        if isinstance(given, SampledUnits):  # shares of experts, a gate of its own for each token
            status = weakest(after.status, "closed form after sampling")
            after = replace(after, weights=after.weights | given.weights, status=status)
        return after
    if isinstance(a, InputValues):
        return a.run(lambda values: values * b)
    if not isinstance(a, MomentMaps):
        return a * b
    return per_channel(a, torch.as_tensor(b))


@operation("div", reads=())
def divide(context: Context, a: Any, b: Any) -> State:
    """Quotient by a constant, or by one number for each position."""
    if isinstance(a, MomentMaps) and isinstance(b, InputValues) and _one_for_all_channels(a, b):
        return a.scaled(*(1 / side for side in _factors(a, b)))
    if isinstance(b, (InputValues, MomentMaps)):
        raise NotCovered("division by a random value has no closed form")
    result: State = multiply(context, a, 1 / b)
    return result


def _one_for_all_channels(state: MomentMaps, given: InputValues) -> bool:
    """Whether given values have one number for each position, as what a norm divides by."""
    shape = (1,) * (len(state.shape) - len(given.shape)) + given.shape
    whole = all(size in (1, n) for size, n in zip(shape, state.shape, strict=False))
    return given.x.is_floating_point() and len(shape) == len(state.shape) and whole and shape[state.axis] == 1


def _factors(state: MomentMaps, given: InputValues) -> tuple[Tensor, Tensor]:
    """Those numbers, shaped like the maps."""
    x, y = (side.to(state.kxx.dtype).movedim(state.axis + 1, 1) for side in (given.x, given.y))
    return x.expand(state.kxx.shape), y.expand(state.kxx.shape)


def _for_every_sample(constant: Tensor, state: MomentMaps) -> InputValues:
    """A constant, as positions that are added to all samples alike."""
    values = constant.detach().to(state.kxx.dtype).expand(len(state.kxx), *state.shape)
    return InputValues(values, values)


@operation("cat", "concat", "concatenate", reads=())
def concatenate(context: Context, tensors: Sequence[Any], dim: int = 0) -> State:
    """Channels side by side, each with its own law."""
    tensors = [part for part in tensors if not (isinstance(part, Tensor) and part.numel() == 0)]
    if len(tensors) == 1:
        return tensors[0]  # type: ignore[no-any-return]
    if all(isinstance(part, InputValues) for part in tensors):
        status = weakest(*(part.status for part in tensors))
        return InputValues(torch.cat([p.x for p in tensors], dim), torch.cat([p.y for p in tensors], dim), status)
    like = next(part for part in tensors if isinstance(part, MomentMaps))
    axis, along = like.axis, dim % (len(like.shape) + 1)
    if along != axis + 1:
        return joined([_as_maps(part, like) for part in tensors], along)
    if not all(isinstance(part, (InputValues, MomentMaps)) for part in tensors):
        raise NotCovered("it joins random values with constants")
    return stacked([part.as_maps(axis) if isinstance(part, InputValues) else part for part in tensors])


def _as_maps(part: Any, like: MomentMaps) -> MomentMaps:
    """Given values, or a constant that stands for all samples, as maps."""
    if isinstance(part, Tensor):
        values = part.detach().to(like.kxx.dtype)
        part = InputValues(values, values) if len(values) == len(like.kxx) else None
    if isinstance(part, InputValues):
        part = part.as_maps(like.axis)
    if not isinstance(part, MomentMaps) or part.axis != like.axis:
        raise NotCovered("it joins random values with constants of another shape")
    return part


def joined(parts: Sequence[MomentMaps], along: int) -> MomentMaps:
    """Positions of several states one after the other: a token in front of others."""
    first = parts[0]
    if any(part.mixed or len(part.positions) != 1 or len(part.sizes) > 1 for part in parts) or along == 0:
        raise NotCovered("it joins positions, not channels")
    # A constant token has nothing in common with random ones.
    if not all(independent(a, b) for a, b in itertools.combinations([part for part in parts if part.weights], 2)):
        raise NotCovered("it joins positions of states that share their randomness")
    kxx, kyy, d = (torch.cat([getattr(part, name) for part in parts], dim=2) for name in ("kxx", "kyy", "d"))
    return first.after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        distribution=JoinedUnits(tuple(parts)),
        weights=frozenset().union(*(part.weights for part in parts)),
        fresh=frozenset(),
        origin=JoinedPositions(tuple(parts)),
        alike=all(part.alike for part in parts),
        status=weakest(*(part.status for part in parts)),
        part=None,
    )


def stacked(parts: Sequence[MomentMaps]) -> MomentMaps:
    """Blocks of several states side by side."""
    if any(part.axis != parts[0].axis or part.mixed for part in parts):
        raise NotCovered("its inputs have their channels on different axes, or in no order")
    kxx, kyy, d = (torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("kxx", "kyy", "d"))
    return parts[0].after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        sizes=tuple(size for part in parts for size in part.sizes),
        distribution=GaussianUnits() if all(part.gaussian for part in parts) else StackedUnits(tuple(parts)),
        weights=frozenset().union(*(part.weights for part in parts)),
        fresh=frozenset().union(*(part.fresh for part in parts)) if all(part.fresh for part in parts) else frozenset(),
        origin=StackedChannels(tuple(parts)),
        alike=all(part.alike for part in parts),
        status=weakest(*(part.status for part in parts)),
    )


def _sum_of_branches(a: State, b: State, context: Context) -> State:
    if isinstance(a, InputValues) and isinstance(b, InputValues):
        return InputValues(a.x + b.x, a.y + b.y, weakest(a.status, b.status))
    if a is b and isinstance(a, MomentMaps):
        return a.scaled(2.0)
    if isinstance(a, InputValues):
        a, b = b, a
    assert isinstance(a, MomentMaps)
    if a.shape != b.shape:
        raise NotCovered(f"it adds shapes {a.shape} and {b.shape}")
    if isinstance(b, InputValues) and not bool(b.x.any()) and not bool(b.y.any()):
        return a  # the zeros that a loop over branches starts from
    if isinstance(b, InputValues) and isinstance(a.distribution, JoinedUnits) and a.axis == len(a.shape) - 1:
        return _sum_of_parts(a.distribution.parts, b, context)
    b = b.as_maps(a.axis) if isinstance(b, InputValues) else b
    if a.axis != b.axis or a.mixed != b.mixed:
        raise NotCovered("its branches have their channels on different axes")
    if not independent(a, b):
        together = combined(a, b, lambda x, y: x + y, context)
        if together is not None:
            return together
        copies = a.weights & b.weights & frozenset(context.same.values())
        why = ", for layers before it are copies with equal weights, which are drawn as one" if copies else ""
        raise NotCovered(f"its branches share their randomness{why}")
    a, b = _same_blocks(a, b)
    return a.after(
        kxx=a.kxx + b.kxx,
        kyy=a.kyy + b.kyy,
        d=a.d + b.d,
        distribution=_sum_unit(a, b),
        weights=a.weights | b.weights,
        fresh=a.fresh | b.fresh if a.fresh and b.fresh else frozenset(),
        origin=SummedBranches((a, b)),
        part=None,
        alike=a.alike and b.alike,
        status=weakest(a.status, b.status),
    )


def _sum_of_parts(parts: Sequence[MomentMaps], b: InputValues, context: Context) -> MomentMaps:
    """Given values added to positions that come from several states: constants add to constants exactly."""
    start, sums = 0, []
    for part in parts:
        stop = start + part.positions[0]
        own = InputValues(b.x[:, start:stop], b.y[:, start:stop])
        before = part.distribution.given if isinstance(part.distribution, InputChannels) else part
        after = _sum_of_branches(before, own, context)
        sums.append(after.as_maps(part.axis) if isinstance(after, InputValues) else after)
        start = stop
    return joined(sums, 1)


def _sum_unit(a: MomentMaps, b: MomentMaps) -> Any:
    """Independent where one branch is a fresh Gaussian; Gaussian where both are."""
    if a.gaussian and b.gaussian:
        return GaussianUnits()
    fresh = [s for s, other in ((a, b), (b, a)) if s.gaussian and s.fresh and not s.fresh & other.weights]
    return SummedUnits((a, b)) if fresh and a.distribution is not None and b.distribution is not None else None


def _same_blocks(a: MomentMaps, b: MomentMaps) -> tuple[MomentMaps, MomentMaps]:
    """Both states cut into the same blocks."""
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
    kxx, kyy, d = (maps[:, blocks] for maps in (state.kxx, state.kyy, state.d))
    sizes = tuple(b - a for a, b in itertools.pairwise(edges))
    return state.after(
        kxx=kxx, kyy=kyy, d=d, sizes=sizes, distribution=state.distribution if state.gaussian else None, origin=None
    )


def shifted(state: MomentMaps, x: float | Tensor, y: float | Tensor) -> MomentMaps:
    """The state of units less a constant: E(X-a)² = kxx - 2a E X + a²."""
    mx, my = state.means()
    return state.after(
        kxx=state.kxx - 2 * x * mx + x * x,
        kyy=state.kyy - 2 * y * my + y * y,
        d=state.d - 2 * (x - y) * (mx - my) + (x - y) * (x - y),
        distribution=AffineUnits(state, 1.0, 1.0, x, y),
        fresh=frozenset(),
        origin=Shifted(state, (mx, my), (torch.as_tensor(x), torch.as_tensor(y))),
    )


def per_channel(state: MomentMaps, factors: Tensor) -> MomentMaps:
    """The state of units times fixed factors, equal for all positions."""
    values = factors.detach().double().reshape(-1)
    if values.numel() == 1 or bool((values == values[0]).all()):
        return state.scaled(float(values[0]))
    dims = (1,) * (len(state.shape) + 1 - factors.dim()) + tuple(factors.shape)
    if any(size != 1 for k, size in enumerate(dims) if k != state.axis + 1) or state.mixed:
        raise NotCovered("its factors differ from position to position")
    if not state.alike:
        raise NotCovered("its factors differ from channel to channel, and so do its inputs")
    # Channels of one block now differ: their mean second moments are known, their common law is a mixture.
    squares = [float(part.square().mean()) for part in torch.split(values, list(state.sizes))]
    scale = torch.tensor(squares, dtype=torch.float64).sqrt().to(state.kxx).reshape(-1, *(1,) * len(state.positions))
    return state.scaled(scale).after(distribution=None, alike=False)


def _number(value: Any) -> float:
    values = torch.as_tensor(value).detach().double().reshape(-1)
    if values.numel() == 0 or not bool((values == values[0]).all()):
        raise NotCovered("it adds constants that differ from unit to unit")
    return float(values[0])
