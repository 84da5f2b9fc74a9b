"""Integrated expectations where they are hard: large variances, few large elements among many, none at all."""

from __future__ import annotations

import dataclasses

import mpmath
import numpy as np
import pytest
from scipy.special import erf as scipy_erf

from initscope.theory import _asymptotes, activations as A
from initscope.theory.activations import activation


@pytest.mark.parametrize("variance", [300.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_large_variances_keep_their_digits(name, variance):
    """Against mpmath, split where the function bends: pixels from 0 to 255 make such variances."""
    function = {"tanh": mpmath.tanh, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x))}[name]
    s = mpmath.sqrt(variance)
    ends = sorted({-9 * s, *(sign * x for x in (0, 1, 3, 8, 20, 60) for sign in (-1, 1)), 9 * s})
    exact = mpmath.quad(lambda x: function(x) ** 2 * mpmath.npdf(x, 0, s), [x for x in ends if abs(x) <= 9 * s])
    assert float(activation(name).second_moment(variance)) == pytest.approx(float(exact), rel=1e-9)


def test_integrated_pairs_of_large_variance():
    """erf by quadrature, as a function of the user's, against its arcsine law; one large element among many small."""
    by_quadrature = activation(scipy_erf)
    kxx, kyy = np.full(60, 0.7), np.full(60, 0.4)
    kxx[3], kyy[1], kyy[7] = 1e3, 1e4, 3e5
    kxy = 0.6 * np.sqrt(kxx * kyy)
    np.testing.assert_allclose(by_quadrature.dual(kxx, kyy, kxy), A.erf.dual(kxx, kyy, kxy), rtol=1e-8)


SMOOTH = ["tanh", "sigmoid", "softplus", "silu", "mish", "gelu_tanh", "logsigmoid", "tanhshrink"]


@pytest.mark.parametrize("name", SMOOTH)
def test_half_lines_and_their_rest_are_the_whole(name):
    """Against quadrature in two dimensions, from the variances on at which it is used; both know eleven digits."""
    sigma, rng = activation(name), np.random.default_rng(3)
    assert sigma.lines is not None
    kxx = np.exp(rng.uniform(0.5, 9, 40))
    kyy, angle = kxx * np.exp(rng.uniform(-2, 2, 40)), rng.uniform(0.1, np.pi, 40)
    d = kxx + kyy - 2 * np.sqrt(kxx * kyy) * np.cos(angle)
    integrated = dataclasses.replace(sigma, lines=None)
    np.testing.assert_allclose(sigma.distance(kxx, kyy, d), integrated.distance(kxx, kyy, d), rtol=2e-10)


@pytest.mark.parametrize("name", SMOOTH)
def test_far_beyond_the_bend_its_moments_are_enough(name):
    """Against quadrature in two dimensions at variances from 2·10⁴ on, beside some that need the grid.

    Without the product of the rests softplus, whose rest is the largest, is off by 1e-9 and more.
    """
    sigma, rng = activation(name), np.random.default_rng(4)
    kxx = np.exp(rng.uniform(10.3, 11.5, 12))
    kxx[:2] = 50.0
    kyy, angle = kxx * np.exp(rng.uniform(-0.2, 0.2, 12)), rng.uniform(0.8, 2.3, 12)
    d = kxx + kyy - 2 * np.sqrt(kxx * kyy) * np.cos(angle)
    integrated = dataclasses.replace(sigma, lines=None)
    np.testing.assert_allclose(sigma.distance(kxx, kyy, d), integrated.distance(kxx, kyy, d), rtol=2e-10)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_series_of_moments_is_the_grid(name, monkeypatch):
    """The product of the rests in one dimension, against the grid in two, at the steep pairs too, where it is used."""
    sigma, rng = activation(name), np.random.default_rng(5)
    kxx = np.exp(rng.uniform(0.2, 8, 300))
    kyy, angle = kxx * np.exp(rng.uniform(-1, 1, 300)), rng.uniform(0.05, np.pi - 0.05, 300)
    d = kxx + kyy - 2 * np.sqrt(kxx * kyy) * np.cos(angle)
    on_grid, pairs = _asymptotes._on_grid, []

    def counted(*arguments):
        pairs.append(len(arguments[-1]))
        return on_grid(*arguments)

    monkeypatch.setattr(_asymptotes, "_on_grid", counted)
    mostly_summed = sigma.distance(kxx, kyy, d)
    few = sum(pairs)
    monkeypatch.setattr(_asymptotes, "_LAST", -1.0)
    np.testing.assert_allclose(mostly_summed, sigma.distance(kxx, kyy, d), rtol=1e-10)
    assert few < 150 < sum(pairs) - few


def test_distances_take_other_elements_as_they_come():
    """Small and large variances together, broadcast, with elements at angle 0."""
    kxx, kyy = np.array([[0.3], [40.0], [1e5]]), np.array([0.5, 30.0, 2e5])
    d = kxx + kyy - 1.2 * np.sqrt(kxx * kyy)
    together = A.silu.distance(kxx, kyy, d)
    alone = [[float(A.silu.distance(kxx[i, 0], kyy[j], d[i, j])) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    assert (A.silu.distance(kxx, kxx, 0 * kxx) == 0).all()


def test_empty_arrays_stay_empty():
    empty = np.empty(0)
    assert A.tanh.dual(empty, empty, empty).shape == (0,)
    assert A.selu.second_moment(empty).shape == (0,)
