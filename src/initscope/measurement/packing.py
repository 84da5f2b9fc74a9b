"""`packing`: how many points of a cloud are ε apart, compared with Sudakov's bound from its mean width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope.errors import InputError, check_between, check_count
from initscope.measurement.width import mean_width
from initscope.results import Result
from initscope.theory.mean_width import sudakov_log_packing

__all__ = ["Packing", "farthest_first", "packing_numbers"]


@dataclass(frozen=True)
class Packing(Result):
    """Numbers of points at pairwise distance at least ε, found greedily, and Sudakov's upper bound.

    ``complete`` is False if the search stopped at its limit: the number is then a lower bound. If it is True, balls of
    radius ε around the points cover the cloud.
    """

    width: float
    eps: tuple[float, ...]
    numbers: tuple[int, ...]
    complete: tuple[bool, ...]
    log_numbers: tuple[float, ...]
    log_bounds: tuple[float, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per ε."""
        names = ("eps", "number", "complete", "log_number", "log_bound")
        columns = zip(self.eps, self.numbers, self.complete, self.log_numbers, self.log_bounds)
        return [dict(zip(names, row)) for row in columns]


def packing_numbers(
    points: Any, eps: Sequence[float], *, limit: int = 1000, draws: int = 128, seed: int = 0
) -> Packing:
    r"""Greedy packing numbers of a cloud, compared with :math:`\log|K_\varepsilon| \le 1.089\,\omega^2/\varepsilon^2`.

    Source: [Bronstein2016]_, 'Training set size': Sudakov's minoration, with a constant of ours.

    Farthest-first traversal: each point chosen is the one farthest from all before, at distance :math:`r_k`; those with
    :math:`r_k \ge \varepsilon` are pairwise ε apart, and balls of radius ε around them cover the cloud.

    Parameters
    ----------
    points : array ``[points, dimensions]``
        The cloud.
    eps : sequence of float
        Radii.
    limit : int
        Largest number of points that are chosen.
    draws : int
        Random directions for the mean width.
    seed : int
        Seed of these directions.

    Returns
    -------
    Packing
        The packing number and the bound at every radius.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> packing_numbers(square, [0.9, 1.2]).numbers
    (4, 2)
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim < 2 or len(rows) < 2:
        raise InputError(f"points of shape {rows.shape} must be [N, ...] with at least two points")
    rows = rows.reshape(len(rows), -1)
    steps = [check_between("eps", distance, 0.0, math.inf) for distance in eps]
    width = mean_width(rows, draws=draws, seed=seed).value
    _, radii, left = farthest_first(rows, min(check_count("limit", limit), len(rows)))
    numbers = [int((radii >= distance).sum()) for distance in steps]
    return Packing(
        width=width,
        eps=tuple(steps),
        numbers=tuple(numbers),
        complete=tuple(bool(left < distance) for distance in steps),
        log_numbers=tuple(math.log(number) for number in numbers),
        log_bounds=tuple(sudakov_log_packing(width, distance) for distance in steps),
    )


def farthest_first(
    rows: NDArray[Any], count: int, *, start: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Return the order of ``count`` rows, each the farthest from all earlier ones; its distance to them.

    The farthest remaining distance.

    The first k points have pairwise distances of at least the distance of the k-th from the earlier ones, and balls of
    that radius around them cover all rows: they are a packing and an ε-net at once.
    """
    squares = np.einsum("ij,ij->i", rows, rows)
    nearest = np.full(len(rows), np.inf)
    order, radii, chosen = np.empty(count, dtype=np.int64), np.empty(count), start
    for k in range(count):
        order[k], radii[k] = chosen, math.sqrt(nearest[chosen])
        nearest = np.minimum(nearest, _squared_distances(rows, squares, chosen))
        chosen = int(np.argmax(nearest))
    return order, radii, math.sqrt(nearest.max())


_NEAR = 1e-6
"""Share of the squared norms below which a squared distance is formed from differences, not to lose its digits."""


def _squared_distances(rows: NDArray[Any], squares: NDArray[Any], chosen: int) -> NDArray[Any]:
    """Return distances of all rows from one: by a product with the matrix, by differences for close rows."""
    total = squares + squares[chosen]
    distances: NDArray[Any] = total - 2 * (rows @ rows[chosen])
    close = np.flatnonzero(distances < _NEAR * total)
    distances[close] = ((rows[close] - rows[chosen]) ** 2).sum(axis=1)
    return distances
