"""Data that only this set uses: rings, byte images, masks, marked sequences, ratings; ``maker(count, generator)``."""

from __future__ import annotations

import torch
from torch import Tensor

from evaluation.programs import Data
from evaluation.samples import blobs, fixed_normal


def rings(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return points of the plane, and whether they lie inside of a circle."""
    points = torch.randn(count, 2, generator=generator)
    return points, (points.square().sum(1) > 1.4).long()


def house_prices(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a table with columns of very different units, and a price of about 1."""
    values = torch.rand(count, 5, generator=generator)
    units = torch.tensor([200.0, 6.0, 1.0, 120_000.0, 40.0])
    price = values[:, 0] + 0.5 * values[:, 1] * values[:, 2] + 0.3 * torch.sin(6 * values[:, 3]) - 0.2 * values[:, 4]
    return values * units, price[:, None]


def byte_images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return images of whole numbers 0 to 255 and their classes."""
    images, labels = blobs()(count, generator)
    return (128 + 50 * images).clamp(0, 255).round(), labels


def shapes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return noisy images of bright rectangles, and masks of 0 and 1 of the same size."""
    grid = torch.arange(16)
    low, size = (torch.randint(a, b, (2, count, 1), generator=generator) for a, b in ((1, 7), (4, 9)))
    rows, columns = ((grid >= start) & (grid < start + length) for start, length in zip(low, size, strict=True))
    masks = (rows[:, :, None] & columns[:, None, :]).float()[:, None]
    return 2 * masks - 1 + 0.5 * torch.randn(masks.shape, generator=generator), masks


def marked_last(length: int = 12) -> Data:
    """Return sequences ``[count, length, 4]`` whose class is decided by their last steps."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        values = torch.randn(count, length, 4, generator=generator)
        return values, (values[:, -3:] @ fixed_normal(4, 3)).sum(1).argmax(1)

    return data


def padded_text(count: int, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return tokens padded with 0, which positions hold tokens, and whether more are small than large."""
    tokens = torch.randint(1, 32, (count, 16), generator=generator)
    lengths = torch.randint(4, 13, (count, 1), generator=generator)
    present = torch.arange(16)[None] < lengths
    tokens = tokens * present
    small, large = ((tokens > 0) & (tokens < 12)).sum(1), (tokens > 20).sum(1)
    return {"tokens": tokens, "present": present}, (small > large).long()


def ratings(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return pairs of a user and an item, and ratings of a low rank."""
    users, items = (torch.randint(n, (count,), generator=generator) for n in (20, 30))
    score = (fixed_normal(20, 3)[users] * fixed_normal(30, 3, seed=8)[items]).sum(1)
    return (users, items), score + 0.3 * torch.randn(count, generator=generator)


def two_views(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return two noisy views of each sample; the targets only number the pairs."""
    values = torch.randn(count, 24, generator=generator)
    views = tuple(values + 0.3 * torch.randn(values.shape, generator=generator) for _ in range(2))
    return views, torch.arange(count)


def noisy_line(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a table and targets of which noise is two thirds of the variance."""
    values = torch.randn(count, 8, generator=generator)
    return values, values[:, :1] + 1.4 * torch.randn(count, 1, generator=generator)


def rare_class(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a table and a class that one sample in ten has."""
    values = torch.randn(count, 12, generator=generator)
    return values, (values[:, 0] + 0.5 * values[:, 1] * values[:, 2] > 1.45).long()
