"""Duals by their Hermite series and from tables, against integrals in two dimensions."""

import math

import pytest
import torch

from initscope.propagate import MomentMaps
from initscope.propagate.duals import coefficients, dual_matrix, means, slopes, transformed
from initscope.propagate.origins import elementwise
from initscope.propagate.origins.elementwise import Activations
from initscope.theory.activations import activation, elu, gelu_tanh, relu, silu, tanh

SMOOTH = (gelu_tanh, silu, activation(lambda x: x**3), activation(lambda x: x * torch.sigmoid(1.7 * x)))


def pairs_of(variance, spread, count=150, seed=0):
    """Variances, and squared distances from nearly equal to opposite units."""
    generator = torch.Generator().manual_seed(seed)
    k = variance * torch.exp(spread * (torch.rand(2, count, generator=generator, dtype=torch.float64) - 0.5))
    angle = math.pi * torch.rand(count, generator=generator, dtype=torch.float64) ** 4
    d = (k[0].sqrt() - k[1].sqrt()) ** 2 + 4 * (k[0] * k[1]).sqrt() * torch.sin(angle / 2) ** 2
    return k[0], k[1], d


@pytest.mark.parametrize("sigma", SMOOTH, ids=["gelu", "silu", "cube", "swish"])
@pytest.mark.parametrize(("variance", "spread"), [(0.3, 0.002), (0.05, 1.5), (0.4, 0.4)])
def test_series_equal_integrals(sigma, variance, spread):
    """To a relative 1e-9 of every element, squared distances of nearly equal units too."""
    kxx, kyy, d = pairs_of(variance, spread)
    assert coefficients(sigma, kxx) is not None
    for got, exact in zip(transformed(sigma, kxx, kyy, d), sigma.transform(kxx, kyy, d), strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-9, atol=0)
    for got, k in zip(means(sigma, kxx, kyy), (kxx, kyy), strict=True):
        torch.testing.assert_close(got, sigma.mean(k), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("sigma", [*SMOOTH, tanh], ids=["gelu", "silu", "cube", "swish", "tanh"])
@pytest.mark.parametrize(("variance", "spread"), [(0.3, 0.002), (0.05, 1.5), (0.2, 0.4)])
def test_slopes_equal_integrals(sigma, variance, spread):
    """E σ'(X)σ'(Y) to 1e-9 of what it is at cosine 1."""
    kxx, kyy, d = pairs_of(variance, spread)
    assert coefficients(sigma, kxx) is not None
    kxy = (kxx + kyy - d) / 2
    largest = float(sigma.derivative_dual(kxx, kxx, kxx).max())
    torch.testing.assert_close(
        slopes(sigma, kxx, kyy, kxy), sigma.derivative_dual(kxx, kyy, kxy), rtol=0, atol=1e-9 * largest
    )


def test_series_that_do_not_end_are_refused():
    """Kinks, closed forms, large variances: what they would cut off is not small."""
    k = torch.full((100,), 0.5, dtype=torch.float64)
    assert coefficients(relu, k) is None
    assert coefficients(activation(lambda x: abs(x - 0.3)), k) is None
    assert coefficients(tanh, 9 * k) is None
    assert coefficients(silu, torch.zeros(3, dtype=torch.float64)) is None
    kxx, kyy, d = pairs_of(6.0, 0.1, count=20)
    for got, exact in zip(transformed(tanh, kxx, kyy, d), tanh.transform(kxx, kyy, d), strict=True):
        torch.testing.assert_close(got, exact, rtol=1e-12, atol=0)
    kxy = (kxx + kyy - d) / 2
    torch.testing.assert_close(slopes(tanh, kxx, kyy, kxy), tanh.derivative_dual(kxx, kyy, kxy), rtol=1e-12, atol=0)


def gram_of(variance, spread, tokens=60, seed=1):
    """A Gram matrix of a few directions, and its diagonal."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, 1, tokens, 5, generator=generator, dtype=torch.float64)
    size = variance * torch.exp(spread * (torch.rand(2, 1, tokens, generator=generator, dtype=torch.float64) - 0.5))
    values = values / values.norm(dim=-1, keepdim=True) * size.sqrt()[..., None]
    return size, values @ values.mT


@pytest.mark.parametrize("sigma", SMOOTH, ids=["gelu", "silu", "cube", "swish"])
def test_whole_matrices(sigma):
    """E σ(X)σ(Y) of every two tokens of different variances."""
    variances, matrix = gram_of(0.4, 0.3)
    got = dual_matrix(sigma, variances, matrix)
    limit = (variances[..., :, None] * variances[..., None, :]).sqrt()
    exact = sigma.dual(variances[..., :, None], variances[..., None, :], matrix.clamp(-limit, limit))
    torch.testing.assert_close(got, exact, rtol=0, atol=1e-9 * float(exact.abs().max()))


@pytest.mark.parametrize("sigma", [gelu_tanh, tanh, elu(0.7)], ids=["gelu", "tanh", "elu"])
def test_tables_equal_integrals(sigma):
    """From tables over the angle, between two variances by a straight line: 2e-4 of the largest at 5 % of variance."""
    variances, matrix = gram_of(4.0, math.log(1.05))
    maps = MomentMaps(*(variances[:, :, :30] for _ in range(3)), sizes=(8,), status="closed form", axis=1)
    first, second = variances[None, ..., :, None], variances[None, ..., None, :]
    limit = (first * second).sqrt()
    matrix = matrix[None].clamp(-limit, limit)
    bounds = float(variances.min()), float(variances.max())
    table = elementwise._from_tables(Activations(maps, sigma)._duals, *bounds, limit, matrix)
    exact = sigma.dual(first, second, matrix)
    largest = float(exact.abs().max())
    assert float((table - exact).abs().max()) < 2e-4 * largest
    # and at one variance they are exact but for the cubics
    same = variances.clamp(max=float(variances.min()))
    ones = torch.ones_like(matrix)
    cosine = (matrix / limit).clamp(-1, 1)
    least = float(same.min())
    duals = Activations(maps, sigma)._duals
    table = elementwise._from_tables(duals, least, least, least * ones, least * cosine)
    exact = sigma.dual(least * ones, least * ones, least * cosine)
    assert float((table - exact).abs().max()) < 1e-8 * largest
