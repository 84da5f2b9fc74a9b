"""Triplets of a labeled set, and their distances and angles at every layer.

`choose` selects the points once, `follow` runs them through a network, and `search_again` selects the boundary points
again in the space of each layer. Only the values that the search needs are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from initscope.class_geometry.boundary import BoundaryPoints, boundary_points, candidates, decide, sketch
from initscope.class_geometry.labeled import Labeled
from initscope.class_geometry.outputs import Layer, watch_layers
from initscope.data import random_triplets
from initscope.errors import InputError, check_count

__all__ = ["Chosen", "Followed", "Searched", "choose", "follow", "search_again", "spreads_of", "to_anchor"]

Floats = NDArray[np.float64]

EXACT_WIDTH = 1024
SKETCH_WIDTH = 512
SKETCH_CANDIDATES = 32
_MOST_ANCHORS = 10**7
_CHECKED = 32
"""Anchors of a sketched layer for which all distances are taken, to know the recall."""


@dataclass(frozen=True)
class Chosen:
    """Points of triplets; row k: an anchor, random points of its class and another, the farthest and nearest such.

    ``spread`` is the root of the total variance of all samples, not only of the anchors.
    """

    points: NDArray[np.int64]
    distance: Floats
    angle: Floats
    spread: float

    @property
    def anchors(self) -> NDArray[np.int64]:
        """Indices of the anchors."""
        return self.points[:, 0]


@dataclass(frozen=True)
class Followed:
    """Distances and angles of the anchors to their other points in one layer, ``[anchors, 2 or 4]``."""

    distance: Floats
    angle: Floats


class Spread:
    """Root of the total variance of rows that come in batches."""

    def __init__(self) -> None:
        self._pivot: Tensor | None = None
        self._total: Tensor | float = 0.0
        self._square, self._count = 0.0, 0

    def add(self, rows: Tensor) -> None:
        """Take ``[rows, values]`` into account."""
        if self._pivot is None:
            self._pivot = rows[0].clone()  # sums of differences to it do not cancel, and equal rows have exactly 0
        shifted = rows - self._pivot
        self._total = self._total + shifted.sum(dim=0).double()
        self._square += float(torch.linalg.vector_norm(shifted)) ** 2
        self._count += len(rows)

    @property
    def root(self) -> float:
        """Total variance: mean squared distance to the mean."""
        mean = torch.as_tensor(self._total) / self._count
        return float(np.sqrt(max(self._square / self._count - float(mean.pow(2).sum()), 0.0)))


@dataclass(frozen=True)
class Searched:
    """Boundary points chosen in a layer's own space; ``recall`` is 1 if the search was exact."""

    points: BoundaryPoints
    recall: float


def choose(data: Labeled, anchors: int, *, boundary: bool, seed: int) -> Chosen:
    """Draw the triplets, and search the boundary points of their anchors among the inputs."""
    everything = np.arange(len(data))[:, None]
    anchors = check_count("anchors", anchors, most=_MOST_ANCHORS, hint="their medians are exact long before")
    points = random_triplets(everything, anchors, seed, labels=data.classes).indices
    if boundary:
        extremes = boundary_points(data.images.numpy(), data.classes, points[:, 0])
        points = np.column_stack([points, extremes.farthest, extremes.nearest])
    distance, angle = np.empty((anchors, points.shape[1] - 1)), np.empty((anchors, points.shape[1] - 1))
    flat = data.images.flatten(1)
    for start in range(0, anchors, 256):
        part = slice(start, start + 256)
        distance[part], angle[part] = to_anchor(flat[torch.from_numpy(points[part])])
    spread = Spread()
    for rows in torch.split(flat, 1024):
        spread.add(rows)
    if spread.root == 0:
        raise InputError(f"the {len(data)} images are all the same, so there are no distances to compare")
    return Chosen(points, distance, angle, spread.root)


