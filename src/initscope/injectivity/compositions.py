"""Injectivity of a chain of ReLU layers with a few inputs, exact up to rounding.

Without biases the network is linear on polyhedral cones, which `deep_cones` lists. They are cut layer by layer (double
description method). After each layer two things can go wrong: a cone loses rank, or the images of two cones meet. Two
inputs with the same output have the same active rows in this layer. If the layers before are injective, these are
fewer than 2n in general position. So `deep_collision` compares only cones with the same few active rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity.bounding import separate

__all__ = ["Cone", "deep_collision", "deep_cones"]

_Indices = npt.NDArray[np.intp]
_ZERO = 1e-10
"""Relative size below which a product with a unit vector, or a singular value of one layer, counts as zero."""
_PAIRS = 20_000
"""Pairs of cones in one batch."""


@dataclass
class Cone:
    """A cone of inputs on which a network is linear.

    ``inputs`` has one extreme ray in each row. ``rays`` are the same rays in the coordinates from which ``matrix`` maps
    to the output. ``facets @ ray >= 0`` holds inside, and ``tight[i, j]`` says whether ray i lies on facet j.
    """

    inputs: Floats
    rays: Floats
    facets: Floats
    tight: npt.NDArray[np.bool_]
    matrix: Floats

    def halves(self, row: Floats) -> tuple[Cone, Cone] | None:
        """Return the parts with ``row @ image`` negative and positive, or None if the row does not cut the cone."""
        products = self.rays @ row
        size = _ZERO * float(np.linalg.norm(row))
        above, below = products > size, products < -size
        if not (above.any() and below.any()):
            return None
        ups, downs = np.flatnonzero(above), np.flatnonzero(below)
        up, down = np.repeat(ups, len(downs)), np.tile(downs, len(ups))
        shared = self.tight[up] & self.tight[down]
        if self.rays.shape[1] > 2:  # two rays span an edge if no third ray lies on all facets that they share
            missing = shared.astype(np.float32) @ (~self.tight).T.astype(np.float32)
            edges = (missing == 0).sum(axis=1) == 2
            up, down, shared = up[edges], down[edges], shared[edges]
        weights = np.column_stack([-products[down], products[up]])
        weights /= weights.sum(axis=1, keepdims=True)
        on = ~(above | below)
        cut = [weights[:, :1] * values[up] + weights[:, 1:] * values[down] for values in (self.inputs, self.rays)]
        lengths = np.linalg.norm(cut[1], axis=1, keepdims=True)
        cut = [values / lengths for values in cut]
        parts = []
        for side, sign in ((below, -1.0), (above, 1.0)):
            kept = side | on
            inputs, rays = (np.vstack([a[kept], b]) for a, b in zip((self.inputs, self.rays), cut, strict=True))
            tight = np.zeros((len(rays), len(self.facets) + 1), dtype=np.bool_)
            tight[:, :-1] = np.vstack([self.tight[kept], shared])
            tight[:, -1] = np.append(on[kept], np.ones(len(up), dtype=np.bool_))
            used = tight.sum(axis=0) >= rays.shape[1] - 1
            facets = np.vstack([self.facets, sign * row / np.linalg.norm(row)])[used]
            parts.append(Cone(inputs, rays, facets, tight[:, used], self.matrix))
        return parts[0], parts[1]


def deep_cones(layers: Sequence[Any], *, limit: int = 200_000) -> list[Cone]:
    """Return cones of inputs that cover the input space, on each of which a chain of ReLU layers is linear.

    For layers without biases. Neighboring cones can have the same map, because the inputs are first divided into n + 1
    cones.

    Parameters
    ----------
    layers : sequence of array_like
        Weights (outputs × inputs) of each layer, the first layer first.
    limit : int
        Largest number of cones; more raise `InputError`.

    Returns
    -------
    list of Cone
        ``rays`` are the inputs themselves, and ``matrix`` is the map of the network.

    >>> [len(deep_cones([np.eye(2)])), len(deep_cones([np.array([[1.0, 0.2], [-0.3, 1.0], [0.5, -1.0]])]))]
    [5, 9]
    """
    weights = _checked(layers)
    cones = _initial_cones(weights[0].shape[1])
    for weight in weights:
        cones = _split(cones, weight, limit)
        for cone, matrix in zip(cones, _active(cones, weight)[1], strict=True):
            cone.matrix = matrix
    return cones


def deep_collision(layers: Sequence[Any], *, limit: int = 200_000) -> tuple[Floats, Floats] | None:
    """Return two inputs that a chain of ReLU layers maps to the same output, or None if the chain is injective.

    For layers without biases whose weights are in general position: inputs on the boundary of two cones with the same
    output are only found if others inside the cones have one too. Decided in double precision. The coordinates are
    orthonormal again after each layer, so the depth does not add to the rounding. The outlook of [Maillard2022]_
    asks this question for deep networks.

    The cost grows with the number of cones, about (units)^(n - 1): two inputs and 16 layers of 18 units take .1 s,
    three inputs and 4 layers of 20 units .6 s, four inputs and 2 layers of 24 units 5 s.

    Parameters
    ----------
    layers : sequence of array_like
        Weights (outputs × inputs) of each layer, the first layer first.
    limit : int
        Largest number of cones; more raise `InputError`.

    Returns
    -------
    tuple of two arrays, or None
        Different inputs with the same output.

    >>> up = np.eye(2)
    >>> deep_collision([np.vstack([up, -up]), np.vstack([np.eye(4), -np.eye(4)])]) is None
    True
    >>> x, y = deep_collision([up])
    >>> bool(np.allclose(np.maximum(x, 0), np.maximum(y, 0))), bool(np.allclose(x, y))
    (True, False)
    """
    weights = _checked(layers)
    cones = _initial_cones(weights[0].shape[1])
    for layer, weight in enumerate(weights):
        cones = _split(cones, weight, limit)
        active, maps = _active(cones, weight)
        n = maps.shape[2]
        spectra = np.linalg.svd(maps, compute_uv=False)
        lost = np.flatnonzero((active.sum(axis=1) < n) | (spectra[:, -1] <= _ZERO * spectra[:, 0]))
        if len(lost):
            return _collapsed(cones[lost[0]], maps[lost[0]])
        # The first layer cannot fail between cones: the active rows at the middle of a colliding pair do not span.
        for left, right in _comparable(active, n) if layer else ():
            pair = _meeting(cones, maps, left, right)
            if pair is not None:
                return pair
        _advance(cones, maps)
    return None


def _checked(layers: Sequence[Any]) -> list[Floats]:
    weights = [as_layer(layer)[0] for layer in layers]
    if not weights:
        raise InputError("layers is empty; give the weight matrix of each layer, the first layer first")
    if any(after.shape[1] != before.shape[0] for before, after in pairwise(weights)):
        raise InputError(f"layers of shapes {[w.shape for w in weights]} do not fit: outputs must be the next inputs")
    return weights


def _initial_cones(n: int) -> list[Cone]:
    """Return n + 1 cones that cover R^n: the fan of the simplex with vertices e_1, …, e_n and -(1, …, 1)."""
    corners = np.vstack([np.eye(n), -np.ones(n) / np.sqrt(n)])
    cones = []
    for left_out in range(n + 1):
        rays = np.delete(corners, left_out, axis=0)
        cones.append(Cone(rays, rays, np.linalg.inv(rays).T, ~np.eye(n, dtype=np.bool_), np.eye(n)))
    return cones


def _split(cones: Sequence[Cone], weight: Floats, limit: int) -> list[Cone]:
    """Return the parts of all cones on which no row of the next layer changes sign."""
    firsts, rays = _rays(cones)
    rows = weight @ np.stack([cone.matrix for cone in cones])
    owners = np.repeat(np.arange(len(cones)), np.diff(np.append(firsts, len(rays))))
    products = np.einsum("rn,rmn->rm", rays, rows[owners])
    size = _ZERO * np.linalg.norm(rows, axis=2)[owners]  # rays are unit vectors
    cuts = np.logical_or.reduceat(products > size, firsts) & np.logical_or.reduceat(products < -size, firsts)
    parts: list[Cone] = []
    for cone, cutting, forms in zip(cones, cuts, rows, strict=True):
        pieces = [cone]
        for row in np.flatnonzero(cutting):
            pieces = [part for piece in pieces for part in piece.halves(forms[row]) or (piece,)]
        parts += pieces
        if len(parts) > limit:
            raise InputError(
                f"the network is linear on more than {limit} cones, too many to list; use fewer layers or inputs, or"
                " raise limit"
            )
    return parts


def _rays(cones: Sequence[Cone]) -> tuple[_Indices, Floats]:
    """Return the rays of all cones in one array, and the first row of each cone in it."""
    counts = [len(cone.rays) for cone in cones]
    return np.cumsum([0, *counts[:-1]]), np.concatenate([cone.rays for cone in cones])


def _active(cones: Sequence[Cone], weight: Floats) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return which rows of the next layer are active in each cone, and the map from its rays to that layer's output."""
    firsts, rays = _rays(cones)
    maps = weight @ np.stack([cone.matrix for cone in cones])
    active = np.einsum("cmn,cn->cm", maps, np.add.reduceat(rays, firsts)) > 0
    return active, maps * active[:, :, None]


