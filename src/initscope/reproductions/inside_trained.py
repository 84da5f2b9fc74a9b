"""Inside a real network: the distribution of angles after over angles before, at a middle and at a late layer.

VGG-16 trained on ImageNet on photographs, beside the same network with He weights and the talk's prediction; the small
scale trains eight dense layers on digits instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from initscope.class_geometry import AngleDistortion, angle_distortion, train
from initscope.data import load_any
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
    """Median of the angle ratios with its 95 % interval, and of the prediction for as many random dense ReLU layers."""

    network: str
    layer: str
    median: float
    low: float
    high: float
    predicted: float


@dataclass(frozen=True)
class InsideTrained(Rows):
    """Angle ratios of both networks at some layers; ``found`` has all layers and the single ratios."""

    rows: tuple[DistortionRow, ...]
    layers: tuple[str, ...]
    found: dict[str, AngleDistortion] = field(repr=False, compare=False)

    def figure(self) -> Figure:
        """Histograms at every layer, one panel each."""
        return panels(*(partial(self._histogram, layer) for layer in self.layers))

    def _histogram(self, layer: str, ax: Axes) -> None:
        first = next(iter(self.found.values()))
        place = [row.layer for row in first.rows].index(layer)
        bins = [number / 40 for number in range(61)]
        for name, each in self.found.items():
            ax.hist(each.ratios[place], bins=bins, density=True, histtype="step", label=name)
        ax.hist(first.predicted[place], bins=bins, density=True, histtype="step", linestyle=":", label="predicted")
        ax.set(xlabel=f"angle after {layer} / angle before", ylabel="density")
        ax.legend(frameon=False)


def run(
    images: Any = None,
    *,
    spec: str = "imagenet-sample:resolution=128",
    layers: Sequence[str] = ("relu8", "relu13"),
    pairs: int = 60,
    seed: int = 0,
) -> InsideTrained:
    """Random pairs of photographs through VGG-16, or with ``spec="digits"`` of digits through a dense network."""
    networks = _trained_on_digits(seed) if spec == "digits" else _vgg(seed)
    if images is None:
        images = split_sets("digits")[1] if spec == "digits" else load_any(spec, normalize="imagenet")
    found = {name: angle_distortion(model, images, pairs=pairs, seed=seed) for name, model in networks.items()}
    rows = [
        DistortionRow(name, row.layer, row.measured.median, row.measured.low, row.measured.high, row.predicted.median)
        for name, each in found.items()
        for row in each.rows
        if row.layer in layers
    ]
    return InsideTrained(tuple(rows), tuple(layers), found)


def _vgg(seed: int) -> dict[str, nn.Module]:
    weights = find(_WEIGHTS)
    if weights is None:
        raise missing(
            _WEIGHTS,
            ("put a file of that name, arrays conv1.weight, conv1.bias, …, into a folder of INITSCOPE_DATA",
             "save the convolutions of torchvision's vgg16 so", "use angle_distortion on a network of your own"),
        )  # fmt: skip
    return {"He weights": _he(_VGG, None, seed), "trained": load_model(_VGG, weights=weights)}


def _trained_on_digits(seed: int) -> dict[str, nn.Module]:
    start, end = (_he(_DENSE, (1, 8, 8), seed) for _ in range(2))
    training, test = split_sets("digits")
    train(end, training, test=test, epochs=4, batch=64, optimizer="adam", learning_rate=2e-3, seed=seed)
    return {"He weights": start, "trained": end}


def _he(architecture: str, shape: tuple[int, ...] | None, seed: int) -> nn.Module:
    model: nn.Module = load_model(architecture, input_shape=shape)
    return he_(model, generator=torch.Generator().manual_seed(seed))


def _follows(result: InsideTrained) -> bool:
    """Random weights lie within .15 of the prediction (layers have finite width), trained ones above random ones."""
    random, trained = ([row for row in result.rows if row.network == name] for name in result.found)
    near = all(abs(row.median - row.predicted) < 0.15 for row in random)
    return near and all(after.low > before.high for before, after in zip(random, trained))


REPRODUCTIONS = (
    Declared(
        id="talk-inside-a-network",
        source="Bronstein 2016, 'Inside a real network', 'Angle distortion at 8-th layer', 'at 16-th layer'",
        statement="Angles of random pairs after over before, in a deep network trained on ImageNet. The talk shows "
        "histograms. Shown: random weights follow the theorem, trained ones keep angles instead.",
        produce=run,
        numbers=lambda found: {
            f"{row.network}, {row.layer}": Number(row.median, (row.high - row.low) / 3.92) for row in found.rows
        },
        holds=_follows,
        small={"spec": "digits", "layers": ("relu4", "relu8"), "pairs": 300},
        data="images",
    ),
)