def follow(model: nn.Module, data: Labeled, chosen: Chosen, layers: Sequence[Layer]) -> dict[str, Followed]:
    """Return distances and angles of the chosen points after every layer."""
    count, group = chosen.points.shape
    shape = (count, group - 1)
    results = {layer.name: Followed(np.empty(shape), np.empty(shape)) for layer in layers}

    def watch(name: str, first: int, values: Tensor) -> None:
        grouped = values.reshape(-1, group, values.shape[1])
        rows = slice(first // group, first // group + len(grouped))
        results[name].distance[rows], results[name].angle[rows] = to_anchor(grouped)

    rows = data.images[torch.from_numpy(chosen.points.reshape(-1))]
    watch_layers(model, rows, layers, watch, group=group)
    return results


def spreads_of(model: nn.Module, data: Labeled, layers: Sequence[Layer]) -> dict[str, float]:
    """Return the root of the total variance of every layer's outputs over all samples."""
    spreads = {layer.name: Spread() for layer in layers}
    watch_layers(model, data.images, layers, lambda name, first, values: spreads[name].add(values))
    return {name: spread.root for name, spread in spreads.items()}


def search_again(
    model: nn.Module, data: Labeled, chosen: Chosen, layers: Sequence[Layer], *, seed: int
) -> tuple[dict[str, Searched], dict[str, float]]:
    """Return the farthest of the class and nearest of another in each layer's space, exactly or by a sketch.

    The second result is that of `spreads_of`, which needs the same pass over all samples.

    Layers of more than 1,024 values take 32 candidates for each anchor and side from 512 dimensions; their exact
    distances decide. The recall is the share of 32 anchors' farthest and nearest points that this finds.
    """
    kept: dict[str, NDArray[np.float32]] = {}
    signs: dict[str, tuple[Tensor, Tensor]] = {}
    spreads = {layer.name: Spread() for layer in layers}
    for layer in layers:
        narrow = layer.values <= EXACT_WIDTH
        kept[layer.name] = np.empty((len(data), layer.values if narrow else SKETCH_WIDTH), dtype=np.float32)
        if not narrow:
            order, sign = sketch(layer.values, seed)
            signs[layer.name] = torch.from_numpy(order), torch.from_numpy(sign)

    def watch(name: str, first: int, values: Tensor) -> None:
        spreads[name].add(values)
        if name in signs:
            values = _sketched(values, *signs[name])
        kept[name][first : first + len(values)] = values.numpy()

    watch_layers(model, data.images, layers, watch)
    anchors = chosen.anchors
    result = {
        name: Searched(boundary_points(rows, data.classes, anchors), 1.0)
        for name, rows in kept.items()
        if name not in signs
    }
    wide = [layer for layer in layers if layer.name in signs]
    if wide:
        few = {
            layer.name: candidates(kept[layer.name], data.classes, anchors, count=SKETCH_CANDIDATES) for layer in wide
        }
        result |= _rerank(model, data, anchors, wide, few)
    return {layer.name: result[layer.name] for layer in layers}, {name: spread.root for name, spread in spreads.items()}


def _rerank(
    model: nn.Module,
    data: Labeled,
    anchors: NDArray[np.int64],
    layers: Sequence[Layer],
    few: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> dict[str, Searched]:
    """Compute exact distances of the anchors to their candidates in one more pass; for some anchors, to all points."""
    outputs = {layer.name: torch.empty(len(anchors), layer.values) for layer in layers}

    def keep(name: str, first: int, values: Tensor) -> None:
        outputs[name][first : first + len(values)] = values

    watch_layers(model, data.images[torch.from_numpy(anchors)], layers, keep)
    pairs = {name: np.hstack(both) for name, both in few.items()}
    distance = {name: np.empty(pair.shape) for name, pair in pairs.items()}
    order = {name: np.argsort(pair, axis=None, kind="stable") for name, pair in pairs.items()}
    checked = {layer.name: np.empty((min(_CHECKED, len(anchors)), len(data))) for layer in layers}

    def measure(name: str, first: int, values: Tensor) -> None:
        of_all = torch.cdist(outputs[name][:_CHECKED], values, compute_mode="donot_use_mm_for_euclid_dist")
        checked[name][:, first : first + len(values)] = of_all.numpy()
        flat = pairs[name].reshape(-1)
        bounds = np.searchsorted(flat[order[name]], [first, first + len(values)])
        for block in np.array_split(order[name][slice(*bounds)], max(1, (bounds[1] - bounds[0]) // 512)):
            anchor = torch.from_numpy(block // pairs[name].shape[1])
            gap = outputs[name][anchor] - values[torch.from_numpy(flat[block] - first)]
            distance[name].reshape(-1)[block] = gap.norm(dim=1).numpy()

    watch_layers(model, data.images, layers, measure)
    result = {}
    for name, (far, near) in few.items():
        split = far.shape[1]
        decided = decide(anchors, far, near, distance[name][:, :split], distance[name][:, split:])
        result[name] = Searched(decided, _recall(decided, checked[name], data.classes))
    return result


def _recall(points: BoundaryPoints, distances: Floats, classes: NDArray[np.int64]) -> float:
    some = len(distances)
    same_class = classes[points.anchors[:some], None] == classes
    farthest = np.where(same_class, distances, -np.inf).max(axis=1)
    nearest = np.where(same_class, np.inf, distances).min(axis=1)
    hits = np.concatenate(
        [
            points.farthest_distance[:some] >= farthest * (1 - 1e-5),
            points.nearest_distance[:some] <= nearest * (1 + 1e-5),
        ]
    )
    return float(hits.mean())


def _sketched(values: Tensor, order: Tensor, sign: Tensor) -> Tensor:
    """Sum features in random order with random signs in groups of equal size (see `sketch`)."""
    short = -values.shape[1] % SKETCH_WIDTH
    mixed = (values * sign)[:, order]
    return torch.nn.functional.pad(mixed, [0, short]).reshape(len(values), SKETCH_WIDTH, -1).sum(dim=2)


def to_anchor(grouped: Tensor) -> tuple[Floats, Floats]:
    """Return distances and angles (radians) of the first point of each group to the others; NaN for a zero vector."""
    anchor, others = grouped[:, :1], grouped[:, 1:]
    distance = (others - anchor).norm(dim=2).double()
    lengths = grouped.norm(dim=2).double()
    product = lengths[:, :1] * lengths[:, 1:]
    # 4 sin²(θ/2) = |u/|u| - v/|v||²: keeps small angles, which the cosine loses.
    chord = distance.pow(2) - (lengths[:, :1] - lengths[:, 1:]).pow(2)
    half = (chord / product / 4).clamp(0, 1).sqrt()
    return distance.numpy(), (2 * half.asin()).numpy()
