"""The talk's table of image retrieval with hashes: mAP of nine methods at 12, 24 and 48 bits on CIFAR-10 as GIST.

Ties are averaged exactly, with the best and worst order beside; several splits; a network on the pixels as what one
would do today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from initscope import data, embed
from initscope._results import Result
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["METHODS", "PUBLISHED", "HashingRow", "HashingTable", "SmallCNN", "run", "split_rows"]

PUBLISHED: dict[str, dict[int, float]] = {
    "raw": {0: 19.16},
    "DiffHash": {12: 14.72, 24: 13.35, 48: 12.85},
    "SSH": {12: 15.42, 24: 16.75, 48: 17.06},
    "AGH": {12: 15.46, 24: 15.29, 48: 15.15},
    "KSH": {12: 25.79, 24: 29.01, 48: 30.84},
    "NN-1": {12: 31.48, 24: 35.41, 48: 36.79},
    "NN-2": {12: 45.42, 24: 49.88, 48: 50.46},
}
"""mAP in per cent as printed in the talk; Raw has no bits."""

METHODS: dict[str, Callable[[int, int], Any]] = {
    "random": lambda bits, seed: embed.SignHash(bits, center=True, random_state=seed),
    "ITQ": lambda bits, seed: embed.ITQ(bits, random_state=seed),
    "DiffHash": lambda bits, seed: embed.DiffHash(bits),
    "SSH": lambda bits, seed: embed.SSH(bits, random_state=seed),
    "AGH": lambda bits, seed: embed.AGH(bits, layers=1, random_state=seed),
    "KSH": lambda bits, seed: embed.KSH(bits, random_state=seed),
    "NN-1": lambda bits, seed: embed.LearnedHash(bits, layers=1, random_state=seed),
    "NN-2": lambda bits, seed: embed.LearnedHash(bits, layers=2, random_state=seed),
}


@dataclass(frozen=True)
class HashingRow(Result):
    """One method at one length: mAP in per cent, mean over splits."""

    method: str
    bits: int
    published: float | None
    value: float
    standard_error: float | None
    worst: float
    best: float
    splits: int


@dataclass(frozen=True)
class HashingTable(Result):
    """All rows, and how the data were split."""

    items: int
    queries: int
    training: int
    rows: tuple[HashingRow, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per method and length."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """mAP against bits: ours (with the range that ties allow) and the talk's, dashed."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 5), layout="constrained").add_subplot()
        for index, method in enumerate(dict.fromkeys(row.method for row in self.rows)):
            rows = [row for row in self.rows if row.method == method]
            colour = f"C{index % 10}"
            if rows[0].bits == 0:
                ax.axhline(rows[0].value, color=colour, linewidth=1, label=method)
                continue
            bits = [row.bits for row in rows]
            ax.plot(bits, [row.value for row in rows], "o-", color=colour, label=method)
            ax.fill_between(bits, [row.worst for row in rows], [row.best for row in rows], color=colour, alpha=0.1)
            talk = [(row.bits, row.published) for row in rows if row.published is not None]
            if talk:
                ax.plot(*zip(*talk), "x--", color=colour, linewidth=1)
        ax.set(
            xlabel="bits", ylabel="mAP (%)", title="Retrieval on CIFAR-10 (o ours, x the talk; shaded: order of ties)"
        )
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
        return ax


