r"""Certified bounds on A, the least singular value of the active rows over all cells, by branch and bound.

A node has a set U of active rows and a set N of inactive rows. Every cell of the node contains U, so
:math:`\sigma_{\min}(W_U)` is a lower bound for it. If all rows outside U can be negative at once, a cell with exactly U
exists and the node is closed. Otherwise Gordan's theorem gives a circuit of rows of which at least one is active, and
each of them opens a child. The smallest bound of the open nodes is a lower bound on A at any time, up to rounding.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from initscope.injectivity._layer import Floats

__all__ = ["FrameBounds", "bound_frame", "separate"]

CIRCUIT = 1e-9
"""Distance from 0 to the convex hull of unit rows below which the hull counts as containing 0."""


@dataclass(frozen=True)
class FrameBounds:
    """``lower`` ≤ A ≤ ``upper``, attained at ``point`` if one was found; ``nodes`` visited."""

    lower: float
    upper: float
    point: Floats | None
    nodes: int


def bound_frame(
    weight: Floats, bias: Floats | None, *, upper: float = math.inf, seconds: float = 5.0, nodes: int = 1_000_000
) -> FrameBounds:
    """Bound A by best-first search: open the node with the smallest bound until it reaches ``upper`` or time is over.

    Beyond the sources; compare [Maillard2022]_.

    ``upper`` is the value of a known cell, if there is one. A layer that is not injective has A = 0.

    >>> bounds = bound_frame(np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]]), None)
    >>> bounds.lower, bounds.upper
    (1.0, 1.0)
    """
    end, count, visited, point = time.perf_counter() + seconds, 0, 0, None
    points = _points(weight, bias)
    heap: list[tuple[float, int, int, tuple[int, ...], frozenset[int]]] = [(0.0, 0, 0, (), frozenset())]
    while heap and heap[0][0] < upper and visited < nodes and time.perf_counter() < end:
        bound, _, _, active, inactive = heapq.heappop(heap)
        visited += 1
        circuit, z = _circuit(points, active)
        if z is not None:
            upper, point = min(upper, bound), z if bias is None else z[:-1] / z[-1]
            continue
        for child, forbidden in _children(circuit, inactive, len(weight)):
            rows = (*active, child)
            count += 1
            # Ties go to deeper nodes: among nodes of deficient rank, prefer those closest to full rank.
            value = _least(weight[list(rows)]) if len(rows) >= weight.shape[1] else 0.0
            heapq.heappush(heap, (value, -len(rows), count, rows, forbidden))
    lower = min(heap[0][0], upper) if heap else upper
    return FrameBounds(lower, upper, point, visited)


def _points(weight: Floats, bias: Floats | None) -> Floats:
    """Return unit rows; with a bias, those of (w, b) and a further row that keeps the point finite."""
    rows = weight
    if bias is not None:
        finite = np.zeros((1, weight.shape[1] + 1))
        finite[0, -1] = -1.0
        rows = np.vstack([np.column_stack([weight, bias]), finite])
    norms = np.linalg.norm(rows, axis=1)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0)[:, None])


def _circuit(points: Floats, active: tuple[int, ...]) -> tuple[list[int], Floats | None]:
    """Return a circuit among the rows that are not active, or a point at which all of them are negative."""
    live = np.setdiff1d(np.arange(len(points)), active)
    live = live[np.linalg.norm(points[live], axis=1) > 0]
    if not len(live):
        return [], np.zeros(points.shape[1])
    weights, z = separate(points[live])
    return ([], z) if z is not None else ([int(row) for row in live[weights > 1e-12]], None)


def separate(points: Floats) -> tuple[Floats, Floats | None]:
    """Return weights of the point nearest to 0 in the hull of unit vectors, and a z with ``points @ z < 0`` or None."""
    from scipy.optimize import nnls

    system = np.vstack([points.T, np.ones(len(points))])
    weights, distance = nnls(system, np.concatenate([np.zeros(points.shape[1]), [1.0]]))
    if distance > CIRCUIT:
        nearest = points.T @ weights
        z = -nearest / np.linalg.norm(nearest)
        if (points @ z).max() < 0:
            return weights, z
    return weights, None


def _children(circuit: list[int], inactive: frozenset[int], rows: int) -> Iterator[tuple[int, frozenset[int]]]:
    """Yield each row of the circuit that may be active, with the earlier rows inactive."""
    forbidden = inactive
    for row in circuit:
        if row < rows and row not in inactive:
            yield row, forbidden
            forbidden = forbidden | {row}


def _least(rows: Floats) -> float:
    return float(np.linalg.svd(rows, compute_uv=False)[-1])
