r"""A table of words that is also the last layer: the logits of a sequence's own words are larger than the others.

Of the vector w of a word, the stream that ends in :math:`h_t = s_t\,w_{\text{word of }t} + \dots` keeps the share
:math:`s_t`: what branches add is linear in weights of their own and uncorrelated with w, and norms divide both. With n
channels and variance σ² of the table, :math:`E\,w_v\cdot h_t = n\sigma^2 s_t` for the word v of token t and 0 for
others, so that the products of logits, averaged over the V words, are
:math:`n\sigma^2 C_{tt'} + (n\sigma^2)^2 s_t s_{t'}\,[\text{same word}]/V`, as the width grows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from initscope.errors import InputError
from initscope.geometry import weakest
from initscope.propagate.context import Context
from initscope.propagate.covariances import both_factors
from initscope.propagate.distributions import UNKNOWN, GaussianUnits, ZeroMeanUnits
from initscope.propagate.origins.elementwise import SummedBranches
from initscope.propagate.origins.matrices import EmbeddingTable, KnownGram
from initscope.propagate.registry import rule
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.base import Value
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.values.moment_maps import MomentMaps

__all__ = ["embedding", "from_gram", "tied_head"]

_OTHER = "its weights are read by another step too, in another way"


def from_gram(base: MomentMaps, matrix: Tensor, channels: int, weights: frozenset[object]) -> MomentMaps:
    """Return zero-mean units with a known Gram matrix ``[pairs, 2T, 2T]``."""
    half = matrix.shape[-1] // 2
    square = matrix.diagonal(dim1=-2, dim2=-1)
    cross = matrix[:, :half, half:].diagonal(dim1=-2, dim2=-1)
    kxx, kyy = square[:, :half], square[:, half:]
    d = (kxx + kyy - 2 * cross).clamp_min(0)
    return base.after(
        tuple(maps[:, None].to(base.kxx.dtype) for maps in (kxx, kyy, d)),
        sizes=(channels,),
        status=weakest(base.status, "closed form after sampling"),
        distribution=ZeroMeanUnits(),
        weights=weights,
        origin=KnownGram(matrix[:, None]),
        part=None,
    )


@rule(nn.Embedding, reads=(), role="embedding")
def embedding(module: nn.Embedding, state: Any, context: Context) -> Value:
    """Return rows of a table: the present ones, or drawn ones if a drawn Linear holds the same table."""
    if state.random:
        raise NotCovered("its indices are random")
    _check_words(module, state)
    if id(module.weight) not in context.tied:
        return state.run(module)  # type: ignore[no-any-return]
    layer = nn.Linear(module.embedding_dim, module.num_embeddings, bias=False, device="meta")
    layer.weight = module.weight
    distribution = context.weight_distribution(layer)
    if not distribution.independent or distribution.strength > 0 or state.x.dim() != 2:
        raise NotCovered("the initializer of its table gives no Gram matrix of the rows")
    return _drawn_rows(distribution.variance, module, state, context.drawn([module.weight]))


def _check_words(module: nn.Embedding, state: InputValues) -> None:
    """Refuse indices without a row in the table, because the error of torch does not give the numbers."""
    for side in (state.x, state.y):
        least, most = (int(side.min()), int(side.max())) if side.numel() else (0, 0)
        if least < 0 or most >= module.num_embeddings:
            raise InputError(
                f"token {most if most >= module.num_embeddings else least} is beyond the vocabulary of "
                f"{module.num_embeddings} words (0 … {module.num_embeddings - 1}); check the tokenizer, or give the "
                "model a larger table"
            )


def _drawn_rows(variance: float, module: nn.Embedding, state: InputValues, table: frozenset[object]) -> MomentMaps:
    """Return Gaussian rows: equal for equal words, otherwise orthogonal."""
    both = torch.cat([state.x, state.y], dim=1)
    same = both[:, :, None] == both[:, None, :]
    if module.padding_idx is not None:
        same = same & (both != module.padding_idx)[:, :, None]  # whose row is zero
    zero = torch.zeros((), dtype=module.weight.dtype)
    like = MomentMaps(zero, zero, zero, (module.embedding_dim,), "closed form", axis=1)
    matrix = variance * same.double()
    maps = from_gram(like, matrix, module.embedding_dim, table)
    return replace(
        maps,
        status="closed form",
        distribution=GaussianUnits(),
        fresh=table,
        origin=EmbeddingTable(matrix[:, None], same, table),
    )


def tied_head(module: nn.Linear, before: MomentMaps, after: MomentMaps, context: Context) -> MomentMaps:
    """Return the logits ``after`` a last layer that is the table, including those of a sequence's own words."""
    table = context.drawn([module.weight])
    shares = before.table_shares(table)
    if len(shares) > 1 or after.axis != 1 or len(after.positions) != 1 or len(after.sizes) > 1:
        raise NotCovered(_OTHER)
    if not shares:
        return after
    rows, x, y = shares[0]
    share = both_factors(before, x, y)[:, 0] * (context.weight_distribution(module).variance * module.in_features)
    of_own_tokens = share[:, :, None] * share[:, None, :] * rows.same / module.out_features
    extra = from_gram(after, of_own_tokens, module.out_features, after.weights)
    return after.after(
        (after.kxx + extra.kxx, after.kyy + extra.kyy, after.d + extra.d),
        distribution=UNKNOWN,
        fresh=frozenset(),
        alike=False,
        origin=SummedBranches((after, extra)),
        note="its weights are the table of words: logits of a sequence's own words are larger",
    )
