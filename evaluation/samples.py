"""Data of the sets: scikit-learn's own tables and images, and synthetic ones; ``maker(count, generator)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import sklearn.datasets
import torch
from torch import Tensor
from torch.nn import functional as F

from evaluation.programs import Data


@cache
def _table(name: str) -> tuple[Tensor, Tensor]:
    loaded = getattr(sklearn.datasets, f"load_{name}")()
    return torch.as_tensor(loaded.data, dtype=torch.float32), torch.as_tensor(loaded.target)


def bundled(name: str, *, standardize: bool = False, divide: float = 1.0, shape: tuple[int, ...] = ()) -> Data:
    """Return rows of a table of scikit-learn (``iris``, ``breast_cancer``, ``digits``, ``wine``, ``diabetes``)."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        values, labels = _table(name)
        if standardize:
            values = (values - values.mean(0)) / values.std(0).clamp_min(1e-6)
        index = torch.randint(len(values), (count,), generator=generator)
        return (values[index] / divide).reshape(count, *(shape or (-1,))), labels[index]

    return data


def digits(scale: float = 1 / 16, *, flat: bool = False, side: int = 8) -> Data:
    """Return handwritten digits ``[count, 1, side, side]``, grey values 0 to 16 times ``scale``."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        images, labels = bundled("digits", shape=(1, 8, 8))(count, generator)
        if side != 8:
            images = F.interpolate(images, side, mode="bilinear")
        images = images * scale
        return images.flatten(1) if flat else images, labels

    return data


def changed(
    data: Data,
    inputs: Callable[[Any], Any] = lambda values: values,
    targets: Callable[[Any], Any] = lambda values: values,
) -> Data:
    """Return the data with a function applied to its inputs and one to its targets."""

    def changed_data(count: int, generator: torch.Generator) -> tuple[Any, Any]:
        values, labels = data(count, generator)
        return inputs(values), targets(labels)

    return changed_data


def fixed_normal(*shape: int, seed: int = 7) -> Tensor:
    """Return standard normal values that are the same in every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def smooth_table(features: int = 16, outputs: int = 1, *, scale: float = 1.0, noise: float = 0.0) -> Data:
    """Return standard normal rows and a smooth function of them, times ``scale``."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        values = torch.randn(count, features, generator=generator)
        hidden = torch.tanh(values @ fixed_normal(features, 8) / features**0.5)
        result = hidden @ fixed_normal(8, outputs, seed=8) / 2
        return values, scale * (result + noise * torch.randn(result.shape, generator=generator))

    return data


def class_table(features: int = 16, classes: int = 4) -> Data:
    """Return standard normal rows and the largest of some smooth functions of them."""
    return changed(smooth_table(features, classes), targets=lambda values: values.argmax(1))


def blobs(classes: int = 10, side: int = 16, channels: int = 3, *, noise: float = 0.6) -> Data:
    """Return smooth random fields ``[count, channels, side, side]`` around one field for each class."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        coarse = fixed_normal(classes, channels, 4, 4)[labels]
        coarse = coarse + noise * torch.randn(coarse.shape, generator=generator)
        images = F.interpolate(coarse, size=(side, side), mode="bicubic")
        return images + 0.1 * torch.randn(images.shape, generator=generator), labels

    return data


def grammar(length: int = 16, words: int = 32, target: str = "next") -> Data:
    """Return token chains with a rule for the next token (kept in 8 of 10 cases); targets: next tokens, or a class."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        tokens = [torch.randint(words, (count,), generator=generator)]
        for _ in range(length):
            free = torch.randint(words, (count,), generator=generator)
            follows = (3 * tokens[-1] + 5) % words
            tokens.append(torch.where(torch.rand(count, generator=generator) < 0.8, follows, free))
        text = torch.stack(tokens, 1)
        if target == "next":
            return text[:, :-1], text[:, 1:]
        text = text[:, :-1]
        return text, ((text < words // 4).sum(1) > (text >= 3 * words // 4).sum(1)).long()

    return data


def tones(length: int = 64, classes: int = 4, channels: int = 1) -> Data:
    """Return sines ``[count, channels, length]`` of one frequency for each class, at random phases, with noise."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        phase = 6.3 * torch.rand(count, channels, 1, generator=generator)
        time = torch.arange(length)[None, None] * (0.2 + 0.25 * labels[:, None, None])
        return torch.sin(time + phase) + 0.2 * torch.randn(count, channels, length, generator=generator), labels

    return data