def _advance(cones: Sequence[Cone], maps: Floats) -> None:
    """Replace the rays of all cones by their images, in coordinates of orthonormal bases."""
    bases, triangles = np.linalg.qr(maps)
    inverses = np.linalg.inv(triangles)
    for cone, basis, triangle, inverse in zip(cones, bases, triangles, inverses, strict=True):
        rays = cone.rays @ triangle.T
        size = np.sqrt((rays * rays).sum(axis=1))[:, None]
        cone.inputs, cone.rays, cone.facets, cone.matrix = cone.inputs / size, rays / size, cone.facets @ inverse, basis


def _collapsed(cone: Cone, matrix: Floats) -> tuple[Floats, Floats]:
    """Return two inputs of a cone that differ in a direction which ``matrix`` maps to zero."""
    direction = np.linalg.svd(matrix)[2][-1]
    middle = cone.rays.mean(axis=0)
    step = 0.5 * float(np.min((cone.facets @ middle) / np.maximum(np.abs(cone.facets @ direction), 1e-300)))
    return _input(cone, middle + step * direction), _input(cone, middle - step * direction)


def _input(cone: Cone, image: Floats) -> Floats:
    """Return the input of a cone with this image."""
    from scipy.optimize import nnls

    weights, _ = nnls(cone.rays.T, image)
    return np.asarray(weights @ cone.inputs)


