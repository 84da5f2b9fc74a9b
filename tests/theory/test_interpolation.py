"""Interpolated expectations against quadrature at random elements, black patches and equal pairs included."""

from __future__ import annotations

import array_api_compat
import numpy as np
import pytest
import torch

from initscope.theory import _interpolation
from initscope.theory.activations import Activation, activation


def elements(count=30_000):
    rng = np.random.default_rng(0)
    kxx, kyy = np.exp(rng.uniform(-3, 1, (2, count)))
    rho = 1 - 1.2 * rng.random(count) ** 3
    kxx[:5] = 0
    kyy[5:10] = kxx[5:10]
    d = kxx + kyy - 2 * rho * np.sqrt(kxx * kyy)
    d[5:10] = 0
    return kxx, kyy, d


@pytest.mark.parametrize("name", ["tanh", "silu", "softplus"])
def test_many_elements_agree_with_quadrature(name):
    """Relative 1e-7 on a sample beside the one that the interpolation checks itself; would catch 2e-7."""
    sigma = activation(name)
    maps = elements()
    got = sigma.transform(*maps)
    index = np.concatenate([np.arange(12), np.random.default_rng(1).integers(0, len(maps[0]), 100)])
    few = [m[index] for m in maps]  # too few to be interpolated
    for result, expected in zip(got, sigma.transform(*few), strict=True):
        np.testing.assert_allclose(result[index], expected, rtol=2e-7, atol=1e-15)


def test_what_is_not_smooth_enough_is_integrated(monkeypatch):
    """No grid agrees to 0: the very numbers of quadrature come out."""
    monkeypatch.setattr(_interpolation, "TOLERANCE", 0.0)
    sigma = activation("softplus")
    kxx, kyy, d = elements(3_000)
    xp = array_api_compat.array_namespace(kxx)
    got = _interpolation.interpolated_transform(xp, sigma._second_moment, sigma._distance, kxx, kyy, d)
    expected = sigma._second_moment(xp, kxx), sigma._second_moment(xp, kyy), sigma._distance(xp, kxx, kyy, d)
    for result, direct in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, direct, rtol=1e-14)


@pytest.mark.parametrize("name", ["relu6", "hardswish", "hardshrink"])
def test_piecewise_polynomials_need_no_interpolation(name):
    """By one integral, against the quadrature of a few in two dimensions, to 1e-9."""
    sigma = activation(name)
    assert not sigma.integrated
    kxx, kyy, d = elements(1_000)
    index = slice(10, 60)
    expected = Activation._distance(sigma, array_api_compat.array_namespace(kxx), kxx[index], kyy[index], d[index])
    np.testing.assert_allclose(sigma.transform(kxx, kyy, d)[2][index], expected, rtol=1e-9, atol=1e-12)


def test_torch_and_single_precision():
    sigma = activation("tanh")
    maps = elements(25_000)
    expected = sigma.transform(*maps)
    got = sigma.transform(*(torch.from_numpy(m).float() for m in maps))
    assert got[2].dtype == torch.float32
    np.testing.assert_allclose(got[2].numpy(), expected[2], rtol=1e-4, atol=1e-7)
