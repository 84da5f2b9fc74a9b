r"""Stability of the inverse of an injective layer: the smallest ratio of output distance to input distance.

κ = inf |f(x) - f(y)| / |x - y| is the lower Lipschitz constant of f = ReLU(W· + b); 1/κ is the Lipschitz constant of
its inverse. With A the least singular value of the active rows, over all cells, A/2 ≤ κ ≤ A.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Any

import numpy as np

from initscope.errors import check_between
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity.bounding import bound_frame
from initscope.results import Result

__all__ = ["Stability", "cell_minimum", "minimal_cells", "pair_ratio", "stability"]

MOST_VERTICES = 300_000
PAIR_SECONDS = 8e-6
"""Time for a pair of opposite vertices of rows in general position, on one CPU core."""
ZERO = 1e-9


@dataclass(frozen=True)
class Stability(Result):
    """Bounds on κ: ``lower`` ≤ κ ≤ ``upper``; ``frame`` is A (exact, or the least found) and ``kappa`` the estimate.

    ``upper`` is attained by a pair of inputs, so it always holds. ``lower`` is half of a certified lower bound on A:
    A itself if it is exact, else the bound that branch and bound proved within its time limit (0 if none).
    """

    lower: float
    upper: float
    frame: float
    kappa: float
    exact: bool
    method: str


def stability(W: Any, bias: Any = None, *, seed: int = 0, restarts: int = 24, seconds: float = 5.0) -> Stability:
    r"""Return bounds and an estimate of the lower Lipschitz constant κ of x ↦ ReLU(Wx + b).

    Beyond the sources; compare [Maillard2022]_.

    .. math:: A = \min_{\text{cells}} \sigma_{\min}(W_{\text{active}}),\qquad A/2 \le \kappa \le A

    A is exact if there are at most 300,000 vertices (every cell contains the active rows of one of its vertices, so
    vertices suffice). It is also exact for rows in general position without bias if their vertices can be listed in
    ``seconds``: 54 rows of 6 inputs take half a minute, 63 rows of 7 inputs ten minutes. Otherwise, two
    searches give an upper bound, and branch and bound gives a lower bound in ``seconds``
    (`initscope.injectivity.bounding`), which is above 0 for up to about six inputs. κ is the best pair found by local
    optimization from ``restarts`` points: an upper bound that
    is usually exact for few inputs.

    >>> s = stability([[1, 0], [0, 1], [-1, 0], [0, -1]])
    >>> round(s.frame, 6), round(s.kappa, 6)         # 1 and 1/√2
    (1.0, 0.707107)
    """
    weight, bias = as_layer(W, bias)
    restarts = int(check_between("restarts", restarts, 0, 100_000))
    n = weight.shape[1]
    dim = n if bias is None else n + 1
    rng = np.random.default_rng(seed)
    used = int(weight.any(axis=1).sum())
    is_exact = used >= dim - 1 and math.comb(used, dim - 1) * (1 if dim <= 2 else 2) <= MOST_VERTICES
    seconds = check_between("seconds", seconds, 0.0, math.inf, ends="low")
    if np.linalg.matrix_rank(weight) < n:
        return Stability(0.0, 0.0, 0.0, 0.0, True, "rank of W below n")
    needed = math.comb(len(weight), n - 1) * PAIR_SECONDS
    listed = _general_minimum(weight) if bias is None and n > 1 and not is_exact and needed <= seconds else None
    if is_exact or listed is not None:
        frame, point = listed or cell_minimum(weight, bias)
        least, is_exact, method = frame, True, "all vertices"
    else:
        frame, point = _sampled_minimum(weight, bias, rng)
        bounds = bound_frame(weight, bias, upper=frame, seconds=seconds)
        if bounds.upper < frame and bounds.point is not None:
            frame, point = bounds.upper, bounds.point
        least, is_exact = bounds.lower, bounds.lower >= frame
        method = "branch and bound" if is_exact else "sampled cells above, branch and bound below"
        if not is_exact and bias is None and seconds < needed < 3600:
            method += f" (all vertices would take {needed:.0f} seconds)"
    if frame < 1e-12 * float(np.linalg.norm(weight, axis=1).max()):
        return Stability(0.0, 0.0, 0.0, 0.0, is_exact, "not injective: " + method)
    kappa = min([frame, *(_descend(weight, bias, start) for start in _pairs(weight, bias, point, rng, restarts))])
    return Stability(least / 2, kappa, frame, kappa, is_exact, method + "; κ by optimization")


def minimal_cells(rows: Floats, required: int | None = None) -> Iterator[tuple[np.ndarray, Floats]]:
    """Return active sets (as masks) of the cells around the rays of a central arrangement, smallest first.

    At a ray in general position the adjacent cell with the fewest active rows has exactly the rows that are positive on
    the ray. If more rows vanish than needed, the cells around the ray are those of the arrangement of the vanishing
    rows, one dimension lower. ``required`` names a row that must be active (the homogeneous coordinate of a bias).
    Yields the mask and a point of the cell. Rows of zeros are never active.
    """
    norms = np.linalg.norm(rows, axis=1)
    live = np.flatnonzero(norms > ZERO)
    units = rows / np.where(norms > ZERO, norms, 1.0)[:, None]
    if required is not None and required not in live:
        return
    if rows.shape[1] == 1:
        for sign in (1.0, -1.0):
            mask = sign * rows[:, 0] > ZERO
            if required is None or mask[required]:
                yield mask, np.array([sign])
        return
    for ray, across in _rays(units, live):
        products = units @ ray
        positive = products > ZERO
        flat = np.abs(products) <= ZERO
        flat[norms <= ZERO] = False
        if required is not None and not positive[required] and not flat[required]:
            continue
        where = np.flatnonzero(flat)
        need = None if required is None or positive[required] else int(np.flatnonzero(where == required)[0])
        for inner, point in _cells_around(units[where], across, need):
            mask = positive.copy()
            mask[where[inner]] = True
            step = across.T @ point
            change = np.abs(units @ step)
            margin = np.abs(products[~flat]) / np.maximum(change[~flat], 1e-300)
            yield mask, np.asarray(ray + 0.5 * min(1.0, float(margin.min(initial=1.0))) * step)


def _rays(units: Floats, live: np.ndarray) -> Iterator[tuple[Floats, Floats]]:
    """Yield the rays orthogonal to dim - 1 independent ones of the ``live`` rows, each once, with a basis across it."""
    dim = units.shape[1]
    seen: set[bytes] = set()
    chosen = np.array(list(combinations(live, dim - 1)), dtype=np.int64).reshape(-1, dim - 1)
    _, spectra, bases = np.linalg.svd(units[chosen])
    for basis in bases[spectra[:, -1] >= ZERO]:
        for ray in (basis[-1], -basis[-1]):
            key = (np.round(ray, 7) + 0.0).tobytes()
            if key not in seen:
                seen.add(key)
                yield ray, basis[:-1]


def _cells_around(rows: Floats, basis: Floats, required: int | None) -> Iterator[tuple[np.ndarray, Floats]]:
    """Yield cells of the rows that vanish on a ray, in the coordinates ``basis`` of the ray's complement."""
    if len(rows) == len(basis):  # independent rows take any signs: all inactive, but for the required one
        signs = -np.ones(len(rows))
        if required is not None:
            signs[required] = 1.0
        yield signs > 0, np.asarray(np.linalg.solve(rows @ basis.T, signs), dtype=np.float64)
        return
    yield from minimal_cells(rows @ basis.T, required)


