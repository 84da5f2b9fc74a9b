"""Decisions against brute force over all cells; degenerate and refused layers; certificates that are corrupted."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.injectivity import decide, verify
from initscope.injectivity.frames import minimal_cells
from initscope.injectivity.rational import branch_exactly, separate_exactly
from initscope.injectivity.records import Certificate


def brute_force(weight, bias):
    """Rank of the active rows of every cell around every ray: shares nothing with the branching."""
    n = weight.shape[1]
    if np.linalg.matrix_rank(weight) < n:
        return False
    rows, required = weight, None
    if bias is not None:
        rows = np.vstack([np.column_stack([weight, bias]), np.eye(n + 1)[-1:]])
        rows[:-1][~weight.any(axis=1)] = 0.0
        required = len(weight)
    for mask, _ in minimal_cells(rows, required):
        active = weight[mask[: len(weight)]]
        if len(active) < n or np.linalg.matrix_rank(active) < n:
            return False
    return True


def random_layer(rng):
    """A small layer: Gaussian or integer weights, often with repeated, zero or opposite rows, with or without bias."""
    n = int(rng.integers(1, 5))
    m = int(rng.integers(n, {1: 7, 2: 11, 3: 11, 4: 10}[n]))
    weight = rng.standard_normal((m, n)) if rng.random() < 0.5 else rng.integers(-2, 3, (m, n)).astype(float)
    if rng.random() < 0.4:
        kind, i, j = rng.integers(4), rng.integers(m), rng.integers(m)
        weight[i] = [weight[j], 0 * weight[j], -weight[j], 2 * weight[j]][kind]
    if rng.random() < 0.3:
        half = weight[: max(n, m // 2)]
        weight = np.vstack([half, -half])
    with_bias = rng.random() < 0.5 and not (n == 4 and len(weight) > 9)
    bias = (
        rng.choice([rng.standard_normal(len(weight)), rng.integers(-1, 2, len(weight)).astype(float)])
        if with_bias
        else None
    )
    return weight, bias


def test_a_thousand_layers_agree_with_brute_force():
    rng = np.random.default_rng(2022)
    verdicts = []
    for _ in range(1000):
        weight, bias = random_layer(rng)
        result = decide(weight, bias)
        assert result.injective is brute_force(weight, bias), (weight, bias, result)
        assert verify(weight, bias, result)
        verdicts.append((result.injective, bias is not None))
    assert {(a, b) for a in (True, False) for b in (True, False)} <= set(verdicts)
    assert sum(verdict for verdict, _ in verdicts) > 150


@pytest.mark.parametrize("method", ["branching", "search", "milp"])
def test_every_method_gives_proofs_that_hold(method):
    rng = np.random.default_rng(7)
    found = set()
    for m in (14, 18, 22, 26):
        weight = rng.standard_normal((m, 4))
        result, truth = decide(weight, method=method, budget=2), decide(weight)
        assert result.injective in (truth.injective, None)
        assert result.injective is None or verify(weight, None, result)
        found.add(result.injective)
    assert False in found
    assert (True in found) == (method == "branching")


def test_branching_in_rational_arithmetic_agrees():
    """The slow exact road gives the same verdicts, also where rows are dependent up to rounding."""
    rng = np.random.default_rng(8)
    for _ in range(12):
        n = int(rng.integers(1, 4))
        weight = rng.integers(-2, 3, (int(rng.integers(n, 9)), n)).astype(float)
        bias = rng.integers(-1, 2, len(weight)).astype(float) if rng.random() < 0.5 else None
        if np.linalg.matrix_rank(weight) < n:
            continue
        outcome = branch_exactly(weight, bias, lambda: True)
        truth = decide(weight, bias).injective
        assert isinstance(outcome, Certificate) is truth
        if truth:
            assert verify(weight, bias, dataclasses.replace(decide(weight, bias), certificate=outcome))


def test_rows_dependent_up_to_rounding_are_settled_exactly():
    """A rotated plane arrangement in space: floating point cannot tell, integers can; no verdict may be wrong."""
    rotation = np.linalg.qr(np.random.default_rng(9).standard_normal((3, 3)))[0]
    flat = np.column_stack([np.random.default_rng(10).standard_normal((9, 2)), np.zeros(9)])
    weight = np.vstack([flat, [[0, 0, 1], [0, 0, -1]]]) @ rotation
    result = decide(weight, budget=20)
    assert result.injective is None or verify(weight, None, result)


def test_gordan_alternative_in_rationals():
    circuit, z = separate_exactly([[1, 0], [0, 1], [-1, -1], [5, 5]])
    assert sorted(circuit) == [0, 1, 2]
    assert z is None
    circuit, z = separate_exactly([[1, 0], [0, 1], [3, -1]])
    assert not circuit
    assert all(sum(a * b for a, b in zip(point, z, strict=True)) < 0 for point in ([1, 0], [0, 1], [3, -1]))


@pytest.mark.parametrize("with_bias", [False, True])
def test_corrupted_certificates_are_rejected(with_bias):
    rng = np.random.default_rng(11)
    weight = rng.standard_normal((30, 4))
    bias = 0.1 * rng.standard_normal(30) if with_bias else None
    yes = decide(weight, bias)
    assert yes.injective
    assert verify(weight, bias, yes)
    tree = yes.certificate.rows
    broken = weight.copy()
    broken[:, 0] = np.abs(broken[:, 0])  # a half-space without active rows: nothing may prove this layer injective
    accepted = []
    for position in range(len(tree)):
        for change in (1, -1):
            changed = tree.copy()
            changed[position] = (changed[position] + change) % 30
            forged = dataclasses.replace(yes, certificate=Certificate.of("tree", changed))
            accepted.append(verify(weight, bias, forged))
            assert not verify(broken, bias, forged)
    # Another row may happen to close a circuit as well; with a new checksum that is simply another proof.
    assert np.mean(accepted) < 0.3
    assert not verify(broken, bias, yes)
    tree[3] += 1
    assert not verify(weight, bias, yes)
    tree[3] -= 1
    assert verify(weight, bias, yes)
    for bad in (tree[:-1], tree[:0], np.append(tree, 0), tree.astype(float), tree[5:]):
        assert not verify(weight, bias, dataclasses.replace(yes, certificate=Certificate.of("tree", bad)))
    assert not verify(weight[::-1].copy(), bias, yes)
    assert not verify(weight, bias, dataclasses.replace(yes, certificate=Certificate.of("faith", tree)))
    assert not verify(weight, bias, dataclasses.replace(yes, certificate=None))


def test_corrupted_witnesses_and_pairs_are_rejected():
    rng = np.random.default_rng(12)
    weight = rng.standard_normal((20, 5))
    no = decide(weight)
    first, second = no.witness
    assert verify(weight, None, no)
    for pair in ((first, first), (first, second + 0.1), (first[:3], second[:3]), (first * np.nan, second)):
        assert not verify(weight, None, dataclasses.replace(no, witness=pair))
    square = np.vstack([np.eye(2), -np.eye(2)])
    yes = decide(square)
    assert yes.method == "rows in opposite pairs"
    for rows in ([[0, 1], [1, 3]], [[0, 2], [0, 2]], [[0, 2]], [[0, 9], [1, 3]]):
        assert not verify(
            square, None, dataclasses.replace(yes, certificate=Certificate.of("opposite rows", np.array(rows)))
        )
    assert not verify(square, [-1, 0, 0, 0], yes)
    assert verify(square, [-1, 0, 1, 0], yes)


def test_the_dead_zone_of_a_negative_bias():
    """Opposite rows whose biases sum below zero leave a slab where neither is active."""
    square = np.vstack([np.eye(2), -np.eye(2)])
    assert decide(square, [-1, 0, 0.5, 0]).injective is False
    assert decide(square, [-1, 0, 1.5, 0]).injective is True


@pytest.mark.parametrize(("weight", "expected"), [([[3]], False), ([[1], [-2]], True), ([[1], [0], [2]], False)])
def test_one_input(weight, expected):
    result = decide(weight)
    assert result.injective is expected
    assert verify(weight, None, result)


def test_input_kinds():
    import torch

    square = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    for given in (
        np.array(square),
        np.array(square, dtype=np.float32),
        torch.tensor(square),
        torch.tensor(square) * 1.0,
    ):
        assert decide(given, np.zeros(4)).injective is True
    assert decide(np.zeros((5, 2))).injective is False
    assert decide(np.ones((1, 4))).method == "rank of W below n"


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        ([[np.nan, 1.0]], None, "NaN"),
        ([[np.inf, 1.0]], None, "infinite"),
        (np.zeros((0, 3)), None, "at least one row"),
        ([1.0, 2.0], None, "must be a matrix"),
        (np.zeros((2, 2, 2)), None, "must be a matrix"),
        ([[1.0, 2.0]], [1.0, 2.0], "one entry per row"),
        ([[1.0]], [np.nan], "NaN"),
        ([["a"]], None, "real numbers"),
        ([[1j]], None, "complex|real numbers"),
        ([[2**60]], None, "2\\^53"),
    ],
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_refused_layers(weight, bias, message):
    with pytest.raises(InputError, match=message):
        decide(weight, bias)


def test_refused_options():
    for options in ({"budget": 0}, {"budget": float("nan")}, {"method": "guess"}):
        with pytest.raises(InputError):
            decide([[1.0], [-1.0]], **options)


def test_budget_is_kept_and_honest():
    """A layer far above the threshold with too many inputs to branch on: undecided, and says so."""
    weight = np.random.default_rng(13).standard_normal((200, 20))
    result = decide(weight, budget=0.5)
    assert result.injective is None
    assert not verify(weight, None, result)
    assert result.fewest_active >= 20
    assert result.table()[0]["decision"] == "undecided"


def test_without_numba_the_plain_code_decides():
    """The extra ``fast`` is optional: the same loops run as Python."""
    code = """if True:
        import sys
        sys.modules["numba"] = None
        import numpy as np
        from initscope.injectivity import decide, verify
        for m in (12, 30):
            weight = np.random.default_rng(1).standard_normal((m, 4))
            decision = decide(weight)
            assert verify(weight, None, decision)
            print(decision.injective)
    """
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.split() == ["False", "True"]


def test_decisions_repeat_with_the_seed():
    weight = np.random.default_rng(14).standard_normal((100, 20))
    first, second = (decide(weight, seed=3) for _ in range(2))
    assert first.injective is False
    assert np.array_equal(first.witness[0], second.witness[0])


def test_certificate_of_opposite_rows_is_found_among_others():
    rng = np.random.default_rng(15)
    half = rng.standard_normal((20, 20))
    weight = np.vstack([half, rng.standard_normal((5, 20)), -2.0 * half])[rng.permutation(45)]
    result = decide(weight)
    assert (result.injective, result.method) == (True, "rows in opposite pairs")


def test_layers_whose_cells_are_thin():
    """A gap of 1e-12 between two rows, and rows opposite up to rounding: both have witnesses, found and verified."""
    from initscope.injectivity import verify

    narrow = decide([[1], [-1]], [-1e-12, 0])
    assert narrow.injective is False
    assert verify([[1], [-1]], [-1e-12, 0], narrow)
    matrix = np.random.default_rng(0).standard_normal((3, 3))
    layer = np.vstack([matrix, -3 * matrix])  # -3v is rounded
    decision = decide(layer)
    assert decision.injective is False or "no two floats fit in" in decision.method
    assert decision.injective is None or verify(layer, None, decision)


def test_collisions_of_integer_weights_are_refined_to_any_digits():
    from initscope.injectivity.verification import collision_residual

    layer = [[1, 1, 0], [0, 1, 1], [1, 0, -1]]
    assert collision_residual(layer, None, decide(layer), digits=60) < 1e-60


def test_rows_whose_squares_vanish_are_refused():
    opposite = np.vstack([np.eye(3), -np.eye(3)])
    opposite[4] *= 1e-200
    with pytest.raises(InputError, match="below 1e-150 their squares underflow"):
        decide(opposite)
    opposite[4] *= 1e60
    decision = decide(opposite)
    assert decision.injective
    assert verify(opposite, None, decision)
