"""Settings in which a stated error can be compared with what estimates really vary by, and how they are compared.

``tests/test_calibration.py`` runs each of them over a few seeds, ``benchmarks/calibration.py`` over 200.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

import initscope
from initscope.class_geometry import separation
from initscope.embed import Searcher
from initscope.initializers import He
from initscope.invert import error_growth, error_rate
from initscope.measurement import jacobian_spectrum, observe
from initscope.scaling import coordinates, outlook, read
from initscope.theory.images import channel_statistics, data_flatness
from initscope.theory.injectivity import probability, simulate_probability

Estimates = tuple[Any, Any]
"""Numbers and their stated errors, of the same length."""


@dataclass(frozen=True)
class Setting:
    """One kind of error: ``run(seed)`` gives estimates and their errors; without ``truth`` their mean stands for it.

    ``seeds`` are those of the published table, ``few`` those of the test.
    """

    quantity: str
    where: str
    run: Callable[[int], Estimates]
    truth: Callable[[], Any] | None
    seeds: int
    few: int


@dataclass(frozen=True)
class Spread:
    """Root mean square deviation over root mean square stated error: 1 if errors are right; its own standard error.

    ``within``: the share of estimates within one stated error.
    """

    value: float
    error: float
    within: float


SETTINGS: list[Setting] = []


def setting(
    quantity: str, where: str, *, truth: Callable[[], Any] | None = None, seeds: int = 200, few: int = 80
) -> Callable[[Callable[[int], Estimates]], Callable[[int], Estimates]]:
    """Register a function of the seed."""

    def register(run: Callable[[int], Estimates]) -> Callable[[int], Estimates]:
        SETTINGS.append(Setting(quantity, where, run, truth, seeds, few))
        return run

    return register


def runs_of(setting: Setting, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and errors, ``[seeds, numbers]`` each; predictions sample few units, which takes less time."""
    with mock.patch("initscope.propagate.draws._MOST", 1 << 10):
        estimates, errors = zip(*(setting.run(seed) for seed in range(seeds)), strict=True)
    return tuple(np.stack([np.ravel(values).astype(float) for values in side]) for side in (estimates, errors))


def spread_of(estimates: np.ndarray, errors: np.ndarray, truth: Any = None, resamples: int = 200) -> Spread:
    """Compare errors with deviations from the truth, or from the mean over seeds.

    Errors are root mean squares: a standard error is right if its square is the variance on average. A mean of
    (deviation/error)² would ask for more: from four replicates it is 3, by Student's law. The variances of all numbers
    of a setting weigh the same. The standard error is that of a bootstrap over seeds.
    """
    seeds = len(estimates)

    def ratio(chosen: np.ndarray) -> float:
        values, stated = estimates[chosen], errors[chosen]
        center, count = (values.mean(axis=0), seeds - 1) if truth is None else (np.ravel(truth), seeds)
        variances = ((values - center) ** 2).sum(axis=0) / count
        return float(np.sqrt(np.mean(variances / (stated**2).mean(axis=0))))

    rng = np.random.default_rng(0)
    again = [ratio(rng.integers(seeds, size=seeds)) for _ in range(resamples)]
    center = estimates.mean(axis=0) if truth is None else np.ravel(truth)
    within = float(np.mean(np.abs(estimates - center) < errors))
    return Spread(ratio(np.arange(seeds)), float(np.std(again)), within)


def near_pairs(*shape: int, count: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of cosine .6 or so."""
    x, noise = torch.randn(2, count, *shape, generator=torch.Generator().manual_seed(0))
    return x, 0.6 * x + 0.8 * noise


def built(factory: Callable[[], nn.Module]) -> nn.Module:
    """The model with one choice of its parameters, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return factory()


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


def narrow_stack() -> nn.Module:
    """Two dense ReLU layers."""
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())


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


@cache
def cloud(points: int = 60, size: int = 10) -> torch.Tensor:
    """Points of unequal variances."""
    rng = torch.Generator().manual_seed(0)
    return torch.randn(points, size, generator=rng, dtype=torch.float64) * torch.linspace(0.2, 3, size)


def widths_of(found: Any) -> tuple[float, float, float]:
    """Width, dimension and gain."""
    return found.value, found.intrinsic_dimension, found.doubling_gain


@cache
def width_truth() -> Any:
    """By 10⁵ directions."""
    return widths_of(initscope.mean_width(cloud(), draws=100_000, seed=10**6))


@setting(
    "mean_width: standard_error, intrinsic_dimension_error, doubling_gain_error",
    "60 points, 128 directions",
    truth=width_truth,
    seeds=400,
)
def _mean_width(seed: int) -> Estimates:
    found = initscope.mean_width(cloud(), seed=seed)
    return widths_of(found), (found.standard_error, found.intrinsic_dimension_error, found.doubling_gain_error)


@setting("observe: mean_width_error", "40 units (directions) and 400 units (choices of units)", seeds=400)
def _observed_width(seed: int) -> Estimates:
    rows = [
        observe(nn.Sequential(nn.Identity()), cloud(60, size), pairs=2, gradients=False, seed=seed)
        for size in (40, 400)
    ]
    return [row.mean_width[1] for row in rows], [row.mean_width_error[1] for row in rows]


