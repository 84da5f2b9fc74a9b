"""Settings of `calibration`: errors from random directions, samples, classes, repetitions and fits."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch
from calibration import Estimates, Settings, built, narrow_stack, near_pairs
from torch import nn

import initscope
from initscope.class_geometry import accuracy_by_distance, collapse, neural_collapse, separation
from initscope.class_geometry.neural_collapse import nearest_class_mean, ridge_classifier
from initscope.data.overviews import intrinsic_dimension
from initscope.embed import Searcher
from initscope.inspection import alternatives, what_if
from initscope.invert import discriminate, discrimination, error_growth, error_rate
from initscope.invert.discrimination import accuracy
from initscope.invert.sparse import sparse_transition
from initscope.measurement import jacobian_spectrum, observe
from initscope.scaling import coordinate_check, coordinates, depth_check, depth_coordinates, outlook, read
from initscope.theory.images import channel_statistics, data_flatness
from initscope.theory.injectivity import probability, simulate_probability

SETTINGS = Settings()
setting = SETTINGS.add


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


def unpredicted(models: list[Any], names: list[Any], draws: int, seed: int) -> np.ndarray:
    """In place of predictions, which take longer than the measurements."""
    return np.full((draws, len(models), len(names)), np.nan)


@setting("coordinates: errors of exponents", "widths 16, 32, 64, 128, 2 draws, 0 and 2 steps", few=50)
def _coordinates(seed: int) -> Estimates:
    x = near_pairs(8, count=16)[0]
    with mock.patch.object(coordinate_check, "predicted_sizes", unpredicted):
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


class ResidualStack(nn.Module):
    """A sum of branches; the depth is their number."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 4)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.last(x)


@setting("depth_coordinates: errors of exponents", "2, 4 and 8 blocks, 2 draws, 0 and 2 steps", few=20)
def _depth_coordinates(seed: int) -> Estimates:
    x = near_pairs(8, count=16)[0]
    with mock.patch.object(depth_check, "predicted_sizes", unpredicted):
        rows = depth_coordinates(ResidualStack, x, width=24, depths=(2, 4, 8), steps=2, seed=1000 * seed).rows
    ends = [(row.measured[place], row.errors[place]) for row in rows for place in (0, -1)]
    return tuple(zip(*ends, strict=True))


@setting("what_if: score_error", "10 alternatives for a dense network, 3 draws", few=25)
def _scores(seed: int) -> Estimates:
    """Every alternative is drawn again, not only those that seem best after one draw."""
    model = built(lambda: nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(12, 12), nn.ReLU()))))
    everything = mock.patch.object(alternatives, "_AGAIN", 99)
    nothing = mock.patch.object(alternatives, "size_variants", list)
    with everything, nothing, mock.patch.object(alternatives, "architecture_variants", return_value=[]):
        found = what_if(model, *near_pairs(12, count=4), draws=3, seed=1000 * seed).alternatives
    drawn = sorted((item for item in found if item.score_error is not None), key=lambda item: item.name)
    return [item.score for item in drawn], [item.score_error for item in drawn]


