"""Settings of `calibration`: errors of predictions, kernels and measurements."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from calibration import Estimates, Settings, built, narrow_stack, near_pairs
from torch import nn

import initscope
from initscope.initializers import He

SETTINGS = Settings()
setting = SETTINGS.add


class Attending(nn.Module):
    """Attention with its own queries, keys and values, and two layers after it."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (layer(x).unflatten(-1, (2, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.o(heads.transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(x)))


class Residual(nn.Module):
    """A skip, after which units are not Gaussian and are sampled."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        return torch.relu(self.last(torch.relu(h + self.inner(h))))


class Recurrent(nn.Module):
    """A GRU, which has no rule: whole networks are sampled."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, width), nn.Linear(width, width)
        self.inner = nn.GRU(width, width, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.last(self.inner(torch.relu(self.first(x)))[0]))


def max_pooled() -> nn.Module:
    """Max-pooling, whose units are sampled together."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 2), nn.ReLU())


def sampled_rows(predicted: Any) -> Estimates:
    """Cosines of the first and the last row that rest on samples, and of each pair."""
    rows = [index for index, row in enumerate(predicted.rows) if "sampl" in row.status]
    chosen = [rows[0], rows[-1]]
    return predicted.cosine[chosen], predicted.cosine_se[chosen]


@setting("predict: cosine_se", "units sampled after max-pooling, 4 replicates", seeds=400)
def _max_pooling(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(max_pooled), *near_pairs(3, 6, 6), He(), seed=seed))


@setting("predict: cosine_se", "units sampled after a skip, 4 replicates", seeds=400)
def _skip(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(Residual), *near_pairs(6, count=4), He(), seed=seed))


@setting("predict: cosine_se", "attention, 4 replicates", seeds=400)
def _attention(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(Attending), *near_pairs(4, 16), seed=seed))


@setting("predict: cosine_se", "4 networks sampled (GRU)", seeds=400)
def _networks(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(Recurrent), *near_pairs(4, 6), seed=seed))


@setting("predict: cosine_se", "2 networks sampled (GRU)", seeds=400, few=120)
def _two_networks(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(Recurrent), *near_pairs(4, 6), draws=2, seed=seed))


@setting("predict: cosine_se", "3 networks sampled (GRU)", seeds=400, few=120)
def _three_networks(seed: int) -> Estimates:
    return sampled_rows(initscope.predict(built(Recurrent), *near_pairs(4, 6), draws=3, seed=seed))


@setting("predict: tokens.cosine_se, tokens.entropy_se", "attention, 4 replicates", seeds=400)
def _tokens(seed: int) -> Estimates:
    tokens = initscope.predict(built(Attending), *near_pairs(4, 16), seed=seed).tokens
    entropy = int(np.flatnonzero(np.isfinite(tokens.entropy))[0])
    return (tokens.cosine[-1], tokens.entropy[entropy]), (tokens.cosine_se[-1], tokens.entropy_se[entropy])


@setting("predict: gradient_ratio_se", "q, k, v, o of one block, 4 replicates", few=50)
def _gradients(seed: int) -> Estimates:
    predicted = initscope.predict(built(Attending), *near_pairs(4, 16), seed=seed, gradients=True)
    rows = [index for index, row in enumerate(predicted.rows) if row.layer in ("q", "k", "v", "o")]
    return predicted.gradient_ratio[rows], predicted.gradient_ratio_se[rows]


@setting("kernel: return_error", "units sampled after a skip, 4 replicates", seeds=400)
def _kernel(seed: int) -> Estimates:
    values, errors = initscope.kernel(built(Residual), near_pairs(6, count=3)[0], seed=seed, return_error=True)
    upper = np.triu_indices(len(values), 1)
    return values[upper], errors[upper]


WIDTHS = (200, 50, 100)
COSINES = (0.95, 0.5, -0.7)


def dense_stack() -> nn.Module:
    """Three dense ReLU layers without biases."""
    layers = [(nn.Linear(a, b, bias=False), nn.ReLU()) for a, b in pairwise((8, *WIDTHS))]
    return nn.Sequential(*(layer for pair in layers for layer in pair))


@cache
def stack_pairs() -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Pairs at `COSINES`, and the predicted standard deviations of all rows after the input."""
    x = torch.zeros(len(COSINES), 8)
    x[:, 0] = 1
    y = torch.zeros_like(x)
    y[:, 0] = torch.tensor(COSINES)
    y[:, 1] = (1 - y[:, 0] ** 2).sqrt()
    return x, y, initscope.predict(built(dense_stack), x, y, He()).cosine_sd[1:]


@setting("predict: cosine_sd", f"one dense ReLU network of widths {WIDTHS}, cosines {COSINES}", seeds=1000, few=300)
def _band(seed: int) -> Estimates:
    x, y, bands = stack_pairs()
    return initscope.measure(built(dense_stack), x, y, initializer=He(), draws=1, seed=seed).cosine[1:], bands


@setting("measure: cosine_se, norm_ratio_se", "first layer of 32 filters, 1 draw (jackknife)", seeds=400)
def _jackknife(seed: int) -> Estimates:
    measured = initscope.measure(built(narrow_stack), *near_pairs(12), initializer=He(), draws=1, seed=seed)
    return (measured.cosine[2], measured.norm_ratio[2]), (measured.cosine_se[2], measured.norm_ratio_se[2])


@setting("measure: mean_cosine_se, mean_norm_ratio_se", "first layer of 32 filters, 1 draw (jackknife)", seeds=400)
def _jackknife_of_means(seed: int) -> Estimates:
    measured = initscope.measure(built(narrow_stack), *near_pairs(12, count=8), initializer=He(), draws=1, seed=seed)
    means = (measured.cosine[2].mean(), measured.norm_ratio[2].mean())
    return means, (measured.mean_cosine_se[2], measured.mean_norm_ratio_se[2])


@setting("measure: cosine_se, norm_ratio_se", "second layer of 32 units, 8 draws", seeds=400)
def _draws(seed: int) -> Estimates:
    measured = initscope.measure(built(narrow_stack), *near_pairs(12), initializer=He(), draws=8, seed=seed)
    return (measured.cosine[-1], measured.norm_ratio[-1]), (measured.cosine_se[-1], measured.norm_ratio_se[-1])


@setting("measure: mean_cosine_se, mean_norm_ratio_se", "second layer of 32 units, 8 draws", seeds=400)
def _draws_of_means(seed: int) -> Estimates:
    measured = initscope.measure(built(narrow_stack), *near_pairs(12, count=8), initializer=He(), draws=8, seed=seed)
    means = (measured.cosine[-1].mean(), measured.norm_ratio[-1].mean())
    return means, (measured.mean_cosine_se[-1], measured.mean_norm_ratio_se[-1])


@setting("measure: tokens.cosine_se, tokens.entropy_se", "attention, 8 draws", seeds=400, few=60)
def _measured_tokens(seed: int) -> Estimates:
    tokens = initscope.measure(built(Attending), *near_pairs(4, 16), draws=8, seed=seed).tokens
    entropy = int(np.flatnonzero(np.isfinite(tokens.entropy))[0])
    return (tokens.cosine[-1], tokens.entropy[entropy]), (tokens.cosine_se[-1], tokens.entropy_se[entropy])
