"""ELU, CELU and SELU, whose expectations are one integral, against quadrature in polar coordinates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from polar import second_moment, squared_distance
from torch import nn

from initscope.theory import activations as A

CASES = {
    "elu": (A.elu(), 1.0, 1.0, 1.0),
    "elu(0.3)": (A.elu(0.3), 1.0, 1.0, 0.3),
    "celu(1.7)": (A.celu(1.7), 1.7, 1.7, 1.0),
    "selu": (A.selu, 1.0507009873554805, 1.0, 1.6732632423543772),
}
"""Each with the c, u and g of c·x/u above 0 and c·g·(exp(x/u) - 1) below."""
ANGLES = (1e-3, 0.4, 1.5, 2.7, 3.1)
VARIANCES = ((2e-4, 3e-4), (0.3, 0.3), (0.2, 4.0), (5.0, 60.0), (900.0, 700.0))


def written_out(name):
    """σ and its derivative."""
    _, scale, unit, left = CASES[name]

    def value(x):
        return scale * np.where(x > 0, x / unit, left * np.expm1(np.minimum(x, 0) / unit))

    def slope(x):
        return scale / unit * np.where(x > 0, 1.0, left * np.exp(np.minimum(x, 0) / unit))

    return value, slope


def product(function, kxx, kyy, theta):
    """E f(X)f(Y)."""
    return (
        second_moment(function, kxx) + second_moment(function, kyy) - squared_distance(function, kxx, kyy, theta)
    ) / 2


@pytest.mark.parametrize("theta", ANGLES)
@pytest.mark.parametrize(("kxx", "kyy"), VARIANCES)
@pytest.mark.parametrize("name", CASES)
def test_expectations_of_a_pair(name, kxx, kyy, theta):
    """The quadrature of the test has some eleven digits; what is taken from a difference has them of its terms."""
    sigma, (value, slope) = CASES[name][0], written_out(name)
    d = (math.sqrt(kxx) - math.sqrt(kyy)) ** 2 + 4 * math.sqrt(kxx * kyy) * math.sin(theta / 2) ** 2
    kxy = math.sqrt(kxx * kyy) * math.cos(theta)
    assert float(sigma.distance(kxx, kyy, d)) == pytest.approx(squared_distance(value, kxx, kyy, theta), rel=2e-10)
    assert float(sigma.second_moment(kxx)) == pytest.approx(second_moment(value, kxx), rel=1e-11)
    digits = 2e-10 * second_moment(value, max(kxx, kyy))
    assert float(sigma.dual(kxx, kyy, kxy)) == pytest.approx(product(value, kxx, kyy, theta), abs=digits)
    digits = 2e-10 * second_moment(slope, max(kxx, kyy))
    assert float(sigma.derivative_dual(kxx, kyy, kxy)) == pytest.approx(product(slope, kxx, kyy, theta), abs=digits)


@pytest.mark.parametrize("variance", [1e-8, 0.5, 20.0, 1e6])
@pytest.mark.parametrize("name", CASES)
def test_limits(name, variance):
    """Beside a constant 0, σ(0) = 0 is left; as the pair closes, E(σ(X) - σ(Y))² is d E σ'².

    The exponential dies out where variances are large: a ramp is left, and half of the slopes' square.
    """
    sigma, scale, unit, left = CASES[name]
    slopes = float(sigma.derivative_dual(variance, variance, variance))
    assert slopes == pytest.approx(second_moment(written_out(name)[1], variance), rel=1e-4 if variance > 1e3 else 1e-9)
    assert float(sigma.distance(variance, variance, 1e-16 * variance)) == pytest.approx(
        1e-16 * variance * slopes, rel=1e-6
    )
    assert float(sigma.distance(variance, 0.0, variance)) == pytest.approx(
        float(sigma.second_moment(variance)), rel=1e-12
    )
    tail = second_moment(lambda x: np.sqrt(written_out(name)[1](x)), variance)
    slope = scale / unit * left
    assert float(sigma.derivative_dual(variance, 0.0, 0.0)) == pytest.approx(slope * tail, rel=1e-3)
    assert float(sigma.derivative_dual(0.0, 0.0, 0.0)) == pytest.approx(slope**2)


@pytest.mark.parametrize("name", CASES)
def test_functions_are_those_of_torch(name):
    _, _, unit, left = CASES[name]
    module = nn.SELU() if name == "selu" else nn.CELU(unit) if unit != 1 else nn.ELU(left)
    x = torch.linspace(-9, 9, 37, dtype=torch.float64, requires_grad=True)
    output = module(x)
    (slope,) = torch.autograd.grad(output.sum(), x)
    sigma = CASES[name][0]
    torch.testing.assert_close(sigma(x.detach()), output.detach())
    torch.testing.assert_close(sigma.derivative(x.detach()), slope)
