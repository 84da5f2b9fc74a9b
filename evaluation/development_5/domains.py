"""Data of the frozen set: sensors, genes, shapes, graphs, ratings, counts, physics, videos; all synthetic."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from evaluation.programs import Data
from evaluation.samples import fixed_normal

Generator = torch.Generator


def sensors(length: int = 48, channels: int = 6, classes: int = 5) -> Data:
    """Return accelerometer-like windows ``[count, channels, length]`` and the activity."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        rate = 0.15 + 0.2 * labels[:, None, None]
        phase = 6.3 * torch.rand(count, 1, 1, generator=generator)
        mixing = fixed_normal(classes, channels, 1, seed=11)[labels]
        wave = torch.sin(rate * torch.arange(length) + phase) * mixing
        return wave + 0.3 * torch.randn(count, channels, length, generator=generator), labels

    return data


def genes(length: int = 40) -> Data:
    """Return one-hot DNA ``[count, 4, length]`` and whether one of two motifs occurs (0: none, 1, 2)."""
    motifs = torch.tensor([[0, 1, 2, 3, 3, 1], [2, 2, 0, 0, 1, 3]])

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        letters = torch.randint(4, (count, length), generator=generator)
        labels = torch.randint(3, (count,), generator=generator)
        start = torch.randint(length - 6, (count,), generator=generator)
        for row in range(count):
            if labels[row]:
                letters[row, start[row] : start[row] + 6] = motifs[labels[row] - 1]
        return F.one_hot(letters, 4).transpose(1, 2).float(), labels

    return data


def shapes(side: int = 24, target: str = "class") -> Data:
    """Return images of discs, squares, crosses or rings at random positions; targets: class, box, mask, heatmap."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(4, (count,), generator=generator)
        centre = 0.3 + 0.4 * torch.rand(count, 2, generator=generator)
        radius = 0.12 + 0.12 * torch.rand(count, 1, 1, generator=generator)
        grid = (torch.arange(side) + 0.5) / side
        dy = grid[None, :, None] - centre[:, :1, None]
        dx = grid[None, None, :] - centre[:, 1:, None]
        distance = (dx.square() + dy.square()).sqrt()
        inside = torch.stack(
            [
                distance < radius,
                torch.maximum(dx.abs() + 0 * dy, dy.abs() + 0 * dx) < 0.85 * radius,
                (torch.minimum(dx.abs() + 0 * dy, dy.abs() + 0 * dx) < 0.25 * radius) & (distance < radius),
                (distance - radius).abs() < 0.3 * radius,
            ],
            1,
        )[torch.arange(count), labels]
        images = 2 * inside.float()[:, None] - 0.5 + 0.3 * torch.randn(count, 1, side, side, generator=generator)
        targets = {
            "class": labels,
            "box": torch.cat([centre, radius[:, 0]], 1),
            "mask": inside.long(),
            "heat": torch.exp(-distance.square() / 0.01)[:, None],
        }
        return images, targets[target]

    return data


def videos(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return clips ``[count, 1, 6, 12, 12]`` of a spot that moves in one of four directions."""
    labels = torch.randint(4, (count,), generator=generator)
    step = torch.tensor([[0.0, 1], [0, -1], [1, 0], [-1, 0]])[labels]
    start = 6 + 1.5 * torch.randn(count, 2, generator=generator)
    place = start[:, None] + step[:, None] * (torch.arange(6.0) - 2.5)[None, :, None]
    grid = torch.arange(12.0)
    dy, dx = grid[None, None, :, None] - place[..., 0, None, None], grid[None, None, None] - place[..., 1, None, None]
    clips = 3 * torch.exp(-(dx.square() + dy.square()) / 3)[:, None]
    return clips + 0.2 * torch.randn(clips.shape, generator=generator), labels


