"""Three forms of the Euler sum, its known values, its threshold, and the Euler characteristic itself."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory.injectivity import euler


@pytest.mark.parametrize("n", range(1, 12))
def test_three_forms_are_one_number(n):
    """Exact rationals: a single wrong term in any form fails."""
    for m in range(n, 9 * n + 2, max(1, n // 3)):
        assert euler.euler_characteristic(m, n) == euler.face_count(m, n) == euler.talk_sum(m, n)


def test_three_forms_agree_at_sixty_inputs():
    assert euler.euler_characteristic(500, 60) == euler.face_count(500, 60) == euler.talk_sum(500, 60)


def test_known_values():
    assert euler.euler_characteristic(9, 3) == Fraction(275, 128)
    for m in range(2, 30):
        assert euler.euler_characteristic(m, 2) == Fraction(m * (m - 1), 2 ** (m - 1))


def test_it_is_the_mean_euler_characteristic_of_the_active_set():
    """n = 2: count arcs of the circle with at most one active row, for sampled layers; detects 0.1 at 4 σ."""
    rng = np.random.default_rng(5)
    m, arcs = 6, []
    for _ in range(4000):
        angles = np.sort(rng.uniform(0, 2 * np.pi, m))
        walls = np.sort(np.concatenate([angles + np.pi / 2, angles - np.pi / 2]) % (2 * np.pi))
        middles = (walls + np.append(walls[1:], walls[0] + 2 * np.pi)) / 2
        few = (np.cos(middles[:, None] - angles) > 0).sum(axis=1) <= 1
        arcs.append(np.sum(few & ~np.roll(few, 1)))
    expected = float(euler.euler_characteristic(m, 2))
    assert abs(z_score(arcs, expected)) < 4
    assert abs(z_score(arcs, expected + 0.15)) > 4


def test_crossings_approach_the_threshold_from_below():
    crossings = [euler.euler_crossing(n) for n in (10, 50, 200)]
    assert crossings == sorted(crossings)
    assert crossings[-1] < euler.euler_threshold().value
    assert round(crossings[1], 3) == 7.972
    # 1/n corrections with a logarithm: from 200 on the rest is under 2 %.
    assert abs(euler.euler_threshold().value - 8.3446) < 1e-4


def test_threshold_is_where_the_rate_of_the_exact_sum_vanishes():
    """log q = n·rate + O(log n), so that the growth from n = 1000 to 2000 is the rate up to 0.003; the slope there is
    about -0.35 per unit of α: detects a threshold off by 0.01."""
    growth = lambda alpha: (
        (euler.log_euler(round(alpha * 2000), 2000) - euler.log_euler(round(alpha * 1000), 1000)) / 1000
    )
    alpha = euler.euler_threshold().value
    assert abs(growth(alpha)) < 0.003
    assert growth(alpha - 0.02) > 0.003
    assert growth(alpha + 0.02) < -0.003


def test_large_sizes_and_bad_input():
    assert math.isfinite(euler.log_euler(16_000, 2000))
    with pytest.raises(InputError, match="never injective"):
        euler.euler_characteristic(2, 3)
    with pytest.raises(InputError):
        euler.euler_crossing(1)
