"""Lemma 3 and Johnson–Lindenstrauss for cosines: drawn matrices, scipy's law, and the proof's own steps."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from initscope.errors import InputError
from initscope.theory.linear_layers import (
    linear_cosine_bound,
    linear_cosine_failure,
    linear_cosine_width,
    projection_covariance,
)


def test_lemma_3_against_draws():
    """200,000 draws: each entry of the covariance within 4 standard errors; an error of 2 % would be seen."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 6))
    shared, own = rng.standard_normal((2, 200_000, 6)) * 0.7
    g, h = shared, -0.3 * shared + math.sqrt(1 - 0.09) * own
    z = np.stack([g @ u, h @ v], axis=1)
    products = z[:, :, None] * z[:, None, :]
    found = projection_covariance(u, v, variance=0.49, rho=-0.3)
    error = products.std(axis=0) / math.sqrt(len(z))
    assert np.all(np.abs(products.mean(axis=0) - found) < 4 * error)
    both = projection_covariance(torch.tensor(u), torch.tensor(v), variance=0.49, rho=-0.3)
    np.testing.assert_allclose(both.numpy(), found, rtol=1e-14)
    with pytest.raises(InputError, match="correlation"):
        projection_covariance(u, v, rho=1.1)
    with pytest.raises(InputError, match="one length"):
        projection_covariance(u, v[:3])


@pytest.mark.parametrize("width", [2, 3, 10, 57, 1000])
def test_at_right_angles_the_law_is_students(width):
    """At ρ = 0, r √(N-1)/√(1-r²) has Student's law with N-1 degrees of freedom."""
    for eps in (0.01, 0.1, 0.4):
        student = 2 * stats.t(width - 1).sf(eps * math.sqrt((width - 1) / (1 - eps**2)))
        assert linear_cosine_failure(width, eps) == pytest.approx(student, rel=1e-8)


@pytest.mark.parametrize(("width", "eps"), [(10**6, 0.003), (10**9, 1e-4), (10**12, 3e-6)])
def test_the_law_of_very_wide_layers(width, eps):
    """Student's law in 40 digits; logarithms of gamma functions had cost 1e-9, 4e-7 and 9e-4 here."""
    with mpmath.workdps(40):
        half, spread = (mpmath.mpf(width) - 1) / 2, 1 / mpmath.sqrt(width)
        ends = [mpmath.mpf(eps) + step * spread for step in (0, 1, 2, 4, 8, 16)]
        tail = mpmath.quad(lambda r: mpmath.exp((half - 1) * mpmath.log1p(-r * r)), ends)
        student = 2 * tail / mpmath.beta(half, mpmath.mpf(1) / 2)
    assert linear_cosine_failure(width, eps) == pytest.approx(float(student), rel=1e-12)


@pytest.mark.parametrize(("width", "rho", "eps"), [(1, 0.3, 0.8), (2, 0.9, 0.05), (3, 0.5, 0.3), (40, -0.8, 0.06)])
def test_the_law_against_drawn_layers(width, rho, eps):
    """100,000 layers: within 4 standard errors of at most .0016."""
    rng = np.random.default_rng([width, 7])
    x, y = rng.standard_normal((2, 100_000, width))
    y = rho * x + math.sqrt(1 - rho**2) * y
    cosine = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    share = (np.abs(cosine - rho) >= eps).mean()
    found = linear_cosine_failure(width, eps, rho=rho)
    assert abs(share - found) < 4 * math.sqrt(found * (1 - found) / 100_000)


def test_right_angles_are_the_widest_and_parallel_inputs_stay():
    for width in (3, 30, 300):
        failures = [linear_cosine_failure(width, 0.1, rho=rho) for rho in (0.0, 0.2, 0.5, 0.8, 0.95)]
        assert failures == sorted(failures, reverse=True)
        assert linear_cosine_failure(width, 0.1, rho=-0.5) == pytest.approx(failures[2], rel=1e-9)
    assert linear_cosine_failure(5, 0.1, rho=1.0) == 0.0


def test_the_exact_width_is_the_smallest_and_the_bound_larger():
    for eps, delta in ((0.3, 0.05), (0.1, 0.01), (0.05, 1e-4)):
        width = linear_cosine_width(eps, delta)
        assert linear_cosine_failure(width, eps) <= delta < linear_cosine_failure(width - 1, eps)
        assert width < linear_cosine_bound(eps, delta)
    assert linear_cosine_width(0.1, 0.05, pairs=1000) == linear_cosine_width(0.1, 0.05 / 1000)


def test_singular_values_limit_the_cosine_as_the_proof_says():
    """Maps of the plane with singular values 1 ± a move a cosine by at most 2a, and some by nearly that."""
    angles = np.linspace(0, 2 * np.pi, 721)
    rays = np.stack([np.cos(angles), np.sin(angles)])
    for a in (0.05, 0.3, 0.7):
        moved = rays * np.array([[1 + a], [1 - a]])
        moved /= np.linalg.norm(moved, axis=0)
        change = np.abs(moved.T @ moved - rays.T @ rays).max()
        assert 1.8 * a / (1 + a**2) < change <= 2 * a
