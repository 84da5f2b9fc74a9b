"""Angle ratios in a trained network: their distribution at a middle layer and at a late layer.

The network is VGG-16, trained on ImageNet, on photographs. It is compared with He weights and with the prediction of
the talk. The small scale trains eight dense layers on digits instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from initscope.class_geometry import AngleDistortion, angle_distortion, train
from initscope.data import load
from initscope.data.locations import find, missing
from initscope.initializers import he_
from initscope.models import load_model
from initscope.reproductions._figures import Rows, panels
from initscope.reproductions.protocol import Declared, Number
from initscope.reproductions.trained_networks import split_sets
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "DistortionRow", "InsideTrained", "run"]

_VGG, _WEIGHTS = "initscope.class_geometry:vgg16", "vgg16_imagenet_convs.npz"
_DENSE = "dense256-relu*8-dense10"


@dataclass(frozen=True)
class DistortionRow(Result):
    """Median of the angle ratios with its 95 % interval, and its prediction for dense ReLU layers of equal depth."""

    network: str
    layer: str
    median: float
    low: float
    high: float
    predicted: float


@dataclass(frozen=True)
class InsideTrained(Rows):
    """Angle ratios of both networks at some layers; ``distortions`` has all layers and the single ratios."""

    rows: tuple[DistortionRow, ...]
    layers: tuple[str, ...]
    distortions: dict[str, AngleDistortion] = field(repr=False, compare=False)

    def figure(self) -> Figure:
        """Return histograms, one panel per layer."""
        return panels(*(partial(self._histogram, layer) for layer in self.layers))

    def _histogram(self, layer: str, ax: Axes) -> None:
        first = next(iter(self.distortions.values()))
        index = [row.layer for row in first.rows].index(layer)
        bins = [number / 40 for number in range(61)]
        for name, distortion in self.distortions.items():
            ax.hist(distortion.ratios[index], bins=bins, density=True, histtype="step", label=name)
        ax.hist(first.predicted[index], bins=bins, density=True, histtype="step", linestyle=":", label="predicted")
        ax.set(xlabel=f"angle after {layer} / angle before", ylabel="density")
        ax.legend(frameon=False)


def run(
    images: Any = None,
    *,
    spec: str = "imagenet-sample:resolution=128",
    layers: Sequence[str] = ("relu8", "relu13"),
    pairs: int = 300,
    seed: int = 0,
) -> InsideTrained:
    """Compute angle ratios of random pairs in VGG-16, or in a dense network with ``spec="digits"``."""
    networks = _trained_on_digits(seed) if spec == "digits" else _vgg(seed)
    if images is None:
        images = split_sets("digits")[1] if spec == "digits" else load(spec, normalize="imagenet")
    distortions = {name: angle_distortion(model, images, pairs=pairs, seed=seed) for name, model in networks.items()}
    rows = [
        DistortionRow(name, row.layer, row.measured.median, row.measured.low, row.measured.high, row.predicted.median)
        for name, distortion in distortions.items()
        for row in distortion.rows
        if row.layer in layers
    ]
    return InsideTrained(tuple(rows), tuple(layers), distortions)


def _vgg(seed: int) -> dict[str, nn.Module]:
    weights = find(_WEIGHTS)
    if weights is None:
        raise missing(
            _WEIGHTS,
            ("put a file of that name, arrays conv1.weight, conv1.bias, …, into a folder of INITSCOPE_DATA",
             "save the convolutions of torchvision's vgg16 in this form", "call angle_distortion with another network"),
        )  # fmt: skip
    return {"He weights": _he(_VGG, None, seed), "trained": load_model(_VGG, weights=weights)}


def _trained_on_digits(seed: int) -> dict[str, nn.Module]:
    random, trained = (_he(_DENSE, (1, 8, 8), seed) for _ in range(2))
    training, test = split_sets("digits")
    train(trained, training, test=test, epochs=4, batch=64, optimizer="adam", learning_rate=2e-3, seed=seed)
    return {"He weights": random, "trained": trained}


def _he(architecture: str, shape: tuple[int, ...] | None, seed: int) -> nn.Module:
    model: nn.Module = load_model(architecture, input_shape=shape)
    return he_(model, generator=torch.Generator().manual_seed(seed))


def _follows(result: InsideTrained) -> bool:
    """Return whether random weights are within 0.15 of the prediction, and trained weights above random ones."""
    random, trained = ([row for row in result.rows if row.network == name] for name in result.distortions)
    near = all(abs(row.median - row.predicted) < 0.15 for row in random)
    return near and all(after.low > before.high for before, after in zip(random, trained))


REPRODUCTIONS = (
    Declared(
        id="talk-inside-a-network",
        source="Bronstein 2016, 'Inside a real network', 'Angle distortion at 8-th layer', 'at 16-th layer'",
        statement="Angle ratios of random pairs in a deep network trained on ImageNet; the talk shows histograms at "
        "layers 8 and 16. Here it is VGG-16 at its 8th and 13th (last) convolutional layer. Random weights follow the "
        "theorem; trained weights preserve angles.",
        produce=run,
        numbers=lambda result: {
            f"{row.network}, {row.layer}": Number(row.median, (row.high - row.low) / 3.92) for row in result.rows
        },
        holds=_follows,
        small={"spec": "digits", "layers": ("relu4", "relu8"), "pairs": 300},
        data="images",
    ),
)
