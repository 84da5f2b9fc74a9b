r"""Convex cones and random subspaces: conic intrinsic volumes, statistical dimension, Crofton's formula; and beyond.

A cone is given by its intrinsic volumes v_0 … v_m, the probabilities that the projection of a Gaussian vector on it
falls into a face of dimension k. For convex cones Crofton's formula is exact (`crofton_probability`); the cone of the
injectivity problem is a union of orthants, not convex, and `euler_of_layer` counts what additivity then makes of it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_between, check_count

__all__ = [
    "circular_volumes",
    "crofton_probability",
    "euler_of_layer",
    "orthant_volumes",
    "product_volumes",
    "statistical_dimension",
    "subspace_volumes",
]

Floats = npt.NDArray[np.float64]
MOST_PATTERNS = 2_000_000


def orthant_volumes(dim: int) -> Floats:
    r"""Return intrinsic volumes of the non-negative orthant of R^m: :math:`v_k = \binom mk 2^{-m}`.

    Each coordinate of a Gaussian vector is preserved or set to zero by a fair coin. [Amelunxen2014]_ [Amelunxen2014]_

    >>> orthant_volumes(2).tolist()
    [0.25, 0.5, 0.25]
    """
    from scipy.special import gammaln

    k = np.arange(check_count("dim", dim) + 1)
    return np.asarray(np.exp(gammaln(dim + 1) - gammaln(k + 1) - gammaln(dim - k + 1) - dim * math.log(2)))


def subspace_volumes(dim: int, subspace: int) -> Floats:
    """Intrinsic volumes of a linear subspace of dimension ``subspace`` in R^m: only one is not 0. [Amelunxen2014]_

    >>> subspace_volumes(3, 2).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    dim = check_count("dim", dim)
    volumes = np.zeros(dim + 1)
    volumes[check_count("subspace", subspace, least=0, most=dim)] = 1.0
    return volumes


def circular_volumes(dim: int, angle: float) -> Floats:
    r"""Return intrinsic volumes of the circular cone of R^m, vectors within ``angle`` (radians, below π/2) of an axis.

    .. math:: v_k = \frac12\binom{(m-2)/2}{(k-1)/2}\sin^{k-1}\alpha\,\cos^{m-k-1}\alpha,\quad 1 \le k \le m-1,

    and at the ends the shares of directions inside the cone and inside its polar, the cone of π/2 - α. [Amelunxen2014]_

    >>> circular_volumes(2, np.pi / 6).round(6).tolist()      # a sixth of the plane, its polar a third
    [0.333333, 0.5, 0.166667]
    """
    from scipy.special import betainc, gammaln

    dim = check_count("dim", dim, least=2)
    angle = check_between("angle", angle, 0.0, math.pi / 2, hint="an angle in radians, between axis and side")
    sine, cosine = math.sin(angle), math.cos(angle)
    volumes = np.empty(dim + 1)
    volumes[0] = betainc((dim - 1) / 2, 0.5, cosine**2) / 2
    volumes[dim] = betainc((dim - 1) / 2, 0.5, sine**2) / 2
    k = np.arange(1, dim)
    logs = gammaln(dim / 2) - gammaln((k + 1) / 2) - gammaln((dim - k + 1) / 2)
    volumes[1:dim] = 0.5 * np.exp(logs + (k - 1) * math.log(sine) + (dim - k - 1) * math.log(cosine))
    return volumes