def weather(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return four frames ``[count, 4, 12, 12]`` of a periodic field that moves to the right, and the next frame."""
    field = F.interpolate(torch.randn(count, 1, 4, 4, generator=generator), 12, mode="bicubic")
    frames = torch.cat([field.roll(shift, 3) for shift in range(5)], 1)
    return frames[:, :4], frames[:, 4:]


def ratings(users: int = 40, items: int = 60) -> Data:
    """Return user and item ids and a rating around 0."""
    tastes, traits = fixed_normal(users, 4, seed=21), fixed_normal(items, 4, seed=22)

    def data(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
        user = torch.randint(users, (count,), generator=generator)
        item = torch.randint(items, (count,), generator=generator)
        return (user, item), (tastes[user] * traits[item]).sum(1) / 2

    return data


def clicks(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return eight categorical fields of 12 values each and whether there was a click, as float."""
    fields = torch.randint(12, (count, 8), generator=generator)
    effects = fixed_normal(8, 12, seed=23)
    score = effects[torch.arange(8), fields].sum(1) + effects[0, fields[:, 1]] * effects[1, fields[:, 0]]
    return fields, (score > 0).float()


def counts(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return ten standard normal columns and a Poisson count, as a column."""
    values = torch.randn(count, 10, generator=generator)
    rate = torch.exp(0.8 + (values @ fixed_normal(10, 1, seed=24)) / 4)
    return values, torch.poisson(rate, generator=generator)


def churn(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return three categories, six numbers, and whether a customer leaves."""
    kinds = torch.randint(6, (count, 3), generator=generator)
    numbers = torch.randn(count, 6, generator=generator)
    score = fixed_normal(3, 6, seed=25)[torch.arange(3), kinds].sum(1) + numbers @ fixed_normal(6, seed=26) / 2
    return (kinds, numbers), (score > 0).long()


def spectra(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return spectra of 60 channels made of three peaks, and the concentration of two substances."""
    amounts = torch.rand(count, 3, generator=generator)
    axis = torch.linspace(-3, 3, 60)
    peaks = torch.stack([torch.exp(-(axis - centre).square() * 2) for centre in (-1.5, 0.2, 1.0)])
    return amounts @ peaks + 0.02 * torch.randn(count, 60, generator=generator), amounts[:, :2]


def pendulum(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return angle and speed of a pendulum, and its acceleration and speed."""
    angle = math.pi * (2 * torch.rand(count, 1, generator=generator) - 1)
    speed = 2 * torch.randn(count, 1, generator=generator)
    return torch.cat([angle, speed], 1), torch.cat([speed, -2 * angle.sin()], 1) / 2


def graphs(nodes: int = 10, width: int = 6) -> Data:
    """Return node features and dense adjacencies (with self loops, rows sum to 1), and a property of the graph."""

    def data(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
        edges = torch.rand(count, nodes, nodes, generator=generator) < 0.25
        adjacency = (edges | edges.mT | torch.eye(nodes).bool()).float()
        adjacency = adjacency / adjacency.sum(2, keepdim=True)
        features = torch.randn(count, nodes, width, generator=generator)
        score = (adjacency @ features @ fixed_normal(width, seed=27)).tanh().sum(1)
        return (features, adjacency), (score > 0).long()

    return data


def particles(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return positions ``[count, 6, 3]`` of particles and their energy, a function of distances."""
    positions = torch.randn(count, 6, 3, generator=generator)
    distance = (torch.cdist(positions, positions) + 10 * torch.eye(6)).clamp_min(0.3)
    energy = torch.exp(-distance).sum((1, 2))
    return positions, (energy[:, None] - 4.2) / 1.2


def bags(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return bags of eight instances; the label says whether one of them lies in a certain corner."""
    values = torch.randn(count, 8, 5, generator=generator)
    positive = torch.rand(count, generator=generator) < 0.5
    values[:, 0] = torch.where(positive[:, None], values[:, 0].abs() + 0.8, values[:, 0])
    order = torch.rand(count, 8, generator=generator).argsort(1)
    return values.gather(1, order[..., None].expand(-1, -1, 5)), positive.float()


def reviews(length: int = 20, words: int = 50) -> Data:
    """Return token ids with trailing zeros as padding, and whether good words are in the majority."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(2, (count,), generator=generator)
        tokens = torch.randint(20, words, (count, length), generator=generator)
        marked = torch.randint(1, 10, (count, length), generator=generator) + 10 * (
            (torch.rand(count, length, generator=generator) < 0.8) == labels[:, None].bool()
        )
        tokens = torch.where(torch.rand(count, length, generator=generator) < 0.4, marked.clamp(1, 19), tokens)
        lengths = torch.randint(length // 2, length + 1, (count,), generator=generator)
        return tokens.masked_fill(torch.arange(length) >= lengths[:, None], 0), labels

    return data


def periodic_text(length: int = 20, words: int = 24) -> Data:
    """Return tokens of arithmetic progressions modulo ``words``, and the next tokens."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        start = torch.randint(words, (count, 1), generator=generator)
        step = torch.randint(1, 5, (count, 1), generator=generator)
        text = (start + step * torch.arange(length + 1)) % words
        return text[:, :-1], text[:, 1:]

    return data


def demand(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 30 values of a seasonal series and the next six."""
    phase, slope = torch.rand(2, count, 1, generator=generator)
    time = torch.arange(36)
    series = torch.sin(2 * math.pi * (time / 7 + phase)) + (slope - 0.5) * time / 18
    series = series + 0.05 * torch.randn(count, 36, generator=generator)
    return series[:, :30], series[:, 30:]


def curves(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return points of the square and a smooth function of them."""
    points = 2 * torch.rand(count, 2, generator=generator) - 1
    value = torch.sin(3 * points[:, :1]) * torch.cos(2 * points[:, 1:]) + 0.3 * points[:, :1]
    return points, value


def mazes(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return boards with walls, a goal and a player as planes, and the move along the longer axis to the goal."""
    walls = (torch.rand(count, 8, 8, generator=generator) < 0.15).float()
    place = torch.randint(8, (count, 4), generator=generator)
    planes = torch.zeros(count, 3, 8, 8)
    planes[:, 0] = walls
    index = torch.arange(count)
    planes[index, 1, place[:, 0], place[:, 1]] = 1
    planes[index, 2, place[:, 2], place[:, 3]] = 1
    dy, dx = place[:, 0] - place[:, 2], place[:, 1] - place[:, 3]
    return planes, torch.where(dy.abs() > dx.abs(), (dy > 0).long(), 2 + (dx > 0).long())


def pairs_to_rank(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return two documents of 12 features each, and whether the first is better, as float."""
    left, right = torch.randn(2, count, 12, generator=generator)
    quality = fixed_normal(12, seed=28)
    return (left, right), ((left @ quality).tanh() > (right @ quality).tanh()).float()
