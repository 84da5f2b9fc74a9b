"""Values of all units of token maps, drawn jointly for all tokens of x and y, each channel independently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initscope.propagate.bases import Pair
from initscope.propagate.covariances import both_factors, gram, unscaled
from initscope.propagate.draws import factor_of
from initscope.propagate.origins.matrices import SampledRoot

if TYPE_CHECKING:
    from initscope.propagate.context import Context
    from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["gaussian_tokens", "new_gaussian_values", "token_values"]

_FACTORS = 4  # of Gram matrices that are kept: queries and keys share theirs
_VALUES = 8  # drawn values of this many maps are kept: an op may read those of another again


def token_values(base: MomentMaps, context: Context) -> Pair:
    """Return values ``[pairs, tokens, channels]`` of x and of y, drawn once: all readers get the same values."""
    if base.order not in context.values:
        context.values[base.order] = base.distribution.token_values(base, context)
        while len(context.values) > _VALUES:
            context.values.popitem(last=False)
    return context.values[base.order]


def new_gaussian_values(base: MomentMaps, context: Context) -> Pair:
    """Return new values of all Gaussian units, with respect to which gradients can be computed."""
    parts = [gaussian_tokens(base, context, size, block) for block, size in enumerate(base.sizes)]
    x, y = (side.contiguous() for side in torch.cat(parts, dim=2).chunk(2, dim=1))
    if context.roots is not None:
        context.roots.append(SampledRoot(base, x.requires_grad_(), y.requires_grad_()))
    return x, y


def gaussian_tokens(base: MomentMaps, context: Context, channels: int, block: int = 0) -> Tensor:
    """Return values of new Gaussian channels at all tokens of x, then of y: ``[pairs, 2T, channels]``."""
    context.sampled.append("heads")
    source, x, y = unscaled(base)
    if source.order not in context.factors:
        context.factors[source.order] = factor_of(gram(source, context.grams)).to(base.kxx.dtype)
        while len(context.factors) > _FACTORS:
            context.factors.popitem(last=False)
    root = context.factors[source.order][:, block]
    shape = (len(root), root.shape[-1], channels)
    values = root @ torch.randn(shape, generator=context.generator, dtype=root.dtype)
    return values.mul_(both_factors(source, x, y)[:, block, :, None].to(values.dtype))
