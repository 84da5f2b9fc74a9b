"""Interpolated expectations against quadrature, black patches and equal pairs included."""

from __future__ import annotations

import array_api_compat
import numpy as np
import pytest
import torch
from polar import ACTIVATIONS, second_moment, squared_distance

from initscope.theory import _interpolation
from initscope.theory.activations import Activation, activation, names


def elements(count=30_000):
    rng = np.random.default_rng(0)
    kxx, kyy = np.exp(rng.uniform(-3, 1, (2, count)))
    rho = 1 - 1.2 * rng.random(count) ** 3
    kxx[:5] = 0
    kyy[5:10] = kxx[5:10]
    d = kxx + kyy - 2 * rho * np.sqrt(kxx * kyy)
    d[5:10] = 0
    return kxx, kyy, d


def test_every_activation_that_is_integrated_is_looked_at():
    assert set(ACTIVATIONS) == {name for name in names() if activation(name).integrated} - {"swish"}


def awkward(rng, count):
    """Pairs in two cells (variances e^-4 to e^-2): corners and faces, nearly equal variances, small angles."""
    u, v, theta = rng.random((3, count))
    third = count // 3
    u[:third], v[:third], theta[:third] = rng.choice([0.0, 0.01, 0.5, 0.99, 1.0], (3, third))
    v[third : 2 * third] = u[third : 2 * third] + rng.normal(size=third) * 10.0 ** rng.uniform(-6, -1, third)
    theta[third : 2 * third : 2] = 10.0 ** rng.uniform(-4, 0, theta[third : 2 * third : 2].size)
    kxx, kyy = (np.exp(-4 + 2 * np.clip(w, 0, 1 - 1e-9)) for w in (u, v))
    return kxx, kyy, np.maximum(theta, 1e-4) * np.pi


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_interpolation_keeps_the_accuracy_that_it_states(name):
    """The whole of 1e-7 at the worst places of 20,000 pairs, by quadrature in polar coordinates; would catch 1.1e-7.

    ``benchmarks/interpolation.py`` looks at all cells of variances from e^-8 to e^8.
    """
    kxx, kyy, theta = awkward(np.random.default_rng(2), _interpolation.LARGE)
    d = (np.sqrt(kxx) - np.sqrt(kyy)) ** 2 + 4 * np.sqrt(kxx * kyy) * np.sin(theta / 2) ** 2
    got = activation(name).transform(kxx, kyy, d)
    function = ACTIVATIONS[name]
    for index in np.linspace(0, len(kxx) - 1, 60).astype(int):
        expected = squared_distance(function, kxx[index], kyy[index], theta[index])
        assert got[2][index] == pytest.approx(expected, rel=_interpolation.TOLERANCE, abs=0)
        for moments, variance in ((got[0], kxx), (got[1], kyy)):
            expected = second_moment(function, variance[index])
            assert moments[index] == pytest.approx(expected, rel=_interpolation.TOLERANCE, abs=0)


def test_black_patches_and_equal_pairs():
    """Among wide ranges of variances, against the few that are integrated; would catch 2e-7."""
    sigma = activation("silu")
    maps = elements()
    got = sigma.transform(*maps)
    index = np.concatenate([np.arange(12), np.random.default_rng(1).integers(0, len(maps[0]), 100)])
    few = [m[index] for m in maps]  # too few to be interpolated
    for result, expected in zip(got, sigma.transform(*few), strict=True):
        np.testing.assert_allclose(result[index], expected, rtol=1.1e-7, atol=1e-15)


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
    kxx, kyy, theta = awkward(np.random.default_rng(3), _interpolation.LARGE)
    maps = kxx, kyy, kxx + kyy - 2 * np.sqrt(kxx * kyy) * np.cos(theta)
    sigma = activation("tanh")
    expected = sigma.transform(*maps)
    got = sigma.transform(*(torch.from_numpy(m).float() for m in maps))
    assert got[2].dtype == torch.float32
    np.testing.assert_allclose(got[2].numpy(), expected[2], rtol=1e-4, atol=1e-7)
