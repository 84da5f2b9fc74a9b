"""`angle_distortion`: angles after over angles before, at any layer of any network, compared with theory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from initscope.class_geometry.outputs import layers_of, watch_layers
from initscope.class_geometry.triplets import to_anchor
from initscope.data import ImageSet, check_images, random_pairs
from initscope.results import Result, make_axes
from initscope.theory.separation import Interval, bootstrap_median, relu_angle_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AngleDistortion", "LayerDistortion", "angle_distortion", "vgg16"]


def vgg16() -> nn.Sequential:
    """The 13 convolutions of VGG-16 [Simonyan2015]_, with layers ``conv1``, ``relu1``, … and ``pool1`` to ``pool5``.

    Weights are initialized by PyTorch's defaults; load trained weights with `initscope.models.load_weights`, from a
    state dict or a .npz file with the names ``conv1.weight``, ``conv1.bias``, ….

    Returns
    -------
    torch.nn.Sequential
    """
    layers: dict[str, nn.Module] = {}
    number, channels = 0, 3
    for pool, (width, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for _ in range(count):
            number += 1
            layers[f"conv{number}"] = nn.Conv2d(channels, width, 3, padding=1)
            layers[f"relu{number}"] = nn.ReLU()
            channels = width
        layers[f"pool{pool}"] = nn.MaxPool2d(2)
    return nn.Sequential(OrderedDict(layers))


@dataclass(frozen=True)
class LayerDistortion(Result):
    """One layer: median of ∠(f(u), f(v))/∠(u, v) over the pairs, and the prediction for wide random ReLU layers."""

    layer: str
    kind: str
    depth: int
    measured: Interval
    predicted: Interval


@dataclass(frozen=True, repr=False)
class AngleDistortion(Result):
    """`LayerDistortion` by layer, and the ratios of all pairs ``[layers, pairs]``."""

    rows: tuple[LayerDistortion, ...]
    ratios: NDArray[np.float64] = field(compare=False)
    predicted: NDArray[np.float64] = field(compare=False)

    def __repr__(self) -> str:
        return f"AngleDistortion({len(self.rows)} layers, {self.ratios.shape[1]} pairs)"

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        return [
            {
                "layer": row.layer, "kind": row.kind, "depth": row.depth,
                "measured": row.measured.median, "measured_low": row.measured.low, "measured_high": row.measured.high,
                "predicted": row.predicted.median,
            }
            for row in self.rows
        ]  # fmt: skip

    def plot(self, ax: Axes | None = None, *, layer: str | None = None) -> Axes:
        """Plot a histogram of the ratios at one layer (default: the last), with the prediction."""
        ax = make_axes(ax)
        position = len(self.rows) - 1 if layer is None else [row.layer for row in self.rows].index(layer)
        both = np.concatenate([self.ratios[position], self.predicted[position]])
        bins = np.linspace(0, float(np.nanmax(both)), 51).tolist()
        ax.hist(self.ratios[position], bins=bins, density=True, histtype="step", label="measured")
        ax.hist(self.predicted[position], bins=bins, density=True, histtype="step", linestyle=":", label="predicted")
        ax.set(xlabel=f"angle after {self.rows[position].layer} / angle before", ylabel="density")
        ax.legend(frameon=False)
        return ax


def angle_distortion(
    model: nn.Module, images: Any, *, pairs: int = 500, layers: Collection[str] | None = None, seed: int = 0
) -> AngleDistortion:
    r"""Distribution of :math:`\angle(f(u), f(v))/\angle(u, v)` over random pairs of images, layer by layer.

    The prediction is that of [Bronstein2016]_: every activation is a wide dense ReLU layer with independent Gaussian
    weights (`initscope.theory.separation.relu_angle_ratio`). Convolutions share weights between positions and pooling
    averages, so it is only a reference for them; `initscope.predict` follows convolutions exactly.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode and is restored.
    images : ImageSet, array or tensor
    pairs : int
        Random pairs; no labels are needed.
    layers : names, optional
        By default every activation and the last layer.
    seed : int

    Returns
    -------
    AngleDistortion
        One row per layer, measured and predicted.

    Examples
    --------
    >>> from initscope.data import load
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3000, bias=False), nn.ReLU())
    >>> [row] = angle_distortion(model, load("digits"), pairs=100).rows
    >>> abs(row.measured.median - row.predicted.median) < 0.02
    True
    """
    values = check_images(images.images if isinstance(images, ImageSet) else images, name="images")
    rows = torch.as_tensor(values).float()
    index = torch.from_numpy(random_pairs(np.arange(len(rows))[:, None], pairs, seed).indices)
    before = to_anchor(rows.flatten(1)[index])[1][:, 0]
    watched = layers_of(model, rows, layers)
    angles = {layer.name: np.empty(len(index)) for layer in watched}

    def watch(name: str, first: int, values: Tensor) -> None:
        grouped = values.reshape(-1, 2, values.shape[1])
        angles[name][first // 2 : first // 2 + len(grouped)] = to_anchor(grouped)[1][:, 0]

    watch_layers(model, rows[index.reshape(-1)], watched, watch, group=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.stack([np.where(before > 0, angles[layer.name] / before, np.nan) for layer in watched])
    predicted = np.stack([np.asarray(relu_angle_ratio(before, layer.depth)) for layer in watched])
    medians = zip(watched, map(bootstrap_median, ratios), map(bootstrap_median, predicted))
    by_layer = tuple(LayerDistortion(layer.name, layer.kind, layer.depth, *both) for layer, *both in medians)
    return AngleDistortion(by_layer, ratios, predicted)
