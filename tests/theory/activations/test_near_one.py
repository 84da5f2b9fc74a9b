"""Squared distances near cosine 1 and -1, small and unlike variances and jumps, against 60 digits of mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from initscope.theory._arrays import namespace
from initscope.theory.activations import activation, polynomial
from initscope.theory.activations._closed import ClosedForm
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
                for share in (1e-28, 1e-20, 1e-17, 1e-9, 1e-6, 1e-2):
                    if share < 1e-4 * unequal**2:
                        continue  # d itself cannot say it
                    kxx, kyy = mp.mpf(k), mp.mpf(k * (1 + unequal))
                    d = float((mp.sqrt(kxx) - mp.sqrt(kyy)) ** 2 + kxx * share)
                    cross = (kxx + kyy - mp.mpf(d)) / 2
                    own = precise_dual(name, kxx, kxx, kxx) + precise_dual(name, kyy, kyy, kyy)
                    expected = float(own - 2 * precise_dual(name, kxx, kyy, cross))
                    assert float(activation(name).distance(k, k * (1 + unequal), d)) == pytest.approx(
                        expected, rel=1e-7, abs=0
                    )


def precise_distance(name, kxx, kyy, d):
    """E(σ(X)-σ(Y))² of these very floats."""
    a, b, d = mp.mpf(kxx), mp.mpf(kyy), mp.mpf(d)
    if name == "abs":
        rho = (a + b - d) / (2 * mp.sqrt(a * b))
        return d - 4 * mp.sqrt(a * b) / mp.pi * (mp.sqrt(1 - rho**2) - rho * mp.acos(rho))
    if name == "1-x²":  # E(X²-Y²)²
        return 2 * a**2 + 2 * b**2 - (a + b - d) ** 2 + (a - b) ** 2
    cross = (a + b - d) / 2
    return precise_dual(name, a, a, a) + precise_dual(name, b, b, b) - 2 * precise_dual(name, a, b, cross)


@pytest.mark.parametrize("name", ["cos", "gaussian", "abs", "1-x²"])
def test_even_activations_at_opposite_inputs(name):
    """σ(-x) = σ(x): equal at cosine -1, a relative 1e-7 from 1 + cosine = 1e-13 on; the difference is noise there."""
    sigma = polynomial(1, 0, -1) if name == "1-x²" else activation(name)
    with mp.workdps(60):
        for kxx in (1e-4, 1.0, 9.0):
            assert abs(float(sigma.distance(kxx, kxx, 4 * kxx))) < 1e-30 * kxx
            for kyy in (kxx, kxx * (1 + 1e-9), kxx * 1.5):
                for left in (1e-13, 1e-9, 1e-6, 1e-3, 0.1):
                    d = float(mp.mpf(kxx) + kyy + 2 * mp.sqrt(mp.mpf(kxx) * kyy) * (1 - left))
                    expected = float(precise_distance(name, kxx, kyy, d))
                    assert float(sigma.distance(kxx, kyy, d)) == pytest.approx(expected, rel=1e-7, abs=0)


@pytest.mark.parametrize("name", ["cos", "gaussian", "exp"])
def test_distances_of_small_variances_at_any_angle(name):
    """Where σ(0) ≠ 0 and the variance is small, all cosines are near 1 and the difference has no digits: 1e-7 still."""
    with mp.workdps(60):
        for kxx in (1e-12, 1e-8, 1e-5, 4e-4):
            for ratio in (1.0, 1.1, 3.0, 1e3):
                for half_gap in (1e-6, 0.25, 0.5, 0.75, 0.99):
                    kyy = kxx * ratio
                    roots = mp.sqrt(mp.mpf(kxx)), mp.sqrt(mp.mpf(kyy))
                    d = float((roots[0] - roots[1]) ** 2 + 4 * roots[0] * roots[1] * half_gap)
                    expected = float(precise_distance(name, kxx, kyy, d))
                    assert float(activation(name).distance(kxx, kyy, d)) == pytest.approx(expected, rel=1e-7, abs=0)
            expected = float(precise_distance(name, kxx, 0.0, kxx))  # beside a constant
            assert float(activation(name).distance(kxx, 0.0, kxx)) == pytest.approx(expected, rel=1e-7, abs=0)


def test_the_sign_of_two_inputs_a_rounding_apart():
    assert float(activation("sign").distance(1, 1, 1e-17)) == pytest.approx(
        4 / math.pi * math.sqrt(1e-17), rel=1e-9, abs=0
    )


def test_dual_of_unlike_variances():
    """tanhshrink(X) is X³/3 for tiny X: E[X³ σ(Y)]/3 by mpmath, 1e-6; through the distance it was off by .28 %."""
    with mp.workdps(20):
        third = mp.quad(lambda y: (y**3 - 3 * y) * (y - mp.tanh(y)) * mp.npdf(y), [-10, -5, 0, 5, 10])
        first = mp.quad(lambda y: y * (y - mp.tanh(y)) * mp.npdf(y), [-10, -5, 0, 5, 10])
    rho, s = 0.5, 1e-4
    expected = s**3 / 3 * float(rho**3 * third + 3 * rho * first)
    assert float(activation("tanhshrink").dual(s**2, 1, rho * s)) == pytest.approx(expected, rel=1e-6, abs=0)
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


@pytest.mark.parametrize("name", ["erf", "gelu", "sin", "cos", "gaussian"])
def test_how_fast_scaling_moves_it_is_what_integration_gives(name):
    """The formula of every closed form against the integral that stands for those without one."""
    sigma, a, b = activation(name), np.array([0.3, 1.0, 1.4]), np.array([0.5, 0.2, 1.3])
    xp, a, b = namespace(a, b)
    np.testing.assert_allclose(sigma._stretch(xp, a, b), ClosedForm._stretch(sigma, xp, a, b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["gelu", "erf", "gaussian"])
@pytest.mark.parametrize("variance", [1e-12, 1.0, 1e8, 1e14, 1e18, 1e100])
def test_duals_of_large_variances(name, variance):
    """At cosine ±1 the products in (1 + kxx)(1 + kyy) - kxy² cancel: GELU was infinite from a variance of 1e16 on."""
    sigma = activation(name)
    for sign in (1, -1):
        with mp.workdps(250):
            like, cross = mp.mpf(variance), sign * mp.mpf(variance)
            dual = precise_dual(name, like, like, cross)
            slack = 1e-15 * float(precise_dual(name, like, like, like))
            slope = mp.diff(lambda c, like=like: precise_dual(name, like, like, c), cross, h=mp.mpf(10) ** -80)
        assert sigma.dual(variance, variance, sign * variance) == pytest.approx(float(dual), rel=1e-13, abs=slack)
        assert sigma.derivative_dual(variance, variance, sign * variance) == pytest.approx(
            float(slope), rel=1e-12, abs=1e-16
        )
    single = sigma.second_moment(np.float32(min(variance, 1e30)))
    assert single.dtype == np.float32
    assert single == pytest.approx(float(sigma.second_moment(min(variance, 1e30))), rel=1e-6, abs=0)
