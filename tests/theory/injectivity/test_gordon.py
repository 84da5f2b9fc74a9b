"""Gordon's bound: its probability against drawn vectors and an exact sum, and against layers whose failure is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc

from initscope.errors import InputError
from initscope.theory.injectivity import (
    euler_threshold,
    gordon_bound,
    gordon_threshold,
    planning,
    probability,
    rs_threshold,
    union_failure_bound,
)


def drawn_bound(m, n, samples=200_000):
    """The bound by drawing h and g, with its standard error."""
    rng = np.random.default_rng(1)
    small = 0
    for _ in range(10):
        kept = np.sort(np.maximum(rng.normal(size=(samples // 10, m)), 0), axis=1)[:, : m - n + 1]
        small += int(((kept**2).sum(axis=1) <= rng.chisquare(n, size=samples // 10)).sum())
    share = small / samples
    return 2 * share, 2 * math.sqrt(share * (1 - share) / samples)


@pytest.mark.parametrize(("m", "n"), [(12, 2), (24, 3), (40, 4), (100, 10), (160, 20)])
def test_probability_is_that_of_drawn_vectors(m, n):
    """|z| < 4; an error of 7 % would be noticed in every case."""
    value, error = drawn_bound(m, n)
    assert abs(gordon_bound(m, n) - value) < 4 * error
    assert abs(1.07 * gordon_bound(m, n) - value) > 4 * error


@pytest.mark.parametrize("m", [5, 9, 30, 80, 300])
def test_one_input_is_a_sum_over_the_number_of_positive_entries(m):
    """Given N = j the sum is χ² with j degrees of freedom, below ‖g‖² with probability I(1/2; j/2, 1/2).

    At m = 300 the value is 5e-22: a transform that is inverted away from its saddle point loses it.
    """
    chances = [math.comb(m, j) / 2**m * (betainc(j / 2, 0.5, 0.5) if j else 1.0) for j in range(m + 1)]
    assert gordon_bound(m, 1) == pytest.approx(2 * sum(chances), rel=1e-10, abs=0)


@pytest.mark.parametrize(("m", "n"), [(4, 1), (8, 1), (8, 2), (16, 2), (10, 3), (16, 3), (22, 3), (16, 4), (24, 4)])
def test_the_bound_holds_for_layers_that_are_decided(m, n):
    """p is exact for n ≤ 2 and counted over decided layers for n = 3 and 4."""
    known = probability(m, n, samples=400) if n > 2 else probability(m, n)
    assert 1 - known.value - 4 * known.error <= gordon_bound(m, n)


def test_threshold_is_the_replica_symmetric_one():
    """Integrals of φ by quadrature here, a closed equation there; 7.647694935 was computed outside of this project."""
    assert gordon_threshold().value == pytest.approx(7.647694935, abs=1e-8)
    assert gordon_threshold().value == pytest.approx(rs_threshold().value, abs=1e-10)
    assert gordon_threshold().value < euler_threshold().value


def test_the_bound_changes_at_its_threshold():
    assert gordon_bound(7400, 1000) == 1.0
    falling = [gordon_bound(round(8.2 * n), n) for n in (200, 800, 3200)]
    assert falling[0] > 10 * falling[1] > 100 * falling[2] > 0


def test_planned_widths_use_the_better_bound():
    wide = planning.expansivity(n=1000, delta=0.01).layers[0]
    assert wide.bound == "Gordon"
    assert gordon_bound(wide.guaranteed, 1000) <= 0.01 < gordon_bound(wide.guaranteed - 1, 1000)
    assert union_failure_bound(wide.guaranteed, 1000) > 0.01
    narrow = planning.expansivity(n=50, delta=0.01).layers[0]
    assert narrow.bound == "union"
    assert union_failure_bound(narrow.guaranteed, 50) <= 0.01 < gordon_bound(narrow.guaranteed - 1, 50)


@pytest.mark.parametrize(("m", "n"), [(15_600, 2_000), (766_500, 100_000), (7_651_000, 1_000_000)])
def test_large_layers_follow_the_central_limit_theorem(m, n):
    """A sum without its n - 1 largest terms is asymptotically one of terms cut off at their quantile s.

    Σ of the others ≈ Σ min(h₊², s²) - (n - 1)s², so that the difference from ‖g‖² is normal; the error is of the order
    of its skewness, some 3/√n. The probabilities are between .1 and .9.
    """
    s = stats.norm.isf((n - 1) / m)
    h = np.linspace(-9, 9, 200_001)
    terms, weights = np.minimum(np.maximum(h, 0), s) ** 2, stats.norm.pdf(h) * (h[1] - h[0])
    mean = weights @ terms
    center = m * mean - (n - 1) * s**2 - n
    chance = stats.norm.sf(center / math.sqrt(m * (weights @ (terms - mean) ** 2) + 2 * n))
    assert 0.1 < chance < 0.45
    assert gordon_bound(m, n) == pytest.approx(2 * chance, abs=6 / math.sqrt(n))


@pytest.mark.parametrize(("m", "n"), [(300, 2), (2000, 2), (3000, 3)])
def test_tiny_bounds_lie_between_one_choice_of_entries_and_a_union_over_all(m, n):
    """The sum leaves out the n - 1 largest positive entries; a sum that leaves out fixed n - 1 entries is no smaller.

    So the probability is at least that of fixed entries (a binomial mixture of beta laws), and at most the sum of
    Chernoff's bounds min E e^{-sZ} over all choices of n - 1 entries.
    """
    s = np.linspace(1e-3, 0.499, 2000)
    rows = m - n + 1
    logs = rows * np.log(0.5 + 0.5 / np.sqrt(1 + 2 * s)) - n / 2 * np.log(1 - 2 * s)
    upper = math.log(2) + math.log(math.comb(m, n - 1)) + logs.min()
    j = np.arange(1, rows + 1)
    chances = stats.binom.logpmf(j, rows, 0.5) + stats.beta.logcdf(0.5, j / 2, n / 2)
    lower = math.log(2) + np.logaddexp.reduce(chances)
    assert lower <= math.log(gordon_bound(m, n)) <= upper


def test_a_bound_below_the_smallest_float_is_zero():
    assert gordon_bound(10_000, 5) == 0.0


def test_bad_sizes_are_refused():
    for m, n in ((0, 1), (3, 1.5)):
        with pytest.raises(InputError):
            gordon_bound(m, n)


def test_too_few_rows_are_never_injective():
    assert gordon_bound(7, 3) == 1.0
