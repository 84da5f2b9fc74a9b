r"""Effect of one head of attention with weights A on the tokens' Gram matrix: :math:`C \to A\,C\,A^T`.

Values are linear in independent weights, so given A the expectation over them is exact. A depends on queries and keys
that are drawn from the Gram matrix, and the mean over heads estimates the expectation over A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from initscope.propagate.draws import factor_of

__all__ = ["attended_gram", "attention_weights", "entropy_of", "gradients_through_heads"]

_AT_ONCE = 1 << 24  # numbers of the products that are made together
_TIMES = 2  # gradients that are drawn for each head


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    both_signs: bool = False,
) -> Tensor:
    """Return softmax(scale·q kᵀ + mask), ``[..., heads, queries, keys]``; rows without a key are zero.

    ``both_signs``: also for -q, whose heads follow those of q.
    """
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.mT
    if both_signs:
        scores = torch.cat([scores, -scores], dim=-3)
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1).nan_to_num()


def attended_gram(gram: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean over heads of A C Aᵀ, with A of x and of y on the diagonal.

    ``gram [pairs, 2S, 2S]`` is that of the values, ``x`` and ``y`` ``[pairs, heads, T, S]`` are the weights; returns
    ``[pairs, 2T, 2T]`` in float64. Rows of weights sum to 1, so a constant does not change: it is subtracted first.
    Single precision is then enough for the rest, also if tokens are nearly equal.
    """
    pairs, heads, queries, keys = x.shape
    constant = gram.mean(dim=(1, 2), keepdim=True)
    rest = (gram - constant).to(x.dtype)
    xx, yy, xy = rest[:, :keys, :keys], rest[:, keys:, keys:], rest[:, :keys, keys:]
    total = torch.zeros((pairs, 2 * queries, 2 * queries), dtype=torch.float64)
    step = max(1, _AT_ONCE // (pairs * queries * max(queries, keys)))
    for start in range(0, heads, step):
        # The sum over heads is one product of all heads' weights side by side, [pairs, queries, heads·keys].
        a, b = (side[:, start : start + step].transpose(1, 2).flatten(2) for side in (x, y))
        top, bottom = slice(None, queries), slice(queries, None)
        for rows, left, columns, right, block in (
            (top, a, top, a, xx), (bottom, b, bottom, b, yy), (top, a, bottom, b, xy),
        ):  # fmt: skip
            first = (left.reshape(pairs, -1, keys) @ block).reshape(left.shape)
            total[:, rows, columns] += (first @ right.mT).double()
    total[:, queries:, :queries] = total[:, :queries, queries:].mT
    full = torch.cat([side.sum(dim=-1) for side in (x, y)], dim=-1).double()  # 1, or 0 where no key is left
    return total / heads + constant * (full.mT @ full) / heads


def gradients_through_heads(
    weights: Sequence[Tensor],
    drawn: Sequence[Tensor],
    gradients: Tensor,
    values: Tensor,
    width: int,
    normal: Callable[[Tensor, int], Tensor],
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    r"""Return gradients at the values, and at the drawn queries and keys, from those after attention.

    Values get the mean over heads of :math:`A^T\Delta A`. For queries and keys, gradients :math:`\delta` of the outputs
    and values v are drawn for every head, and :math:`\sum\delta^TAv` is differentiated with respect to ``drawn``. This
    includes the softmax with all that the model does around it.

    Parameters
    ----------
    weights : sequence of Tensor ``[samples, heads, queries, keys]``
        Weights of each draw of all heads, connected with ``drawn`` in the autograd graph.
    drawn : sequence of Tensor
        Queries and keys, whose gradients are computed.
    gradients, values : Tensor ``[samples, queries, queries]`` and ``[samples, keys, keys]``
        Gram matrices: of gradients over all channels of all heads, of values for one channel.
    width : int
        Channels of the values of a head.
    normal : callable
        ``normal(root, count)``: numbers with covariance root·rootᵀ, ``[..., P, count]``.

    Returns
    -------
    values : Tensor ``[samples, keys, keys]``
        Gram matrix of the values' gradients over all channels.
    drawn : list of tuples
        Gradients by ``drawn``, summed over the draws, as often as they were drawn.
    """
    back = torch.zeros_like(values)
    for attention in weights:
        plain = attention.detach().double()
        back += torch.einsum("nhts,nhtr->nsr", plain, torch.einsum("ntu,nhur->nhtr", gradients, plain))
    back /= len(weights) * weights[0].shape[1]
    results: list[tuple[Tensor, ...]] = []
    for _ in range(_TIMES if drawn else 0):
        with torch.enable_grad():
            loss = torch.zeros(())
            for attention in weights:
                heads = attention.shape[1]
                delta, value = (
                    normal(factor_of(gram), heads * width).reshape(*gram.shape[:2], heads, width)
                    for gram in (gradients / (heads * width), values)
                )
                loss = loss + (torch.einsum("nthw,nshw->nhts", delta, value).to(attention.dtype) * attention).sum()
        results.append(torch.autograd.grad(loss, list(drawn), retain_graph=True))
    return back, results


def entropy_of(*weights: Any) -> float:
    r"""Return the mean of :math:`-\sum_j p_j\ln p_j/\ln n` over all queries with n > 1 keys; NaN if there are none."""
    shares = []
    for attention in weights:
        attention = attention.detach()
        allowed = (attention > 0).sum(dim=-1)
        several = allowed > 1
        shares.append((torch.special.entr(attention).sum(dim=-1)[several] / allowed[several].float().log()).flatten())
    together = torch.cat(shares)
    return float(together.double().mean()) if len(together) else math.nan
