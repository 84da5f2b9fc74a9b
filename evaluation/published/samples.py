"""Data of every kind that ships with scikit-learn: photographs, digits, tables, text, clouds of points, grids."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sklearn.datasets
import torch
import torch.nn.functional as F
from torch import Tensor

from initscope.data import load, normalize

BYTES = 256
"""Words of a vocabulary of bytes."""


def _images(name: str, count: int, **options: int) -> tuple[Tensor, Tensor]:
    found = normalize(load(name, **options), "standardize").take(count)
    return torch.as_tensor(found.images), torch.as_tensor(found.labels)


def photographs(count: int, side: int = 32) -> tuple[Tensor, Tensor]:
    """Crops ``[count, 3, side, side]`` of two photographs, standardised, and which of the two."""
    return _images("photos", count, crop=side)


def digits(count: int) -> tuple[Tensor, Tensor]:
    """Handwritten digits ``[count, 1, 8, 8]``, standardised, and which digit."""
    return _images("digits", count)


def flat_digits(count: int) -> tuple[Tensor, Tensor]:
    """The digits as vectors of 64."""
    images, labels = digits(count)
    return images.flatten(1), labels


def large_digits(count: int, side: int = 32) -> tuple[Tensor, Tensor]:
    """The digits enlarged to ``side``."""
    images, labels = digits(count)
    return F.interpolate(images, side, mode="bilinear"), labels


def denoising(count: int, side: int = 16) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Photographs with Gaussian noise of a random share, the step of each, and the noise (Ho et al. 2020)."""
    images, _ = photographs(count, side)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(images.shape, generator=generator)
    step = torch.randint(1000, (count,), generator=generator)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[step].view(-1, 1, 1, 1)
    return (kept.sqrt() * images + (1 - kept).sqrt() * noise, step), noise


@cache
def _text() -> Tensor:
    """The descriptions of scikit-learn's data sets, as bytes."""
    folder = Path(sklearn.datasets.__file__).parent / "descr"
    whole = b"".join(path.read_bytes() for path in sorted(folder.glob("*.rst")))
    return torch.tensor(list(whole))


def text(count: int, length: int = 32) -> tuple[Tensor, Tensor]:
    """Pieces of text ``[count, length]`` as bytes, and the byte that follows each of them."""
    starts = torch.linspace(0, len(_text()) - length - 2, count).long()
    pieces = torch.stack([_text()[start : start + length + 1] for start in starts])
    return pieces[:, :-1], pieces[:, 1:]


def labelled_text(count: int, length: int = 32) -> tuple[Tensor, Tensor]:
    """Pieces of text, and whether they hold a digit."""
    pieces, _ = text(count, length)
    return pieces, ((pieces >= 48) & (pieces < 58)).any(dim=1).long()


def translation(count: int, length: int = 16) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """A piece of text and the same in capitals up to each place, with the next capital for target."""
    pieces, following = text(count, length)
    low = (following >= 97) & (following <= 122)
    capitals = torch.where(low, following - 32, following)
    return (pieces, torch.cat([torch.zeros_like(capitals[:, :1]), capitals[:, :-1]], dim=1)), capitals


def table(count: int) -> tuple[Tensor, Tensor]:
    """Breast-cancer measurements ``[count, 30]``, each column standardised, and the diagnosis."""
    found = sklearn.datasets.load_breast_cancer()
    values = torch.as_tensor(found.data, dtype=torch.float32)
    values = (values - values.mean(0)) / values.std(0)
    return values[:count], torch.as_tensor(found.target)[:count]


def points(count: int, kept: int = 24) -> tuple[Tensor, Tensor]:
    """Clouds ``[count, 3, kept]``: places and inks of the darkest pixels of digits, in [-1, 1]."""
    labels = digits(count)[1]
    ink = torch.as_tensor(load("digits").images[:count]).flatten(1)
    order = ink.argsort(dim=1, descending=True, stable=True)[:, :kept]
    rows, columns = order // 8 / 3.5 - 1, order % 8 / 3.5 - 1
    return torch.stack([rows, columns, 2 * ink.gather(1, order) - 1], dim=1), labels


def grid_graphs(count: int) -> tuple[Tensor, Tensor]:
    """Digits as 16 nodes of 2×2 pixels each, ``[count, 16, 4]``."""
    images, labels = digits(count)
    return F.unfold(images, 2, stride=2).transpose(1, 2).contiguous(), labels


def grid_adjacency() -> Tensor:
    """Normalised adjacency D^-½(A + 1)D^-½ of the 4×4 grid (Kipf and Welling 2017)."""
    place = torch.stack([torch.arange(16) // 4, torch.arange(16) % 4], dim=1).float()
    near = (torch.cdist(place, place, p=1) <= 1).float()
    degree = near.sum(1).rsqrt()
    return degree[:, None] * near * degree


def waves(count: int, length: int = 64) -> tuple[Tensor, Tensor]:
    """Rows of a photograph ``[count, 1, length]``, standardised, as sequences, and the value that follows each."""
    rows = torch.as_tensor(load("photos", crop=128).images).mean(1).flatten(0, 1)
    rows = ((rows - rows.mean()) / rows.std())[:: max(1, len(rows) // count)][:count]
    return rows[:, None, :length], rows[:, None, 1 : length + 1]


def image_pairs(count: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Two digits and whether they are of one class."""
    images, labels = digits(2 * count)
    return (images[:count], images[count:]), (labels[:count] == labels[count:]).float()