@setting("jacobian_spectrum: mean_square_error", "12 inputs, 32 probes", truth=lambda: spectrum_truth(), seeds=400)
def _jacobian(seed: int) -> Estimates:
    found = jacobian_spectrum(built(narrow_stack), near_pairs(12, count=1)[0], samples=1, whole=False, seed=seed)
    return found.mean_square, found.mean_square_error


@cache
def spectrum_truth() -> Any:
    """From the whole Jacobian."""
    return jacobian_spectrum(built(narrow_stack), near_pairs(12, count=1)[0], samples=1).mean_square


@cache
def classes(samples: int = 400, classes: int = 4) -> tuple[torch.Tensor, np.ndarray]:
    """Points around class means."""
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % classes
    means = torch.randn(classes, 12, generator=rng)
    return means[labels] + torch.randn(samples, 12, generator=rng), labels.numpy()


@setting("separation: 95 % intervals of medians / 3.92", "400 anchors, distances and angles", seeds=400)
def _separation(seed: int) -> Estimates:
    [*_, row] = separation(built(narrow_stack), *classes(), anchors=400, boundary=False, seed=seed).rows
    intervals = [row.intra_random, row.inter_random, row.angle_random, row.angle_predicted]
    return [one.median for one in intervals], [(one.high - one.low) / 3.92 for one in intervals]


@cache
def searcher() -> tuple[Any, Any]:
    """Vectors to search, and the recall over 4,000 queries."""
    rng = np.random.default_rng(0)
    found = Searcher(bits=64, rerank=30).fit(rng.standard_normal((500, 16)))
    return found, found.recall(rng.standard_normal((4000, 16)), k=5).share


@setting("Searcher.recall: standard_error", "100 queries", truth=lambda: searcher()[1], seeds=800)
def _recall(seed: int) -> Estimates:
    found = searcher()[0].recall(np.random.default_rng(seed + 1).standard_normal((100, 16)), k=5)
    return found.share, found.standard_error


@cache
def own_recall_truth() -> float:
    """Over all vectors held."""
    return searcher()[0].recall(k=5, sample=500).share


@setting("Searcher.recall: standard_error", "200 of the 500 vectors held", truth=own_recall_truth, seeds=800)
def _own_recall(seed: int) -> Estimates:
    found = searcher()[0].recall(k=5, sample=200, seed=seed)
    return found.share, found.standard_error


@setting("invert.error_rate: standard_error", "dimensions 2 and 8, 64 and 256 outputs, 40 draws")
def _rates(seed: int) -> Estimates:
    points = error_rate((2, 8), (64, 256), inputs=8, seed=seed).points
    return [point.error for point in points], [point.standard_error for point in points]


@setting("invert.error_growth: plain_standard_error", "3 layers of 60, dimension 3, 20 draws")
def _growth(seed: int) -> Estimates:
    points = error_growth(3, width=60, dimension=3, seed=seed).points
    return [point.plain for point in points], [point.plain_standard_error for point in points]


def scaled_stack(width: int) -> nn.Module:
    """Two dense layers."""
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))


@setting("coordinates: errors of exponents", "widths 16, 32, 64, 128, 2 draws, 0 and 2 steps", few=50)
def _coordinates(seed: int) -> Estimates:
    x = near_pairs(8, count=16)[0]
    rows = coordinates(scaled_stack, x, widths=(16, 32, 64, 128), steps=2, seed=1000 * seed).rows[1:]
    ends = [(row.measured[place], row.errors[place]) for row in rows for place in (0, -1)]
    return tuple(zip(*ends, strict=True))


GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50, "initializer_range": 0.2}


@setting("outlook: token_cosine_se, cosine_se", "two blocks of a GPT-2, two halves of 16 heads", seeds=400, few=60)
def _outlook(seed: int) -> Estimates:
    row = outlook(read(GPT2 | {"activation_function": "relu"}), 6, seed=seed).rows[-1]
    return (row.token_cosine, row.cosine), (row.token_cosine_se, row.cosine_se)


@setting("channel_statistics, data_flatness: standard errors", "40 images of three channels", seeds=400)
def _images(seed: int) -> Estimates:
    rng = np.random.default_rng(seed)
    colors = np.array([1.0, 0.8, 0.6]).reshape(3, 1, 1)
    images = colors * (0.3 + rng.random((40, 3, 1, 1))) * rng.random((40, 3, 6, 6))
    rows = [*channel_statistics(images).table(), *data_flatness(images, kernel_size=3).table()]
    rows = [row for row in rows if row["standard_error"] is not None]
    return [row["value"] for row in rows], [row["standard_error"] for row in rows]


@setting(
    "injectivity.probability: error",
    "m = 8, n = 2, 200 layers",
    truth=lambda: probability(8, 2).value,
    seeds=800,
)
def _probability(seed: int) -> Estimates:
    found = simulate_probability(8, 2, samples=200, seed=seed)
    return found.value, found.error
