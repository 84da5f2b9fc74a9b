"""Stability constants: closed examples, brute force over directions, A/2 ≤ κ ≤ A."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.injectivity import decide, stability
from initscope.injectivity.bounding import bound_frame
from initscope.injectivity.frame_search import least_frame
from initscope.injectivity.frames import cell_minimum, pair_ratio


def pentagon():
    angles = 2 * np.pi * np.arange(5) / 5
    return np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_plus_and_minus_the_identity(n):
    result = stability(np.vstack([np.eye(n), -np.eye(n)]))
    assert result.frame == pytest.approx(1.0, abs=1e-9)
    assert result.kappa == pytest.approx(1 / math.sqrt(2), abs=1e-9)


def test_pentagon():
    result = stability(pentagon())
    assert result.frame == pytest.approx(math.sqrt(1 - math.cos(math.radians(72))), abs=1e-9)
    assert result.kappa == pytest.approx(0.776534, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_and_brute_force_over_cells(seed):
    """A against 20,000 sampled cells (an upper bound that meets it in the plane), κ against sampled pairs."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((12 + seed, 2))
    bias = 0.3 * rng.standard_normal(len(weight)) if seed % 2 else None
    result = stability(weight, bias)
    offset = 0.0 if bias is None else bias
    points = rng.standard_normal((20_000, 2)) * (1 if bias is None else 3)
    patterns = np.unique(points @ weight.T + offset > 0, axis=0)
    sampled = min(np.linalg.svd(weight[p], compute_uv=False)[-1] if p.sum() >= 2 else 0.0 for p in patterns)
    assert result.frame <= sampled + 1e-12
    if bias is None:
        assert result.frame == pytest.approx(sampled, abs=1e-9)
    assert result.lower <= result.kappa <= result.upper <= result.frame + 1e-12
    assert result.lower == pytest.approx(result.frame / 2)
    pairs = rng.standard_normal((2000, 4))
    ratios = [math.sqrt(pair_ratio(weight, bias, pair)[0]) for pair in pairs]
    assert result.kappa <= min(ratios) + 1e-9


def test_zero_exactly_when_not_injective():
    rng = np.random.default_rng(3)
    for m in range(8, 18):
        weight = rng.standard_normal((m, 3))
        assert (stability(weight, restarts=1).upper > 0) == decide(weight).injective


def test_repeated_rows_count_twice():
    """Doubling every row multiplies A by √2: the cells are the same."""
    weight = pentagon()
    assert cell_minimum(np.vstack([weight, weight]), None)[0] == pytest.approx(
        math.sqrt(2) * cell_minimum(weight, None)[0]
    )
    with_zero = np.vstack([weight, np.zeros((1, 2))])
    assert cell_minimum(with_zero, None)[0] == pytest.approx(cell_minimum(weight, None)[0])


def test_vertices_are_listed_while_there_is_time():
    """46 rows of 5 inputs: exact in five seconds, bounded in less; no cell among 20,000 sampled ones lies below."""
    rng = np.random.default_rng(7)
    weight = rng.standard_normal((46, 5))
    exact, hurried = stability(weight, restarts=1), stability(weight, restarts=1, seconds=0.2)
    assert exact.exact
    assert not hurried.exact
    assert hurried.lower <= exact.lower
    assert exact.frame <= hurried.frame + 1e-12
    patterns = np.unique(rng.standard_normal((20_000, 5)) @ weight.T > 0, axis=0)
    grams = np.einsum("ki,ij,il->kjl", patterns.astype(float), weight, weight, optimize=True)
    assert exact.frame <= math.sqrt(np.linalg.eigvalsh(grams)[:, 0].min()) + 1e-9


def test_larger_layers_have_an_honest_lower_bound():
    """Ten inputs are too many for a proof in a second: the lower bound is then 0, not a guess."""
    weight = np.random.default_rng(4).standard_normal((90, 10))
    result = stability(weight, restarts=2, seconds=0.5)
    assert not result.exact
    assert result.lower == 0.0
    assert 0 < result.upper <= result.frame


