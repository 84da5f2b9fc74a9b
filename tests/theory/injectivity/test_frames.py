"""Bounds on the stability of random layers: χ², drawn matrices and arrangements of lines, and exact layers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from initscope.injectivity.frames import cell_minimum
from initscope.testing import z_score
from initscope.theory.injectivity import (
    frame_failure_bound,
    frame_limit,
    gordon_bound,
    guaranteed_frame,
    rs_threshold,
    small_singular_value_bound,
    union_failure_bound,
)
from initscope.theory.injectivity.bounds import cells
from initscope.theory.injectivity.replica import rs_energy


def least_singular_values(rows, n, draws, seed=0):
    return np.linalg.svd(np.random.default_rng(seed).normal(size=(draws, rows, n)), compute_uv=False)[:, -1]


@pytest.mark.parametrize(("rows", "value"), [(1, 0.3), (4, 1.0), (30, 4.0)])
def test_with_one_column_the_bound_is_a_chi_square_distribution(rows, value):
    assert float(small_singular_value_bound(rows, 1, value)) == pytest.approx(stats.chi2.cdf(value**2, rows), rel=1e-10)


@pytest.mark.parametrize(("rows", "n", "value"), [(3, 3, 0.02), (4, 3, 0.12), (6, 4, 0.4)])
def test_small_singular_values_are_about_as_frequent_as_the_bound(rows, n, value):
    """At small values the bound exceeds the probability by at most the factor e^{(n - 1)v²/2}; |z| < 4 with that."""
    share = least_singular_values(rows, n, 100_000) < value
    bound = float(small_singular_value_bound(rows, n, value))
    factor = math.exp((n - 1) * value**2 / 2)
    assert share.mean() <= bound + 4 * math.sqrt(bound / len(share))
    assert share.mean() >= bound / factor - 4 * math.sqrt(bound / len(share))
    assert bound * len(share) > 300  # an error of 25 % would be seen


@pytest.mark.parametrize(("rows", "n", "value"), [(20, 3, 1.5), (60, 10, 3.0)])
def test_the_bound_holds_for_larger_values(rows, n, value):
    share = least_singular_values(rows, n, 4000).__lt__(value).mean()
    assert share <= float(small_singular_value_bound(rows, n, value)) + 0.02


def test_the_expected_number_of_cells_with_small_singular_values():
    """Active sets and singular values are independent: z-score of 3,000 drawn arrangements of 7 lines; catches 8 %."""
    m, active, value = 7, 4, 1.0
    rng = np.random.default_rng(2)
    counts = []
    for _ in range(3000):
        lines = rng.normal(size=(m, 2))
        angles = np.sort(
            np.concatenate([np.arctan2(lines[:, 1], lines[:, 0]) + turn * math.pi / 2 for turn in (1, -1)])
        )
        middles = (angles + np.append(angles[1:], angles[0] + 2 * math.pi)) / 2
        signs = lines @ np.stack([np.cos(middles), np.sin(middles)]) > 0
        chosen = [lines[column] for column in signs.T if column.sum() == active]
        counts.append(sum(np.linalg.svd(rows, compute_uv=False)[-1] < value for rows in chosen))
    chance = (least_singular_values(active, 2, 200_000, seed=5) < value).mean()
    assert abs(z_score(counts, cells(m, 2) * math.comb(m, active) / 2**m * chance)) < 4


@pytest.mark.parametrize(("m", "n"), [(30, 2), (40, 3)])
def test_guaranteed_values_hold_for_layers_that_are_computed_exactly(m, n):
    """At δ = .2, among 30 layers: 16 failures would be expected with a chance of 1e-5."""
    bound = guaranteed_frame(m, n, 0.2)
    values = [cell_minimum(np.random.default_rng([m, k]).normal(size=(m, n)), None)[0] for k in range(30)]
    assert 0.2 * np.median(values) < bound
    assert sum(value < bound for value in values) < 16


def test_guaranteed_values_are_the_largest_of_the_stated_probability():
    frame = guaranteed_frame(60, 4, 0.01)
    assert frame_failure_bound(60, 4, frame) <= 0.01 < frame_failure_bound(60, 4, 1.0001 * frame)
    assert guaranteed_frame(20, 4, 0.01) == 0.0


def test_at_zero_the_bound_is_the_union_over_all_orthants_with_too_few_rows():
    orthants = sum(math.comb(60, j) for j in range(4)) * cells(60, 4) / 2**60
    assert frame_failure_bound(60, 4, 0.0) == pytest.approx(orthants, rel=1e-9, abs=0)
    assert orthants >= union_failure_bound(60, 4)


def test_tiny_probabilities_keep_their_digits():
    """With one column: the logarithm of a χ² probability, from its series."""
    logs = [math.log(float(small_singular_value_bound(300, 1, value))) for value in (2.0, 1.2)]
    for value, log in zip((2.0, 1.2), logs, strict=True):
        x = value**2 / 2
        terms = [150 * math.log(x) - x - math.lgamma(151 + k) + k * math.log(x) for k in range(20)]
        assert log == pytest.approx(np.logaddexp.reduce(terms), rel=1e-6)


@pytest.mark.parametrize("alpha", [12.0, 20.0])
def test_the_bound_of_a_large_layer_changes_at_the_limit(alpha):
    """From 10^-6 to 1 between 5 % below and 5 % above the limit, at 1,600 inputs."""
    n, frame = 1600, 40 * frame_limit(alpha)
    assert frame_failure_bound(round(alpha * n), n, 0.95 * frame) < 1e-6
    assert frame_failure_bound(round(alpha * n), n, 1.05 * frame) == 1.0


def test_the_limit_is_positive_exactly_above_the_replica_symmetric_threshold():
    threshold = rs_threshold().value
    assert frame_limit(threshold - 1e-6) == 0.0
    values = [frame_limit(alpha) for alpha in (threshold + 0.02, 8.0, 10.0, 20.0, 100.0)]
    assert values == sorted(values)
    assert values[0] > 0


@pytest.mark.parametrize(("m", "n", "active"), [(60, 6, 9), (40, 5, 2), (50, 4, 1)])
def test_gordons_bound_for_other_numbers_of_active_rows_is_that_of_drawn_vectors(m, n, active):
    """|z| < 4 with 200,000 samples."""
    rng = np.random.default_rng(1)
    kept = np.sort(np.maximum(rng.normal(size=(200_000, m)), 0), axis=1)[:, : m - active + 1]
    small = (kept**2).sum(axis=1) <= rng.chisquare(n, size=len(kept))
    share = small.mean()
    error = 2 * math.sqrt(share * (1 - share) / len(kept))
    assert abs(gordon_bound(m, n, active=active) - min(1.0, 2 * share)) < 4 * error + 1e-5


@pytest.mark.parametrize("alpha", [10.0, 20.0])
def test_gordons_bound_of_few_active_rows_changes_at_the_replica_symmetric_energy(alpha):
    """The step from n to k rows in the proof of `frame_limit`, 10 % below and above the energy at 4,000 inputs."""
    n, rows = 4000, 4000 * rs_energy(alpha)
    assert gordon_bound(round(alpha * n), n, active=round(0.9 * rows)) < 1e-6
    assert gordon_bound(round(alpha * n), n, active=round(1.1 * rows)) > 0.99
