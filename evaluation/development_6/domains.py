"""Data of this set: shapes in images, loans, homes, words, graphs, chirps, waves, points, pairs, ratings, physics."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evaluation.programs import Data
from evaluation.samples import fixed_normal

Generator = torch.Generator


def normal(generator: Generator, *shape: int) -> Tensor:
    """Return standard normal values."""
    return torch.randn(*shape, generator=generator)


def uniform(generator: Generator, *shape: int) -> Tensor:
    """Return values between 0 and 1."""
    return torch.rand(*shape, generator=generator)


# images


def gratings(side: int = 16, classes: int = 6, noise: float = 0.4) -> Data:
    """Return stripes ``[count, 1, side, side]`` at one angle for each class, at random phases."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        angle = math.pi * labels / classes
        row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        along = row * angle.sin()[:, None, None] + column * angle.cos()[:, None, None]
        images = torch.sin(1.1 * along + 6.3 * uniform(generator, count, 1, 1))
        return (images + noise * normal(generator, count, side, side))[:, None], labels

    return data


def scenes(count: int, generator: Generator, side: int = 16) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images with one shape each, the mask, the kind (square, disc, cross) and the box (center, half size)."""
    kind = torch.randint(3, (count,), generator=generator)
    half = 2.5 + 2 * uniform(generator, count)
    center = half[:, None] + (side - 1 - 2 * half[:, None]) * uniform(generator, count, 2)
    color = 0.4 + 0.6 * uniform(generator, count, 3)
    row = (torch.arange(side)[None, :, None] - center[:, 0, None, None]).abs().expand(count, side, side)
    column = (torch.arange(side)[None, None, :] - center[:, 1, None, None]).abs().expand(count, side, side)
    size = half[:, None, None]
    square = torch.maximum(row, column) <= size
    disc = row.square() + column.square() <= size.square()
    cross = square & (torch.minimum(row, column) <= 1)
    mask = torch.stack([square, disc, cross], 1)[torch.arange(count), kind].float()
    images = mask[:, None] * color[:, :, None, None] + 0.1 * normal(generator, count, 3, side, side)
    return images, mask, kind, torch.cat([center, half[:, None]], 1) / side


def shape_kinds(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return images and the kind of the shape."""
    images, _, kind, _ = scenes(count, generator)
    return images, kind


