r"""Statistics of attention within a sample: how spread its weights are, and how parallel tokens become.

Entropies are per query, :math:`-\sum_j p_j\ln p_j/\ln n` with n the number of unmasked keys: 1 for uniform weights, 0
for a single key. Tokens are the rows of a sample's ``[tokens, units]``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope.geometry import Floats
from initscope.graph import Graph, Node, Observer

__all__ = ["AttentionObserver", "TokenObserver"]

_SAMPLES = 8  # whose scores are computed again where attention is one call
_LEAST_TOKENS = 4


class TokenObserver(Observer):
    """Mean cosine of the nonzero tokens of a sample, at ops whose output is ``[tokens, units]`` for each sample."""

    def __init__(self, graph: Graph) -> None:
        self._rows = graph.nodes
        self._cosines: dict[Node, list[Tensor]] = {}

    def see(self, node: Node, values: Tensor) -> None:
        """Take the mean over the pairs of tokens of every sample: of n unit vectors t it is (‖Σt‖² - n)/(n² - n).

        Zero tokens (padding, or tokens that no expert received) have no direction, so n counts the others; a sample
        with fewer than two of them is left out.
        """
        if values.dim() == 3 and values.shape[1] >= _LEAST_TOKENS and values.shape[2] >= _LEAST_TOKENS:
            values = values.float()
            norms = torch.linalg.vector_norm(values, dim=2, keepdim=True, dtype=torch.float64)
            count = (norms != 0).sum(dim=(1, 2))
            units = values / torch.where(norms == 0, 1.0, norms)
            squares = units.sum(dim=1).square().sum(dim=1)
            cosines = (squares - count) / (count * (count - 1))
            self._cosines.setdefault(node, []).append(cosines[count > 1])

    def columns(self) -> dict[str, Floats]:
        """Return ``token_cosine``, ``[rows]``; NaN if no sample has two nonzero tokens."""
        return {"token_cosine": _column(self._rows, {node: _joined(parts) for node, parts in self._cosines.items()})}


def _joined(parts: list[Tensor]) -> list[float]:
    """Return the values of all batches, or NaN if there are none."""
    return torch.cat(parts).tolist() or [math.nan]


class AttentionObserver(Observer):
    """Entropy of attention weights, their sum over the keys, and the weight of each token on itself."""

    names = ("attention_entropy", "attention_sum", "attention_self")

    def __init__(self, graph: Graph) -> None:
        self._rows = graph.nodes
        self._values: dict[str, dict[Node, list[float]]] = {name: {} for name in self.names}
        products = [node for node in graph.nodes if node.traits.equation]
        self._keys = {softmax: axis for node in products for softmax, axis in _summed_by_einsum(graph, node)}

    def nodes(self, graph: Graph) -> Collection[Node]:
        """Return those that hold weights of an attention."""
        return graph.attention_nodes

    def see(self, node: Node, values: Tensor) -> None:
        """Return weights that a softmax makes, ``[..., queries, keys]`` unless an einsum sums another of their axes."""
        if node.traits.attention == "weights" and values.dim() >= 3:
            axis = self._keys.get(node, -1)
            self._add(node, values.movedim(axis, -1), square=axis == -1)

    def read(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Return weights inside one call of attention, computed again for a few samples."""
        if node.traits.attention == "fused":
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            weights = _weights(**(dict(zip(names, args, strict=False)) | kwargs))
            if weights is not None:
                self._add(node, weights)

    def _add(self, node: Node, weights: Tensor, square: bool = True) -> None:
        weights = weights.float()
        allowed = (weights > 0).sum(dim=-1)
        entropy = torch.special.entr(weights).sum(dim=-1)
        several = allowed > 1
        if bool(several.any()):
            share = entropy[several] / allowed[several].float().log()
            self._values["attention_entropy"].setdefault(node, []).append(float(share.mean()))
        self._values["attention_sum"].setdefault(node, []).append(float((weights.sum(dim=-1) - 1).abs().max()) + 1)
        if square and weights.shape[-1] == weights.shape[-2] > 2:
            largest = float(weights.diagonal(dim1=-2, dim2=-1).amax())
            self._values["attention_self"].setdefault(node, []).append(largest)

    def columns(self) -> dict[str, Floats]:
        """Return the three, ``[rows]`` each; sums are 1 plus the largest deviation from it."""
        return {name: _column(self._rows, values) for name, values in self._values.items()}


def _summed_by_einsum(graph: Graph, node: Node) -> Iterator[tuple[Node, int]]:
    """Return softmaxes that an einsum reads, each with the axis, from the end, that it sums with another factor."""
    terms, arrow, result = node.traits.equation.partition("->")
    if not arrow:
        return
    factors = node.args[1] if len(node.args) == 2 and isinstance(node.args[1], (tuple, list)) else node.args[1:]
    for position, (term, factor) in enumerate(zip(terms.split(","), factors, strict=False)):
        others = "".join(other for index, other in enumerate(terms.split(",")) if index != position)
        axes = [index - len(term) for index, name in enumerate(term) if name in others and name not in result]
        made_by = factor
        while isinstance(made_by, Node) and made_by.row and made_by.traits.drops:
            made_by = graph.nodes[made_by.reads[0]]
        if isinstance(made_by, Node) and made_by.traits.attention == "weights" and len(axes) == 1:
            yield made_by, axes[0]


def _column(nodes: tuple[Node, ...], values: dict[Node, list[float]]) -> Floats:
    return np.array([np.mean(values[node]) if node in values else math.nan for node in nodes])


@torch.no_grad()
def _weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tensor | None:
    """Return softmax(q kᵀ scale + mask) of the first samples; None if the shapes are of another kind."""
    if query.dim() < 3 or query.shape[-1] == 0:
        return None
    query, key = query[:_SAMPLES].float(), key[:_SAMPLES].float()
    if query.dim() == 4 and query.shape[1] != key.shape[1] and query.shape[1] % key.shape[1] == 0:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # grouped queries
    if query.shape[:-2] != key.shape[:-2]:
        return None
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~causal, -math.inf)
    if attn_mask is not None:
        mask = attn_mask[:_SAMPLES] if attn_mask.dim() == query.dim() and len(attn_mask) > 1 else attn_mask
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(dim=-1).nan_to_num()
