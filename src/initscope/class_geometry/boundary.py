"""Points at the boundary of classes: the farthest point of the anchor's class, and the nearest point of another class.

A matrix product in float32 (faiss's, if it is installed) finds a few candidates; exact distances in float64 decide
between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.faiss import nearest_rows
from initscope._utils.randomness import generator

__all__ = ["BoundaryPoints", "boundary_points", "candidates", "decide", "sketch"]

Index = NDArray[np.int64]

CANDIDATES = 8
"""Number of candidates compared in float64: float32 products cannot separate points within rounding errors."""


@dataclass(frozen=True)
class BoundaryPoints:
    """Indices of the farthest point of each anchor's own class and of the nearest of another, with their distances."""

    anchors: Index
    farthest: Index
    nearest: Index
    farthest_distance: NDArray[np.float64]
    nearest_distance: NDArray[np.float64]


def boundary_points(rows: Any, classes: Any, anchors: Any) -> BoundaryPoints:
    """Search exactly over all ``rows [N, …]``: one matrix product of anchors with rows.

    Parameters
    ----------
    rows : array [N, …]
    classes : array [N]
        Class of each row; every class has at least two.
    anchors : array of int
        Which rows to search for.

    Returns
    -------
    BoundaryPoints
        For every anchor the farthest row of its class and the nearest row of another class.

    Examples
    --------
    >>> points = boundary_points(np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([0, 0, 1, 1]), np.array([0]))
    >>> int(points.farthest[0]), int(points.nearest[0])
    (1, 2)
    """
    rows = np.ascontiguousarray(np.asarray(rows).reshape(len(rows), -1), dtype=np.float32)
    classes, anchors = np.asarray(classes), np.asarray(anchors, dtype=np.int64)
    far, near = candidates(rows, classes, anchors, count=CANDIDATES)

    def distances(which: Index) -> NDArray[np.float64]:
        result = np.empty(which.shape)
        for start in range(0, len(which), 64):
            part = slice(start, start + 64)
            gap = rows[which[part]].astype(np.float64) - rows[anchors[part], None]
            result[part] = np.sqrt(np.einsum("aij,aij->ai", gap, gap))
        return result

    return decide(anchors, far, near, distances(far), distances(near))


def candidates(rows: NDArray[np.float32], classes: NDArray[Any], anchors: Index, *, count: int) -> tuple[Index, Index]:
    """Return the ``count`` farthest of the same class and nearest of other classes, each ``[anchors, count]``.

    If there are fewer than ``count``, some are repeated.
    """
    order = np.argsort(classes, kind="stable")
    ends = np.searchsorted(classes[order], np.unique(classes), side="right")
    # Around the mean, squared norms are small and their differences keep their digits.
    mean = rows.mean(axis=0)
    ordered, queries = rows[order], rows[anchors] - mean
    ordered -= mean
    near = np.zeros((len(anchors), count), dtype=np.int64)
    near_distance = np.full((len(anchors), count), np.inf, dtype=np.float32)
    far = np.zeros_like(near)
    for start, end in zip([0, *ends[:-1]], ends):
        members, block = order[start:end], ordered[start:end]
        same_class = classes[anchors] == classes[members[0]]
        few = min(count, len(members))
        if same_class.any():
            far[same_class] = members[_farthest(queries[same_class], block, count)]
        if not same_class.all():
            distance, indices = nearest_rows(queries[~same_class], block, few)
            both = np.hstack([near_distance[~same_class], distance])
            both_near = np.hstack([near[~same_class], members[indices]])
            best = np.argpartition(both, count - 1, axis=1)[:, :count]
            near_distance[~same_class] = np.take_along_axis(both, best, axis=1)
            near[~same_class] = np.take_along_axis(both_near, best, axis=1)
    # Unfilled entries repeat the best candidate.
    first = np.take_along_axis(near, near_distance.argmin(axis=1)[:, None], axis=1)
    return far, np.where(np.isfinite(near_distance), near, first)


def _farthest(queries: NDArray[np.float32], rows: NDArray[np.float32], count: int) -> Index:
    """Return the indices of the rows farthest from each query, by the largest ‖x‖² - 2⟨u, x⟩."""
    lengths = np.einsum("ij,ij->i", rows, rows)
    few = min(count, len(rows))
    farthest = np.empty((len(queries), count), dtype=np.int64)
    for start in range(0, len(queries), 256):
        nearness = queries[start : start + 256] @ rows.T
        nearness *= 2
        nearness -= lengths
        indices = np.argpartition(nearness, few - 1, axis=1)[:, :few]
        farthest[start : start + 256] = np.resize(indices.T, (count, len(indices))).T
    return farthest


def decide(
    anchors: Index, far: Index, near: Index, far_distance: NDArray[np.float64], near_distance: NDArray[np.float64]
) -> BoundaryPoints:
    """Return the best candidate of each anchor; ties go to the lowest index."""

    def best(which: Index, score: NDArray[np.float64]) -> Index:
        return np.lexsort((which, score), axis=1)[:, :1]

    chosen_far, chosen_near = best(far, -far_distance), best(near, near_distance)
    return BoundaryPoints(
        anchors,
        np.take_along_axis(far, chosen_far, axis=1)[:, 0],
        np.take_along_axis(near, chosen_near, axis=1)[:, 0],
        np.take_along_axis(far_distance, chosen_far, axis=1)[:, 0],
        np.take_along_axis(near_distance, chosen_near, axis=1)[:, 0],
    )


def sketch(features: int, seed: int) -> tuple[Index, NDArray[np.float32]]:
    """Return a random projection that costs one addition per feature: an order of the features, and their signs.

    The features are taken in that order, with signs, and summed in d groups of equal size. Squared distances are then
    right on average, with a relative standard error of about √(2/d) [Charikar2004]_.
    """
    rng = generator(seed, "sketch")
    return rng.permutation(features), rng.choice(np.array([-1, 1], dtype=np.float32), features)
