"""Attention: queries and keys are drawn from the tokens' Gram matrix, values pass through what they make of it.

Drawn at their own head dimension, queries and keys go through whatever the model does to them (rotations, norms,
biases, masks, caps), and the mean over heads of A C Aᵀ is the Gram matrix behind: `initscope.propagate.heads`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from initscope.propagate.attended import Attended, roots_of
from initscope.propagate.covariances import gram
from initscope.propagate.heads import attended_gram, attention_weights, entropy_of
from initscope.propagate.moments import InputValues, MomentMaps, NotCovered, State
from initscope.propagate.numbering import numbers
from initscope.propagate.registry import Context, operation
from initscope.propagate.rules.gates import independent
from initscope.propagate.rules.tied import from_gram
from initscope.propagate.units import SampledUnits, UnitView, drawn, gaussian_values, units_of

__all__ = ["attention", "product"]

_HEADS = 16
"""Heads that are drawn for each replicate, where the model has fewer and each is drawn with what the model does."""
_LEAST, _MOST, _WEIGHTS = 8, 16, 1 << 20
"""Heads that are drawn for themselves for each replicate, and weights of all of them that are enough."""
_FLAT = 0.25
"""Variance of scores below which half of them do: weights are nearly linear in the scores then, and that cancels."""


@operation("scaled_dot_product_attention", reads=("positions", "distribution", "means"))
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
) -> State | UnitView:
    """softmax(scale·q kᵀ + mask) v: queries and keys drawn, values by their Gram matrix."""
    if isinstance(value, SampledUnits) or not isinstance(value, (MomentMaps, UnitView)):
        return _all_drawn(context, query, key, value, attn_mask, is_causal, scale, enable_gqa)
    value = value if isinstance(value, UnitView) else units_of(value)
    if enable_gqa:
        groups = _heads(query) // value.source.shape[-3]
        value = replace(value, source=value.source.repeat_interleave(groups, dim=-3))
    fresh = _fresh_weights(query, key, value, attn_mask, is_causal, scale, context)
    if fresh is not None:
        after = attended(value, [fresh], query.base.weights | key.base.weights, context, straight=True)
        heads = context.replicates * fresh[0].shape[1]
        return replace(after, note=f"{heads} heads drawn", entropy=entropy_of(*(one[:, ::2] for one in fresh)))

    def weights(q: InputValues, k: InputValues) -> list[Tensor]:
        sides = []
        for side in ("x", "y"):
            queries, keys = _side(q, side), _side(k, side)
            if enable_gqa:
                keys = keys.repeat_interleave(queries.shape[-3] // keys.shape[-3], dim=-3)
            mask = _side(attn_mask, side)
            sides.append(attention_weights(queries, keys, mask, causal=is_causal, scale=scale))
        return sides

    sides = [weights(drawn(query, context), drawn(key, context))]
    undrawn = isinstance(query, (MomentMaps, UnitView)) and isinstance(key, (MomentMaps, UnitView))
    count = sides[0][0].numel() // (sides[0][0].shape[-1] * sides[0][0].shape[-2] * len(value.base.kxx))
    again = -(-_HEADS // max(1, count)) - 1 if undrawn and _same_or_apart(query, key) else 0
    sides += [weights(*_drawn_again(query, key, context)) for _ in range(again)]
    before = [one.weights for one in (drawn(query, context), drawn(key, context)) if isinstance(one, SampledUnits)]
    after = attended(value, sides, frozenset().union(*before), context)
    heads = context.replicates * len(sides) * count
    return replace(after, note=f"{heads} heads drawn", entropy=entropy_of(*(one for pair in sides for one in pair)))


def _fresh_weights(
    query: Any, key: Any, value: UnitView, mask: Any, causal: bool, scale: float | None, context: Context
) -> tuple[Tensor, Tensor] | None:
    """Weights ``[pairs, heads, queries, keys]`` of x and y, of heads drawn for themselves; None where heads differ.

    Heads come in twos, with -q beside q: a Gaussian query has the law of its negative, and what is odd in the scores
    cancels. Gradients are taken by the heads that there are: for them none are drawn apart.
    """
    if context.roots is not None:
        return None
    if not all(
        isinstance(one, UnitView) and one.base.gaussian and one.source.dim() == 4 for one in (query, key, value)
    ):
        return None
    bases, pairs = (query.base, key.base), len(value.base.kxx)
    if any(len(base.sizes) > 1 for base in bases) or not independent(*bases) or not _same_for_heads(mask, pairs):
        return None
    for one in (query, key, value):
        lines = one.lines()
        straight = torch.arange(pairs)[:, None].expand_as(lines.sample) if len(lines.sample) == pairs else None
        whole = torch.equal(lines.token, torch.arange(one.base.shape[0]))
        if straight is None or not whole or not torch.equal(lines.sample, straight):
            return None
    size, tokens = query.source.shape[-1], max(base.shape[0] for base in bases)
    heads = min(_MOST, max(_LEAST, _WEIGHTS // (pairs * tokens * tokens)))
    if size * (1 / size if scale is None else scale * scale) * math.prod(_mean_square(base) for base in bases) < _FLAT:
        heads //= 2
    values = [gaussian_values(base, context, heads // 2 * size) for base in bases]
    q, k = (one.reshape(*one.shape[:2], heads // 2, size).transpose(1, 2) for one in values)
    sides = []
    for side, (a, b) in zip(("x", "y"), zip(q.chunk(2, dim=2), k.chunk(2, dim=2), strict=True), strict=True):
        sides.append(attention_weights(a, b, _side(mask, side), causal=causal, scale=scale, both_signs=True))
    return sides[0], sides[1]


def _mean_square(base: MomentMaps) -> float:
    return float(base.kxx.mean() + base.kyy.mean()) / 2


def _same_for_heads(mask: Any, pairs: int) -> bool:
    """Whether a mask, or what is added to scores, is one for all heads."""
    masks = [_side(mask, side) for side in ("x", "y")]
    return all(
        one is None or one.dim() <= 2 or (one.dim() == 4 and len(one) in (1, pairs) and one.shape[1] == 1)
        for one in masks
    )


def _side(value: Any, side: str) -> Any:
    return getattr(value, side) if isinstance(value, InputValues) else value


def _heads(query: Any) -> int:
    return int(query.shape[-3])


def _same_or_apart(query: Any, key: Any) -> bool:
    bases = [one.base if isinstance(one, UnitView) else one for one in (query, key)]
    return all(base.gaussian for base in bases)


def _drawn_again(query: Any, key: Any, context: Context) -> tuple[InputValues, InputValues]:
    """Other draws of queries and keys; of one state the same for both."""
    again = replace(context, values=type(context.values)())
    return drawn(query, again), drawn(key, again)


def _all_drawn(
    context: Context, query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None, grouped: bool
) -> InputValues:
    """Attention whose values are known, or drawn."""
    states = [drawn(one, context) for one in (query, key, value)]

    def run(side: str) -> Tensor:
        q, k, v = (_side(one, side) for one in states)
        result: Tensor = nn.functional.scaled_dot_product_attention(
            q, k, v, _side(mask, side), is_causal=causal, scale=scale, enable_gqa=grouped
        )
        return result

    weights = frozenset().union(*(one.weights for one in states if isinstance(one, SampledUnits)))
    return SampledUnits(run("x"), run("y"), "sampled", weights=weights)


def attended(
    value: UnitView,
    sides: Sequence[Sequence[Tensor]],
    before: frozenset[object],
    context: Context,
    *,
    straight: bool = False,
) -> UnitView:
    """Weights ``[..., queries, keys]`` of x and y, of each draw, times the values of all heads.

    ``straight``: they are ``[pairs, heads, queries, keys]``, of as many heads as were drawn.
    """
    lines, base = value.lines(), value.base
    pairs, tokens = len(base.kxx), base.shape[0]
    if not torch.equal(lines.token, torch.arange(tokens)):
        raise NotCovered("it reads only some of the tokens")
    block = torch.bucketize(lines.channel, torch.tensor(base.sizes).cumsum(0), right=True)
    if bool((block != block.flatten()[0]).any()):
        raise NotCovered("the values of its heads have different laws")
    sample = lines.sample.flatten()
    order = torch.argsort(sample, stable=True)
    heads = len(sample) // pairs
    if not torch.equal(sample[order], torch.arange(pairs).repeat_interleave(heads)):
        raise NotCovered("its heads are not those of every sample")
    inner = gram(base, context.grams)[:, int(block.flatten()[0])]
    total, drawn_weights = torch.zeros((), dtype=torch.float64), []
    for x, y in sides:
        if not straight:
            shape = (*lines.sample.shape, *x.shape[-2:])
            both = [one.expand(shape).reshape(len(sample), *x.shape[-2:])[order] for one in (x, y)]
            x, y = (one.reshape(pairs, heads, *x.shape[-2:]) for one in both)
        total = total + attended_gram(inner, x.detach(), y.detach())
        drawn_weights += [] if context.roots is None else [torch.cat([x, y])]
    queries, width = sides[0][0].shape[-2], lines.channel.shape[-1]
    matrix = total / len(sides)
    after = from_gram(base, matrix, heads * width, base.weights | before)
    if context.roots is not None:
        kept = tuple(drawn_weights), roots_of(drawn_weights, context.roots)
        after = replace(after, origin=Attended(matrix[:, None], base, int(block.flatten()[0]), width, *kept))
    if lines.sample.shape == (pairs, heads) and torch.equal(order, torch.arange(len(order))):
        cut = numbers((pairs, queries, heads * width)).view(pairs, queries, heads, width)
        return UnitView(after, cut.transpose(1, 2))
    rank = torch.empty_like(order)
    rank[order] = torch.arange(heads).repeat(pairs)
    start = ((sample * queries) * heads * width + rank * width).reshape(lines.sample.shape)
    token = torch.arange(queries)[:, None] * heads * width + torch.arange(width)
    return UnitView(after, start[..., None, None] + token)


@operation("matmul", "bmm", reads=("positions", "distribution"))
def product(context: Context, a: Any, b: Any) -> Any:
    """Weights of an attention times values; other products are run on drawn values."""
    if isinstance(a, SampledUnits) and isinstance(b, UnitView) and a.x.shape[-1] == b.source.shape[-2]:
        return attended(b, [(a.x, a.y)], a.weights, context)
    raise NotCovered("a product of two random values has no closed form")
