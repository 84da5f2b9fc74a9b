"""Probabilities at finite size against independent values, and the theorem of the talk."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.injectivity import finite_size
from initscope.theory.injectivity.branching import branch


@pytest.mark.parametrize(("m", "value", "error"), [(10, 0.07063, 1.8e-4), (12, 0.32889, 3.3e-4), (16, 0.80390, 2.8e-4)])
def test_three_inputs_against_independent_simulation(m, value, error):
    """Values of 2·10⁶ layers from another program; detects 0.02 at 3 σ of 6,000 layers."""
    ours = finite_size.probability(m, 3, samples=6000, seed=1)
    assert abs(ours.value - value) < 3 * math.hypot(ours.error, error)


@pytest.mark.parametrize(("m", "n"), [(3, 1), (6, 1), (6, 2), (9, 2)])
def test_exact_values_against_simulation(m, n):
    """4 σ of 4,000 layers: detects 0.03; the same check fails with the exact value off by 0.05."""
    exact, sampled = finite_size.probability(m, n), finite_size.simulate_probability(m, n, samples=4000, seed=2)
    assert exact.method == "exact"
    assert abs(sampled.value - exact.value) < 4 * sampled.error
    assert abs(sampled.value - exact.value - 0.05) > 4 * sampled.error


def test_the_theorem_of_the_talk_layer_by_layer():
    """W is injective ⇔ its range meets the cone of vectors with fewer than n positive entries at 0 only."""
    rng = np.random.default_rng(3)
    verdicts = []
    for _ in range(40):
        weight = rng.standard_normal((11, 3))
        basis = np.linalg.qr(weight)[0]
        verdicts.append(branch(weight).injective)
        assert verdicts[-1] is not finite_size.meets_cone(basis)
    assert {True, False} == set(verdicts)


def test_method_follows_the_size():
    methods = [finite_size.probability(m, n).method for m, n in ((8, 3), (2000, 200), (600, 100))]
    assert methods[0].startswith("simulated")
    assert methods[1] == "union bound"
    assert methods[2].startswith("asymptotic")
    assert finite_size.probability(7, 3).value == 0.0


def test_asymptotic_form_is_near_the_simulation_it_extends():
    """n = 6: the fitted form within its own error and 4 σ of 300 layers."""
    form, sampled = finite_size.asymptotic(32, 6), finite_size.simulate_probability(32, 6, samples=300, seed=4)
    assert abs(form.value - sampled.value) < form.error + 4 * sampled.error


def test_bad_sizes():
    for m, n in ((0, 1), (3, 0), (2.5, 1), (3, math.nan)):
        with pytest.raises(InputError):
            finite_size.probability(m, n)


def test_two_inputs_and_many_rows():
    assert finite_size.probability(2000, 2).value == 1.0


def test_no_samples_are_refused():
    with pytest.raises(InputError, match="samples = 0"):
        finite_size.probability(20, 3, samples=0)
