"""Formulas of recovery against quadrature, enumeration, another formula for the same curve, and simulation."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory import inversion
from initscope.theory.activations import activation


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "identity"])
@pytest.mark.parametrize("variance", [0.3, 2.0])
def test_slope_is_the_mean_derivative(name, variance):
    """Stein's identity against quadrature of the derivative itself."""
    sigma = activation(name)
    density = lambda x: float(sigma.derivative(x)) * norm.pdf(x, scale=math.sqrt(variance))
    expected = sum(quad(density, low, high, epsabs=1e-12)[0] for low, high in ((-12, 0), (0, 12)))
    assert float(inversion.estimate_slope(variance, name)) == pytest.approx(expected, abs=1e-9)


def errors_of_the_estimate(m, n, d, name, draws=4000, seed=0):
    """Squared errors in the first d coordinates, x the first axis, weights of unit variance."""
    rng = np.random.default_rng(seed)
    sigma = activation(name)
    slope = float(inversion.estimate_slope(1.0, name))
    weights = rng.standard_normal((draws, m, n))
    outputs = sigma(weights[:, :, 0])
    estimate = np.einsum("km,kmn->kn", outputs, weights) / (m * slope)
    return ((estimate - np.eye(n)[0])[:, :d] ** 2).sum(axis=1)


@pytest.mark.parametrize(("name", "d"), [("relu", 6), ("relu", 2), ("tanh", 6), ("gelu", 4)])
def test_error_of_the_linear_estimate(name, d):
    """4,000 layers, a standard error of 1 to 3 %: an error of 20 % in the formula shows."""
    squares = errors_of_the_estimate(40, 6, d, name)
    assert abs(z_score(squares, inversion.linear_estimate_error(40, d, name))) < 4
    assert abs(z_score(squares, 1.2 * inversion.linear_estimate_error(40, d, name))) > 4


def test_relu_error_in_closed_form():
    assert inversion.linear_estimate_error(1000, 64) == pytest.approx((2 * 64 + 3) / 1000, rel=1e-9)


def test_linear_estimate_on_numpy_and_torch():
    rng = np.random.default_rng(1)
    weight, x = rng.standard_normal((300, 4)), rng.standard_normal((2, 4))
    for name in ("relu", "tanh"):
        outputs = np.asarray(activation(name)(x @ weight.T))
        here = inversion.linear_estimate(weight, outputs, name)
        there = inversion.linear_estimate(torch.from_numpy(weight), torch.from_numpy(outputs), name)
        np.testing.assert_allclose(there.numpy(), here, rtol=1e-9)
        assert np.linalg.norm(here - x) < 0.5 * np.linalg.norm(x)


def test_variance_from_the_size_of_the_outputs():
    for name in ("relu", "tanh", "sigmoid"):
        moment = float(activation(name).second_moment(1.7))
        assert inversion.preactivation_variance(moment, name) == pytest.approx(1.7, rel=1e-6)
    with pytest.raises(InputError, match="no input of a tanh layer"):
        inversion.preactivation_variance(1.5, "tanh")


def test_deep_error_against_simulation():
    """150 networks of four layers of width 300, inputs of 5 dimensions; half the value would be seen."""
    rng = np.random.default_rng(2)
    sizes = [5, 300, 300, 300, 300]
    squares = []
    for _ in range(150):
        weights = [rng.standard_normal((b, a)) * math.sqrt(2 / b) for a, b in pairwise(sizes)]
        values = x = np.eye(5)[0]
        for weight in weights:
            values = np.maximum(weight @ values, 0)
        for weight in reversed(weights):
            values = weight.T @ values
        squares.append(((values - x) ** 2).sum())
    predicted = inversion.deep_linear_error(5, [300] * 4)[-1]
    assert abs(z_score(squares, predicted)) < 4
    assert abs(z_score(squares, predicted / 2)) > 4


def test_span_probability_by_enumeration():
    exact = sum(math.comb(9, k) for k in range(4, 10)) / 2**9
    assert inversion.span_probability(9, 4) == pytest.approx(exact, abs=1e-14)
    assert inversion.span_probability(160, 64) == pytest.approx(0.9956, abs=1e-4)