def cell_minimum(weight: Floats, bias: Floats | None) -> tuple[float, Floats]:
    """Return A = min over cells of the least singular value of the active rows, and a point of that cell."""
    n = weight.shape[1]
    if bias is None and n > 1:
        general = _general_minimum(weight)
        if general is not None:
            return general
    rows, required = weight, None
    if bias is not None:
        finite = np.zeros((1, n + 1))
        finite[0, -1] = 1.0
        rows, required = np.vstack([np.column_stack([weight, bias]), finite]), len(weight)
        flat = ~weight.any(axis=1)
        rows[:-1][flat] = 0.0
    best, location = math.inf, np.zeros(n)
    for mask, point in minimal_cells(rows, required):
        active = weight[mask[: len(weight)]]
        value = float(np.linalg.svd(active, compute_uv=False)[-1]) if len(active) >= n else 0.0
        if value < best:
            best, location = value, point if bias is None else point[:-1] / point[-1]
    return best, location


def _general_minimum(weight: Floats) -> tuple[float, Floats] | None:
    """Compute `cell_minimum` without bias for rows in general position, in batches; None if the rows are not."""
    norms = np.linalg.norm(weight, axis=1)
    if norms.min() <= ZERO:
        return None
    m, n = weight.shape
    units = weight / norms[:, None]
    outer = (weight[:, :, None] * weight[:, None, :]).reshape(m, n * n)
    best, location, winner = math.inf, np.zeros(n), np.ones(m, dtype=bool)
    subsets = chain.from_iterable(combinations(range(m), n - 1))
    while len(flat := np.fromiter(islice(subsets, 4096 * (n - 1)), dtype=np.int64)):
        part = flat.reshape(-1, n - 1)
        frames, corner = np.linalg.qr(units[part].transpose(0, 2, 1), mode="complete")
        if np.abs(np.diagonal(corner, axis1=1, axis2=2)).min() < ZERO:
            return None
        rays = frames[:, :, -1]
        products = rays @ units.T
        np.put_along_axis(products, part, 0.0, axis=1)
        if (np.abs(products) <= ZERO).sum() > part.size:
            return None
        for sign in (1.0, -1.0):
            active = sign * products > 0
            least = np.linalg.eigvalsh((active.astype(np.float64) @ outer).reshape(-1, n, n))[:, 0]
            at = int(least.argmin())
            if least[at] < best:
                best, location, winner = float(least[at]), sign * rays[at], active[at]
    # The square root of a Gram eigenvalue loses half the digits near 0: compute it again from the rows.
    rows = weight[winner]
    value = float(np.linalg.svd(rows, compute_uv=False)[-1]) if len(rows) >= n else 0.0
    return value, location


