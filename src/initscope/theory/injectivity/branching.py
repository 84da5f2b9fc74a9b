r"""Exact search for a point with too few active rows: branching on Gordan certificates.

A layer is not injective ⇔ some z leaves the rows {i : w_i·z + b_i ≥ 0} short of spanning R^n. A node of the tree holds
rows U taken as active and rows N taken as inactive. Either all rows outside span(U), and N, can be negative at once
(then z is a witness), or Gordan's theorem names at most n + 1 of them (n + 2 with a bias), a *circuit*
Σ λ_i (w_i, b_i) = 0 with λ > 0, that cannot: one is active. Child j takes the j-th as active, the earlier ones as
inactive; U grows by a dimension each time, so no path is longer than n. The tree of circuits is the certificate.
(Branching as in Froese, Grillo, Skutella 2024; the sets N, which make the children disjoint, keep the tree small.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope._utils.compiled import compiled, has_numba

__all__ = ["Branching", "branch"]

INJECTIVE, WITNESS, UNCLEAR, STOPPED = 1, 0, -1, -2
IN_SPAN = 1e-10
"""A unit row this close to a span counts as inside; a wrong guess is caught when the outcome is verified."""
AT_ZERO = 1e-10
SEPARATED = 1e-11
CHUNK = 20_000 if has_numba() else 200


@compiled
def _solve_affine(points: Any, chosen: Any, count: int, weights: Any) -> bool:
    """Weights (sum 1) of the least-norm point in the affine hull of the chosen points; False if they are dependent."""
    factor = np.empty((count, count))
    for i in range(count):
        for j in range(i + 1):
            total = 1.0
            for d in range(points.shape[1]):
                total += points[chosen[i], d] * points[chosen[j], d]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                if total < 1e-14:
                    return False
                factor[i, i] = np.sqrt(total)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(count):
        total = 1.0
        for k in range(i):
            total -= factor[i, k] * weights[k]
        weights[i] = total / factor[i, i]
    mass = 0.0
    for i in range(count - 1, -1, -1):
        total = weights[i]
        for k in range(i + 1, count):
            total -= factor[k, i] * weights[k]
        weights[i] = total / factor[i, i]
        mass += weights[i]
    for i in range(count):
        weights[i] /= mass
    return True


@compiled
def _inward(points: Any, chosen: Any, lam: Any, count: int, weights: Any) -> tuple[bool, int]:
    """Run Wolfe's minor cycle: move to the least-norm point of the chosen ones, and drop those whose weight falls to 0.

    Return whether the target was reached, and how many points are left.
    """
    dim = points.shape[1]
    while True:
        if count > dim + 1 or not _solve_affine(points, chosen, count, weights):
            return False, count
        shortest = 1.0
        for i in range(count):
            if weights[i] < 1e-13 and lam[i] - weights[i] > 0:
                shortest = min(shortest, lam[i] / (lam[i] - weights[i]))
        kept = 0
        for i in range(count):
            value = lam[i] + shortest * (weights[i] - lam[i])
            if value > 1e-13 or (shortest == 1.0 and weights[i] >= 1e-13):
                chosen[kept], lam[kept] = chosen[i], value
                kept += 1
        if kept == 0:
            return False, count
        if kept == count:
            return True, count
        count = kept


@compiled
def _point(points: Any, chosen: Any, lam: Any, count: int, z: Any) -> float:
    """Minus the weighted sum of the chosen points into ``z``; returns its squared norm."""
    norm = 0.0
    for d in range(points.shape[1]):
        value = 0.0
        for i in range(count):
            value += lam[i] * points[chosen[i], d]
        z[d] = -value
        norm += value * value
    return norm


@compiled
def _lowest(
    points: Any, live: Any, forced: Any, chosen: Any, count: int, z: Any, norm: float
) -> tuple[int, float, float]:
    """Return the entering point: the one with the lowest product with -z, or of the forced ones if low enough.

    Also return the lowest product of all, and that of the chosen points, which never enter: up to rounding their
    products equal the squared norm.
    """
    total, dim = points.shape
    entering, entering_forced, lowest, lowest_forced, nearest = -1, -1, np.inf, np.inf, np.inf
    for i in range(total):
        if live[i]:
            value = 0.0
            for d in range(dim):
                value -= z[d] * points[i, d]
            inside = False
            for k in range(count):
                inside |= chosen[k] == i
            if inside:
                nearest = min(nearest, value)
                continue
            if value < lowest:
                lowest, entering = value, i
            if forced[i] and value < lowest_forced:
                lowest_forced, entering_forced = value, i
    if lowest_forced < norm * (1 - 1e-3):
        entering = entering_forced
    return entering, lowest, nearest


@compiled
def _separate(points: Any, live: Any, forced: Any, chosen: Any, lam: Any, count: int, z: Any) -> tuple[int, int]:
    """Wolfe's least-norm point of the live points' hull: (status, size), a strict separator in ``z`` or a circuit.

    Starts from the ``count`` points in ``chosen`` with weights ``lam``. Forced points enter first: a circuit of points
    that are inactive anyway has fewer children.
    """
    total, dim = points.shape
    weights = np.empty(dim + 2)
    if count == 0:
        for i in range(total):
            if live[i]:
                chosen[0], lam[0], count = i, 1.0, 1
                if forced[i]:
                    break
        if count == 0:
            return UNCLEAR, 0
    for _ in range(50 * dim + 200):
        arrived, count = _inward(points, chosen, lam, count, weights)
        if not arrived:
            return UNCLEAR, count
        norm = _point(points, chosen, lam, count, z)
        if norm < AT_ZERO * AT_ZERO:
            return INJECTIVE, count
        entering, lowest, nearest = _lowest(points, live, forced, chosen, count, z, norm)
        if min(lowest, nearest) > SEPARATED * np.sqrt(norm) and min(lowest, nearest) > 1e-15:
            return WITNESS, count
        if lowest >= norm * (1 - 1e-9):
            return UNCLEAR, count
        chosen[count], lam[count] = entering, 0.0
        count += 1
    return UNCLEAR, count


@compiled
def _inherit(live: Any, forced: Any, residual: Any, circuit: Any, lam: Any, size: Any, depth: int) -> int:
    """Say which points live at a new node, and start its circuit from the parent's; returns the circuit's size."""
    for i in range(live.shape[1]):
        live[depth, i] = forced[i]
    for i in range(residual.shape[1]):
        norm = 0.0
        for d in range(residual.shape[2]):
            norm += residual[depth, i, d] ** 2
        if norm > IN_SPAN * IN_SPAN:
            live[depth, i] = True
    count = 0
    if depth > 0:  # the parent's circuit without the row that became active
        mass = 0.0
        for i in range(size[depth - 1]):
            if live[depth, circuit[depth - 1, i]]:
                circuit[depth, count], lam[depth, count] = circuit[depth - 1, i], lam[depth - 1, i]
                mass += lam[depth - 1, i]
                count += 1
        for i in range(count):
            lam[depth, i] /= mass
    return count


@compiled
def _project(residual: Any, depth: int, row: int) -> None:
    """Return residuals one level deeper: without their parts along that of ``row``, which becomes active."""
    rows, n = residual.shape[1:]
    norm = 0.0
    for d in range(n):
        norm += residual[depth, row, d] ** 2
    for i in range(rows):
        product = 0.0
        for d in range(n):
            product += residual[depth, i, d] * residual[depth, row, d]
        for d in range(n):
            residual[depth + 1, i, d] = residual[depth, i, d] - product / norm * residual[depth, row, d]


@compiled
def _search(
    points: Any, directions: Any, memory: Any, forced: Any, limit: int, tree: Any, state: Any, z: Any
) -> tuple[int, Any]:
    """Run a depth-first search up to ``limit`` nodes; another call continues it. Returns (status, tree).

    ``state`` = [nodes, ints in the tree, depth, 1 if the node at this depth is still to be solved].
    """
    residual, live, circuit, lam, size, position, marked = memory
    n = directions.shape[1]
    depth = state[2]
    while True:
        if state[3] == 1:
            if state[0] >= limit:
                state[2] = depth
                return STOPPED, tree
            count = _inherit(live, forced, residual, circuit, lam, size, depth)
            status, count = _separate(points, live[depth], forced, circuit[depth], lam[depth], count, z)
            if status == UNCLEAR:  # once more from scratch: the warm start may have been ill-conditioned
                status, count = _separate(points, live[depth], forced, circuit[depth], lam[depth], 0, z)
            state[0] += 1
            if status != INJECTIVE:
                return status, tree
            if state[1] + count + 1 > len(tree):
                larger = np.empty(2 * len(tree), dtype=tree.dtype)
                larger[: state[1]] = tree[: state[1]]
                tree = larger
            tree[state[1]] = count
            for i in range(count):
                tree[state[1] + 1 + i] = circuit[depth, i]
                marked[depth, i] = forced[circuit[depth, i]]
            state[1] += count + 1
            size[depth], position[depth] = count, 0
            state[3] = 0
        here = position[depth]
        if depth == n - 1 or here == size[depth]:  # one more active row would span R^n: the node is closed
            for i in range(here):
                if not marked[depth, i]:
                    forced[circuit[depth, i]] = False
            if depth == 0:
                return INJECTIVE, tree
            depth -= 1
            forced[circuit[depth, position[depth]]] = True
            position[depth] += 1
            continue
        if marked[depth, here]:
            position[depth] += 1
            continue
        _project(residual, depth, circuit[depth, here])
        depth += 1
        state[3] = 1


@dataclass(frozen=True)
class Branching:
    """Outcome of `branch`: ``injective`` with its ``tree``, or not with the point ``z``; None if stopped or unclear."""

    injective: bool | None
    tree: npt.NDArray[np.int32] | None
    z: npt.NDArray[np.float64] | None
    nodes: int
    stopped: bool


def branch(
    weight: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64] | None = None,
    *,
    nodes: int = 100_000_000,
    go_on: Callable[[int], bool] | None = None,
) -> Branching:
    """Run the branching on a layer of finite weights; the outcome is numerical and proved by `initscope.injectivity`.

    Stops after this many nodes, or when ``go_on`` (called with the nodes so far, a few times a second) is false.
    ``z`` is homogeneous with a bias (its last entry, positive, scales the point). The tree lists, in preorder, the size
    and the rows of each node's circuit; the row number m stands for "z is finite" when there is a bias.

    >>> square = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    >>> branch(square).injective, branch(square[:3]).injective
    (True, False)
    """
    m, n = weight.shape
    norms = np.linalg.norm(weight, axis=1)
    directions = weight / np.where(norms > 0, norms, 1.0)[:, None]
    if bias is None:
        points, forced = directions, np.zeros(m, dtype=np.bool_)
    else:
        lifted = np.column_stack([weight, bias])
        scale = np.linalg.norm(lifted, axis=1)
        finite = np.zeros((1, n + 1))
        finite[0, -1] = -1.0
        points = np.vstack([lifted / np.where(scale > 0, scale, 1.0)[:, None], finite])
        forced = np.arange(m + 1) == m
    total, dim = points.shape
    residual = np.zeros((n + 1, m, n))
    residual[0] = directions
    memory = (
        residual,
        np.zeros((n + 1, total), dtype=np.bool_),
        np.zeros((n + 1, dim + 2), dtype=np.int64),
        np.zeros((n + 1, dim + 2)),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros((n + 1, dim + 2), dtype=np.bool_),
    )
    tree = np.empty(1 << 12, dtype=np.int32)
    state = np.array([0, 0, 0, 1])
    z = np.zeros(dim)
    status = STOPPED
    while status == STOPPED and state[0] < nodes and (go_on is None or go_on(int(state[0]))):
        status, tree = _search(points, directions, memory, forced, min(nodes, state[0] + CHUNK), tree, state, z)
    return Branching(
        injective={INJECTIVE: True, WITNESS: False}.get(status),
        tree=tree[: state[1]].copy() if status == INJECTIVE else None,
        z=z if status == WITNESS else None,
        nodes=int(state[0]),
        stopped=status == STOPPED,
    )
