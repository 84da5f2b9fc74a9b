"""Attention: queries and keys are drawn from the tokens' Gram matrix, and values pass through their weights.

Queries and keys are drawn with the head dimension of the model and pass through its operations on them (rotations,
norms, biases, masks, caps). The mean over heads of A C Aᵀ is the Gram matrix after attention:
`initscope.propagate.heads`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from initscope.propagate.context import Context
from initscope.propagate.heads import attended_gram, attention_weights, entropy_of
from initscope.propagate.numbering import Lines, numbers
from initscope.propagate.origins.matrices import Attended, roots_of
from initscope.propagate.registry import operation
from initscope.propagate.rules.gates import independent
from initscope.propagate.rules.tied import from_gram
from initscope.propagate.token_sampling import gaussian_tokens
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import is_random, is_sampled, is_view, map_values, side_of
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.values.sampled_units import SampledUnits
from initscope.propagate.values.unit_view import UnitView

__all__ = ["attention", "attention_product"]

_HEADS = 16
"""Heads that are drawn for each replicate, where the model has fewer and each is drawn with what the model does."""
_LEAST, _MOST, _WEIGHTS = 8, 16, 1 << 20
"""Number of heads that are sampled for each replicate, and of their attention weights in total."""
_FLAT = 0.25
"""Variance of scores below which half of them do: weights are nearly linear in the scores then, and that cancels."""

Weights = tuple[Tensor, Tensor]
"""Weights ``[..., queries, keys]`` of x and of y."""


@operation("scaled_dot_product_attention", reads=("positions", "distribution", "means"))
@operation("scaled_dot_product_attention", on=UnitView)
def attention(
    context: Context,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> UnitView | SampledUnits:
    """softmax(scale·q kᵀ + mask) v: queries and keys drawn, values by their Gram matrix."""
    options = {"causal": is_causal, "scale": scale}
    if not is_random(value):
        return _of_known_values(context, query, key, value, attn_mask, enable_gqa, options)
    values = value.units()
    if enable_gqa:
        groups = int(query.shape[-3]) // values.index.shape[-3]
        values = replace(values, index=values.index.repeat_interleave(groups, dim=-3))
    if context.roots is None and _heads_are_alike(query, key, values, attn_mask):
        fresh = _weights_of_new_heads(query, key, values, attn_mask, options, context)
        after = _attended(values, [fresh], query.base.weights | key.base.weights, context, straight=True)
        return _with_heads(after, context.replicates * fresh[0].shape[1], [tuple(side[:, ::2] for side in fresh)])

    def weights(again: Context) -> Weights:
        q, k = (map_values(lambda v: v.samples(again), side) for side in (query, key))
        return _weights(q, k, attn_mask, enable_gqa, options)

    draws = [weights(context)]
    x = draws[0][0]
    count = x.numel() // (x.shape[-1] * x.shape[-2] * len(values.base.kxx))
    if all(is_random(side) and side.moment_maps()[0].gaussian for side in (query, key)):
        again = replace(context, values=type(context.values)())  # other draws; of one value the same for both
        for _ in range(-(-_HEADS // max(1, count)) - 1):
            again.values.clear()
            draws.append(weights(again))
    sampled = [map_values(lambda v: v.samples(context), side) for side in (query, key)]
    before = frozenset[object]().union(*(side.weights for side in sampled if is_sampled(side)))
    after = _attended(values, draws, before, context)
    return _with_heads(after, context.replicates * len(draws) * count, draws)


def _with_heads(after: UnitView, heads: int, draws: Sequence[Sequence[Tensor]]) -> UnitView:
    """Return the result with a note on the number of drawn heads, and the entropy of their weights."""
    return replace(after, note=f"{heads} heads drawn", entropy=entropy_of(*(side for draw in draws for side in draw)))


def _weights(query: Any, key: Any, mask: Any, grouped: bool, options: dict[str, Any]) -> Weights:
    """Return weights of drawn queries and keys."""
    sides = []
    for side in ("x", "y"):
        queries, keys = side_of(query, side), side_of(key, side)
        if grouped:
            keys = keys.repeat_interleave(queries.shape[-3] // keys.shape[-3], dim=-3)
        sides.append(attention_weights(queries, keys, side_of(mask, side), **options))
    return sides[0], sides[1]


def _heads_are_alike(query: Any, key: Any, value: UnitView, mask: Any) -> bool:
    """Return whether heads are independent draws: they differ only by their projections."""
    views = (query, key, value)
    if not all(is_view(view) and view.base.gaussian and view.index.dim() == 4 for view in views):
        return False
    pairs = len(value.base.kxx)
    if any(len(view.base.sizes) > 1 for view in (query, key)) or not independent(query.base, key.base):
        return False
    for side in ("x", "y"):
        part = side_of(mask, side)
        batch = part is not None and part.dim() == 4 and len(part) in (1, pairs) and part.shape[1] == 1
        if part is not None and part.dim() > 2 and not batch:
            return False
    return all(_in_order(view.lines(), pairs, view.base.shape[0]) for view in views)


def _in_order(lines: Lines, pairs: int, tokens: int) -> bool:
    """Return whether every head ``[pairs, heads]`` holds all tokens of its sample."""
    if len(lines.sample) != pairs or not torch.equal(lines.token, torch.arange(tokens)):
        return False
    return torch.equal(lines.sample, torch.arange(pairs)[:, None].expand_as(lines.sample))


def _weights_of_new_heads(
    query: UnitView, key: UnitView, value: UnitView, mask: Any, options: dict[str, Any], context: Context
) -> Weights:
    """Return weights ``[pairs, heads, queries, keys]`` of x and y, for independently drawn heads.

    Heads come in pairs, with q and -q: a Gaussian query has the distribution of its negative, and odd terms of the
    scores cancel. Gradients use these heads; no separate ones are drawn.
    """
    bases, pairs, scale = (query.base, key.base), len(value.base.kxx), options["scale"]
    size, tokens = query.index.shape[-1], max(base.shape[0] for base in bases)
    heads = min(_MOST, max(_LEAST, _WEIGHTS // (pairs * tokens * tokens)))
    variance = math.prod(float(base.kxx.mean() + base.kyy.mean()) / 2 for base in bases)
    if size * (1 / size if scale is None else scale * scale) * variance < _FLAT:
        heads //= 2
    values = [gaussian_tokens(base, context, heads // 2 * size) for base in bases]
    q, k = (drawn.reshape(*drawn.shape[:2], heads // 2, size).transpose(1, 2) for drawn in values)
    x, y = (
        attention_weights(a, b, side_of(mask, side), **options, both_signs=True)
        for side, a, b in zip(("x", "y"), q.chunk(2, dim=2), k.chunk(2, dim=2), strict=True)
    )
    return x, y


def _of_known_values(
    context: Context, query: Any, key: Any, value: Any, mask: Any, grouped: bool, options: dict[str, Any]
) -> SampledUnits:
    """Compute attention whose values are known, or drawn."""
    states = [map_values(lambda v: v.samples(context), side) for side in (query, key, value)]

    def run(side: str) -> Tensor:
        q, k, v = side_of(states, side)
        result: Tensor = nn.functional.scaled_dot_product_attention(
            q, k, v, side_of(mask, side), is_causal=options["causal"], scale=options["scale"], enable_gqa=grouped
        )
        return result

    weights = frozenset[object]().union(*(state.weights for state in states if is_sampled(state)))
    return SampledUnits(run("x"), run("y"), "sampled", weights=weights)


def _attended(
    value: UnitView, draws: Sequence[Weights], before: frozenset[object], context: Context, *, straight: bool = False
) -> UnitView:
    """Return weights ``[..., queries, keys]`` of x and y, of each draw, times the values of all heads.

    ``straight``: they are ``[pairs, heads, queries, keys]``, with the number of heads that were drawn.
    """
    lines, base = value.lines(), value.base
    pairs = len(base.kxx)
    block, order = _block_of_values(lines, base), torch.argsort(lines.sample.flatten(), stable=True)
    heads = len(order) // pairs
    if not torch.equal(lines.sample.flatten()[order], torch.arange(pairs).repeat_interleave(heads)):
        raise NotCovered("its heads differ between samples")
    inner = base.gram(context)[:, block]
    total, kept = torch.zeros((), dtype=torch.float64), []
    for x, y in draws:
        if not straight:
            shape = (*lines.sample.shape, *x.shape[-2:])
            both = [side.expand(shape).reshape(len(order), *x.shape[-2:])[order] for side in (x, y)]
            x, y = (side.reshape(pairs, heads, *x.shape[-2:]) for side in both)
        total = total + attended_gram(inner, x.detach(), y.detach())
        kept += [] if context.roots is None else [torch.cat([x, y])]
    matrix, width = total / len(draws), lines.channel.shape[-1]
    after = from_gram(base, matrix, heads * width, base.weights | before)
    if context.roots is not None:
        origin = Attended(matrix[:, None], base, block, width, tuple(kept), roots_of(kept, context.roots))
        after = replace(after, origin=origin)
    return UnitView(after, _head_numbers(lines, order, pairs, draws[0][0].shape[-2]))


def _block_of_values(lines: Lines, base: MomentMaps) -> int:
    """Return the block of channels that the values of all heads are in."""
    if not torch.equal(lines.token, torch.arange(base.shape[0])):
        raise NotCovered("it reads only some of the tokens")
    block = torch.bucketize(lines.channel, torch.tensor(base.sizes).cumsum(0), right=True).flatten()
    if bool((block != block[0]).any()):
        raise NotCovered("the values of its heads have different distributions")
    return int(block[0])


def _head_numbers(lines: Lines, order: Tensor, pairs: int, queries: int) -> Tensor:
    """Return the numbers of units ``[pairs, queries, heads·width]`` at the positions of the heads' values."""
    heads, width = len(order) // pairs, lines.channel.shape[-1]
    if lines.sample.shape == (pairs, heads) and torch.equal(order, torch.arange(len(order))):
        cut = numbers((pairs, queries, heads * width)).view(pairs, queries, heads, width)
        return cut.transpose(1, 2)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(heads).repeat(pairs)
    start = ((lines.sample.flatten() * queries) * heads * width + rank * width).reshape(lines.sample.shape)
    token = torch.arange(queries)[:, None] * heads * width + torch.arange(width)
    return start[..., None, None] + token


@operation("matmul", "bmm", reads=("positions", "distribution"))
def product(context: Context, a: Any, b: Any) -> Any:
    """Apply a product of two random values to drawn values."""
    raise NotCovered("a product of two random values has no closed form")


@operation("matmul", "bmm", on=UnitView)
def attention_product(context: Context, a: Any, b: Any) -> Any:
    """Return weights of an attention times values; other products are run on drawn values."""
    if not is_sampled(a) or not is_view(b) or a.x.shape[-1] != b.index.shape[-2]:
        return NotImplemented
    try:
        return _attended(b, [(a.x, a.y)], a.weights, context)
    except NotCovered:
        return NotImplemented