def blobs(seed: int, samples: int, side: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """New images of three classes around fixed ones."""
    means, rng = np.random.default_rng(0).random((3, side, side)), np.random.default_rng(seed)
    classes = rng.integers(3, size=samples)
    images = means[classes] + noise * rng.standard_normal((samples, side, side))
    return np.clip(images, 0, 1).astype(np.float32), classes


def none(count: int) -> Any:
    """The truth for differences."""
    return lambda: np.zeros(count)


SEPARATE = "400 samples, against the accuracy of the same classifiers on 20,000 others"


@setting("collapse: class_mean_accuracy_se, probe_accuracy_se", SEPARATE, truth=none(4), seeds=400)
def _collapse(seed: int) -> Estimates:
    images, classes = blobs(seed, 400, 3, 0.5)
    more, true = blobs(10**6 + seed, 20_000, 3, 0.5)
    model = built(lambda: nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.ReLU()))
    others = {9: more.reshape(len(more), 9), 6: model(torch.from_numpy(more)).detach().numpy()}
    accuracies = []

    def by_mean(rows: np.ndarray, labels: np.ndarray, tested: np.ndarray) -> np.ndarray:
        accuracies.append(np.mean(nearest_class_mean(rows, labels, others[rows.shape[1]]) == true))
        return nearest_class_mean(rows, labels, tested)

    def by_probe(rows: np.ndarray, labels: np.ndarray) -> Any:
        fitted = ridge_classifier(rows, labels)
        accuracies.append(np.mean(fitted.predict(others[rows.shape[1]]) == true))
        return fitted

    with (
        mock.patch.object(neural_collapse, "nearest_class_mean", by_mean),
        mock.patch.object(neural_collapse, "ridge_classifier", by_probe),
    ):
        rows = collapse(model, images[:, None], classes, layers=["2"], seed=seed).rows
    found = [value for row in rows for value in (row.class_mean_accuracy, row.probe_accuracy)]
    errors = [value for row in rows for value in (row.class_mean_accuracy_se, row.probe_accuracy_se)]
    return np.subtract(found, accuracies), errors


BOTH = "60 test images, against the accuracy of the same classifiers on 3,000 others"


@setting("discriminate: features_se, cnn_se", BOTH, truth=none(4), few=25)
def _discriminate(seed: int) -> Estimates:
    accuracies = []

    def of_few(right: np.ndarray) -> tuple[float, float]:
        accuracies.append(right[60:].mean())
        return accuracy(right[:60])

    options = {"measurements": ("gaussian",), "reconstruct": 1, "features": 50, "epochs": 3, "test_share": 0.9}
    with mock.patch.object(discrimination, "accuracy", of_few):
        found = discriminate(*blobs(seed, 3400, 8, 0.8), (4,), **options, seed=seed)
    (row,) = found.rows
    shares = (found.full, found.full_cnn, row.features, row.cnn)
    return np.subtract(shares, accuracies), (found.full_se, found.full_cnn_se, row.features_se, row.cnn_se)


@setting("accuracy_by_distance: standard_error", "10 groups of 40 samples", seeds=400)
def _by_distance(seed: int) -> Estimates:
    rng = np.random.default_rng(seed)
    distance = rng.random(400)
    found = accuracy_by_distance(distance, {"a": rng.random(400) < 0.4 + 0.5 * distance})
    return found.accuracy["a"], found.standard_error["a"]


@setting("intrinsic_dimension: standard error", "200 Gaussian points in 2, 5 and 10 dimensions", seeds=400)
def _dimension(seed: int) -> Estimates:
    rng = np.random.default_rng(seed)
    clouds = [torch.from_numpy(rng.standard_normal((200, size))) for size in (2, 5, 10)]
    exact = "donot_use_mm_for_euclid_dist"
    return tuple(zip(*(intrinsic_dimension(torch.cdist(x, x, compute_mode=exact).numpy()) for x in clouds)))


@setting("sparse_transition: standard_error", "40 unknowns, 10 problems at each of 7 sparsities", few=40)
def _transition(seed: int) -> Estimates:
    found = sparse_transition((0.3, 0.6), inputs=40, trials=10, method="matching pursuit", seed=seed).thresholds()
    return [row["half"] for row in found], [row["standard_error"] for row in found]


@setting("channel_statistics: of mean norms", "40 images whose channels differ by 0 to 5 standard errors", seeds=800)
def _mean_norms(seed: int) -> Estimates:
    """Colors with equal mean norms, where a difference cannot be negative, and others."""
    rng = np.random.default_rng(seed)
    of_images = 1 + 0.1 * rng.standard_normal((40, 1)) + 0.1 * rng.standard_normal((40, 3))
    shifts = 0.1 / np.sqrt(40) * np.outer([0, 1, 2, 3, 5], [1, 0, -0.5])
    found = [channel_statistics((of_images + shift)[:, :, None, None]) for shift in shifts]
    name = "of mean norms"
    return tuple(zip(*((one.norm_difference[name], one.norm_difference_standard_error[name]) for one in found)))
