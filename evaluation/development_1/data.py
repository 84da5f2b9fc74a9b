"""Data of the development sets: images, masks, text, tables and waves, all synthetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def fixed(*shape: int, seed: int = 7) -> torch.Tensor:
    """Return standard normal values that are the same in every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _smooth(noise: torch.Tensor, size: int) -> torch.Tensor:
    return F.interpolate(noise, size=(size, size), mode="bicubic")


def pictures(size: int = 32, channels: int = 3, classes: int = 10) -> Callable[..., Any]:
    """Smooth fields, each class around one of its own; mean 0, variance near 1."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        coarse = fixed(classes, channels, 4, 4)[labels]
        coarse = coarse + torch.randn(coarse.shape, generator=generator)
        grain = 0.2 * torch.randn(count, channels, size, size, generator=generator)
        return _smooth(coarse, size) + grain, labels

    return draw


def unit_pictures(size: int = 32, channels: int = 1) -> Callable[..., Any]:
    """Blurred blobs with values in [0, 1], the picture itself as target."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        fields = _smooth(torch.randn(count, channels, 5, 5, generator=generator), size)
        images = torch.sigmoid(4 * fields)
        return images, images

    return draw


def masks(size: int = 32, channels: int = 3, classes: int = 3) -> Callable[..., Any]:
    """Pictures whose pixels are to be segmented by their colour."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        scores = _smooth(torch.randn(count, classes, 4, 4, generator=generator), size)
        images = torch.einsum("nkhw,kc->nchw", scores, fixed(classes, channels)) / classes**0.5
        return images + 0.1 * torch.randn(images.shape, generator=generator), scores.argmax(1)

    return draw


def sentences(length: int = 24, words: int = 64, target: str = "next") -> Callable[..., Any]:
    """Words of a noisy chain with frequencies that differ; targets: the next words, tags of each, or a class."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        chain = [(words * torch.rand(count, generator=generator) ** 2).long()]
        for _ in range(length):
            strange = (words * torch.rand(count, generator=generator) ** 2).long()
            told = (5 * chain[-1] + 3) % words
            chain.append(torch.where(torch.rand(count, generator=generator) < 0.3, strange, told))
        text = torch.stack(chain, 1)
        if target == "next":
            return text[:, :-1], text[:, 1:]
        text = text[:, :-1]
        return (
            (text, text % 5)
            if target == "tags"
            else (text, (text[:, : length // 2] > words // 3).sum(1).clamp(2, 9) - 2)
        )

    return draw


def table(features: int = 16, outputs: int = 1, scale: float = 1.0) -> Callable[..., Any]:
    """Standardised columns and a smooth function of them."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randn(count, features, generator=generator)
        values = torch.tanh(rows @ fixed(features, 8) / features**0.5) @ fixed(8, outputs, seed=8) / 2
        return rows, scale * values

    return draw


def labelled_table(features: int = 16, classes: int = 4) -> Callable[..., Any]:
    """Standardised columns and a class."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        rows, scores = table(features, classes)(count, generator)
        return rows, scores.argmax(1)

    return draw


def waves(length: int = 256, channels: int = 1, classes: int = 4) -> Callable[..., Any]:
    """Sines of four frequencies at random phases, with noise."""

    def draw(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        phase = 6.3 * torch.rand(count, channels, 1, generator=generator)
        time = torch.arange(length)[None, None] * (0.1 + 0.1 * labels[:, None, None])
        return torch.sin(time + phase) + 0.2 * torch.randn(count, channels, length, generator=generator), labels

    return draw
