"""Moments and squared distances of piecewise polynomials, where variances are tiny or huge and angles small."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from initscope.theory import activations
from initscope.theory.activations import Activation

CASES = {
    "relu6": (activations.relu6, (0, 6), lambda x: min(max(x, 0), 6)),
    "hard tanh": (activations.truncation(-1, 1), (-1, 1), lambda x: min(max(x, -1), 1)),
    "soft shrinkage": (
        activations.softshrink(0.5), (-0.5, 0.5), lambda x: mpmath.sign(x) * max(abs(x) - mpmath.mpf("0.5"), 0)
    ),
    "hard shrinkage": (activations.hardshrink(0.5), (-0.5, 0.5), lambda x: x if abs(x) > 0.5 else 0),
    "hard swish": (activations.hardswish, (-3, 3), lambda x: x * min(max(x + 3, 0), 6) / 6),
    "squared ReLU": (activations.squared_relu, (0,), lambda x: max(x, 0) ** 2),
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
    plane = Activation._distance(sigma, np, kxx, kyy, d)
    np.testing.assert_allclose(sigma.distance(kxx, kyy, d), plane, rtol=1e-8)


@pytest.mark.parametrize(("variance", "digits"), [(1e4, 1e-9), (1e8, 1e-8), (1e12, 1e-6)])
def test_hard_swish_keeps_its_digits_at_huge_variances(variance, digits):
    """The jumps of its curvature sum to 0: bells that are not subtracted well leave an error of
    variance·1e-16 and more."""
    kxx = variance * np.array([1.0, 1.0, 1.0])
    kyy = variance * np.array([1.0, 1.7, 0.6])
    d = (np.sqrt(kxx) - np.sqrt(kyy)) ** 2 + 4 * np.array([1e-3, 0.2, 0.6]) * np.sqrt(kxx * kyy)
    plane = Activation._distance(activations.hardswish, np, kxx, kyy, d)
    np.testing.assert_allclose(activations.hardswish.distance(kxx, kyy, d), plane, rtol=digits)


def test_the_smallest_distances_and_variances_are_no_numbers_too_small():
    """Neither division by 0 nor NaN; near equal units the slope's second moment is what multiplies the distance."""
    one = np.ones(2)
    for sigma, _, _ in CASES.values():
        assert np.isfinite(sigma.distance(one, one, np.array([1e-310, 0.0]))).all()
        assert np.isfinite(sigma.distance(np.array([1e-300, 1e-308]), one, one)).all()
    slope = activations.hardswish.derivative_dual(1.0, 1.0, 1.0)
    assert activations.hardswish.distance(1.0, 1.0, 1e-300) == pytest.approx(1e-300 * slope, rel=1e-9, abs=0)


def test_modules_of_torch_have_the_values_of_their_activations():
    """Pieces against the function that torch computes, at and beside the kinks."""
    import torch
    from torch import nn

    from initscope.graph import activation_of

    x = torch.linspace(-5, 5, 401, dtype=torch.float64) + 1e-3
    modules = [nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(-0.3, 2.0), nn.ReLU6(), nn.Softshrink(0.7)]
    for module in [*modules, nn.Hardshrink(0.7), nn.Threshold(0.2, -1.0)]:
        np.testing.assert_allclose(activation_of(module)(x), module(x), rtol=1e-14, atol=1e-15)
