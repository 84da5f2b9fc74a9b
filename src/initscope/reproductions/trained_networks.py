"""Networks of the reproductions about training: with random weights, and at several test errors during training.

On digits they are trained in a second. On CIFAR-10 `make_checkpoints` trains them once, in about 15 minutes on one
core, and writes a folder for `networks_at_errors`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from initscope.class_geometry import SMALL_CNN, Training, train
from initscope.class_geometry.neural_collapse import layer_rows
from initscope.class_geometry.outputs import layers_of
from initscope.data import ImageSet, load
from initscope.data.locations import find
from initscope.errors import InputError
from initscope.models import load_model

__all__ = ["guessed_classes", "make_checkpoints", "networks_at_errors", "split_sets", "study_setting"]

CHECKPOINTS = "checkpoints-cifar10"
_TARGETS = (0.25, 0.21, 0.18)
_CIFAR_TRAINING: dict[str, Any] = {
    "stop_at_errors": _TARGETS, "batch": 256, "learning_rate": 0.2, "label_smoothing": 0.1, "flip": True,
    "shift": 3, "evaluations": 5,
}  # fmt: skip
_DIGITS_CNN = "conv3x3x16:zeros-maxpool2-bn-relu-conv3x3x32:zeros-bn-relu-flatten-dense10"
_STUDY_CNN = (
    "conv3x3x32:zeros-maxpool2-bn-relu-conv3x3x64:zeros-maxpool2-bn-relu-conv3x3x128:zeros-bn-relu-flatten-dense10"
)
_DIGITS_TRAINING: dict[str, Any] = {"stop_at_errors": (0.15, 0.08, 0.04), "batch": 64, "epochs": 6, "evaluations": 4}


def split_sets(spec: str) -> tuple[ImageSet, ImageSet]:
    """Return training and test images of ``"cifar10"`` or ``"digits"`` (1,200 and 597)."""
    if spec == "digits":
        digits = load("digits")
        return digits[:1200], digits[1200:]
    train_set, test_set = (load(f"{spec}:split={split}", normalize="imagenet") for split in ("train", "test"))
    return train_set, test_set


def make_checkpoints(folder: str | os.PathLike[str], *, progress: bool = True) -> Training:
    """Train `SMALL_CNN` on CIFAR-10 to 25, 21 and 18 % test error; an interrupted call can be continued."""
    train_set, test_set = split_sets("cifar10")
    model = load_model(SMALL_CNN, input_shape=(3, 32, 32), seed=0)
    return train(model, train_set, test=test_set, out=folder, progress=progress, **_CIFAR_TRAINING)


def networks_at_errors(spec: str, checkpoints: str = CHECKPOINTS) -> dict[str, nn.Module]:
    """Return the network ``"random weights"`` and three trained networks, named by their test errors.

    ``checkpoints`` is a folder written by `make_checkpoints`, or its name in a folder of ``INITSCOPE_DATA``; digits do
    not need it.
    """
    train_set, test_set = split_sets(spec)
    if spec == "digits":
        with TemporaryDirectory() as folder:
            model = load_model(_DIGITS_CNN, input_shape=test_set.shape, seed=0)
            train(model, train_set, test=test_set, out=folder, **_DIGITS_TRAINING)
            return _loaded(_DIGITS_CNN, Path(folder), _DIGITS_TRAINING["stop_at_errors"], test_set)
    location = Path(checkpoints) if Path(checkpoints).is_dir() else find(checkpoints)
    if location is None:
        raise InputError(
            f"the checkpoints {checkpoints!r} were not found in the current folder or "
            "in a folder of INITSCOPE_DATA; create them with "
            f"initscope.reproductions.trained_networks.make_checkpoints({checkpoints!r})"
        )
    return _loaded(SMALL_CNN, location, _TARGETS, test_set)


def _loaded(architecture: str, folder: Path, targets: tuple[float, ...], test_set: ImageSet) -> dict[str, nn.Module]:
    networks = {"random weights": load_model(architecture, input_shape=test_set.shape, seed=0)}
    for target in targets:
        weights = folder / f"error-{100 * target:g}.pt"
        model = load_model(architecture, weights=weights, input_shape=test_set.shape)
        error = float((guessed_classes(model, test_set) != test_set.labels).mean())
        networks[f"{error:.1%} error"] = model
    return networks


def guessed_classes(model: nn.Module, images: ImageSet) -> np.ndarray:
    """Return the index of the largest output for every image."""
    values = torch.from_numpy(images.images)
    last = layers_of(model, values)[-1:]
    return np.asarray(layer_rows(model, values, last)[last[0].name].argmax(axis=1))


def study_setting(spec: str, images: int, tested: int) -> dict[str, Any]:
    """Return common options of studies with many trainings: small images, a small network, augmentation, batches.

    Training and test images are evenly spaced over their sets; those of CIFAR-10 are averaged to 16×16 pixels.
    """
    train_set, test_set = (image_set.spread(count) for image_set, count in zip(split_sets(spec), (images, tested)))
    if spec != "digits":
        train_set, test_set = (_halved(image_set) for image_set in (train_set, test_set))
    network = _DIGITS_CNN if spec == "digits" else _STUDY_CNN
    return {
        "build": lambda seed: load_model(network, input_shape=test_set.shape, seed=seed),
        "images": train_set, "test": test_set, "batch": 128, "flip": spec != "digits", "shift": 1,
    }  # fmt: skip


def _halved(images: ImageSet) -> ImageSet:
    """Return the means of 2×2 pixels."""
    count, channels, height, width = images.images.shape
    blocks = images.images.reshape(count, channels, height // 2, 2, width // 2, 2)
    return replace(images, images=blocks.mean(axis=(3, 5)))