def shape_masks(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return images and masks ``[count, 1, side, side]`` of 0 and 1."""
    images, mask, _, _ = scenes(count, generator)
    return images, mask[:, None]


def shape_parts(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return images and a class for each pixel: 0 for the background, 1 to 3 for the kinds."""
    images, mask, kind, _ = scenes(count, generator)
    return images, (mask * (kind + 1)[:, None, None]).long()


def shape_boxes(count: int, generator: Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Return images, and the boxes and kinds of the shapes."""
    images, _, kind, box = scenes(count, generator)
    return images, {"box": box, "kind": kind}


def grey_shapes(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return grey images ``[count, 1, 16, 16]`` between 0 and 1 and the kind of the shape."""
    images, _, kind, _ = scenes(count, generator)
    return images.mean(1, keepdim=True).clamp(0, 1), kind


def grey_copies(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return flat grey images between 0 and 1, and the same as targets."""
    images = grey_shapes(count, generator)[0].flatten(1)
    return images, images


def real_or_fake(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return gratings and noise with the same spectrum along the columns, and which are real."""
    real, _ = gratings(noise=0.2)(count, generator)
    labels = torch.randint(2, (count,), generator=generator)
    fake = F.avg_pool2d(normal(generator, count, 1, 16, 16), 3, 1, 1) * 2
    return torch.where(labels[:, None, None, None] == 1, real, fake), labels.float()[:, None]


def clips(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return clips ``[count, 6, 1, 12, 12]`` of a moving spot and its direction (4 classes)."""
    labels = torch.randint(4, (count,), generator=generator)
    motion = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])[labels]
    center = 4 + 4 * uniform(generator, count, 2)
    path = center[:, None] + torch.linspace(-3, 3, 6)[None, :, None] * motion[:, None]
    grid = torch.arange(12)
    row = (grid - path[..., 0, None]).square()[..., :, None]
    column = (grid - path[..., 1, None]).square()[..., None, :]
    spot = torch.exp(-(row + column) / 2)
    return (spot + 0.1 * normal(generator, count, 6, 12, 12))[:, :, None], labels


# tables


def loans(count: int, generator: Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return numbers and kinds of customers, and which one in four does not pay back ``[count, 1]``."""
    numbers = normal(generator, count, 5)
    kinds = torch.stack([torch.randint(size, (count,), generator=generator) for size in (4, 7)], 1)
    effect = fixed_normal(4, seed=31)[kinds[:, 0]] + fixed_normal(7, seed=32)[kinds[:, 1]]
    risk = numbers @ fixed_normal(5, seed=33) + effect + numbers[:, 0] * numbers[:, 1]
    return {"numbers": numbers, "kinds": kinds}, (risk > 2.2).float()[:, None]


def loan_rows(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return the customers as rows of 16 numbers (kinds one-hot), and who does not pay back ``[count, 1]``."""
    table, labels = loans(count, generator)
    kinds = [F.one_hot(table["kinds"][:, index], size) for index, size in enumerate((4, 7))]
    return torch.cat([table["numbers"], *kinds], 1).float(), labels


def homes(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 8 standardized properties of homes and the standardized price ``[count, 1]``."""
    values = normal(generator, count, 8)
    area, rooms, age = values[:, 0], values[:, 1], values[:, 2]
    price = area + 0.5 * area * rooms - 0.6 * age.square() + torch.sin(2 * values[:, 3]) + 0.5 * values[:, 4] + 0.6
    return values, (price / 1.7 + 0.1 * normal(generator, count))[:, None]


def home_units(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return the properties of homes in their units: square feet, rooms, years, dollars, and the standardized price."""
    values, price = homes(count, generator)
    scale = torch.tensor([700.0, 2, 20, 8, 15000, 1, 1, 3])
    return values * scale + torch.tensor([1800.0, 5, 1970, 30, 60000, 2, 2, 10]), price


def rings(classes: int = 3, features: int = 6) -> Data:
    """Return points whose distance from zero in the first two of ``features`` numbers is the class."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        values = normal(generator, count, features)
        radius = values[:, :2].square().sum(1)
        bounds = -2 * torch.log(1 - torch.arange(1, classes) / classes)
        return values, torch.bucketize(radius, bounds)

    return data


def symptoms(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 12 symptoms and 8 rare labels, several of which may hold."""
    values = normal(generator, count, 12)
    hidden = torch.tanh(values @ fixed_normal(12, 10, seed=41) / 3)
    scores = hidden @ fixed_normal(10, 8, seed=42)
    return values, (scores > 1.2).float()


def visits(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 6 properties of a day and a count of visits ``[count]``."""
    values = normal(generator, count, 6)
    rate = torch.exp(0.8 + 0.6 * values[:, 0] - 0.5 * values[:, 1] * (values[:, 2] > 0))
    return values, torch.poisson(rate, generator=generator)


def survival(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 7 properties, and the time until an event with whether it was seen ``[count, 2]``."""
    values = normal(generator, count, 7)
    hazard = torch.exp(values[:, 0] + 0.7 * values[:, 1] * values[:, 2])
    time = -torch.log(uniform(generator, count) + 1e-6) / hazard
    censored = 3 * uniform(generator, count)
    return values, torch.stack([torch.minimum(time, censored), (time <= censored).float()], 1)


def many_kinds(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 24 numbers around the center of one of 20 classes."""
    labels = torch.randint(20, (count,), generator=generator)
    return fixed_normal(20, 24, seed=51)[labels] + 0.8 * normal(generator, count, 24), labels


def two_valued(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return one number and one of the two values of a noisy inverse function ``[count, 1]``."""
    value = 2 * uniform(generator, count, 1) - 1
    side = torch.randint(2, (count, 1), generator=generator).float() * 2 - 1
    return value, side * (0.5 + 0.5 * value) + 0.05 * normal(generator, count, 1)


def ratings(count: int, generator: Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return users, items and ratings around 0."""
    user = torch.randint(50, (count,), generator=generator)
    item = torch.randint(80, (count,), generator=generator)
    taste = (fixed_normal(50, 4, seed=61)[user] * fixed_normal(80, 4, seed=62)[item]).sum(1) / 2
    offset = 0.7 * fixed_normal(50, seed=63)[user] + 0.7 * fixed_normal(80, seed=64)[item]
    return {"user": user, "item": item}, taste + offset + 0.1 * normal(generator, count)


def clicks(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return six fields of 12 categories each and clicks ``[count]`` that depend on pairs of fields."""
    fields = torch.randint(12, (count, 6), generator=generator)
    vectors = torch.stack([fixed_normal(12, 3, seed=70 + index)[fields[:, index]] for index in range(6)], 1)
    score = (vectors[:, 0] * vectors[:, 1]).sum(1) + vectors[:, 2:, 0].sum(1)
    return fields, (score > 0.5).float()


def bags(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return bags ``[count, 10, 6]`` and whether one member is of the sought kind ``[count]``."""
    values = normal(generator, count, 10, 6)
    labels = torch.randint(2, (count,), generator=generator)
    member = torch.randint(10, (count,), generator=generator)
    values[torch.arange(count), member] += 2.0 * labels[:, None] * torch.tensor([1.0, -1, 1, 0, 1, -1])
    return values, labels


# sequences


def opinions(count: int, generator: Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return padded texts (ids, mask of real words) and whether there are more good than bad words.

    Words 1 to 8 are good, 9 to 16 bad, and 17 to 39 neutral; 0 pads. A word 17 before a word inverts it.
    """
    ids = torch.randint(1, 40, (count, 20), generator=generator)
    length = torch.randint(8, 21, (count, 1), generator=generator)
    mask = torch.arange(20) < length
    ids = torch.where(mask, ids, 0)
    value = ((ids >= 1) & (ids <= 8)).float() - ((ids >= 9) & (ids <= 16)).float()
    negated = F.pad(ids[:, :-1] == 17, (1, 0))
    total = torch.where(negated, -value, value).sum(1)
    return {"ids": ids, "mask": mask}, (total > 0).long()


def opinion_ids(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return the padded texts alone and the class."""
    inputs, labels = opinions(count, generator)
    return inputs["ids"], labels


def melody(count: int, generator: Generator, length: int = 16, notes: int = 24) -> tuple[Tensor, Tensor]:
    """Return notes and the next notes; the next note depends on the last two."""
    tune = [torch.randint(notes, (count,), generator=generator) for _ in range(2)]
    for _ in range(length - 1):
        free = torch.randint(notes, (count,), generator=generator)
        follows = (tune[-1] + torch.where(tune[-2] % 2 == 0, 5, 2)) % notes
        tune.append(torch.where(uniform(generator, count) < 0.9, follows, free))
    text = torch.stack(tune, 1)
    return text[:, :-1], text[:, 1:]


def recall(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 8 tokens, and the first token as the target of every position (8 classes)."""
    ids = torch.randint(8, (count, 8), generator=generator)
    return ids, ids[:, :1].repeat(1, 8)


def order(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 10 tokens and whether token 1 comes before token 2; both occur once."""
    ids = torch.randint(3, 12, (count, 10), generator=generator)
    first, second = uniform(generator, count, 10).topk(2, 1).indices.unbind(1)
    index = torch.arange(count)
    ids[index, first], ids[index, second] = 1, 2
    return ids, (first < second).long()


def reversed_tokens(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 6 tokens of 10 and the same in the reverse order."""
    ids = torch.randint(10, (count, 6), generator=generator)
    return ids, ids.flip(1)


def tags(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return 14 words of 30 and a tag of 4 for each word, which depends on the word and on the next one."""
    ids = torch.randint(30, (count, 14), generator=generator)
    following = torch.roll(ids, -1, 1)
    return ids, (ids % 2 * 2 + (following > 15).long())


def chirps(length: int = 256, classes: int = 4) -> Data:
    """Return waves ``[count, 1, length]`` whose pitch rises or falls at the rate of the class."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(classes, (count,), generator=generator)
        time = torch.linspace(0, 1, length)
        rate = 25 * (labels[:, None] - (classes - 1) / 2)
        phase = 60 * time + rate * time.square() + 6.3 * uniform(generator, count, 1)
        return (torch.sin(phase) + 0.3 * normal(generator, count, length))[:, None], labels

    return data


def loudness(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return windows ``[count, 24]`` of one wave form and the class of its level and offset (4 classes)."""
    labels = torch.randint(4, (count,), generator=generator)
    wave = torch.sin(0.5 * torch.arange(24) + 6.3 * uniform(generator, count, 1))
    level = 0.4 + 0.4 * labels[:, None]
    return level * wave + 0.1 * normal(generator, count, 24), labels


def demand(past: int = 24, ahead: int = 6, series: int = 1) -> Data:
    """Return ``past`` values of seasonal series ``[count, past, series]`` and the next ``[count, ahead, series]``."""

    def data(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
        time = torch.arange(past + ahead)[None, :, None]
        phase = 6.3 * uniform(generator, count, 1, series)
        trend = 0.03 * normal(generator, count, 1, series) * time
        values = torch.sin(0.52 * time + phase) + 0.5 * torch.sin(1.04 * time + 2 * phase) + trend
        values = values + 0.1 * normal(generator, count, past + ahead, series)
        return values[:, :past], values[:, past:]

    return data


def readings(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return five channels ``[count, 20, 5]`` over time and which of 4 channels leads channel 5 (4 classes)."""
    labels = torch.randint(4, (count,), generator=generator)
    values = normal(generator, count, 21, 5)
    index = torch.arange(count)
    values[:, 1:, 4] = values[index, :-1, labels] + 0.3 * values[:, 1:, 4]
    return values[:, 1:], labels


def running_sum(count: int, generator: Generator, length: int = 30) -> tuple[Tensor, Tensor]:
    """Return marked numbers ``[count, length, 2]`` and the sum of the two marked ones ``[count, 1]`` (adding task)."""
    values = 2 * uniform(generator, count, length) - 1
    marked = uniform(generator, count, length).topk(2, 1).indices
    marks = torch.zeros(count, length).scatter_(1, marked, 1.0)
    return torch.stack([values, marks], 2), (values * marks).sum(1, keepdim=True)


# graphs, points, physics, games


def networks(count: int, generator: Generator, nodes: int = 12) -> tuple[dict[str, Tensor], Tensor]:
    """Return graphs with two communities (features of nodes, adjacency) and the community of each node."""
    labels = torch.randint(2, (count, nodes), generator=generator)
    same = labels[:, :, None] == labels[:, None, :]
    edge = uniform(generator, count, nodes, nodes) < torch.where(same, 0.7, 0.1)
    edge = torch.triu(edge, 1)
    adjacency = (edge | edge.transpose(1, 2)).float()
    nodes_values = normal(generator, count, nodes, 5)
    nodes_values[..., 0] += 1.2 * (2 * labels - 1)
    return {"nodes": nodes_values, "adjacency": adjacency}, labels


def molecules(count: int, generator: Generator, atoms: int = 9) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return kinds of atoms, bonds, and a property ``[count, 1]`` that sums over bonded pairs of kinds."""
    kinds = torch.randint(4, (count, atoms), generator=generator)
    edge = torch.triu(uniform(generator, count, atoms, atoms) < 0.3, 1)
    bonds = (edge | edge.transpose(1, 2)).float()
    table = fixed_normal(4, 4, seed=81)
    table = table + table.T
    pairs = table[kinds[:, :, None], kinds[:, None, :]]
    return (kinds, bonds), ((pairs * bonds).sum((1, 2)) / 16 + fixed_normal(4, seed=82)[kinds].mean(1))[:, None]


def solids(count: int, generator: Generator, points: int = 48) -> tuple[Tensor, Tensor]:
    """Return points ``[count, points, 3]`` on a sphere, a cube, a cylinder or a disc, and which it is."""
    labels = torch.randint(4, (count,), generator=generator)
    free = normal(generator, count, points, 3)
    sphere = free / free.norm(dim=-1, keepdim=True)
    cube = free / free.abs().amax(-1, keepdim=True)
    flat = free[..., :2] / free[..., :2].norm(dim=-1, keepdim=True)
    height = 2 * uniform(generator, count, points, 1) - 1
    cylinder = torch.cat([flat, height], -1)
    disc = torch.cat([flat * uniform(generator, count, points, 1).sqrt(), 0.1 * height], -1)
    clouds = torch.stack([sphere, cube, cylinder, disc], 1)[torch.arange(count), labels]
    return clouds + 0.05 * normal(generator, count, points, 3), labels


def oscillator(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return times between 0 and 1, and the damped oscillation there ``[count, 1]``."""
    time = uniform(generator, count, 1)
    return time, torch.exp(-time) * torch.cos(6 * time)


def pendulum(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return states (angle, speed) of a pendulum and the states 0.5 later."""
    state = 2 * uniform(generator, count, 2) - 1
    angle, speed = (2.5 * state).unbind(1)
    start = torch.stack([angle, speed], 1)
    for _ in range(20):
        speed = speed - 0.025 * (2 * torch.sin(angle) + 0.2 * speed)
        angle = angle + 0.025 * speed
    return start, torch.stack([angle, speed], 1)


def moves(count: int, generator: Generator) -> tuple[Tensor, dict[str, Tensor]]:
    """Return states of a game (6 numbers), the action taken (3 kinds) and its return."""
    states = normal(generator, count, 6)
    values = torch.tanh(states @ fixed_normal(6, 3, seed=91) / 2) + states[:, :3] * (states[:, 3:] > 0)
    actions = torch.randint(3, (count,), generator=generator)
    returns = values[torch.arange(count), actions] + 0.1 * normal(generator, count)
    return states, {"action": actions, "return": returns, "values": values}


def moons(count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return points of two half circles, standardized, and the same as targets."""
    side = torch.randint(2, (count,), generator=generator).float()
    angle = math.pi * uniform(generator, count)
    across = torch.where(side == 1, 1 - torch.cos(angle), torch.cos(angle))
    height = torch.where(side == 1, 0.5 - torch.sin(angle), torch.sin(angle))
    values = torch.stack([(across - 0.5) / 0.87, (height - 0.25) / 0.5], 1) + 0.1 * normal(generator, count, 2)
    return values, values


def noised(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return moons with noise of a random strength, the strength, and the noise."""
    values, _ = moons(count, generator)
    strength = uniform(generator, count, 1)
    noise = normal(generator, count, 2)
    return (torch.cos(1.57 * strength) * values + torch.sin(1.57 * strength) * noise, strength), noise


def faces(count: int, generator: Generator, people: int = 10) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Return two descriptions of one person, one of another person, and the persons of both."""
    person = torch.randint(people, (count,), generator=generator)
    other = (person + torch.randint(1, people, (count,), generator=generator)) % people
    centers = 0.9 * fixed_normal(people, 20, seed=95)

    def seen(who: Tensor) -> Tensor:
        return centers[who] + normal(generator, count, 20)

    return (seen(person), seen(person), seen(other)), torch.stack([person, other], 1)


def same_or_not(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return two descriptions of persons, and 1 if it is the same person, 0 otherwise."""
    (first, second, third), _ = faces(count, generator)
    same = torch.randint(2, (count,), generator=generator)
    return (first, torch.where(same[:, None] == 1, second, third)), same


def two_views(count: int, generator: Generator) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return two noisy descriptions of each sample and the numbers of the samples."""
    base = normal(generator, count, 20) @ fixed_normal(20, 20, seed=96) / 4.5
    views = tuple(base + 0.5 * normal(generator, count, 20) for _ in range(2))
    return views, torch.arange(count)


def curves(count: int, generator: Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Return 8 known points of a curve, 6 times where it is asked for, and the values there."""
    amplitude, phase = 0.5 + uniform(generator, count, 1), 6.3 * uniform(generator, count, 1)
    times = 4 * uniform(generator, count, 14) - 2
    values = amplitude * torch.sin(1.5 * times + phase)
    known = torch.stack([times[:, :8], values[:, :8]], 2)
    return {"known": known, "asked": times[:, 8:, None]}, values[:, 8:, None]


def first_of(data: Data, name: str) -> Data:
    """Return the data with one entry of its dict of targets as targets."""

    def chosen(count: int, generator: Generator) -> tuple[Any, Tensor]:
        inputs, targets = data(count, generator)
        return inputs, targets[name]

    return chosen
