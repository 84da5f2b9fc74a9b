"""Injectivity of a chain of ReLU layers with two inputs, exact up to rounding.

Without biases the network is linear on sectors of the plane. `deep_sectors` lists them. `deep_collision` looks for a
sector that collapses, and for two sectors whose images share a ray: then different inputs have the same output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError

__all__ = ["Sector", "deep_collision", "deep_sectors"]

Floats = npt.NDArray[np.float64]
_SMALL = 1e-11
"""Relative squared singular value below which a value counts as zero."""
_THIN = 1e-13
"""Angle below which a sector is a ray."""


class Sector(NamedTuple):
    """A sector of the plane, counter-clockwise from ``first`` to ``last`` (unit vectors), and its linear map."""

    first: Floats
    last: Floats
    matrix: Floats

    @property
    def images(self) -> tuple[Floats, Floats]:
        """Images of the two sides."""
        return self.matrix @ self.first, self.matrix @ self.last


def deep_sectors(layers: Sequence[Any]) -> list[Sector]:
    """Sectors of the plane on which a chain of ReLU layers without biases is linear, in order.

    >>> [len(deep_sectors([np.eye(2)])), len(deep_sectors([np.array([[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]])]))]
    [4, 6]
    """
    weights = [np.asarray(layer, dtype=np.float64) for layer in layers]
    if not weights or weights[0].ndim != 2 or weights[0].shape[1] != 2:
        raise InputError("layers must be matrices, the first with two columns: the network must have two inputs")
    if any(a.ndim != 2 or a.shape[1] != b.shape[0] for b, a in pairwise(weights)):
        raise InputError(f"layers of shapes {[w.shape for w in weights]} do not fit: outputs must be the next inputs")
    corners = [np.array(corner, dtype=np.float64) for corner in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    sectors = [Sector(a, b, np.eye(2)) for a, b in zip(corners, corners[1:] + corners[:1])]
    for weight in weights:
        sectors = [part for sector in sectors for part in _split(sector, weight @ sector.matrix)]
    return _merged(sectors)


def _split(sector: Sector, rows: Floats) -> list[Sector]:
    """Return the parts of a sector on which no row changes sign, with their maps after ReLU."""
    start, stop = rows @ sector.first, rows @ sector.last
    cuts = np.flatnonzero(start * stop < 0)
    # In a sector below 180° a row vanishes at most once, at |stop| first + |start| last.
    rays = np.abs(stop[cuts, None]) * sector.first + np.abs(start[cuts, None]) * sector.last
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    order = np.argsort(rays @ (sector.last - sector.first))
    sides = [sector.first, *rays[order], sector.last]
    parts = []
    for a, b in pairwise(sides):
        if _cross(a, b) < _THIN:  # rows that vanish on the same ray, up to rounding
            continue
        active = rows @ (a + b) > 0
        parts.append(Sector(a, b, np.where(active[:, None], rows, 0.0)))
    return parts


def _merged(sectors: list[Sector]) -> list[Sector]:
    """Merge adjacent sectors with the same map, unless the result would reach 180°."""
    # Begin at a true boundary: the first of the four initial corners may not be one.
    boundaries = [k for k, sector in enumerate(sectors) if not np.array_equal(sectors[k - 1].matrix, sector.matrix)]
    first = boundaries[0] if boundaries else 0
    merged: list[Sector] = []
    for sector in sectors[first:] + sectors[:first]:
        before = merged[-1] if merged else None
        if (
            before is not None
            and np.array_equal(before.matrix, sector.matrix)
            and _cross(before.first, sector.last) > 0
        ):
            merged[-1] = Sector(before.first, sector.last, sector.matrix)
        else:
            merged.append(sector)
    return merged


def _cross(a: Floats, b: Floats) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def deep_collision(layers: Sequence[Any]) -> tuple[Floats, Floats] | None:
    """Return two inputs that a chain of ReLU layers maps to the same output, or None if the chain is injective.

    For layers without biases, the first with two inputs. Decided in double precision: either the map of a sector has
    rank below two, or the images of two sectors share a ray. A single layer can only fail in the first way. The outlook
    of [Maillard2022]_ asks this question for deep networks.

    >>> up = np.eye(2)
    >>> deep_collision([np.vstack([up, -up]), np.vstack([np.eye(4), -np.eye(4)])]) is None
    True
    >>> x, y = deep_collision([up])
    >>> np.maximum(x, 0).tolist() == np.maximum(y, 0).tolist(), bool(np.allclose(x, y))
    (True, False)
    """
    sectors = deep_sectors(layers)
    for sector in sorted(sectors, key=lambda sector: -_cross(sector.first, sector.last)):  # widest first
        values, vectors = np.linalg.eigh(sector.matrix.T @ sector.matrix)
        if values[0] <= _SMALL * max(values[1], 1e-300):
            return _collapsed_pair(sector, vectors[:, 0])
    sides = np.stack([np.stack(sector.images, axis=1) for sector in sectors])
    sides = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    left, right = np.triu_indices(len(sectors), 1)
    both = np.concatenate([sides[left], -sides[right]], axis=2)
    values, vectors = np.linalg.eigh(both.transpose(0, 2, 1) @ both)
    for pair in np.flatnonzero(values[:, 0] <= _SMALL):
        i, j = int(left[pair]), int(right[pair])
        adjacent = j - i == 1 or (i == 0 and j == len(sectors) - 1)
        planes = int(np.sum(values[pair] <= _SMALL))
        if planes == 1 and adjacent:
            continue  # the ray they share as inputs
        inputs = _shared(sectors[i], sectors[j]) if planes > 1 else _mixed(sectors[i], sectors[j], vectors[pair][:, 0])
        if inputs is not None:
            return inputs
    return None


def _collapsed_pair(sector: Sector, direction: Floats) -> tuple[Floats, Floats]:
    """Return two inputs inside a sector that differ along ``direction``, which its map sends to zero."""
    middle = sector.first + sector.last
    step = 0.5 * min(abs(_cross(sector.first, middle)), abs(_cross(middle, sector.last)))
    return middle + step * direction, middle - step * direction


def _mixed(left: Sector, right: Sector, weights: Floats) -> tuple[Floats, Floats] | None:
    """Return inputs of two sectors with equal images: positive combinations, by ``weights``, of their sides."""
    if weights.sum() < 0:
        weights = -weights
    if weights.min() < -1e-9:
        return None
    inputs = []
    for sector, (a, b) in ((left, weights[:2]), (right, weights[2:])):
        first, last = (np.linalg.norm(image) for image in sector.images)
        inputs.append(a / first * sector.first + b / last * sector.last)
    return None if np.allclose(inputs[0], inputs[1], rtol=1e-7, atol=1e-9) else (inputs[0], inputs[1])


def _shared(left: Sector, right: Sector) -> tuple[Floats, Floats] | None:
    """Return inputs on a ray that the images of two coplanar sectors share, other than a side they share as inputs."""
    for here, there in ((left, right), (right, left)):
        for source in (there.first + there.last, there.first, there.last):
            image = there.matrix @ source
            inside, *_ = np.linalg.lstsq(np.stack(here.images, axis=1), image, rcond=None)
            if inside.min() > 1e-9:
                point = inside[0] * here.first + inside[1] * here.last
                return (point, source) if here is left else (source, point)
    return None
