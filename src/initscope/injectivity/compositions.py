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
_ROUNDING = 1e-14
"""Rounding of a determinant of four unit vectors, generously."""
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
    """Return sectors of the plane on which a chain of ReLU layers without biases is linear, in order.

    >>> [len(deep_sectors([np.eye(2)])), len(deep_sectors([np.array([[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]])]))]
    [4, 6]
    """
    weights = [np.asarray(layer, dtype=np.float64) for layer in layers]
    if not weights or weights[0].ndim != 2 or weights[0].shape[1] != 2:
        raise InputError("layers must be matrices, the first with two columns: the network must have two inputs")
    if any(a.ndim != 2 or a.shape[1] != b.shape[0] for b, a in pairwise(weights)):
        raise InputError(
            f"layers of shapes {[w.shape for w in weights]} do not fit: "
            "the number of inputs of each layer must be the number of outputs of the one before"
        )
    corners = [np.array(corner, dtype=np.float64) for corner in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    sectors = [Sector(a, b, np.eye(2)) for a, b in zip(corners, corners[1:] + corners[:1])]
    for weight in weights:
        sectors = [part for sector in sectors for part in _split(sector, weight @ sector.matrix)]
    return _merged(sectors)


def _split(sector: Sector, rows: Floats) -> list[Sector]:
    """Return the parts of a sector on which no row changes sign, with their maps after ReLU."""
    start, stop = rows @ sector.first, rows @ sector.last
    cuts = np.flatnonzero(start * stop < 0)
    if not len(cuts):
        return [Sector(*sector[:2], np.where((start + stop > 0)[:, None], rows, 0.0))]
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
    widest = sorted(sectors, key=lambda sector: -_cross(sector.first, sector.last))
    matrices = np.stack([sector.matrix for sector in widest])
    values, vectors = np.linalg.eigh(matrices.transpose(0, 2, 1) @ matrices)
    collapsed = np.flatnonzero(values[:, 0] <= _SMALL * np.maximum(values[:, 1], 1e-300))
    if len(collapsed):
        return _collapsed_pair(widest[collapsed[0]], vectors[collapsed[0]][:, 0])
    sides = np.stack([np.stack(sector.images, axis=1) for sector in sectors])
    sides = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    left, right, grams = _near_pairs(sides)
    values, vectors = np.linalg.eigh(grams)
    planes = np.sum(values <= _SMALL, axis=1)
    adjacent = (right - left == 1) | ((left == 0) & (right == len(sectors) - 1))  # they share a ray as inputs
    outside = ~_have_one_sign(vectors[:, :, 0])
    for pair in np.flatnonzero((planes > 1) | ((planes == 1) & ~adjacent & ~outside)):
        here, there = sectors[left[pair]], sectors[right[pair]]
        inputs = _shared(here, there) if planes[pair] > 1 else _mixed(here, there, vectors[pair][:, 0])
        if inputs is not None:
            return inputs
    return None


def _near_pairs(sides: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Floats]:
    """Return the pairs of planes that may share a ray, and the Gram matrices of the unit vectors that span each pair.

    The least eigenvalue of a Gram matrix is at least 1 / trace of the inverse, which is its determinant over the sum of
    its principal minors of order 3: only pairs for which that is at most `_SMALL` need their eigenvalues.
    """
    left, right = np.triu_indices(len(sides), 1)
    first, last = sides[:, :, 0], sides[:, :, 1]
    angle = np.einsum("ni,ni->n", first, last)
    # The matrix is [[1, a, p, q], [a, 1, r, s], [p, r, 1, b], [q, s, b, 1]].
    p, q, r, s = (-(here @ there.T)[left, right] for here in (first, last) for there in (first, last))
    a, b = angle[left], angle[right]
    squares = p * p + q * q + r * r + s * s
    threes = a * (p * r + q * s) + b * (p * q + r * s)
    fours = (p * s - q * r) ** 2 - 2 * a * b * (p * s + q * r)
    determinant = (1 - a * a) * (1 - b * b) - squares + 2 * threes + fours
    minors = 4 - 2 * (a * a + b * b + squares) + 2 * threes
    near = np.flatnonzero(determinant <= _SMALL * minors + _ROUNDING)
    grams = np.empty((len(near), 4, 4))
    grams[:, range(4), range(4)] = 1.0
    for (i, j), entries in zip([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], (a, p, q, r, s, b), strict=True):
        grams[:, i, j] = grams[:, j, i] = entries[near]
    return left[near], right[near], grams


def _collapsed_pair(sector: Sector, direction: Floats) -> tuple[Floats, Floats]:
    """Return two inputs inside a sector that differ along ``direction``, which its map sends to zero."""
    middle = sector.first + sector.last
    step = 0.5 * min(abs(_cross(sector.first, middle)), abs(_cross(middle, sector.last)))
    return middle + step * direction, middle - step * direction


def _have_one_sign(weights: Floats) -> npt.NDArray[np.bool_]:
    """Return whether the weights of each row have one sign, up to rounding."""
    sign = np.where(weights.sum(axis=-1) < 0, -1.0, 1.0)
    result: npt.NDArray[np.bool_] = np.min(sign[..., None] * weights, axis=-1) >= -1e-9
    return result


def _mixed(left: Sector, right: Sector, weights: Floats) -> tuple[Floats, Floats] | None:
    """Return inputs of two sectors with equal images: combinations of their sides by ``weights`` of one sign."""
    if weights.sum() < 0:
        weights = -weights
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
