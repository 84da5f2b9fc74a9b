"""The printed bounds: values that the paper or arithmetic gives, and that they are bounds at all."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from initscope.errors import InputError
from initscope.theory import norms

EPS = st.floats(0.01, 0.95)


@pytest.mark.parametrize(("eps", "delta", "paper", "chernoff"), [(0.1, 0.05, 4152, 3698), (0.05, 1e-6, 63615, None)])
def test_widths_of_the_issue(eps, delta, paper, chernoff):
    assert norms.relu_norm_width(eps, delta) == paper
    if chernoff:
        assert norms.chernoff_width(eps, delta) == chernoff


@given(EPS)
def test_rate_is_the_printed_formula(eps):
    printed = eps / 4 + math.log(2 / (1 + math.sqrt(1 + eps)))
    assert norms.relu_norm_rate(eps) == pytest.approx(printed, rel=1e-9, abs=1e-15)


@given(EPS, st.floats(0.2, 1.0))
def test_chernoff_rates_are_the_supremum(eps, keep):
    """Against a brute-force maximum over the Chernoff parameter; an error of 1e-4 in a rate would show."""
    scale = np.concatenate([-np.geomspace(1e-4, 50, 4000), np.linspace(1e-4, 0.4999, 4000)])
    cumulant = np.log1p(keep * ((1 - 2 * scale) ** -0.5 - 1))
    for rate, mean in zip(norms.chernoff_rates(eps, keep=keep), (1 - eps, 1 + eps)):
        brute = float(np.max(scale * keep * mean - cumulant))
        assert brute <= rate + 1e-12
        assert rate == pytest.approx(brute, rel=5e-3, abs=1e-7)


@given(st.integers(1, 3000), EPS)
def test_order_of_bounds(width, eps):
    """Exact ≤ best Chernoff ≤ lemma 2."""
    exact = norms.relu_norm_failure(width, eps)
    best = norms.chernoff_bound(width, eps)
    assert exact <= best * (1 + 1e-9)
    assert best <= norms.relu_norm_bound(width, eps) * (1 + 1e-9)


def test_theorems_sum_the_layers():
    one = norms.relu_norm_bound(500, 0.2)
    assert norms.activation_bound([500] * 4, 0.2, samples=3) == pytest.approx(12 * one)
    assert norms.gradient_bound(500, 4, 0.2, samples=3) == pytest.approx(24 * one)
    assert norms.masked_inner_product_bound(500, 0.2) == pytest.approx(2 * one)
    assert norms.inner_product_bound(500, 0.2) == pytest.approx(4 * math.exp(-500 * (0.04 - 0.008) / 4))


@pytest.mark.parametrize("shared", [True, False])
def test_lemmas_6_and_7_hold(shared):
    """Simulated failures of inner products stay below the bounds (2000 draws; the bounds are far from sharp)."""
    generator = np.random.default_rng(3)
    width, eps, draws = 400, 0.3, 2000
    u, v = np.array([1.0, 0.0]), np.array([0.6, 0.8])
    weights = generator.standard_normal((draws, width, 2)) * math.sqrt((2 if shared else 1) / width)
    if shared:
        weights *= generator.integers(0, 2, (draws, width, 1))
    inner = np.einsum("nm,nm->n", weights @ u, weights @ v)
    failed = np.mean(np.abs(inner - u @ v) > eps)
    bound = norms.masked_inner_product_bound(width, eps) if shared else norms.inner_product_bound(width, eps)
    assert failed <= bound


@pytest.mark.parametrize("eps", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_eps_outside_is_refused(eps):
    for call in (
        lambda: norms.relu_norm_rate(eps),
        lambda: norms.relu_norm_failure(10, eps),
        lambda: norms.chernoff_rates(eps),
        lambda: norms.gordon_width(2.0, eps, 0.05),
    ):
        with pytest.raises(InputError, match="eps"):
            call()


def test_other_bad_input():
    with pytest.raises(InputError, match="width = 0"):
        norms.relu_norm_bound(0, 0.1)
    with pytest.raises(InputError, match="delta = 0"):
        norms.relu_norm_width(0.1, 0.0)
    with pytest.raises(InputError, match="empty"):
        norms.activation_bound([], 0.1)
    assert math.isnan(norms.relu_norm_bound_eps(3, 0.05))


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-8])
def test_chernoff_rates_of_small_distortions(eps):
    """Cumulant expansion: the variance of (2/m)χ²_B per unit is 5, so both rates are ε²/10 (1 + O(ε))."""
    for rate in norms.chernoff_rates(eps):
        assert rate == pytest.approx(eps**2 / 10, rel=2 * eps + 1e-6, abs=0)


def test_chernoff_width_of_a_small_distortion():
    width = norms.chernoff_width(1e-5, 0.05)
    assert norms.chernoff_bound(width, 1e-5) <= 0.05 < norms.chernoff_bound(width - 1, 1e-5)
