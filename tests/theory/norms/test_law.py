"""The exact one-layer law against exact rational arithmetic, high precision, simulation and its limits."""

import math
from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, chi2, norm

from initscope.theory import norms


def independent_failure(width, eps):
    """Rational binomial weights, χ² tails by mpmath's incomplete gamma function at 40 digits."""
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        low, high = mpmath.mpf(width) * (1 - mpmath.mpf(eps)) / 4, mpmath.mpf(width) * (1 + mpmath.mpf(eps)) / 4
        for k in range(width + 1):
            weight = Fraction(comb(width, k), 2**width)
            weight = mpmath.mpf(weight.numerator) / weight.denominator
            half = mpmath.mpf(k) / 2
            outside = mpmath.mpf(1) if k == 0 else 1 - mpmath.gammainc(half, low, high, regularized=True)
            total += weight * outside
        return float(total)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20, 41, 60])
@pytest.mark.parametrize("eps", [0.05, 0.3, 0.9])
def test_failure_against_rational_binomials(width, eps):
    assert norms.relu_norm_failure(width, eps) == pytest.approx(independent_failure(width, eps), abs=1e-12)


def test_failure_against_simulation():
    """10⁶ layers of width 100 drawn unit by unit: detects 0.002 in a failure of 0.26 (4 σ); bites at that size."""
    generator = np.random.default_rng(1)
    width, eps, draws = 100, 0.25, 10**6
    failed = 0
    for _ in range(20):
        units = np.maximum(generator.standard_normal((draws // 20, width), dtype=np.float32), 0)
        ratio = 2 / width * np.einsum("nm,nm->n", units, units)
        failed += int(np.count_nonzero(np.abs(ratio - 1) > eps))
    exact = norms.relu_norm_failure(width, eps)
    error = np.sqrt(exact * (1 - exact) / draws)
    assert abs(failed / draws - exact) < 4 * error
    assert abs(failed / draws - (exact + 8 * error)) > 4 * error


def test_exact_widths_of_the_issue():
    assert norms.relu_norm_exact_width(0.1, 0.05) == 1919
    assert norms.relu_norm_exact_width(0.05, 1e-6) == 48043
    assert norms.relu_norm_failure(48043, 0.05) <= 1e-6 < norms.relu_norm_failure(48042, 0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400), st.floats(0.05, 1.0))
def test_active_units_are_binomial(width, keep):
    counts, weights = norms.active_units(width, keep=keep)
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    mean = float(weights @ counts)
    assert mean == pytest.approx(width * keep, rel=1e-11, abs=0)
    assert float(weights @ (counts - mean) ** 2) == pytest.approx(width * keep * (1 - keep), rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5000), st.floats(0.0, 3.0), st.floats(0.2, 1.0))
def test_cdf_and_tail_are_complements(width, ratio, keep):
    total = norms.norm_ratio_cdf(ratio, width, keep=keep) + norms.norm_ratio_tail(ratio, width, keep=keep)
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("keep", [0.3, 0.5, 1.0])
def test_lemma_4_mean_is_one(keep):
    """∫ P(r > t) dt = 1 for any keep probability, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t = 4 * (nodes + 1)
    mean = 4 * float(weights @ [norms.norm_ratio_tail(value, 25, keep=keep) for value in t])
    assert mean == pytest.approx(1, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3000), st.floats(0.001, 0.9))
def test_quantile_inverts_failure(width, delta):
    eps = norms.relu_norm_eps(width, delta)
    found = norms.norm_ratio_cdf(1 - eps, width) + norms.norm_ratio_tail(1 + eps, width)
    # The atom at 0 makes the law jump at eps = 1 in the narrowest layers.
    assert found == pytest.approx(delta, abs=1e-9) or (width < 20 and eps == pytest.approx(1, abs=1e-6))


@pytest.mark.parametrize("keep", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("ratio", [0.97, 0.999, 1.0, 1.0001, 1.03])
def test_many_units_have_the_law_of_few(keep, ratio):
    """Where the contour takes over, against the sum over active units written out with SciPy's laws."""
    width = math.ceil(12_000 / keep)
    counts = np.arange(8_000, min(width, 16_000) + 1)
    weights = binom.pmf(counts, width, keep)
    below = float(np.sum(weights * chi2.cdf(keep * width * ratio, counts)))
    above = float(np.sum(weights * chi2.sf(keep * width * ratio, counts)))
    assert norms.norm_ratio_cdf(ratio, width, keep=keep) == pytest.approx(below, rel=1e-9, abs=0)
    assert norms.norm_ratio_tail(ratio, width, keep=keep) == pytest.approx(above, rel=1e-9, abs=0)


def test_widths_of_millions_against_the_mellin_transform():
    """SciPy's incomplete gamma functions lose 1.6e-4 at this width and 10 % at a hundred times it."""
    other = norms.deep_norm_failure([10**7], 1 - 0.0035, 1 + 0.0035).value
    assert norms.relu_norm_failure(10**7, 0.0035) == pytest.approx(other, rel=1e-11, abs=0)
    limit = 2 * norm.sf(1e-5 * math.sqrt(1e12 / 5))  # a squared ratio has variance 5/m
    assert norms.relu_norm_failure(10**12, 1e-5) == pytest.approx(limit, rel=1e-3, abs=0)
    assert (norms.norm_ratio_cdf(1e-300, 10**6), norms.norm_ratio_tail(math.inf, 10**6)) == (0, 0)


def test_the_exact_width_of_a_fine_tolerance():
    """The width changes the failure by 1e-7 a unit there: noise of the law would show."""
    width = norms.relu_norm_exact_width(1e-3, 1e-6)
    failures = [norms.relu_norm_failure(width + step, 1e-3) for step in range(-3, 3)]
    assert failures == sorted(failures, reverse=True)
    assert failures[2] > 1e-6 >= failures[3]
    assert width == pytest.approx(5 * (norm.isf(5e-7) / 1e-3) ** 2, rel=1e-4)
