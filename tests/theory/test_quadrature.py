"""Integrated expectations where they are hard: large variances, few large elements among many, none at all."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import erf as scipy_erf

from initscope.theory import activations as A
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


def test_empty_arrays_stay_empty():
    empty = np.empty(0)
    assert A.tanh.dual(empty, empty, empty).shape == (0,)
    assert A.selu.second_moment(empty).shape == (0,)
