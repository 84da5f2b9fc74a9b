"""Singular values of random Jacobians against closed forms and drawn matrices."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.activations import leaky_relu
from initscope.theory.jacobians import singular_value_distribution

FUNCTIONS = {
    "identity": (lambda p: p, lambda p: np.ones_like(p)),
    "relu": (lambda p: np.maximum(p, 0), lambda p: (p > 0) * 1.0),
    "tanh": (np.tanh, lambda p: 1 / np.cosh(p) ** 2),
    "hardtanh": (lambda p: np.clip(p, -1, 1), lambda p: (np.abs(p) < 1) * 1.0),
    "leaky": (lambda p: np.where(p > 0, p, 0.3 * p), lambda p: np.where(p > 0, 1, 0.3)),
}


def drawn(widths, name, *, weight_variance, bias_variance=0.0, orthogonal=False, draws=12, seed=0):
    """Singular values of drawn Jacobians, those that are 0 included."""
    rng, values = np.random.default_rng(seed), []
    value, slope = FUNCTIONS[name]
    for _ in range(draws):
        h, jacobian = rng.normal(size=widths[0]), np.eye(widths[0])
        for inputs, outputs in pairwise(widths):
            weight = rng.normal(size=(outputs, inputs)) / math.sqrt(inputs)
            if orthogonal:
                left, _, right = np.linalg.svd(weight, full_matrices=False)
                weight = left @ right
            weight = math.sqrt(weight_variance) * weight
            p = weight @ h + rng.normal(size=outputs) * math.sqrt(bias_variance)
            h, jacobian = value(p), slope(p)[:, None] * (weight @ jacobian)
        values.append(np.sqrt(np.maximum(np.linalg.eigvalsh(jacobian.T @ jacobian), 0)))
    return np.array(values)


def test_one_linear_layer_is_marchenko_pastur():
    values = np.linspace(0.05, 1.95, 20)
    square = singular_value_distribution([1, 1], "identity")
    np.testing.assert_allclose(square.density(values), np.sqrt(4 - values**2) / np.pi, rtol=1e-5)
    tall = singular_value_distribution([100, 250], "identity")
    low, high = math.sqrt(2.5) - 1, math.sqrt(2.5) + 1
    assert tall.edges == pytest.approx((low, high), rel=1e-9)
    values = np.linspace(low, high, 22)[1:-1]
    expected = np.sqrt((values**2 - low**2) * (high**2 - values**2)) / (np.pi * values)
    np.testing.assert_allclose(tall.density(values), expected, rtol=1e-5)


@pytest.mark.parametrize("depth", [1, 2, 3, 7, 30])
def test_products_of_gaussian_matrices_have_fuss_catalan_moments(depth):
    found = singular_value_distribution([1] * (depth + 1), "identity")
    fuss_catalan = [math.comb((depth + 1) * k, k) / (depth * k + 1) for k in range(1, 6)]
    np.testing.assert_allclose(found.moments(5), fuss_catalan, rtol=1e-9)
    assert found.edges == pytest.approx((0, math.sqrt((depth + 1) ** (depth + 1) / depth**depth)), rel=1e-9)


@pytest.mark.parametrize("depth", [2, 5])
def test_products_of_gaussian_matrices_have_the_parametric_density(depth):
    """λ = sin^{L+1}((L+1)φ)/(sin φ sin^L(Lφ)), with density sin²φ sin^{L-1}(Lφ)/(π sin^L((L+1)φ))."""
    phi = np.linspace(0.02, 0.98, 25) * np.pi / (depth + 1)
    one, most, next_one = np.sin(phi), np.sin(depth * phi), np.sin((depth + 1) * phi)
    squares = next_one ** (depth + 1) / (one * most**depth)
    density = one**2 * most ** (depth - 1) / (np.pi * next_one**depth)
    found = singular_value_distribution([1] * (depth + 1), "identity").density(np.sqrt(squares))
    np.testing.assert_allclose(found, 2 * np.sqrt(squares) * density, rtol=2e-5)


def test_two_orthogonal_relu_layers_have_the_arcsine_law():
    """D W D' W' with half of the slopes 0: the squared cosines between two random subspaces of half the dimension."""
    found = singular_value_distribution([1, 1, 1], "relu", orthogonal=True)
    squares = 4 * np.linspace(0.03, 0.97, 20)
    expected = 0.5 / (np.pi * np.sqrt(squares * (4 - squares)))
    np.testing.assert_allclose(found.density(np.sqrt(squares)), 2 * np.sqrt(squares) * expected, rtol=1e-4)
    assert (found.zeros, *found.edges) == pytest.approx((0.5, 0, 2))


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("name", ["tanh", "erf", "gelu"])
def test_variance_of_the_squares_is_that_of_the_paper(name, orthogonal):
    """Pennington, Schoenholz and Ganguli: m₂/m₁² - 1 = L (μ₂/μ₁² - 1 - s₁), s₁ = -1 (Gaussian) or 0 (orthogonal)."""
    scipy_special = pytest.importorskip("scipy.special")
    slopes = {
        "tanh": lambda x: 1 / np.cosh(x) ** 2,
        "erf": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
        "gelu": lambda x: scipy_special.ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    }
    # A second moment that the layer preserves, so that all layers are alike: σ_b² makes up for what is lost.
    x = np.linspace(-9, 9, 20_001)
    weights = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    mu_1, mu_2 = (weights @ slopes[name](x) ** power for power in (2, 4))
    gain, depth = 0.3, 4
    value = {"tanh": np.tanh, "erf": scipy_special.erf, "gelu": lambda t: t * scipy_special.ndtr(t)}[name](x)
    second = weights @ value**2
    found = singular_value_distribution(
        [1] * (depth + 1),
        name,
        weight_variance=gain,
        bias_variance=1 - gain * second,
        input_variance=second,
        orthogonal=orthogonal,
    )
    first, square = found.moments(2)
    assert first == pytest.approx((gain * mu_1) ** depth, rel=1e-6)
    spread = depth * (mu_2 / mu_1**2 - 1 + (0 if orthogonal else 1))
    assert square / first**2 - 1 == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize(
    ("widths", "name", "options"),
    [
        ([200] * 4, "relu", {"weight_variance": 2.0}),
        ([200] * 4, "relu", {"weight_variance": 2.0, "orthogonal": True}),
        ([200, 400, 150, 300], "relu", {"weight_variance": 2.0}),
        ([200, 400, 150, 300], "identity", {"weight_variance": 1.0, "orthogonal": True}),
        ([200] * 4, "tanh", {"weight_variance": 1.05, "bias_variance": 0.01, "orthogonal": True}),
        ([200] * 3, "tanh", {"weight_variance": 1.5, "bias_variance": 0.05}),
        ([200, 170, 230], "leaky", {"weight_variance": 1.8}),
        ([200] * 4, "leaky", {"weight_variance": 1.8, "orthogonal": True}),
        ([200] * 5, "hardtanh", {"weight_variance": 1.0, "orthogonal": True}),
    ],
)
def test_shares_and_edges_are_those_of_drawn_networks(widths, name, options):
    """Shares of singular values below eight thresholds, within 4 standard errors and .005 for the finite width.
    Orthogonal instead of Gaussian weights change a share by .03 or more."""
    values = drawn(widths, name, **options)
    sigma = leaky_relu(0.3) if name == "leaky" else name
    found = singular_value_distribution(widths, sigma, **options)
    thresholds = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.2, 2.0])
    shares = np.array([(values <= threshold).mean(axis=1) for threshold in thresholds])
    seen, error = shares.mean(axis=1), shares.std(axis=1, ddof=1) / math.sqrt(len(values))
    assert (np.abs(found.below(thresholds) - seen) < 4 * error + 0.005).all()
    assert error.max() < 0.02
    assert values.max(axis=1).mean() == pytest.approx(found.edges[1], rel=0.1)
    other = singular_value_distribution(widths, sigma, **options | {"orthogonal": not options.get("orthogonal", False)})
    assert np.abs(other.below(thresholds) - seen).max() > 0.03


@pytest.mark.parametrize(
    ("widths", "name", "orthogonal"),
    [([1] * 9, "relu", False), ([2, 3, 1, 2], "relu", True), ([1] * 4, "hardtanh", True), ([1, 1, 1], "tanh", False)],
)
def test_zeros_atom_and_density_sum_to_1_and_give_the_moments(widths, name, orthogonal):
    found = singular_value_distribution(widths, name, orthogonal=orthogonal, weight_variance=1.0)
    low, high = found.edges
    edge = math.log(max(low, 1e-14 * high)), math.log(high)
    logs = edge[0] + (edge[1] - edge[0]) * (1 - np.cos(np.linspace(0, np.pi, 601))) / 2
    heights = found.density(np.exp(logs)) * np.exp(logs)
    value, share = found.atom
    total = found.zeros + share + np.trapezoid(heights, logs)
    square = share * value**2 + np.trapezoid(heights * np.exp(2 * logs), logs)
    assert total == pytest.approx(1, abs=2e-3 if orthogonal else 2e-2)
    assert square == pytest.approx(found.moments(1)[0], rel=1e-3)
    assert found.mean_square == pytest.approx(found.moments(1)[0])


def test_linear_orthogonal_networks_are_isometries():
    found = singular_value_distribution([5] * 20, "identity", orthogonal=True)
    assert (found.zeros, *found.atom) == pytest.approx((0, 1, 1))
    assert found.edges == pytest.approx((1, 1))
    np.testing.assert_allclose(found.below([0.5, 0.999, 1.001]), [0, 0, 1], atol=1e-12)


def test_only_positive_values_have_a_density():
    found = singular_value_distribution([1, 1])
    with pytest.raises(InputError, match="positive"):
        found.density(0.0)
    with pytest.raises(InputError, match="slope 0"):
        singular_value_distribution([1, 1], "step", weight_variance=1.0)
    with pytest.raises(InputError, match="at least one layer"):
        singular_value_distribution([1])