def test_condition_of_active_rows_against_a_wide_layer():
    """n = 300: the edges are within 3 %; with the full instead of half the rows it would be off by 20 % and more."""
    rng = np.random.default_rng(3)
    for alpha in (4, 16):
        weight = rng.standard_normal((300 * alpha, 300))
        values = np.linalg.svd(weight[weight[:, 0] > 0], compute_uv=False)
        assert values[0] / values[-1] == pytest.approx(float(inversion.active_condition(float(alpha))), rel=0.06)
    assert math.isinf(float(inversion.active_condition(2.0)))


def test_noise_amplification_of_gaussian_rows():
    """E tr (AᵀA)⁻¹ over 2,000 draws, as a z-score; off by one in k - n - 1 would be 7 standard errors."""
    rng = np.random.default_rng(4)
    traces = [np.linalg.inv(a.T @ a).trace() for a in 0.5 * rng.standard_normal((2000, 20, 8))]
    assert abs(z_score(traces, inversion.noise_amplification(8, 20, 0.5) ** 2)) < 4
    assert abs(z_score(traces, inversion.noise_amplification(8, 21, 0.5) ** 2)) > 4
    assert math.isinf(inversion.noise_amplification(8, 9))


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.5, 0.9])
def test_donoho_tanner_against_the_statistical_dimension(delta):
    """The same threshold from the descent cone of the l1 norm: a formula that shares nothing with the first."""
    share = delta * float(inversion.donoho_tanner(delta))
    spread = lambda t: (1 + t * t) * norm.sf(t) - t * norm.pdf(t)
    size = lambda t: share * (1 + t * t) + (1 - share) * 2 * spread(t)
    needed = minimize_scalar(size, bounds=(0, 10), method="bounded")
    assert needed.fun == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize(("inputs", "nonzeros"), [(100, 7), (10**9, 5), (10**12, 3)])
def test_restricted_isometry_bound_of_many_inputs(inputs, nonzeros):
    """The number of supports in whole numbers; the bound was 4e-9 and 3e-5 off at the last two."""
    supports = math.log(math.comb(inputs, nonzeros))
    expected = (1 + math.sqrt(nonzeros / 1000) + math.sqrt((supports + math.log(40)) / 500)) ** 2 - 1
    assert inversion.restricted_isometry_bound(1000, inputs, nonzeros) == pytest.approx(expected, rel=1e-12)


def test_restricted_isometry_bound_holds_and_scales():
    """Over 30 matrices the constant of all pairs of columns stays below the bound, which is no more than 5 times it."""
    rng = np.random.default_rng(5)
    bound = inversion.restricted_isometry_bound(200, 30, 2)
    largest = 0.0
    for _ in range(30):
        a = rng.standard_normal((200, 30)) / math.sqrt(200)
        gram = a.T @ a
        for i in range(30):
            for j in range(i):
                spectrum = np.linalg.eigvalsh(gram[np.ix_([i, j], [i, j])])
                largest = max(largest, abs(spectrum - 1).max())
    assert largest < bound < 5 * largest


def test_refused():
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        inversion.donoho_tanner(1.0)
    with pytest.raises(InputError, match="do not fit"):
        inversion.linear_estimate(np.ones((3, 2)), np.ones(4))
    with pytest.raises(InputError, match="all zero"):
        inversion.linear_estimate(np.zeros((3, 2)), np.ones(3))


@pytest.mark.parametrize("name", ["cos", "abs"])
def test_even_activations_have_no_linear_estimate(name):
    """E σ' is 0 by symmetry; what quadrature leaves of it once made errors of 1e31."""
    with pytest.raises(InputError, match="mean slope 0"):
        inversion.linear_estimate_error(400, 10, name)
    weight = np.random.default_rng(0).standard_normal((50, 3))
    with pytest.raises(InputError):
        inversion.linear_estimate(weight, activation(name)(weight @ np.ones(3)), name)
