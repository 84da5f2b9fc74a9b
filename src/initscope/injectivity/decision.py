"""`decide`: is this ReLU layer injective? Cheap proofs first, exact branching where it fits, else a witness search."""

from __future__ import annotations

import time
from typing import Any, Literal, get_args

import numpy as np

from initscope._utils.compiled import has_numba
from initscope.errors import InputError, check_between
from initscope.injectivity import exact
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity._progress import bar
from initscope.injectivity.collision import active_rows, colliding_pair, far_point, vertex_point
from initscope.injectivity.records import Certificate, Decision
from initscope.injectivity.verification import verify

__all__ = ["Method", "decide"]

Method = Literal["auto", "branching", "milp", "search"]
SMALL = 8
"""Up to this many inputs branching takes less time than anything else."""


class _Attempt:
    """A layer with its time budget; it builds the decisions."""

    def __init__(self, weight: Floats, bias: Floats | None, budget: float) -> None:
        self.weight, self.bias = weight, bias
        self.start = time.perf_counter()
        self.deadline = self.start + budget
        self.fewest: int | None = None
        self.nodes = 0

    def left(self) -> float:
        return self.deadline - time.perf_counter()

    def decision(self, injective: bool | None, method: str, **proof: Any) -> Decision:
        m, n = self.weight.shape
        seconds = time.perf_counter() - self.start
        return Decision(injective, method, n, m, fewest_active=self.fewest, nodes=self.nodes, seconds=seconds, **proof)

    def at(self, z: Floats, method: str) -> Decision | None:
        """Return the decision "not injective" if ``z`` is a witness whose pair passes `verify`."""
        pair = colliding_pair(self.weight, self.bias, z)
        if pair is None:
            return None
        count = int(active_rows(self.weight, self.bias, z).sum())
        self.fewest = count if self.fewest is None else min(self.fewest, count)
        return self.proved(self.decision(False, method, witness=pair))

    def proved(self, decision: Decision) -> Decision | None:
        """Return the decision if its proof passes `verify`, else None."""
        return decision if verify(self.weight, self.bias, decision) else None


def decide(
    W: Any, bias: Any = None, *, budget: float = 60, seed: int = 0, method: Method = "auto", progress: bool = False
) -> Decision:
    r"""Decide whether x ↦ ReLU(Wx + b) is injective on R^n, with a proof either way.

    The layer is injective if and only if at every input z the rows with :math:`w_i\cdot z + b_i \ge 0` span R^n
    ([Puthawala2022]_; with a bias the same holds). Deciding is coNP-complete, and fixed-parameter tractable in the
    number of inputs (Froese, Grillo, Skutella 2024). In turn:

    1. linear algebra decides if rank(W) < n, if there are fewer than 2n or 3n - 1 rows, or if rows come in opposite
       pairs;
    2. `branching` on Gordan certificates decides exactly, if the tree fits in the budget (12 inputs in a minute);
    3. otherwise a search looks for a point with fewer than n active rows for ``budget`` seconds. If it finds a witness
       the answer is "not injective", else the decision is None.

    Weights are not rounded: weights that are equal up to rounding count as different.

    Parameters
    ----------
    W, bias
        Weights (outputs × inputs) and bias (outputs) of the layer: arrays, lists or tensors.
    budget
        Time limit in seconds (the current step is finished).
    seed
        Seed of the random search; the same seed and enough budget give the same answer.
    method
        ``"auto"``, or only one of ``"branching"``, ``"milp"`` (HiGHS minimizes the active rows) and ``"search"``.
    progress
        Show a progress bar on stderr.

    >>> decide([[1, 0], [0, 1], [-1, 0], [0, -1]]).injective
    True
    >>> decide([[1, 0], [0, 1], [-1, -1]]).method
    'fewer than 2n rows'
    """
    weight, bias = as_layer(W, bias)
    budget = check_between("budget", budget, 0.0, np.inf, hint="seconds, for example 60")
    if method not in get_args(Method):
        raise InputError(f"method = {method!r} must be one of {', '.join(get_args(Method))}")
    attempt = _Attempt(weight, bias, budget)
    if method == "auto":
        decision = _cheap(attempt, seed)
        if decision is not None:
            return decision
    n = weight.shape[1]
    if method == "branching" or (method == "auto" and _branching_seconds(n) <= budget):
        if method == "auto" and n > SMALL:  # the search finds a witness, if there is one, long before the tree is done
            decision = _search(attempt, seed, min(2.0, 0.1 * budget), progress)
            if decision is not None:
                return decision
        return _branch(attempt, progress)
    if method == "milp":
        return _milp(attempt)
    decision = _search(attempt, seed, attempt.left(), progress)
    return decision or attempt.decision(None, "witness search: no witness in the time budget")


def _branching_seconds(n: int) -> float:
    """Return a rough time of the tree: 240,000 nodes in 3 s at 10 inputs, almost fivefold per input."""
    return 0.0 if n <= SMALL else (3.0 if has_numba() else 600.0) * 4.5 ** (n - 10)


