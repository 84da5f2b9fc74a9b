"""Inverting a CNN: photographs back from the outputs of deeper and deeper layers, in a row."""

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
"""Of the colours of ImageNet, which its networks expect to be taken out."""


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
    """Invert the layers; without ``weights``, a file in a folder of INITSCOPE_DATA, those of He."""
    loaded = data.load_any(spec, limit=limit) if images is None else images
    pictures = np.asarray(getattr(loaded, "images", loaded), dtype=np.float32)
    if pictures.ndim != 4:
        raise InputError(f"images of shape {pictures.shape} must be [N, C, H, W]")
    pictures = pictures[:limit]
    file = None if weights is None else find(weights)
    if weights is not None and file is None:
        raise InputError(f"{weights} is in no folder of INITSCOPE_DATA; set it, or take weights=None")
    model = load_model(network, weights=file, input_shape=pictures.shape[1:], seed=seed)
    if weights is None:
        import torch

        he_(model, generator=torch.Generator().manual_seed(seed))
    expected: dict[str, Any] = {} if weights is None else {"mean": _MEAN, "std": _STD}
    return invert_layers(model, pictures, layers, smoothness=0.001, iterations=iterations, seed=seed, **expected)


def _numbers(found: Inversions) -> dict[str, Number]:
    return {f"{line['layer']}: dB": Number(line["psnr"], line["psnr_se"]) for line in found.means()}


def _holds(found: Inversions) -> bool:
    """A layer with more outputs than pixels gives the photograph back; the deepest gives less than the first."""
    lines = list(_numbers(found).values())
    return lines[0].value > 25 and lines[0].value > lines[-1].value


REPRODUCTIONS = (
    Declared(
        id="talk-inverted-cnn",
        source="Bronstein 2016, 'Inverting a CNN'",
        statement="The input can be recovered from the output if the output's dimension is big enough.",
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
