"""Fewer measurements than pixels, three ways: dense Gaussian, convolution with ReLU, limited-angle tomography.

Each is an `Affine` map of a gray image with an optional activation, scaled to unit norm, so that one solver serves all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.libraries import library
from initscope._utils.randomness import torch_generator
from initscope.errors import InputError
from initscope.invert.constrained import fit
from initscope.invert.least_squares import largest_singular_value
from initscope.invert.nonlinearities import preimage
from initscope.invert.operators import Affine
from initscope.invert.priors import Box, Prior, TotalVariation, Wavelets

__all__ = ["MEASUREMENTS", "Sensing", "make_sensing"]


@dataclass(frozen=True, eq=False)
class Sensing:
    """A map from images ``[1, H, W]`` to measurements; ``angles`` are those of tomography with all its detectors."""

    name: str
    affine: Affine
    activation: nn.Module | None = None
    angles: tuple[float, ...] = ()

    @property
    def outputs(self) -> int:
        """Number of measurements of one image."""
        return math.prod(self.affine.output_shape)

    def measure(self, images: Tensor) -> Tensor:
        """Return measurements of a batch ``[N, 1, H, W]``, flat."""
        with torch.no_grad():
            values = images
            for part in self.affine.parts:
                values = part(values)
            if self.activation is not None:
                values = self.activation(values)
        return values.reshape(len(images), -1)

    def back_projected(self, measured: Tensor) -> Tensor:
        """Return the adjoint applied to a batch of measurements: an image of each, ``[N, 1, H, W]``."""
        adjoints: list[Tensor] = []
        for shaped in torch.split(measured.reshape(len(measured), *self.affine.output_shape), 1000):
            with torch.enable_grad():
                source = torch.zeros(len(shaped), *self.affine.input_shape, requires_grad=True)
                image = source
                for part in self.affine.parts:
                    image = part(image)
            adjoints.extend(torch.autograd.grad(image, source, shaped))
        return torch.cat(adjoints)

    def reconstructions(self, measured: Tensor) -> dict[str, np.ndarray]:
        """Return one image by every solver that suits the measurement."""
        side = self.affine.input_shape[-1]
        shaped = measured.reshape(self.affine.output_shape)
        known = preimage(self.activation, shaped)
        start = self.affine.adjoint(shaped)
        solvers: dict[str, Prior] = {
            "total variation": TotalVariation(0.002),
            "wavelets": Wavelets(max(4, self.outputs // 3), "haar"),
        }
        images = {
            name: fit(self.affine, known, start, (prior, Box(0.0, 1.0)), iterations=150)[0].numpy()
            for name, prior in solvers.items()
        }
        if self.angles:
            backwards = library("skimage.transform").iradon
            sinogram = measured.reshape(len(self.angles), -1).double().numpy().T * self._scale
            image = backwards(sinogram, theta=np.array(self.angles), output_size=side, circle=False)
            images["filtered back projection"] = np.clip(image, 0, 1)[None]
        return images

    @property
    def _scale(self) -> float:
        linear = next(part for part in self.affine.parts if isinstance(part, nn.Linear))
        return float(linear.get_buffer("scale"))


def make_sensing(name: str, side: int, outputs: int, *, arc: float, seed: int) -> Sensing:
    """Return the measurement ``name`` with about this number of outputs for images of side × side pixels."""
    if name not in MEASUREMENTS:
        raise InputError(f"measurement {name!r} is not known; choose from {', '.join(MEASUREMENTS)}")
    rng = torch_generator(seed, "measurements")
    return MEASUREMENTS[name](side, outputs, arc, rng)


def _unit_norm(parts: list[Any], weights: nn.Module, side: int) -> Affine:
    """Return the map with its weights divided by its norm, which is stored in the buffer ``scale``."""
    weights.requires_grad_(False)
    norm = largest_singular_value(Affine(parts, (1, side, side), torch.float32))
    weights.get_parameter("weight").div_(norm)
    weights.register_buffer("scale", torch.tensor(norm))
    return Affine(parts, (1, side, side), torch.float32)


def _gaussian(side: int, outputs: int, arc: float, rng: torch.Generator) -> Sensing:
    linear = nn.Linear(side * side, outputs, bias=False)
    with torch.no_grad():
        linear.weight.normal_(generator=rng)
    return Sensing("gaussian", _unit_norm([nn.Flatten(), linear], linear, side))


def _convolution(side: int, outputs: int, arc: float, rng: torch.Generator) -> Sensing:
    """Return strided filters, at least four if the budget allows, each twice as wide as the stride."""
    choices = [(stride, outputs // (-(-side // stride)) ** 2) for stride in range(1, side + 1)]
    stride, filters = next((choice for choice in choices if choice[1] >= 4), choices[-1])
    conv = nn.Conv2d(1, max(1, filters), 2 * stride - 1, stride, padding=stride - 1, bias=False)
    with torch.no_grad():
        conv.weight.normal_(generator=rng)
    return Sensing("convolution", _unit_norm([conv], conv, side), nn.ReLU())


def _tomography(side: int, outputs: int, arc: float, rng: torch.Generator) -> Sensing:
    """Return projections along angles of ``arc`` degrees, at least four; detectors are merged to fit the budget."""
    detectors = _detectors(side)
    count = max(outputs // detectors, min(4, -(-outputs // 4)))
    angles = np.linspace(0, arc, count, endpoint=False)
    bins = min(detectors, outputs // count)
    edges = np.arange(bins) * detectors // bins
    rows = np.add.reduceat(_projections(side, angles), edges, axis=1).reshape(-1, side * side)
    linear = nn.Linear(side * side, len(rows), bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(rows))
    affine = _unit_norm([nn.Flatten(), linear], linear, side)
    return Sensing("tomography", affine, None, tuple(angles.tolist()) if bins == detectors else ())


def _detectors(side: int) -> int:
    """Return detectors that cover the whole image from every angle."""
    return side + math.ceil((math.sqrt(2) - 1) * side)


def _projections(side: int, angles: np.ndarray) -> np.ndarray:
    """Return the Radon transform of `skimage.transform.radon`, unclipped, as ``[angles, detectors, pixels]``.

    Return rows in which every detector sums points one pixel apart along its ray; a point is the bilinear mean of the
    four nearest pixels.
    """
    width = _detectors(side)
    before, center = width // 2 - side // 2, width // 2
    along, detector = np.indices((width, width)) - center
    matrix = np.zeros((len(angles), width, side * side))
    for rows, angle in zip(matrix, np.deg2rad(angles), strict=True):
        x = np.cos(angle) * detector + np.sin(angle) * along + center - before
        y = np.cos(angle) * along - np.sin(angle) * detector + center - before
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
            weight = (1 - np.abs(x - column)) * (1 - np.abs(y - row))
            inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
            entry = (detector[inside] + center, row[inside] * side + column[inside])
            np.add.at(rows, entry, weight[inside])
    return matrix


MEASUREMENTS: dict[str, Callable[[int, int, float, torch.Generator], Sensing]] = {
    "gaussian": _gaussian,
    "convolution": _convolution,
    "tomography": _tomography,
}
