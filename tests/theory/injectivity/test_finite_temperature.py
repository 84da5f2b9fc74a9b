"""The Parisi formula at finite temperature: nested quadrature, finite differences, drawn layers, and both limits."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from initscope.errors import InputError
from initscope.reproductions.energy_curves import REPRODUCTIONS, _cools, temperatures
from initscope.testing import z_score
from initscope.theory.injectivity import finite_temperature as ft, free_entropy, ground_state_energy, rs_free_entropy


@pytest.mark.parametrize(("alpha", "beta"), [(3.0, 1.0), (6.0, 5.0), (6.0, 60.0), (0.5, 20.0)])
def test_no_level_is_the_symmetric_ansatz(alpha, beta):
    """`rs_free_entropy` has other variables, another quadrature and another minimiser."""
    assert free_entropy(alpha, beta, levels=0).value == pytest.approx(rs_free_entropy(alpha, beta), rel=1e-7)


def test_one_level_against_nested_quadrature():
    """∫γ_{q0} (1/x) log ∫γ_{q1-q0} e^{xφ} with 200 Gauss–Hermite points each, and the entropy written out."""
    alpha, beta, q0, q1, x = 4.0, 6.0, 0.3, 0.7, 0.4
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    fields = math.sqrt(q0) * nodes[:, None] + math.sqrt(q1 - q0) * nodes
    inner = np.logaddexp(-beta, math.log(-math.expm1(-beta)) + log_ndtr(-fields / math.sqrt(1 - q1)))
    free = float(weights @ (logsumexp(x * inner, b=weights, axis=1) / x))
    response = 1 - q1 + x * (q1 - q0)
    entropy = 0.5 * (math.log(1 - q1) + q0 / response + math.log(response / (1 - q1)) / x)
    found = ft._evaluate(alpha, beta, np.array([q0, q1]), np.array([x]))
    assert found.value == pytest.approx(entropy + alpha * free, abs=1e-9)


@pytest.mark.parametrize("levels", [0, 1, 3])
def test_the_gradient_is_that_of_finite_differences(levels):
    point = np.random.default_rng(levels).standard_normal(2 * levels + 1)

    def value(place):
        return ft._evaluate(4.0, 5.0, *ft._unpack(place)).value

    found = ft._pull_back(point, ft._evaluate(4.0, 5.0, *ft._unpack(point)).gradient)
    steps = 1e-5 * np.eye(len(point))
    np.testing.assert_allclose(found, [(value(point + e) - value(point - e)) / 2e-5 for e in steps], atol=1e-7)


def test_the_energy_is_the_slope_of_the_free_entropy():
    energy = free_entropy(6.0, 8.0, levels=1).energy
    slope = (free_entropy(6.0, 8.01, levels=1).value - free_entropy(6.0, 7.99, levels=1).value) / 0.02
    assert energy == pytest.approx(-slope, rel=1e-5)


def test_more_levels_are_lower_and_hot_layers_need_none():
    values = [free_entropy(6.0, 36.0, levels=k).value for k in range(4)]
    assert all(after < before for before, after in pairwise(values))
    full = free_entropy(6.0, 36.0)
    assert full.value < values[-1]
    assert full.error < 0.2 * (values[2] - values[3])
    hot = free_entropy(3.0, 1.0)
    assert hot.value == pytest.approx(free_entropy(3.0, 1.0, levels=0).value, abs=1e-9)
    faint = free_entropy(3.0, 1e-4, levels=0)
    assert faint.energy == pytest.approx(1.5, rel=1e-3)  # half of the rows
    assert faint.value == pytest.approx(-1.5e-4, rel=1e-3)


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_the_cold_limit_is_the_ground_state(levels):
    """E = e + a/β + …: extrapolated from β = 72 and 144; what remains is of second order, some 5e-4."""
    cold, colder = (free_entropy(6.0, beta, levels=levels).energy for beta in (72.0, 144.0))
    ground = ground_state_energy(6.0, levels=levels).value
    assert ground < colder < cold
    assert 2 * colder - cold == pytest.approx(ground, abs=1e-3)
    assert 2 * colder - cold != pytest.approx(1.003 * ground, abs=1e-3)


def test_random_layers_at_that_temperature_have_that_energy():
    """Metropolis on the sphere, 96 layers of 60×20 at β = 1: mean energy within 4 σ = .027; 5 % off would be seen."""
    rng = np.random.default_rng(0)
    chains, m, n, beta = 96, 60, 20, 1.0
    weight = rng.standard_normal((chains, m, n))
    x = rng.standard_normal((chains, n, 1))
    count, total = (weight @ x > 0).sum(axis=(1, 2)), np.zeros(chains)
    for step in range(3000):
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        moved = x + 0.5 / math.sqrt(n) * rng.standard_normal(x.shape)
        other = (weight @ moved > 0).sum(axis=(1, 2))
        accept = np.log(rng.random(chains)) < -beta * (other - count)
        x, count = np.where(accept[:, None, None], moved, x), np.where(accept, other, count)
        total += count if step >= 1000 else 0
    means = total / 2000 / n
    expected = free_entropy(m / n, beta).energy
    assert abs(z_score(means, expected)) < 4
    assert abs(z_score(means, 1.06 * expected)) > 4


def test_the_reproduction_cools():
    found = temperatures(
        **next(reproduction.small for reproduction in REPRODUCTIONS if reproduction.id == "injectivity-temperature")
    )
    assert _cools(found)
    with pytest.raises(InputError, match="beta"):
        free_entropy(6.0, 1000.0)