def _comparable(active: npt.NDArray[np.bool_], n: int) -> Iterator[tuple[_Indices, _Indices]]:
    """Yield batches of pairs of cones with the same active rows, fewer than 2n."""
    few = np.flatnonzero(active.sum(axis=1) < 2 * n)
    packed = np.packbits(active[few], axis=1)
    order = np.lexsort(packed.T)
    ends = 1 + np.flatnonzero((packed[order[1:]] != packed[order[:-1]]).any(axis=1))
    pairs = [pair for group in np.split(few[order], ends) for pair in combinations(group, 2)]
    for begin in range(0, len(pairs), _PAIRS):
        left, right = np.array(pairs[begin : begin + _PAIRS]).T
        yield left, right


def _meeting(cones: Sequence[Cone], maps: Floats, left: _Indices, right: _Indices) -> tuple[Floats, Floats] | None:
    """Return inputs inside two cones with the same output, for the first of these pairs that has some.

    The differences of images that the layer maps to zero are a linear space. A point of it inside both cones is a
    strict solution of the inequalities of their facets, which Gordan's theorem decides.
    """
    n = maps.shape[2]
    _, spectra, vectors = np.linalg.svd(np.concatenate([maps[left], -maps[right]], axis=2))
    ranks = (spectra > _ZERO * spectra[:, :1]).sum(axis=1)
    for i, j, rank, basis in zip(left, right, ranks, vectors, strict=True):
        null = basis[rank:].T
        inside = np.vstack([cones[i].facets @ null[:n], cones[j].facets @ null[n:]])
        sizes = np.linalg.norm(inside, axis=1, keepdims=True)
        if not null.shape[1] or sizes.min() <= _ZERO:
            continue
        _, z = separate(-inside / sizes)
        if z is not None:
            return _input(cones[i], null[:n] @ z), _input(cones[j], null[n:] @ z)
    return None
