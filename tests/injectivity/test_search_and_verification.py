"""Witness search, exact arithmetic, refinement of pairs, layers from files and models."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from initscope.errors import InputError
from initscope.injectivity import (
    collision_residual,
    decide,
    exact,
    find_collision,
    least_active,
    verify,
)
from initscope.injectivity.layers import layer_from_file, layer_from_model
from initscope.reproductions import collision_search, stability_curve

small = st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(small)
def test_exact_rank_and_null_vectors(rows):
    matrix = np.array(rows, dtype=float) * 0.1
    integers = exact.integers(matrix)
    rank = exact.rank(np.array(rows, dtype=float))
    assert rank == np.linalg.matrix_rank(np.array(rows))
    vector = exact.null_vector(integers, 3)
    assert (vector is None) == (exact.rank(matrix) == 3)
    if vector is not None:
        assert any(vector)
        assert all(sum(a * b for a, b in zip(row, vector, strict=True)) == 0 for row in integers)


def test_exact_signs_where_floating_point_is_blind():
    """1 + 2^-60 - 1 is lost in a float sum; the exact sign is not."""
    rows = np.array([[1.0, 2.0**-60, -1.0], [1.0, 0.0, -1.0], [1.0, -(2.0**-60), -1.0], [0.1, 0.2, -0.3]])
    truth = [1, 0, -1, int(np.sign(float(Fraction(0.1) + Fraction(0.2) - Fraction(0.3)) * 1e17))]
    assert exact.signs(rows, np.ones(3)).tolist() == truth
    assert exact.signs(np.array([[1.0]]), np.ones(1), np.array([-1.0])).tolist() == [0]


@pytest.mark.parametrize(("n", "alpha"), [(30, 5.0), (60, 5.5)])
def test_search_finds_collisions_far_above_cover(n, alpha):
    weight = np.random.default_rng(n).standard_normal((round(alpha * n), n))
    result = find_collision(weight, seconds=30)
    assert result.found
    assert result.fewest_active < n
    decision = decide(weight, budget=30)
    assert verify(weight, None, decision)


def test_search_agrees_with_the_exact_answer():
    """Seven inputs near the transition: whatever collision exists is found, and none where there is none."""
    from initscope.theory.injectivity.branching import branch

    truths = []
    for seed in range(10):
        weight = np.random.default_rng(seed).standard_normal((38, 7))
        truths.append(branch(weight).injective)
        assert find_collision(weight, seconds=4 if truths[-1] is False else 0.2).found is not truths[-1]
    assert {True, False} == set(truths)


def test_search_with_bias_and_pair_to_fifty_digits():
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((100, 25)), 0.3 * rng.standard_normal(100)
    decision = decide(weight, bias, budget=30)
    assert decision.injective is False
    assert verify(weight, bias, decision)
    assert collision_residual(weight, bias, decision, digits=50) < 1e-50
    assert not verify(weight, bias + 1e6, decision)
    with pytest.raises(InputError, match="no colliding pair"):
        collision_residual([[1], [-1]], None, decide([[1], [-1]]))


def test_curves_have_their_points():
    curve = collision_search.run([12], [4.0, 30.0], draws=2, seconds=0.3)
    assert [(point.collisions, point.n) for point in curve.points] == [(2, 12), (0, 12)]
    assert curve.reached(12) == 4.0
    assert curve.reached(5) == 0.0
    assert curve.plot().get_legend()
    stable = stability_curve.run([2], [3, 12], draws=12)
    assert stable.points[0].median < stable.points[1].median
    assert len(stable.table()) == 2
    assert stable.plot().get_ylabel()
    with pytest.raises(InputError, match="at most 6"):
        stability_curve.run([9], [3])


@pytest.fixture
def network():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 10))


def test_layers_from_files(tmp_path, network):
    import torch

    weight, bias = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    np.save(tmp_path / "w.npy", weight)
    np.savez(tmp_path / "w.npz", **{"fc1.weight": weight, "fc1.bias": bias})
    torch.save(network.state_dict(), tmp_path / "net.pt")
    torch.save({"state_dict": network.state_dict(), "epoch": 3}, tmp_path / "wrapped.pt")
    assert np.array_equal(layer_from_file(tmp_path / "w.npy")[0], weight)
    assert np.array_equal(layer_from_file(tmp_path / "w.npz", "fc1")[1], bias)
    for name in ("net.pt", "wrapped.pt"):
        assert layer_from_file(tmp_path / name, "3")[0].shape == (10, 64)
    with pytest.raises(InputError, match="convolution"):
        layer_from_file(tmp_path / "net.pt", "0")
    with pytest.raises(InputError, match="choose one"):
        layer_from_file(tmp_path / "net.pt")
    with pytest.raises(InputError, match="its layers are: 0, 3"):
        layer_from_file(tmp_path / "net.pt", "fc9")
    with pytest.raises(InputError, match=r"none.pt is not a file"):
        layer_from_file(tmp_path / "none.pt")
    (tmp_path / "broken.pt").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken.pt is not a .pt file, or damaged"):
        layer_from_file(tmp_path / "broken.pt")


def test_a_convolution_as_a_matrix_and_its_verdict(network):
    import torch

    network.train()
    weight, bias = layer_from_model(network, "0", (1, 6, 6))
    assert network.training
    x = torch.randn(1, 6, 6)
    expected = network[0](x[None]).detach().numpy().ravel()
    assert np.allclose(weight @ x.numpy().ravel() + bias, expected, atol=1e-5)
    assert layer_from_model(network, "3")[0].shape == (10, 64)
    decision = decide(weight, bias, budget=5)
    assert decision.injective is None or verify(weight, bias, decision)
    for layer, shape, message in (
        ("1", None, "choose from: 0, 3"),
        ("0", None, "input-shape"),
        ("0", (3, 6, 6), "does not take"),
    ):
        with pytest.raises(InputError, match=message):
            layer_from_model(network, layer, shape)


@pytest.mark.parametrize(("m", "n"), [(7, 2), (9, 3), (12, 4)])
def test_the_fewest_active_rows_are_those_of_all_cells(m, n):
    """Every cell of the arrangement, listed around its rays: the search finds the least count there is."""
    for draw in range(4):
        layer = np.random.default_rng([m, n, draw]).standard_normal((m, n))
        fewest = m
        for chosen in itertools.combinations(range(m), n - 1):
            ray = np.linalg.svd(layer[list(chosen)])[2][-1]
            positive = np.delete(layer @ ray, chosen) > 0
            fewest = min(fewest, int(positive.sum()), int((~positive).sum()))
        found = least_active(layer, rounds=1, seed=draw)
        assert found.fewest_active == fewest == int((layer @ found.point > 0).sum())