def product_volumes(first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
    """Intrinsic volumes of the product of two cones, in the product of their spaces: a convolution. [Amelunxen2014]_

    >>> product_volumes(orthant_volumes(1), orthant_volumes(1)).tolist() == orthant_volumes(2).tolist()
    True
    """
    return np.convolve(_volumes(first), _volumes(second))


def statistical_dimension(volumes: npt.ArrayLike) -> float:
    r"""Mean of the intrinsic volumes, :math:`\delta(C) = \sum_k k\,v_k = E\|\Pi_C(g)\|^2`: the dimension of a cone.

    Half of m for an orthant, about m sin²α for a circular cone. A random subspace of dimension n almost never meets the
    cone if n + δ is well below m, and almost always if it is well above. [Amelunxen2014]_ [Amelunxen2014]_

    >>> statistical_dimension(orthant_volumes(10))
    5.0
    """
    values = _volumes(volumes)
    return round(float(values @ np.arange(len(values))), 12)


def crofton_probability(volumes: npt.ArrayLike, subspace: int) -> float:
    r"""Probability that a random subspace of dimension n meets a convex cone of R^m outside 0: Crofton's formula.

    .. math:: P[V \cap C \ne \{0\}] = 2\,(v_{m-n+1} + v_{m-n+3} + \dots)

    for a cone that is no subspace ([Amelunxen2014]_, quoted by [Maillard2022]_; for a subspace of dimension d: whether
    n + d > m). For an orthant it is Cover's count, c(m, n)/2^m. The cone of the injectivity problem is not convex, and
    there the formula gives the mean Euler characteristic instead: see `euler_of_layer`.

    >>> crofton_probability(orthant_volumes(3), 2)      # six of eight orthants meet a plane
    0.75
    """
    values = _volumes(volumes)
    dim = len(values) - 1
    n = check_count("subspace", subspace, least=0, most=dim)
    flat = np.flatnonzero(values == 1.0)
    if len(flat):
        return float(n > 0 and flat[0] + n > dim)
    return float(min(2 * values[dim - n + 1 :: 2].sum(), 1.0))


def _volumes(volumes: npt.ArrayLike) -> Floats:
    values = np.asarray(volumes, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or (values < 0).any() or abs(values.sum() - 1) > 1e-9:
        raise InputError(
            "volumes must be v_0 … v_m, not negative, with sum 1; orthant_volumes makes those of an orthant"
        )
    return values


def euler_of_layer(weights: npt.ArrayLike) -> int:
    r"""Euler characteristic of the unit directions where fewer than n rows of a layer (m×n) are active; by enumeration.

    .. math:: \chi = \sum_{k<n} (-1)^{n-1-k}\,\#\{\text{faces on } k \text{ hyperplanes with fewer than } n
              \text{ positive rows}\}

    The layer is injective exactly if there is no such direction, and then χ = 0. The theorem of [Maillard2022]_ says
    that χ is the only additive functional that is 1 for every convex cone; the consequence: a method that needs
    additivity over the orthants of C computes E χ = `euler_characteristic`, and where the directions form several
    pieces (χ = 2, 3, …) or a piece with holes, that is not the probability 1 - p that there are any.

    Exact for rows in general position and small layers: all faces are listed.

    >>> euler_of_layer([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0], [0.1, -1.0]])      # not injective, on two separate arcs
    2
    """
    rows = np.asarray(weights, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] < rows.shape[1]:
        raise InputError(f"weights of shape {rows.shape} must be rows × inputs, with no fewer rows than inputs")
    m, n = rows.shape
    if n * math.comb(m, n - 1) * 2**n > MOST_PATTERNS:
        raise InputError(
            f"a layer of {m}×{n} has too many faces to list (more than {MOST_PATTERNS:,}); use a smaller one"
        )
    total = 0
    for zero in range(n):
        count = sum(_few_positive(rows, face, n) for face in itertools.combinations(range(m), zero))
        total += (-1) ** (n - 1 - zero) * count
    return total


def _few_positive(rows: Floats, zero: tuple[int, ...], n: int) -> int:
    """Return the cells of the flat on which these rows vanish, with fewer than n of the others positive."""
    others = np.delete(rows, zero, axis=0)
    if zero:
        # An orthonormal basis of the flat: the others, restricted to it.
        others = others @ np.linalg.svd(rows[list(zero)])[2][len(zero) :].T
    return sum(1 for cell in _cells(others) if sum(cell) < n)


def _cells(rows: Floats) -> set[tuple[bool, ...]]:
    """Sign patterns of a central arrangement in general position: those around its rays, two for each n - 1 rows."""
    m, n = rows.shape
    if n == 1:
        signs = rows[:, 0] > 0
        return {tuple(signs.tolist()), tuple((~signs).tolist())}
    patterns = set()
    for chosen in itertools.combinations(range(m), n - 1):
        ray = np.linalg.svd(rows[list(chosen)])[2][-1]
        for signs in (rows @ ray > 0, rows @ -ray > 0):
            for sides in itertools.product((False, True), repeat=n - 1):
                signs[list(chosen)] = sides
                patterns.add(tuple(signs.tolist()))
    return patterns
