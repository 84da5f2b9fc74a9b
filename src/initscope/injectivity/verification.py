"""Independent check of a `Decision`: it shares no code with the search and uses no tolerance.

"Injective" is checked by replaying the certificate: circuits and bases are proved in floating point with rigorous error
bounds (after Rump), or in integers if these bounds are too coarse. "Not injective" is checked by the exact signs at the
midpoint of the pair: the active rows must not span. `collision_residual` refines the pair to a given number of digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count
from initscope.injectivity import exact
from initscope.injectivity._layer import Floats, as_layer
from initscope.injectivity.collision import active_rows
from initscope.injectivity.records import Certificate, Decision

__all__ = ["collision_residual", "verify"]

EPS = float(np.finfo(np.float64).eps)
PAIR_TOLERANCE = 1e-6
BATCH = 20_000


def verify(weight: Any, bias: Any, decision: Decision) -> bool:
    """Return whether the decision's proof holds for this layer; an undecided decision gives False.

    Source: the criterion of [Puthawala2022]_; the checking of proofs goes beyond the sources.

    >>> from initscope.injectivity import decide
    >>> W = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    >>> verify(W, None, decide(W)), verify(W[:3], None, decide(W))
    (True, False)
    """
    weight, bias = as_layer(weight, bias)
    if decision.injective is True and decision.certificate is not None:
        return _verify_certificate(weight, bias, decision.certificate)
    if decision.injective is False and decision.witness is not None:
        return _verify_witness(weight, bias, *decision.witness)
    return False


def _verify_witness(weight: Floats, bias: Floats | None, first: Floats, second: Floats) -> bool:
    n = weight.shape[1]
    if first.shape != (n,) or second.shape != (n,) or not np.isfinite([first, second]).all():
        return False
    distance = float(np.linalg.norm(first - second))
    if distance == 0:
        return False
    offset = 0.0 if bias is None else bias
    gap = np.abs(np.maximum(weight @ first + offset, 0) - np.maximum(weight @ second + offset, 0))
    if (gap > PAIR_TOLERANCE * distance * np.linalg.norm(weight, axis=1)).any():
        return False
    active = weight[active_rows(weight, bias, first / 2 + second / 2)]
    return not exact.spans(active)


def _verify_certificate(weight: Floats, bias: Floats | None, certificate: Certificate) -> bool:
    if not certificate.intact:
        return False
    if certificate.kind == "opposite rows":
        return _verify_opposite(weight, bias, np.asarray(certificate.rows))
    if certificate.kind == "tree":
        return _verify_tree(weight, bias, np.asarray(certificate.rows))
    return False


def _verify_opposite(weight: Floats, bias: Floats | None, pairs: np.ndarray) -> bool:
    m, n = weight.shape
    if pairs.shape != (n, 2) or pairs.dtype.kind not in "iu" or pairs.min() < 0 or pairs.max() >= m:
        return False
    lifted = weight if bias is None else np.column_stack([weight, bias])
    finite = np.zeros((1, lifted.shape[1]))
    finite[0, -1] = -1.0
    for pair in pairs:
        rows = lifted[pair]
        # s·w_i + w_j = 0 with s·b_i + b_j ≥ 0: then s(w_i·z + b_i) + (w_j·z + b_j) ≥ 0 at every z.
        if not (
            exact.positive_circuit(rows) or (bias is not None and exact.positive_circuit(np.vstack([rows, finite])))
        ):
            return False
    return exact.spans(weight[pairs[:, 0]])


def _verify_tree(weight: Floats, bias: Floats | None, tree: np.ndarray) -> bool:
    m, n = weight.shape
    if tree.dtype.kind not in "iu" or tree.ndim != 1:
        return False
    lifted = weight
    if bias is not None:
        finite = np.zeros((1, n + 1))
        finite[0, -1] = -1.0
        lifted = np.vstack([np.column_stack([weight, bias]), finite])
    circuits: dict[int, set[tuple[int, ...]]] = {}
    bases: set[tuple[int, ...]] = set()
    for circuit, spanning in _replay(tree.tolist(), m, n, with_bias=bias is not None):
        if circuit is None:
            return False
        group = circuits.setdefault(len(circuit), set())
        group.add(circuit)
        bases.update(spanning)
        if len(group) >= BATCH:
            if not _circuits_hold(lifted, group):
                return False
            group.clear()
        if len(bases) >= BATCH:
            if not _bases_hold(weight, bases):
                return False
            bases.clear()
    return all(_circuits_hold(lifted, group) for group in circuits.values()) and _bases_hold(weight, bases)


def _replay(
    tree: list[int], m: int, n: int, *, with_bias: bool
) -> Iterator[tuple[tuple[int, ...] | None, list[tuple[int, ...]]]]:
    """Walk the tree node by node: its circuit (None if the tree is malformed) and the n-row sets that must span.

    A node takes some rows as active (``path``) and some as inactive. Of its circuit one row is active: each row not
    known to be inactive opens a child, which is closed when the path and the row together span the input space.
    """
    inactive = [False] * m + [True]
    path: list[int] = []
    stack: list[tuple[list[int], int]] = []  # the rows a node branches on and how many of them are done
    at = 0
    while True:
        size = tree[at] if at < len(tree) else 0
        circuit = tree[at + 1 : at + 1 + size] if size > 0 else []
        at += 1 + size
        valid = circuit and len(set(circuit)) == size and min(circuit) >= 0 and max(circuit) < m + with_bias
        if not valid:
            yield None, []
            return
        children = [row for row in circuit if not inactive[row]]
        if len(path) == n - 1:
            yield tuple(sorted(circuit)), [tuple(sorted((*path, row))) for row in children]
            children = []
        else:
            yield tuple(sorted(circuit)), []
        stack.append((children, 0))
        while stack:
            children, done = stack.pop()
            if done:
                inactive[path.pop()] = True
            if done < len(children):
                path.append(children[done])
                stack.append((children, done + 1))
                break
            for row in children:
                inactive[row] = False
        else:
            if at != len(tree):
                yield None, []
            return


def _inverse(matrices: Floats) -> tuple[Floats, Floats]:
    """Approximate inverses X of a batch and rigorous bounds on ‖I - X A‖; a bound below 1 proves A regular."""
    dim = matrices.shape[-1]
    try:
        inverse = np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        return np.zeros_like(matrices), np.full(len(matrices), np.inf)
    with np.errstate(all="ignore"):
        defect = np.abs(np.eye(dim) - inverse @ matrices) + (dim + 3) * EPS * (
            np.abs(inverse) @ np.abs(matrices) + np.eye(dim)
        )
        bound = defect.sum(axis=-1).max(axis=-1) * (1 + 2 * dim * EPS)
    return np.asarray(inverse, dtype=np.float64), np.where(np.isfinite(bound), bound, np.inf)


def _bases_hold(weight: Floats, bases: set[tuple[int, ...]]) -> bool:
    """Return whether every set of n rows spans R^n."""
    if not bases:
        return True
    rows = np.array(sorted(bases))
    _, bound = _inverse(weight[rows])
    return all(exact.spans(weight[chosen]) for chosen in rows[~(bound < 1)])


def _circuits_hold(lifted: Floats, circuits: set[tuple[int, ...]]) -> bool:
    """Return whether every set of rows has a positive dependency, so that it cannot be negative all at once."""
    dim = lifted.shape[1]
    if not circuits:
        return True
    rows = np.array(sorted(circuits))
    proved = np.zeros(len(rows), dtype=bool)
    if rows.shape[1] == dim + 1:
        matrices = np.swapaxes(lifted[rows[:, :-1]], 1, 2)
        last = lifted[rows[:, -1]][..., None]
        inverse, bound = _inverse(matrices)
        with np.errstate(all="ignore"):
            weights = -(inverse @ last)
            residual = np.abs(matrices @ weights + last)
            residual += (dim + 3) * EPS * (np.abs(matrices) @ np.abs(weights) + np.abs(last))
            error = (np.abs(inverse) @ residual).max(axis=(1, 2)) / (1 - bound) * (1 + 4 * dim * EPS)
            proved = (bound < 1) & (weights.min(axis=(1, 2)) > error)
    return all(exact.positive_circuit(lifted[chosen]) for chosen in rows[~proved])


def collision_residual(weight: Any, bias: Any, decision: Decision, digits: int = 50) -> float:
    """Refine the difference d of the colliding pair and return the largest |w_i·d| / (|w_i||d|) over the active rows.

    The pair of floats collides only up to rounding. Each step adds about 15 digits to d, with products in exact
    integers, until the outputs of the refined pair z ± d agree to ``digits`` digits. Inactive rows stay inactive.
    """
    weight, bias = as_layer(weight, bias)
    digits = check_count("digits", digits, most=1000)
    if decision.witness is None:
        raise InputError(
            f"the decision ({decision.method}) has no colliding pair; only decisions with injective = False have one"
        )
    first, second = decision.witness
    active = weight[active_rows(weight, bias, first / 2 + second / 2)]
    if not len(active):
        return 0.0
    rows = np.array(exact.integers(active), dtype=object)
    # in units of 2^-64: rows of small integers have norms like √2, which no whole number is near
    norms = [math.isqrt(sum(value * value for value in row) << 128) for row in rows.tolist()]
    solve = np.linalg.pinv(active / np.linalg.norm(active, axis=1, keepdims=True))
    bits = int(digits * 3.33) + 80  # d in fixed point, units of 2^-bits
    direction = (first - second) / np.linalg.norm(first - second)
    fine = np.array([int(value * 2.0**60) << (bits - 60) for value in direction.tolist()], dtype=object)
    worst = math.inf
    for _ in range(digits // 8 + 4):
        products = [(value << 128) // norm for value, norm in zip((rows @ fine).tolist(), norms, strict=True)]
        size = max(abs(value) for value in products)
        worst = float(Fraction(size, 1 << (bits + 64)))
        if worst < 10.0**-digits:
            break
        shift = max(0, size.bit_length() - 60)
        correction = solve @ np.array([float(value >> shift) for value in products])
        fine -= np.array([_shifted(int(value * 2.0**20), shift - 84) for value in correction.tolist()], dtype=object)
    return worst


def _shifted(value: int, bits: int) -> int:
    return value << bits if bits >= 0 else value >> -bits