def _sampled_minimum(weight: Floats, bias: Floats | None, rng: np.random.Generator) -> tuple[float, Floats]:
    """Return the least singular value of the active rows, by searches for few active rows and for a small value."""
    from initscope.injectivity.frame_search import least_frame
    from initscope.injectivity.search import least_active

    value, point = least_frame(weight, bias, rng)
    few = least_active(weight, bias, rounds=1, seed=int(rng.integers(2**31))).point
    active = weight[weight @ few + (0.0 if bias is None else bias) > 0]
    fewest = float(np.linalg.svd(active, compute_uv=False)[-1]) if len(active) >= weight.shape[1] else 0.0
    return (fewest, few) if fewest < value else (value, point)


def pair_ratio(weight: Floats, bias: Floats | None, pair: Floats) -> tuple[float, Floats]:
    """|f(x) - f(y)|² / |x - y|² of ``pair`` = (x, y) flattened, and its gradient."""
    n = weight.shape[1]
    x, y = pair[:n], pair[n:]
    offset = 0.0 if bias is None else bias
    at_x, at_y = weight @ x + offset, weight @ y + offset
    gap = np.maximum(at_x, 0) - np.maximum(at_y, 0)
    difference = x - y
    distance = float(difference @ difference) + 1e-300
    ratio = float(gap @ gap) / distance
    by_x = 2 * (weight.T @ (gap * (at_x > 0)) - ratio * difference) / distance
    by_y = 2 * (-weight.T @ (gap * (at_y > 0)) + ratio * difference) / distance
    return ratio, np.concatenate([by_x, by_y])


def _pairs(
    weight: Floats, bias: Floats | None, point: Floats, rng: np.random.Generator, restarts: int
) -> Iterator[Floats]:
    """Yield initial pairs: across the weakest cell along its weakest direction, and random near-opposite points."""
    n = weight.shape[1]
    active = weight[weight @ point + (0.0 if bias is None else bias) > 0]
    weakest = np.linalg.svd(active)[2][-1] if len(active) else rng.standard_normal(n)
    size = float(np.linalg.norm(point)) or 1.0
    for reach in (0.1, 0.5, 1.0, 2.0):
        yield np.concatenate([point + reach * size * weakest, point - reach * size * weakest])
    for _ in range(restarts):
        x = rng.standard_normal(n)
        yield size * np.concatenate([x, -x + 0.5 * rng.standard_normal(n)])


def _descend(weight: Floats, bias: Floats | None, pair: Floats) -> float:
    """Return a local minimum of the ratio; its kinks are concave, so minima are smooth and L-BFGS finds them."""
    from scipy.optimize import fmin_l_bfgs_b

    pair, _, _ = fmin_l_bfgs_b(lambda p: pair_ratio(weight, bias, p), pair, factr=1.0, pgtol=1e-10, maxiter=500)
    x, y = np.split(pair, 2)
    if np.linalg.norm(x - y) < 1e-9 * (1 + np.linalg.norm(x)):
        return math.inf
    return math.sqrt(max(0.0, pair_ratio(weight, bias, pair)[0]))
