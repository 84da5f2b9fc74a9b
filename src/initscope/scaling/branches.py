"""Gram matrices of the residual branches of a block, without weights; only attention heads are sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope.propagate.draws import factor_of
from initscope.propagate.heads import attended_gram, attention_weights, entropy_of
from initscope.scaling.transformer import Transformer
from initscope.theory.activations import activation

__all__ = ["attention", "feed_forward", "mixed"]

_NODES = 4097  # of the table of a dual: linear interpolation has errors below 1e-6


def attention(
    model: Transformer,
    read: Tensor,
    draws: int,
    generator: torch.Generator,
    *,
    causal: bool,
    source: Tensor | None = None,
) -> tuple[Tensor, dict[str, Any]]:
    """Return the Gram matrix of the attention branch, with entropy and scores; the keys are the tokens or ``source``.

    Heads of the given size are sampled, each query with its negative (antithetic pairs).
    """
    spreads, root = model.spreads, factor_of(read).float()
    other = root if source is None else factor_of(source).float()
    sides = []
    for factor, spread in ((root, spreads.query), (other, spreads.key)):
        drawn = factor @ torch.randn((len(factor), draws * model.head_size), generator=generator)
        drawn = (drawn * (spread * math.sqrt(model.width))).reshape(2, -1, draws, model.head_size).transpose(1, 2)
        if model.head_norm:
            drawn = torch.nn.functional.rms_norm(drawn, (model.head_size,), eps=model.eps)
        sides.append(_rotated(drawn, model.rotation, model.rotated) if model.rotation else drawn)
    query, key = sides
    weights = attention_weights(query, key, causal=causal, scale=model.scale, both_signs=True)
    after = attended_gram((read if source is None else source)[None], weights[:1], weights[1:])[0]
    gain = model.width * spreads.value**2 * model.heads * model.head_size * spreads.output**2
    scores = model.scale * (query[:, :1] @ key[:, :1].mT)
    statistics = {"entropy": entropy_of(weights), "scores": float((scores - scores.mean(dim=-1, keepdim=True)).std())}
    return gain * after, statistics


def _rotated(values: Tensor, base: float, channels: int) -> Tensor:
    """Apply rotary position embedding to the first ``channels``, or to all if it is 0 [Su2021]_."""
    half = (channels or values.shape[-1]) // 2
    angle = torch.arange(values.shape[-2])[:, None] / base ** (torch.arange(half) / half)
    cos, sin = (function(angle).float() for function in (torch.cos, torch.sin))
    first, second = values[..., :half], values[..., half : 2 * half]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, values[..., 2 * half :]], dim=-1)


def feed_forward(model: Transformer) -> Callable[[Tensor], Tensor]:
    """Return the map from cosines of normalized tokens to the Gram matrix of the feed-forward branch, as a table."""
    sigma, variance = activation(model.activation), model.width * model.spreads.up**2
    cosines = 1 - 2 * np.linspace(0, 1, _NODES) ** 2
    size = np.full(_NODES, variance)
    dual = np.asarray(sigma.dual(size, size, variance * cosines)) if variance > 0 else np.zeros(_NODES)
    gain = model.inner * model.spreads.down**2 * (variance if model.gated else 1.0)
    nodes = torch.from_numpy(gain * dual)
    steps = torch.cat([nodes.diff(), nodes.new_zeros(1)])

    def branch(read: Tensor) -> Tensor:
        cosine = read.clamp(-1, 1)
        position = (1 - cosine).mul_(0.5).sqrt_().mul_(_NODES - 1)  # duals are smooth functions of this near cosine 1
        below = position.long()
        values = torch.take(steps, below).mul_(position.sub_(below)).add_(torch.take(nodes, below))
        return values.mul_(cosine) if model.gated else values

    return branch


def mixed(model: Transformer, branch: Tensor, read: Tensor, generator: torch.Generator) -> Tensor:
    """Return the branch of a mixture of experts: two tokens share the output of an expert only if both chose it."""
    if model.experts == 1:
        return branch
    total, draws = torch.zeros_like(branch), 8
    root = factor_of(read).float()
    for _ in range(draws):
        scores = root @ torch.randn((len(read), model.experts), generator=generator)
        scores = scores * (model.spreads.up * math.sqrt(model.width))
        best, chosen = scores.topk(model.chosen, dim=1)
        gates = torch.zeros_like(scores).scatter(1, chosen, best.softmax(dim=1)).double()
        total += gates @ gates.T
    return branch * total / draws
