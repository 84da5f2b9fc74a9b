"""Theorem 3 with its extremal examples, theorem 4, remark 3 and the sharper bound for grey and colour images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from initscope.errors import InputError
from initscope.theory.angles import relu_cosine
from initscope.theory.images import (
    contracting_positions,
    cosine,
    excess_bound,
    expected_cosine,
    expected_inner,
    extremal_pair,
    gaussian_cosine,
    relu_cosine_bounds,
)

RNG = np.random.default_rng


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), kernel=st.integers(1, 5), sparse=st.floats(0, 1), positive=st.booleans())
def test_theorem_3_on_random_images(seed, kernel, sparse, positive):
    rng = RNG(seed)
    x, y = rng.standard_normal((2, 4, 2, 6, 7)) * (rng.random((2, 4, 2, 6, 7)) > sparse)
    if positive:
        x, y = abs(x), abs(y)
    x[:, 0, 0, 0] += 3
    y[:, 0, 0, 0] += 3 * rng.choice([-1, 1])
    low, high = relu_cosine_bounds(cosine(x, y))
    after = expected_cosine(x, y, kernel_size=kernel)
    assert np.all(low <= after + 1e-12)
    assert np.all(after <= high + 1e-12)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("rho", [-1.0, -0.6, -0.1, 0.0, 0.3, 0.8, 1.0])
def test_remark_2_attains_both_bounds(rho, kernel):
    for index, bound in enumerate(("lower", "upper")):
        x, y = extremal_pair(rho, bound, kernel_size=kernel)
        np.testing.assert_allclose([(x**2).sum(), (y**2).sum(), (x * y).sum()], [1, 1, rho], atol=1e-15)
        after = expected_cosine(x, y, kernel_size=kernel)
        np.testing.assert_allclose(after, relu_cosine_bounds(rho)[index], atol=1e-14)


def test_zero_padding_violates_theorem_3():
    """A shared pixel in the corner is seen by 4 of 9 taps, the others by all: 4/(4 + 9) < ρ_in = 1/2."""
    x, y = np.zeros((2, 1, 1, 12, 12))
    x[..., 0, 0] = y[..., 0, 0] = x[..., 4, 4] = y[..., 8, 8] = 1
    np.testing.assert_allclose(cosine(x, y), 0.5)
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=3, padding="zeros"), 4 / 13, rtol=1e-14)
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=3), 0.5, rtol=1e-14)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.9])
def test_theorem_4_gaussian_images(rho, channels):
    """Mean of 400 expected cosines at 11×11 within 4 standard errors + 1/(2 · 121) of R̂(ρ).

    The theorem is about the expected inner product; a ratio of patch norms adds a bias below 1/(2 patch entries).
    An error of 0.02 in R̂ fails.
    """
    rng = RNG(0)
    x, noise = rng.standard_normal((2, 400, channels, 16, 16))
    after = expected_cosine(x, rho * x + math.sqrt(1 - rho**2) * noise, kernel_size=11)
    slack = 4 * after.std(ddof=1) / 20 + 1 / (2 * 121)
    assert abs(after.mean() - gaussian_cosine(rho)) < slack
    assert abs(after.mean() - gaussian_cosine(rho) - 0.02) > slack
    assert gaussian_cosine(rho) == pytest.approx(relu_cosine(rho), rel=1e-13)


def test_theorem_4_expected_inner_product():
    """E over images of the inner product is R̂(ρ) exactly for pixels of variance 1/n²: z-score over 3,000 pairs."""
    rng, rho = RNG(1), 0.3
    x, noise = rng.standard_normal((2, 3000, 1, 10, 10)) / 10
    samples = expected_inner(x, rho * x + math.sqrt(1 - rho**2) * noise, kernel_size=3)
    # At 3×3 the mean over filters of R(F∗X)R(F∗Y) is not that of the limit, but its expectation over X, Y is.
    z = (samples.mean() - relu_cosine(rho)) / (samples.std(ddof=1) / math.sqrt(3000))
    assert abs(z) < 4
    assert abs((samples.mean() - 1.03 * relu_cosine(rho)) / (samples.std(ddof=1) / math.sqrt(3000))) > 4


def test_remark_3_lower_bound_iff_nothing_contracts():
    """Equality exactly when no position has two non-zero, non-parallel patches."""
    x, y = extremal_pair(0.4, "lower", kernel_size=3)
    assert not contracting_positions(x, y, kernel_size=3).any()
    scaled = RNG(2).random((1, 3, 8, 8))
    assert not contracting_positions(scaled, 0.01 * scaled, kernel_size=3).any()
    y = y.copy()
    y[..., 1, 0] = 0.5
    assert contracting_positions(x, y, kernel_size=3).any()
    inner = expected_inner(x, y, kernel_size=3)
    assert inner > (x * y).sum() + 1e-3


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), kernel=st.integers(1, 5), dark=st.floats(0, 0.95), signed=st.booleans())
def test_excess_bound_holds(seed, kernel, dark, signed):
    """0 ≤ E⟨R,R⟩ - ⟨x,y⟩ ≤ bound on images with black regions, of either sign."""
    rng = RNG(seed)
    x, y = rng.random((2, 3, 3, 8, 8))
    x[:, :, : int(8 * dark)] = 0
    y[:, :, :, : int(8 * dark)] = 0
    if signed:
        x, y = x - 0.6 * (x > 0), y - 0.6 * (y > 0)
    excess = expected_inner(x, y, kernel_size=kernel) - (x * y).sum(axis=(1, 2, 3))
    bound = excess_bound(x, y, kernel_size=kernel)
    assert np.all(excess >= -1e-12)
    assert np.all(excess <= bound.inner + 1e-12)
    change = expected_cosine(x, y, kernel_size=kernel) - cosine(x, y)
    assert np.all(change <= bound.cosine + 1e-12)
    assert np.all(bound.positions <= 64)


def test_excess_bound_is_attained():
    """Orthogonal patches of one norm everywhere (red and green): the excess is the bound, 1/π, to rounding."""
    red, green = np.zeros((2, 1, 3, 8, 8))
    red[:, 0] = green[:, 1] = 1
    bound = excess_bound(red, green, kernel_size=3)
    np.testing.assert_allclose(bound.cosine, 1 / math.pi, rtol=1e-14)
    np.testing.assert_allclose(bound.cosine, expected_cosine(red, green, kernel_size=3), rtol=1e-12)
    np.testing.assert_allclose(excess_bound(red, -red, kernel_size=3).cosine, 1.0, rtol=1e-14)


def test_excess_bound_results_and_torch():
    x, y = RNG(3).random((2, 4, 1, 8, 8)).astype(np.float32)
    bound = excess_bound(x, y, kernel_size=3)
    tensors = excess_bound(torch.from_numpy(x), torch.from_numpy(y), kernel_size=3)
    np.testing.assert_allclose(tensors.inner.numpy(), bound.inner, rtol=1e-5)
    rows = bound.table()
    assert len(rows) == 4
    assert rows[1]["positions"] == int(bound.positions[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relu_cosine_bounds(1.5), "cosine lies in"),
        (lambda: relu_cosine_bounds(float("nan")), "not NaN"),
        (lambda: extremal_pair(1.5), "rho = 1.5 must lie in"),
        (lambda: extremal_pair(0.5, "middle"), "bound = 'middle' must be 'upper' or 'lower'"),
        (lambda: extremal_pair(0.5, kernel_size=0), "kernel_size = 0"),
        (lambda: excess_bound(np.zeros((1, 1, 4, 4)), np.ones((1, 1, 4, 4)), kernel_size=3), "pair 0: x is zero"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_excess_stays_below_its_bound_in_single_precision():
    """Images one per cent apart have patches under two degrees apart, which single precision took for parallel."""
    rng = np.random.default_rng(0)
    x = rng.random((8, 1, 12, 12))
    y = x * (1 + 0.01 * rng.standard_normal(x.shape))
    excess = expected_inner(x, y, kernel_size=3, weight_variance=2 / 9) - (x * y).sum(axis=(1, 2, 3))
    bound = excess_bound(x.astype(np.float32), y.astype(np.float32), kernel_size=3)
    assert (excess > 0).all()
    assert (excess <= bound.inner).all()
    assert excess_bound(x.tolist(), y.tolist(), kernel_size=3).inner.shape == (8,)
