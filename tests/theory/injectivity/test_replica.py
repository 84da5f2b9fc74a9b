"""Replica-symmetric and 1-RSB values against high precision, limits and each other."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.injectivity import replica


def test_rs_threshold_in_high_precision():
    """mpmath, 30 digits; a shift of 1e-11 would fail."""
    with mpmath.workdps(30):
        equation = lambda s: 2 * mpmath.ncdf(s) - s * mpmath.npdf(s) - mpmath.mpf(3) / 2
        alpha = 1 / (1 - mpmath.ncdf(mpmath.findroot(equation, 1.1)))
    assert abs(replica.rs_threshold().value - float(alpha)) < 1e-11
    assert round(replica.rs_threshold().value, 4) == 7.6477


def test_rs_energy_is_the_supremum_of_its_functional():
    """sup over χ of α ∫Dh min(1, h_+²/2χ) - 1/2χ, by quadrature: an independent route to the closed equation."""
    from scipy.integrate import quad
    from scipy.optimize import minimize_scalar

    alpha = 5.0

    def functional(chi):
        density = lambda h: min(1.0, h * h / (2 * chi)) * math.exp(-h * h / 2) / math.sqrt(2 * math.pi)
        edge = math.sqrt(2 * chi)
        return alpha * (quad(density, 0, edge)[0] + quad(density, edge, 12)[0]) - 0.5 / chi

    best = -minimize_scalar(lambda log: -functional(math.exp(log)), bounds=(-6, 3), method="bounded").fun
    assert best == pytest.approx(replica.rs_energy(alpha), abs=1e-8)


def test_one_rsb_threshold_and_order():
    assert round(replica.one_rsb_threshold().value, 4) == 6.7157
    for alpha in (2.5, 4.0, 8.0):
        assert replica.rs_energy(alpha) < replica.one_rsb_energy(alpha)


def test_energy_vanishes_below_two_and_grows_after():
    assert replica.rs_energy(2.0) == replica.one_rsb_energy(1.0) == 0.0
    energies = [replica.rs_energy(alpha) for alpha in (2.01, 3, 6, 12, 50)]
    assert energies == sorted(energies)
    assert energies[0] < 1e-3


def test_free_entropy_tends_to_the_energy():
    """−Φ(β)/β → e with corrections O(log β/β): they must fall with β and extrapolate to the energy."""
    energy = replica.rs_energy(6.0)
    gaps = [-replica.rs_free_entropy(6.0, beta) / beta - energy for beta in (100, 1000, 10_000, 100_000)]
    assert all(abs(later) < abs(earlier) / 4 for earlier, later in pairwise(gaps))
    assert abs(gaps[-1]) < 1e-3
    # Fit of the known form a + (b + c log β)/β recovers the limit.
    betas = np.array([3e3, 1e4, 3e4, 1e5])
    values = np.array([-replica.rs_free_entropy(6.0, beta) / beta for beta in betas])
    design = np.column_stack([np.ones(4), 1 / betas, np.log(betas) / betas])
    assert np.linalg.lstsq(design, values, rcond=None)[0][0] == pytest.approx(energy, abs=1e-5)


def test_free_entropy_at_high_temperature():
    """β → 0: Φ = -β α/2 + O(β²), half of the rows are active at a random point."""
    beta = 1e-4
    assert replica.rs_free_entropy(3.0, beta) / beta == pytest.approx(-1.5, abs=1e-3)


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0, math.inf])
def test_bad_expansivity(bad):
    with pytest.raises(InputError, match="alpha"):
        replica.rs_energy(bad)
    with pytest.raises(InputError, match="beta"):
        replica.rs_free_entropy(3.0, bad)
