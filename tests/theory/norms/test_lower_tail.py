"""The lower tail of deep norms keeps relative accuracy: against the exact mixture of chi-squares in mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from initscope.plan import width
from initscope.theory.norms import deep_norm_failure, squared_norm_mean


@pytest.mark.parametrize(("units", "low"), [(120, 0.02), (120, 0.1), (30, 0.001), (30, 0.5), (5, 0.01), (308, 0.3)])
def test_one_layer_down_to_tiny_probabilities(units, low):
    """Probabilities from 2e-22 to .09, to a relative 1e-11; they had an absolute floor of 5e-15."""
    with mp.workdps(40):
        expected = mp.mpf(2) ** -units * (
            1
            + sum(
                mp.binomial(units, k) * mp.gammainc(mp.mpf(k) / 2, 0, mp.mpf(low) * units / 4, regularized=True)
                for k in range(1, units + 1)
            )
        )
    assert deep_norm_failure([units], low, math.inf).value == pytest.approx(float(expected), rel=1e-11, abs=0)


def test_two_narrow_layers_by_quadrature():
    m, n, low = 4, 7, 0.05
    with mp.workdps(20):

        def below(t):
            return sum(
                mp.binomial(n, k) * mp.mpf(2) ** -n * mp.gammainc(mp.mpf(k) / 2, 0, t * n / 4, regularized=True)
                for k in range(1, n + 1)
            )

        def density(u):
            t = mp.e**u * m / 4
            return below(low / mp.e**u) * sum(
                mp.binomial(m, k) * mp.mpf(2) ** -m * t ** (mp.mpf(k) / 2) * mp.e**-t / mp.gamma(mp.mpf(k) / 2)
                for k in range(1, m + 1)
            )

        atom = mp.mpf(2) ** -m + mp.mpf(2) ** -n - mp.mpf(2) ** -(m + n)
        expected = atom + mp.quad(density, [-60, -30, -15, -8, -4, -2, -1, 0, 1, 2, 4])
    assert deep_norm_failure([m, n], low, math.inf).value == pytest.approx(float(expected), rel=1e-10)


def test_widths_at_tiny_risks_are_the_smallest_and_grow_with_the_samples():
    found = [width(eps=0.9, delta=1e-7, depth=2, samples=samples, per_layer=True) for samples in (10**6, 10**8, 10**9)]
    assert [plan.exact for plan in found] == sorted(plan.exact for plan in found)
    assert found[-1].exact == 308
    assert found[-1].exact <= found[-1].chernoff <= found[-1].paper


@pytest.mark.parametrize("keep", [0.25, 0.5, 1.0])
def test_squared_norms_in_the_mean(keep):
    """Sum over the number of kept units of its probability times the mean of its chi-square."""
    units, variance = 9, 0.3
    mean = sum(math.comb(units, k) * keep**k * (1 - keep) ** (units - k) * k * variance for k in range(units + 1))
    assert squared_norm_mean(units, keep=keep, variance=variance) == pytest.approx(mean, rel=1e-12, abs=0)
    assert squared_norm_mean(units, keep=keep) == pytest.approx(1.0)