def run(
    descriptors: data.ImageSet | None = None,
    *,
    methods: Sequence[str] = ("raw", *METHODS),
    bits: Sequence[int] = (12, 24, 48),
    splits: int = 3,
    queries: int = 1000,
    per_class: int | None = 200,
    cnn_steps: int = 1000,
    seed: int = 0,
) -> HashingTable:
    """Hash, rank and score.

    Parameters
    ----------
    descriptors
        Rows with labels; by default ``cifar10-gist``. For the method ``"CNN"`` give images (``[N, C, H, W]``).
    methods
        Of `METHODS`, ``"raw"`` (cosine of the centred rows) and ``"CNN"`` (`LearnedHash` with a `SmallCNN`).
    bits, splits, queries
        Lengths of the codes; number of random splits; queries of each, ranked against all other rows.
    per_class
        Labelled rows of each class to learn from, out of those ranked; None for all of them.
    cnn_steps
        Training steps of the CNN, of 100 images each.
    seed
        Split s uses ``seed + s``.
    """
    descriptors = data.load("cifar10-gist") if descriptors is None else descriptors
    if descriptors.labels is None:
        raise InputError(f"{descriptors.name} has no labels; mAP needs one per row")
    X = descriptors.images.reshape(len(descriptors), -1)
    labels, shape = descriptors.labels, descriptors.shape
    unknown = [method for method in methods if method not in (*METHODS, "raw", "CNN")]
    if unknown:
        raise InputError(f"method {unknown[0]!r} is unknown; there are raw, CNN, {', '.join(METHODS)}")
    rows, training = [], 0
    for method in methods:
        for length in (0,) if method == "raw" else bits:
            scores = []
            for number in range(check_count("splits", splits)):
                query, rest, train = split_rows(labels, queries=queries, per_class=per_class, seed=seed + number)
                training = len(train)
                if method == "raw":
                    distances = 1 - _cosines(X, query, rest, X[train].mean(axis=0))
                    score = embed.mean_average_precision(None, labels[query], None, labels[rest], distances=distances)
                else:
                    hasher = (
                        _cnn(length, shape, cnn_steps, seed + number)
                        if method == "CNN"
                        else METHODS[method](length, seed + number)
                    )
                    hasher.fit(X[train], labels[train])
                    codes = hasher.transform(X)
                    score = embed.mean_average_precision(codes[query], labels[query], codes[rest], labels[rest])
                scores.append(score)
            rows.append(_row(method, length, scores))
    return HashingTable(items=len(X) - queries, queries=queries, training=training, rows=tuple(rows))


def split_rows(
    labels: np.ndarray, *, queries: int, per_class: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row numbers of the queries, of the rows to rank (all others), and of the labelled ones among those."""
    order = np.random.default_rng(seed).permutation(len(labels))
    query, rest = order[:queries], order[queries:]
    if per_class is None:
        return query, rest, rest
    picked = [rest[labels[rest] == label][:per_class] for label in np.unique(labels)]
    return query, rest, np.concatenate(picked)


def _row(method: str, bits: int, scores: list[embed.MeanAveragePrecision]) -> HashingRow:
    values = 100 * np.array([[score.value, score.worst, score.best] for score in scores])
    return HashingRow(
        method=method,
        bits=bits,
        published=PUBLISHED.get(method, {}).get(bits),
        value=float(values[:, 0].mean()),
        standard_error=float(values[:, 0].std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None,
        worst=float(values[:, 1].mean()),
        best=float(values[:, 2].mean()),
        splits=len(scores),
    )


def _cosines(X: np.ndarray, query: np.ndarray, rest: np.ndarray, mean: np.ndarray) -> np.ndarray:
    centred = X - mean
    centred = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return np.asarray(centred[query] @ centred[rest].T)


def _cnn(bits: int, shape: tuple[int, ...], steps: int, seed: int) -> embed.LearnedHash:
    return embed.LearnedHash(
        bits,
        network=lambda length: SmallCNN(shape[0], length),
        image_shape=(shape[0], shape[1], shape[2]),
        steps=steps,
        batch=100,
        random_state=seed,
    )


class SmallCNN(torch.nn.Module):
    """Three 3×3 convolutions with batch norm and pooling, a global average, a linear layer; mirrored and shifted views
    of the images while training."""

    def __init__(self, channels: int, bits: int, width: int = 24) -> None:
        super().__init__()
        parts: list[torch.nn.Module] = []
        for out in (width, 2 * width, 4 * width):
            parts += [
                torch.nn.Conv2d(channels, out, 3, padding=1, bias=False),
                torch.nn.BatchNorm2d(out),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
            ]
            channels = out
        self.layers = torch.nn.Sequential(
            *parts, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, bits)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of the bits."""
        if self.training:
            mirrored = torch.rand(len(images), 1, 1, 1) < 0.5
            images = torch.where(mirrored, images.flip(3), images)
            down, right = (int(step) for step in torch.randint(-3, 4, (2,)))
            images = images.roll((down, right), dims=(2, 3))
        scores: torch.Tensor = self.layers(images)
        return scores
