"""Second moments of piecewise linear activations, where variances are tiny or huge."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from initscope.theory import activations

CASES = {
    "relu6": (activations.relu6, (0, 6), lambda x: min(max(x, 0), 6)),
    "hard tanh": (activations.truncation(-1, 1), (-1, 1), lambda x: min(max(x, -1), 1)),
    "soft shrinkage": (
        activations.softshrink(0.5), (-0.5, 0.5), lambda x: mpmath.sign(x) * max(abs(x) - mpmath.mpf("0.5"), 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variance", [1e-2, 0.1, 1.0, 30.0, 1e3, 1e6])
def test_second_moments_keep_their_digits(name, variance):
    """Against 30 digits of the defining integral; differences of the pieces' formulas alone would lose up to nine."""
    sigma, kinks, function = CASES[name]
    with mpmath.workdps(30):
        sd = mpmath.sqrt(variance)
        edges = sorted({*kinks, *(k * sd for k in (-40, -12, -6, -3, -1, 0, 1, 3, 6, 12, 40))})
        truth = mpmath.quad(lambda x: function(x) ** 2 * mpmath.npdf(x, 0, sd), edges)
    assert float(sigma.second_moment(np.float64(variance)) / truth - 1) == pytest.approx(0, abs=2e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("half_gap", [0.2, 1e-3, 1e-7])
def test_squared_distances_keep_their_digits(name, half_gap):
    """Against the defining integral in two dimensions; total - 2·dual would have 1e-16/half_gap of relative error."""
    sigma, _, _ = CASES[name]
    kxx = np.array([0.3, 1.0, 7.0])
    kyy = kxx * (1 + np.array([0.0, 0.3, 1.0]) * np.sqrt(half_gap))
    d = (np.sqrt(kxx) - np.sqrt(kyy)) ** 2 + 4 * half_gap * np.sqrt(kxx * kyy)
    plane = activations.activation(sigma, kinks=sigma.kinks)  # the same function, of which nothing else is known
    np.testing.assert_allclose(sigma.distance(kxx, kyy, d), plane.distance(kxx, kyy, d), rtol=1e-8)
