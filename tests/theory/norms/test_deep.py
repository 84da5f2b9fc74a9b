"""The law for depth: its reduction to one layer, an independent inversion, simulation, the atom, moments."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory import norms


def simulate(widths, draws, seed):
    """Squared ratios of networks drawn unit by unit; only that each layer's input may be rotated is used."""
    generator = np.random.default_rng(seed)
    ratio = np.ones(draws)
    for width in widths:
        units = np.maximum(generator.standard_normal((draws, width), dtype=np.float32), 0).astype(np.float64)
        ratio *= 2 / width * (units**2).sum(axis=1)
    return ratio


@pytest.mark.parametrize("width", [1, 2, 3, 10, 64, 100, 1000, 48043])
@pytest.mark.parametrize("eps", [0.05, 0.5, 0.95])
def test_depth_one_is_the_exact_law(width, eps):
    found = norms.deep_norm_failure([width], 1 - eps, 1 + eps)
    exact = norms.relu_norm_failure(width, eps)
    assert found.value == pytest.approx(exact, abs=1e-11)
    assert abs(found.value - exact) <= found.error + 1e-13 * exact + 1e-15
    assert found.error < 1e-11


def test_depth_50_width_1000():
    found = norms.deep_norm_failure([1000] * 50, 0.5, 2.0)
    assert found.error < 1e-9
    assert found.value == pytest.approx(0.179361855, abs=5e-10)


@pytest.mark.parametrize("widths", [[3, 3, 3], [5, 50, 20], [60] * 4, [3] * 20])
def test_against_simulation(widths):
    """10⁵ networks each; detects 0.0063 (4 σ) in a failure of about one half."""
    ratio = simulate(widths, 100_000, 5)
    for low, high in ((0.5, 2.0), (0.0, 1.5), (0.8, math.inf)):
        found = norms.deep_norm_failure(widths, low, high).value
        outside = (ratio < low) | (ratio > high)
        assert abs(z_score(outside, found)) < 4
        assert abs(z_score(outside, found + 0.015)) > 4


def test_against_convolution():
    """Two layers by direct integration of the one-layer law over the first log ratio, an independent route."""
    width, high = 12, 1.4
    grid = np.linspace(-20, 3, 4001)
    mass = np.diff([norms.norm_ratio_cdf(math.exp(value), width) for value in grid])
    middle = (grid[1:] + grid[:-1]) / 2
    expected = float(mass @ [norms.norm_ratio_tail(high / math.exp(value), width) for value in middle])
    # The midpoint rule's own error is about step²/24, 1e-6.
    assert norms.deep_norm_failure([width] * 2, 0.0, high).value == pytest.approx(expected, abs=1e-5)


def test_atom_of_narrow_layers():
    """P(r = 0) = 1 - (1 - 2^-m)^L: all of the failure as low → 0."""
    widths = [3] * 10
    atom = 1 - (1 - 2.0**-3) ** 10
    assert norms.deep_norm_failure(widths, 1e-60, math.inf).value == pytest.approx(atom, abs=1e-9)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.floats(0.05, 0.99), st.floats(1.01, 5.0))
def test_monotone_and_order_free(widths, low, high):
    found = norms.deep_norm_failure(widths, low, high)
    assert 0 <= found.value <= 1
    assert found.error < 1e-10
    again = norms.deep_norm_failure(widths[::-1], low, high)
    assert again.value == found.value
    wider = norms.deep_norm_failure(widths, low * 0.9, high * 1.1)
    assert wider.value <= found.value + found.error


def test_tiny_probabilities_keep_their_digits():
    """A union over many samples asks for 1e-12 and less: relative accuracy against the one-layer sum."""
    for width, eps in ((2000, 0.5), (5000, 0.4)):
        exact = norms.relu_norm_failure(width, eps)
        assert exact < 1e-12
        assert norms.deep_norm_failure([width], 1 - eps, 1 + eps).value == pytest.approx(exact, rel=1e-9, abs=0)


def test_moments():
    """E r = 1, E r² = Π(1 + 5/m); the mean and sd of the norm by simulation."""
    assert norms.log_norm_moment([7, 100], 1.0) == pytest.approx(0, abs=1e-12)
    assert math.exp(norms.log_norm_moment([7, 100], 2.0)) == pytest.approx((1 + 5 / 7) * (1 + 5 / 100), rel=1e-12)
    norm = np.sqrt(simulate([20, 30], 200_000, 7))
    mean, sd = norms.norm_ratio_mean_sd([20, 30])
    assert abs(z_score(norm, mean)) < 4
    assert abs(z_score((norm - mean) ** 2, sd**2)) < 4


def test_gradients_telescope():
    """He fan-out: the ratio of layer l is n_l/n_L times L-1 independent ratios."""
    widths = [40, 80, 60]
    scale = 80 / 60
    expected = norms.deep_norm_failure([40, 80], 0.7 / scale, 1.5 / scale)
    assert norms.gradient_norm_failure(widths, 2, 0.7, 1.5) == expected
    assert norms.backward_norm_failure(widths, 0.7, 1.5) == norms.gradient_norm_failure(widths, 1, 0.7, 1.5)
    assert norms.gradient_norm_failure([9], 1, 0.9, 1.1).value == 0
    with pytest.raises(InputError, match="layer = 4"):
        norms.gradient_norm_failure(widths, 4, 0.5, 2)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.5), (-0.1, 2.0), (math.nan, 1.0)])
def test_bad_bands(low, high):
    with pytest.raises(InputError, match="low"):
        norms.deep_norm_failure([10], low, high)
