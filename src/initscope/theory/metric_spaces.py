r"""Distance of two finite metric spaces: distortion of a map, and the Gromov–Hausdorff distance.

The talk's stable embedding ([Bronstein2016]_, [Giryes2016]_) is a statement "in the Gromov–Hausdorff sense": a map that
changes no distance by more than δ leaves its image within δ/2 of the set it came from, as metric spaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError
from initscope.results import Result

__all__ = ["GromovHausdorff", "gromov_hausdorff_bounds", "map_distortion"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GromovHausdorff(Result):
    """``lower`` ≤ d_GH ≤ ``upper``; ``distortion`` is that of the map, twice the upper bound."""

    lower: float
    upper: float
    distortion: float


def map_distortion(before: Any, after: Any) -> float:
    r"""Return the largest change of a distance, :math:`\max_{i,j}|d_X(i,j) - d_Y(i,j)|`: the δ of a δ-isometry.

    Two matrices of distances, of the same points before and after a map. [Bronstein2016]_, stable embedding.

    >>> map_distortion([[0, 1], [1, 0]], [[0, 0.75], [0.75, 0]])
    0.25
    """
    x, y = _distances("before", before), _distances("after", after)
    if x.shape != y.shape:
        raise InputError(f"before is {len(x)} points and after {len(y)}; a map needs an image for each point")
    return float(np.abs(x - y).max())


def gromov_hausdorff_bounds(before: Any, after: Any) -> GromovHausdorff:
    r"""Bounds on the Gromov–Hausdorff distance between a set and its image under a map, from their distances.

    .. math:: \tfrac12\,d_H\bigl(\operatorname{ecc}(X), \operatorname{ecc}(Y)\bigr)
              \le d_{GH}(X, Y) \le \tfrac12\max_{x,x'}|d_X(x,x') - d_Y(h(x),h(x'))|

    The map pairs every point with its image and every image with a point, so it is a correspondence, and half its
    distortion bounds the distance from above: the part of the sign theorem of [Bronstein2016]_ and [Giryes2016]_ that
    says "in the Gromov–Hausdorff sense" (every w of h(K) *is* some h(u)). From below: points that correspond have
    eccentricities (largest distances to others) that differ by no more than the distortion, so half the Hausdorff
    distance of the two sets of eccentricities, which is at least half the difference of the diameters, bounds every
    correspondence ([Memoli2012]_).

    Parameters
    ----------
    before, after
        Square matrices of distances; row i of ``after`` belongs to the image of point i. Images may coincide.

    >>> found = gromov_hausdorff_bounds([[0, 1], [1, 0]], [[0, 0.5], [0.5, 0]])
    >>> found.lower, found.upper
    (0.25, 0.25)
    """
    distortion = map_distortion(before, after)
    first, second = (np.unique(_distances("distances", matrix).max(axis=1)) for matrix in (before, after))
    lower = max(_farthest(first, second), _farthest(second, first)) / 2
    return GromovHausdorff(min(lower, distortion / 2), distortion / 2, distortion)


def _farthest(points: Floats, others: Floats) -> float:
    """Return the largest distance of a point of the line from its nearest neighbor among sorted others."""
    right = np.searchsorted(others, points).clip(0, len(others) - 1)
    left = (right - 1).clip(0)
    return float(np.minimum(np.abs(points - others[left]), np.abs(points - others[right])).max())


def _distances(name: str, values: Any) -> Floats:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
        raise InputError(f"{name} of shape {matrix.shape} must be a square matrix of finite distances")
    if (matrix < 0).any() or np.abs(matrix - matrix.T).max() > 1e-9 * max(matrix.max(), 1e-300):
        raise InputError(f"{name} must be symmetric and not negative: distances of points to each other")
    return matrix
