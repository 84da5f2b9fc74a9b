"""Squared distances near cosine 1, unlike variances and jumps, against 60 digits of mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from initscope.theory.activations import activation
from initscope.theory.angles import fixed_points


def precise_dual(name, a, b, c):
    """The dual by its textbook formula, in as many digits as mpmath works with."""
    if name == "erf":
        return 2 / mp.pi * mp.asin(2 * c / mp.sqrt((1 + 2 * a) * (1 + 2 * b)))
    if name == "gelu":
        root = mp.sqrt((1 + a) * (1 + b) - c**2)
        both = mp.mpf(1) / 4 + mp.asin(c / mp.sqrt((1 + a) * (1 + b))) / (2 * mp.pi)
        return c * both + (a * (b * (1 + a) - c**2) / (1 + a) + c**2 / (1 + b)) / (2 * mp.pi * root)
    if name in ("sin", "cos"):
        sign = 1 if name == "cos" else -1
        return (mp.exp(-(a + b - 2 * c) / 2) + sign * mp.exp(-(a + b + 2 * c) / 2)) / 2
    if name == "exp":
        return mp.exp((a + b) / 2 + c)
    if name == "gaussian":
        return 1 / mp.sqrt((1 + 2 * a) * (1 + 2 * b) - 4 * c**2)
    same = 1 - 2 * mp.acos(c / mp.sqrt(a * b)) / mp.pi
    return same if name == "sign" else (1 + same) / 4


@pytest.mark.parametrize("name", ["gelu", "erf", "sin", "cos", "exp", "gaussian", "sign", "step"])
def test_distances_keep_their_digits(name):
    """From d = 1e-28 of the variance on, equal variances or not: a relative 1e-7; the difference has none left."""
    with mp.workdps(60):
        for k in (1e-4, 1.0, 9.0):
            for unequal in (0.0, 1e-9, 1e-4):
                for share in (1e-28, 1e-17, 1e-9, 1e-6, 1e-2):
                    if share < 1e-4 * unequal**2:
                        continue  # d itself cannot say it
                    kxx, kyy = mp.mpf(k), mp.mpf(k * (1 + unequal))
                    d = float((mp.sqrt(kxx) - mp.sqrt(kyy)) ** 2 + kxx * share)
                    cross = (kxx + kyy - mp.mpf(d)) / 2
                    own = precise_dual(name, kxx, kxx, kxx) + precise_dual(name, kyy, kyy, kyy)
                    expected = float(own - 2 * precise_dual(name, kxx, kyy, cross))
                    assert float(activation(name).distance(k, k * (1 + unequal), d)) == pytest.approx(
                        expected, rel=1e-7
                    )


def test_the_sign_of_two_inputs_a_rounding_apart():
    assert float(activation("sign").distance(1, 1, 1e-17)) == pytest.approx(4 / math.pi * math.sqrt(1e-17), rel=1e-9)


def test_dual_of_unlike_variances():
    """tanhshrink(X) is X³/3 for tiny X: E[X³ σ(Y)]/3 by mpmath, 1e-6; through the distance it was off by .28 %."""
    with mp.workdps(20):
        third = mp.quad(lambda y: (y**3 - 3 * y) * (y - mp.tanh(y)) * mp.npdf(y), [-10, -5, 0, 5, 10])
        first = mp.quad(lambda y: y * (y - mp.tanh(y)) * mp.npdf(y), [-10, -5, 0, 5, 10])
    rho, s = 0.5, 1e-4
    expected = s**3 / 3 * float(rho**3 * third + 3 * rho * first)
    assert float(activation("tanhshrink").dual(s**2, 1, rho * s)) == pytest.approx(expected, rel=1e-6)
    assert float(activation("relu").dual(1e34, 1, 0.3e17)) == pytest.approx(
        1e17 * float(activation("relu").dual(1, 1, 0.3))
    )


@pytest.mark.parametrize("name", ["hardshrink", "sign", "step", "relu"])
def test_dual_slope_is_the_slope_of_the_dual(name):
    sigma = activation(name)
    slope = (float(sigma.dual(1, 1.3, 0.4 + 1e-4)) - float(sigma.dual(1, 1.3, 0.4 - 1e-4))) / 2e-4
    assert float(sigma.dual_slope(1, 1.3, 0.4)) == pytest.approx(slope, rel=1e-5)


def test_derivative_dual_of_hardshrink_is_what_backpropagation_carries():
    """P(both beyond the threshold): counted in 400,000 pairs, 4 standard errors = .003; the jump's share is .5."""
    x, y = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 400_000).T
    both = (np.abs(x) > 0.5) & (np.abs(y) > 0.5)
    error = 4 * both.std() / math.sqrt(both.size)
    assert abs(float(activation("hardshrink").derivative_dual(1, 1, 0.5)) - both.mean()) < error


def test_sign_has_infinite_slopes_at_both_ends():
    points = fixed_points("sign")
    assert [point.slope for point in points[::2]] == [math.inf, math.inf]
    assert points[1].slope == pytest.approx(2 / math.pi, rel=1e-6)