def _cheap(attempt: _Attempt, seed: int) -> Decision | None:
    """Return the decision if linear algebra alone gives one."""
    weight, bias = attempt.weight, attempt.bias
    m, n = weight.shape
    scaled = weight / np.maximum(np.linalg.norm(weight, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    spectrum = np.linalg.svd(scaled, compute_uv=False)
    if m < n or (spectrum[-1] < 1e-6 and not exact.spans(weight)):
        return attempt.at(np.zeros(n), "rank of W below n")
    certificate = _opposite_rows(weight, bias)
    if certificate is not None:
        decision = attempt.proved(attempt.decision(True, "rows in opposite pairs", certificate=certificate))
        if decision is not None:
            return decision
    rng = np.random.default_rng(seed)
    nonzero = np.flatnonzero(weight.any(axis=1))
    if len(nonzero) < 2 * n:
        for towards in np.outer([1.0, -1.0], rng.standard_normal(n)):
            decision = attempt.at(far_point(weight, bias, towards), "fewer than 2n rows")
            if decision is not None:
                return decision
    if len(nonzero) < 3 * n - 1:
        for _ in range(3):
            ray = vertex_point(weight, rng.choice(nonzero, n - 1, replace=False))
            decision = attempt.at(far_point(weight, bias, ray), "fewer than 3n - 1 rows")
            if decision is not None:
                return decision
    return None


def _opposite_rows(weight: Floats, bias: Floats | None) -> Certificate | None:
    """Return a certificate of n independent pairs of opposite rows: one row of each pair is active at every input."""
    norms = np.linalg.norm(weight, axis=1)
    used = np.flatnonzero(norms > 0)
    units = np.round(weight[used] / norms[used, None], 9) + 0.0
    first: dict[bytes, int] = {}
    for row, unit in zip(used.tolist(), units, strict=True):
        # Of parallel rows, the one with the largest relative bias is active whenever another is.
        key = unit.tobytes()
        known = first.get(key)
        if known is None or (bias is not None and bias[row] / norms[row] > bias[known] / norms[known]):
            first[key] = row
    pairs = []
    for row, unit in zip(used.tolist(), units, strict=True):
        other = first.get((-unit + 0.0).tobytes())
        if other is None or first[unit.tobytes()] != row or other < row:
            continue
        scaled = weight[row] * norms[other] + weight[other] * norms[row]
        if np.abs(scaled).max() > 1e-12 * norms[row] * norms[other]:
            continue
        if bias is None or bias[row] / norms[row] + bias[other] / norms[other] >= 0:
            pairs.append((row, other))
    n = weight.shape[1]
    if len(pairs) < n:
        return None
    chosen = _independent(weight[[row for row, _ in pairs]])
    if len(chosen) < n:
        return None
    return Certificate.of("opposite rows", np.array([pairs[i] for i in chosen]))


def _independent(rows: Floats) -> list[int]:
    """Choose linearly independent rows greedily (pivoted QR)."""
    from scipy.linalg import qr

    _, triangle, order = qr(rows.T / np.linalg.norm(rows, axis=1), mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    return [int(i) for i, value in zip(order, diagonal, strict=False) if value > 1e-9]


def _branch(attempt: _Attempt, progress: bool) -> Decision:
    from initscope.theory.injectivity.branching import branch

    with bar("branching", "nodes", progress) as update:

        def go_on(nodes: int) -> bool:
            update(nodes)
            return attempt.left() > 0

        outcome = branch(attempt.weight, attempt.bias, go_on=go_on)
    attempt.nodes = outcome.nodes
    if outcome.tree is not None:
        tree = Certificate.of("tree", outcome.tree)
        decision = attempt.proved(attempt.decision(True, "branching on Gordan certificates", certificate=tree))
        if decision is not None:
            return decision
    elif outcome.z is not None:
        z = outcome.z if attempt.bias is None else outcome.z[:-1] / outcome.z[-1]
        decision = attempt.at(z, "branching on Gordan certificates")
        if decision is not None:
            return decision
    if outcome.stopped:
        return attempt.decision(None, f"branching: budget spent after {outcome.nodes} nodes")
    return _branch_exactly(attempt)


def _branch_exactly(attempt: _Attempt) -> Decision:
    """Run the branching in rational arithmetic, for layers whose rows are dependent up to rounding."""
    from initscope.injectivity.rational import branch_exactly

    outcome = branch_exactly(attempt.weight, attempt.bias, lambda: attempt.left() > 0)
    method = "branching in rational arithmetic"
    if outcome is None:
        return attempt.decision(None, "branching: unclear in floating point, budget spent in rational arithmetic")
    if isinstance(outcome, Certificate):
        decision = attempt.proved(attempt.decision(True, method, certificate=outcome))
        return decision or attempt.decision(None, "branching in rational arithmetic: its certificate does not hold")
    # Rounding the exact point to floats may leave a thin cell: try other multiples, which round differently.
    factors = [1.0] if attempt.bias is not None else np.random.default_rng(0).uniform(1, 2, 64)
    for factor in factors:
        decision = attempt.at(outcome * factor, method)
        if decision is not None:
            return decision
    return attempt.decision(
        None, "branching in rational arithmetic: rows that differ only by rounding leave a cell too thin for two floats"
    )


def _milp(attempt: _Attempt) -> Decision:
    from initscope.injectivity.milp import fewest_active_point

    point, bound = fewest_active_point(attempt.weight, attempt.bias, seconds=attempt.left())
    decision = None if point is None else attempt.at(point, "mixed-integer program (HiGHS)")
    return decision or attempt.decision(None, f"mixed-integer program: {bound}")


def _search(attempt: _Attempt, seed: int, seconds: float, progress: bool) -> Decision | None:
    from initscope.injectivity.search import find_collision

    result = find_collision(attempt.weight, attempt.bias, seconds=max(0.05, seconds), seed=seed, progress=progress)
    attempt.fewest = result.fewest_active if attempt.fewest is None else min(attempt.fewest, result.fewest_active)
    return attempt.at(result.point, f"witness search ({result.method})") if result.found else None
