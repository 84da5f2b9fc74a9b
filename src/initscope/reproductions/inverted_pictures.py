"""Inversion of a CNN: photographs recovered from the outputs of deeper and deeper layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from initscope import data
from initscope.data.locations import find
from initscope.errors import InputError
from initscope.initializers import he_
from initscope.invert.images import Inversions, invert_layers
from initscope.models import load_model
from initscope.reproductions.protocol import Declared, Number

__all__ = ["REPRODUCTIONS", "run"]

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet colors, by which networks for ImageNet normalize their inputs."""


def run(
    images: Any = None,
    *,
    spec: str = "imagenet-sample:resolution=128",
    limit: int = 2,
    network: str = "initscope.class_geometry:vgg16",
    weights: str | None = "vgg16_imagenet_convs.npz",
    layers: Sequence[str] = ("relu2", "relu4", "relu7", "relu10", "relu13"),
    iterations: int = 100,
    seed: int = 0,
) -> Inversions:
    """Invert layers; ``weights`` is a file in a folder of INITSCOPE_DATA, or None for He's initialization."""
    loaded = data.load(spec, limit=limit) if images is None else images
    originals = np.asarray(getattr(loaded, "images", loaded), dtype=np.float32)
    if originals.ndim != 4:
        raise InputError(f"images of shape {originals.shape} must be [N, C, H, W]")
    originals = originals[:limit]
    file = None if weights is None else find(weights)
    if weights is not None and file is None:
        raise InputError(f"{weights} is in no folder of INITSCOPE_DATA; set this variable, or pass weights=None")
    model = load_model(network, weights=file, input_shape=originals.shape[1:], seed=seed)
    if weights is None:
        import torch

        he_(model, generator=torch.Generator().manual_seed(seed))
    expected: dict[str, Any] = {} if weights is None else {"mean": _MEAN, "std": _STD}
    return invert_layers(model, originals, layers, smoothness=0.001, iterations=iterations, seed=seed, **expected)


def _numbers(result: Inversions) -> dict[str, Number]:
    return {f"{line['layer']}: dB": Number(line["psnr"], line["psnr_se"]) for line in result.means()}


def _holds(result: Inversions) -> bool:
    """Return whether the first layer, with more outputs than pixels, recovers the image better than the deepest."""
    lines = list(_numbers(result).values())
    return lines[0].value > 25 and lines[0].value > lines[-1].value


REPRODUCTIONS = (
    Declared(
        id="talk-inverted-cnn",
        source="Bronstein 2016, 'Inverting a CNN'",
        statement="The input can be recovered from the output if the dimension of the output is large enough.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={
            "spec": "photos:crop=32",
            "network": "conv3x3x24-relu-maxpool2*3",
            "weights": None,
            "layers": ("relu1", "maxpool1", "maxpool2", "maxpool3"),
            "iterations": 40,
        },
        data="images",
    ),
)
