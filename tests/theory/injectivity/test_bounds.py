"""Bounds against exact enumeration and against each other."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.injectivity import bounds


@pytest.mark.parametrize(("m", "n"), [(3, 2), (5, 2), (4, 3), (5, 3)])
def test_cells_counts_the_sign_patterns_of_a_random_arrangement(m, n):
    """Sampled directions meet every cell of a small arrangement: the count is exact, one missing cell would show."""
    rng = np.random.default_rng(m * n)
    signs = rng.standard_normal((200_000, n)) @ rng.standard_normal((n, m)) > 0
    assert len(np.unique(signs @ (1 << np.arange(m)))) == bounds.cells(m, n)


def test_union_threshold_solves_its_equation_in_high_precision():
    """mpmath, 30 digits; a shift of the root by 1e-11 would fail."""
    with mpmath.workdps(30):
        entropy = lambda p: -p * mpmath.log(p) - (1 - p) * mpmath.log(1 - p)
        root = mpmath.findroot(lambda a: 2 * entropy(1 / a) - mpmath.log(2), 9)
    assert abs(bounds.union_threshold().value - float(root)) < 1e-11
    assert 9.0886 <= bounds.union_threshold().value < 9.0887


def test_union_bound_decays_beyond_its_threshold_and_not_before():
    rate = lambda alpha, n: math.log(max(bounds.union_failure_bound(round(alpha * n), n), 1e-300)) / n
    assert rate(9.5, 100) < -0.1
    assert bounds.union_failure_bound(800, 100) == 1.0


@pytest.mark.parametrize("m", range(3, 12))
def test_bounds_hold_for_two_inputs(m):
    """p(m, 2) is known: it must lie between 1 - union and the one-vertex bound."""
    exact = 1 - m * (m - 2) / 2 ** (m - 1) if m >= 4 else 0.0
    assert 1 - bounds.union_failure_bound(m, 2) <= exact + 1e-12
    assert exact <= bounds.cover_probability_bound(m, 2) + 1e-12


def test_bad_sizes_are_refused():
    for call in (lambda: bounds.union_failure_bound(0, 1), lambda: bounds.cover_probability_bound(3, 1.5)):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="at least 3"):
        bounds.deep_expansivity(2)