@pytest.mark.parametrize(("n", "m", "biased"), [(2, 14, False), (3, 18, False), (3, 20, True), (2, 12, True)])
def test_branch_and_bound_against_all_vertices(n, m, biased):
    """Two ways that share nothing to the same A: circuits of rows, and every vertex of the arrangement."""
    rng = np.random.default_rng(n * m)
    weight = rng.standard_normal((m, n))
    bias = 0.3 * rng.standard_normal(m) if biased else None
    bounds = bound_frame(weight, bias, seconds=60)
    assert bounds.lower == bounds.upper == pytest.approx(cell_minimum(weight, bias)[0], abs=1e-9)


def test_bounds_stopped_early_still_hold():
    """Lower bounds of any budget stay below A, and rise with it."""
    weight = np.random.default_rng(0).standard_normal((20, 3))
    exact = cell_minimum(weight, None)[0]
    lowers = [bound_frame(weight, None, upper=exact, seconds=60, nodes=nodes).lower for nodes in (1, 20, 60, 10_000)]
    assert lowers == sorted(lowers)
    assert lowers[0] == 0.0
    assert lowers[2] > 0
    assert lowers[-1] == pytest.approx(exact, abs=1e-9)


def test_five_inputs_and_ninety_rows_have_a_certified_lower_bound():
    """Beyond the vertices that can be visited; no pair of inputs may come below it."""
    rng = np.random.default_rng(6)
    weight = rng.standard_normal((90, 5))
    bounds = bound_frame(weight, None, seconds=60, nodes=1500)
    assert bounds.lower > 0
    pairs = rng.standard_normal((3000, 10))
    assert min(math.sqrt(pair_ratio(weight, None, pair)[0]) for pair in pairs) >= bounds.lower / 2


def test_gradient_of_the_ratio():
    """Central differences to 1e-7 at a smooth point."""
    rng = np.random.default_rng(5)
    weight, bias, pair = rng.standard_normal((9, 3)), rng.standard_normal(9), rng.standard_normal(6)
    _, gradient = pair_ratio(weight, bias, pair)
    for i, unit in enumerate(np.eye(6)):
        ratio = lambda s, u=unit: pair_ratio(weight, bias, pair + s * u)[0]
        assert (ratio(1e-6) - ratio(-1e-6)) / 2e-6 == pytest.approx(gradient[i], abs=1e-7)


def test_refused():
    with pytest.raises(InputError):
        stability([[np.nan]])
    assert stability(np.ones((4, 2))).upper == 0.0


def test_the_search_for_the_least_stable_cell_comes_near_the_exact_value():
    """For 12 layers of 24×3 and 32×4 the search never goes below the exact value, and reaches it in some."""
    ratios = []
    for seed in range(6):
        for m, n in ((24, 3), (32, 4)):
            weight = np.random.default_rng([seed, n]).standard_normal((m, n))
            value, point = least_frame(weight, None, np.random.default_rng(0))
            active = weight[weight @ point > 0]
            assert value == pytest.approx(np.linalg.svd(active, compute_uv=False)[-1], rel=1e-9)
            ratios.append(value / cell_minimum(weight, None)[0])
    assert min(ratios) > 1 - 1e-9
    assert np.mean(np.array(ratios) < 1 + 1e-9) > 0.3
    assert np.median(ratios) < 1.2


def test_the_search_includes_the_bias_and_finds_collisions():
    weight = np.random.default_rng(1).standard_normal((30, 3))
    bias = np.random.default_rng(2).standard_normal(30)
    value, point = least_frame(weight, bias, np.random.default_rng(0))
    active = weight[weight @ point + bias > 0]
    assert value == pytest.approx(np.linalg.svd(active, compute_uv=False)[-1], rel=1e-9)
    assert least_frame(np.random.default_rng(3).standard_normal((60, 15)), None, np.random.default_rng(0))[0] == 0.0
