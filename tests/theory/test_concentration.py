"""Filters, dimensions and bits: explicit constants, exact laws by enumeration, the pilot against fresh layers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from sklearn.random_projection import johnson_lindenstrauss_min_dim

from initscope.errors import InputError
from initscope.theory import concentration as c


def test_constant_and_its_parts():
    """8/3 is the squared ψ₂ norm of a Gaussian: E exp(g²/t²) = (1 - 2/t²)^{-1/2} = 2 at t² = 8/3."""
    assert pytest.approx(2) == (1 - 2 / (8 / 3)) ** -0.5
    assert pytest.approx(26.06, abs=0.005) == c.BERNSTEIN_CONSTANT


def test_bernstein_bounds_a_known_law():
    """The inequality behind the constant, on centered squares of Gaussians, whose tail is exact: never below it."""
    from scipy.special import gammainc, gammaincc

    norm = 8 / 3 * (1 + 1 / math.log(2))
    for count in (5, 50, 500):
        for t in (0.1, 0.5, 1.0, 5.0, 20.0):
            exact = gammaincc(count / 2, count * (1 + t) / 2) + (
                gammainc(count / 2, count * (1 - t) / 2) if t < 1 else 0
            )
            assert exact <= 2 * math.exp(-min((t / norm) ** 2, t / norm) * count / 4)


def test_printed_formulas():
    d = c.BERNSTEIN_CONSTANT
    k = d * 0.1 * 2.0**2 * 3.0**2 * 64 / 5.0
    expected = k * k * math.log(2 * 64 / 0.05)
    found = c.inner_product_filters(positions=64, patch_norm=3.0, variance=0.1, eps=5.0, delta=0.05, lipschitz=2.0)
    assert expected < found <= expected + 1
    k = 5 * d * 0.3**2 * 64 / (0.1 * 0.5 * 9)
    found = c.cosine_filters(positions=64, patch_ratio=0.3, kernel_size=3, eps=0.1, delta=0.05)
    assert found == pytest.approx(k * k * math.log(6 * 64 / 0.05), abs=1)
    k = 5 * d / (0.5 * 0.1)
    assert c.cosine_filters_without_union(eps=0.1, delta=0.05) == pytest.approx(k * k * math.log(6 / 0.05), abs=1)
    k = d * 2.0**2 * 64 / (9 * 5.0)
    found = c.linear_filters(positions=64, patch_norm=2.0, kernel_size=3, eps=5.0, delta=0.05)
    assert found == pytest.approx(k * k * math.log(2 * 64 / 0.05), abs=1)
    # Large distortions: the linear regime of max(K, K²).
    small = c.inner_product_filters(positions=1, patch_norm=1.0, variance=1.0, eps=1e3, delta=0.05)
    assert small == math.floor(d / 1e3 * math.log(40)) + 1


@given(st.floats(0.01, 1.0), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_last_step_of_corollary_1(eps, mean, a, b, d):
    """Three quantities within eps/5 keep the ratio within eps, for any eps up to 1, not only 1/10."""
    ratio = (mean + a * eps / 5) / math.sqrt((1 + b * eps / 5) * (1 + d * eps / 5))
    assert abs(ratio - mean) <= eps


def pilot(count, seed, theta=1.0):
    """Dense ReLU units as filters: their shares are known exactly through `relu_cosine_sd`."""
    g = np.random.default_rng(seed).standard_normal((2, count))
    x, y = np.maximum(g[0], 0), np.maximum(math.cos(theta) * g[0] + math.sin(theta) * g[1], 0)
    return x * y, x * x, y * y


def test_sharp_filters_find_the_known_variance():
    from initscope.theory.norms import relu_cosine_sd

    found = c.sharp_filters(*pilot(200_000, 1), eps=0.02, delta=0.05)
    sd = float(relu_cosine_sd(math.cos(1.0), 1))
    assert found.sd == pytest.approx(sd, rel=0.02)
    assert found.filters == found.normal == pytest.approx((1.959964 * sd / 0.02) ** 2, rel=0.04)
    assert found.low < found.filters < found.high
    assert not found.resampled


def test_sharp_filters_by_resampling_keep_the_promise():
    """Fresh layers of the resampled number fail in 5 % of cases; those of the normal limit significantly more."""
    theta, eps = 0.3, 0.05
    found = c.sharp_filters(*pilot(50_000, 2, theta), eps=eps, delta=0.05)
    assert found.resampled
    assert found.filters > found.normal
    layers = 20_000

    def failure(size):
        a, b, d = (values.reshape(layers, size).sum(axis=1) for values in pilot(layers * size, 3, theta))
        mean = (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi
        return np.mean(np.abs(a / np.sqrt(b * d) - mean) > eps)

    error = math.sqrt(0.05 * 0.95 / layers)
    # 30 filters rather than 29 or 31 move the failure by 0.003; the pilot's own error by as much.
    assert abs(failure(found.filters) - 0.05) < 4 * error + 0.004
    assert failure(found.normal) > 0.05 + 4 * error


def test_identical_images_need_one_living_filter():
    """The cosine is always 1 unless all units are dead: 2^-N ≤ .05 asks for five."""
    a, _, _ = pilot(20_000, 0, theta=0.0)
    assert c.sharp_filters(a, a, a, eps=0.1, delta=0.05).filters == 5


def test_bad_pilots():
    with pytest.raises(InputError, match="pilot"):
        c.sharp_filters(np.ones(1), np.ones(1), np.ones(1), eps=0.1, delta=0.05)
    with pytest.raises(InputError, match="black"):
        c.sharp_filters(np.zeros(9), np.zeros(9), np.ones(9), eps=0.1, delta=0.05)


@given(st.integers(2, 10**6), st.floats(0.05, 0.95))
def test_textbook_width_is_scikit_learns(samples, eps):
    assert c.johnson_lindenstrauss_width(samples, eps) == johnson_lindenstrauss_min_dim(samples, eps=eps)


@settings(max_examples=30)
@given(st.integers(1, 200), st.floats(0.05, 0.95))
def test_projection_failure_by_quadrature(width, eps):
    """The density of χ²_m/m integrated over the band, 1e-9."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    low, high = math.log(1 - eps), math.log(1 + eps)
    y = (low + high) / 2 + (high - low) / 2 * nodes
    half = width / 2
    density = np.exp(half * (y + math.log(half)) - half * np.exp(y) - math.lgamma(half))
    inside = float(weights @ density) * (high - low) / 2
    assert c.projection_failure(width, eps) == pytest.approx(1 - inside, abs=1e-9)


def binomial_failure(bits, eps, p):
    """By the definition, with exact binomial coefficients."""
    return sum(
        math.comb(bits, k) * p**k * (1 - p) ** (bits - k) for k in range(bits + 1) if abs(k / bits - p) > eps + 1e-12
    )


@settings(max_examples=60)
@given(st.integers(1, 60), st.floats(0.02, 0.6), st.floats(0.05, math.pi - 0.05))
def test_sign_failure_by_enumeration(bits, eps, angle):
    p = angle / math.pi
    if min(abs(abs(k / bits - p) - eps) for k in range(bits + 1)) > 1e-7:
        assert c.sign_failure(bits, eps, angle=angle) == pytest.approx(binomial_failure(bits, eps, p), abs=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 9, 30, 57])
@pytest.mark.parametrize("eps", [0.05, 0.1, 0.31])
def test_worst_angle_against_a_fine_grid(bits, eps):
    """No angle of a fine grid is worse, and one is nearly as bad."""
    lattice = (np.arange(bits + 1) / bits)[:, None] + np.array([-eps, eps]) + np.array([[[-1e-9]], [[1e-9]]])
    grid = np.concatenate([np.linspace(0.001, 0.999, 999), lattice.ravel()])
    values = [binomial_failure(bits, eps, p) for p in grid if 0 < p < 1]
    assert c.sign_failure(bits, eps) == pytest.approx(max(values), abs=1e-6)


@pytest.mark.parametrize("bits", [2001, 3777, 9604])
@pytest.mark.parametrize("eps", [0.01, 0.1, 0.123, 0.2, 0.3])
def test_worst_angle_of_many_bits(bits, eps):
    """Above 2000 bits few angles are tried; a scan over all lattice points finds nothing worse.

    Rare failures are not worst at 90°, where both tails are alike, but where one is longest: at 2,001 bits and ε = .2
    the angle 72° is 8.5 times worse.
    """
    from scipy.special import bdtr, bdtrc

    k = np.arange(math.ceil(bits * eps) + 1, bits)
    p = k / bits - eps
    below = np.ceil(k - 2 * eps * bits - 1e-9) - 1
    everything = bdtrc(k - 1, bits, p) + np.where(below >= 0, bdtr(np.maximum(below, 0), bits, p), 0)
    assert c.sign_failure(bits, eps) == pytest.approx(everything.max(), rel=1e-10, abs=0)


@pytest.mark.parametrize(("eps", "delta", "angle"), [(0.1, 0.05, None), (0.2, 0.01, None), (0.1, 0.1, 0.7)])
def test_sign_bits_is_the_last_crossing(eps, delta, angle):
    bits = c.sign_bits(eps, delta, angle=angle)
    assert c.sign_failure(bits - 1, eps, angle=angle) > delta
    assert all(c.sign_failure(more, eps, angle=angle) <= delta for more in range(bits, bits + 300))
    assert bits <= c.sign_bits_hoeffding(eps, delta)


@pytest.mark.parametrize(("share", "delta"), [(0.01, 0.01), (0.04, 0.05), (0.5, 0.5), (0.955, 0.05), (0.97, 0.05)])
def test_sign_bits_looks_far_enough(share, delta):
    """A few bits may do by luck of the lattice; of 46 that were planned for the share .955, up to 63 fail."""
    bits = c.sign_bits(0.05, delta, angle=share * math.pi)
    failing = [more for more in range(1, 400) if binomial_failure(more, 0.05, share) > delta]
    assert bits == failing[-1] + 1


def test_theorem_of_the_talk():
    assert c.sign_bits_theorem(0.5, 3.0) == pytest.approx(9 * 64)


def test_vanishing_outputs_count_where_the_inner_product_never_varies():
    """x and -x through one pixel: a filter lives on one of them alone, and 2·2^-N ≤ .125 asks for four."""
    g = np.random.default_rng(0).standard_normal(20_000)
    plan = c.sharp_filters(np.zeros(20_000), np.maximum(g, 0) ** 2, np.maximum(-g, 0) ** 2, eps=0.1, delta=0.13)
    assert (plan.filters, plan.low, plan.high) == (4, 4, 4)
    rare = c.sharp_filters(np.zeros(20_000), np.maximum(g, 0) ** 2, np.maximum(-g, 0) ** 2, eps=0.1, delta=1e-6)
    assert rare.filters in (21, 22)  # log2(2e6) = 20.9


@pytest.mark.parametrize("angle", [0.0, math.pi])
def test_equal_and_opposite_inputs_never_fail(angle):
    """All bits agree at angle 0 and differ at π: the Hamming distance is θ/π itself."""
    assert c.sign_failure(64, 0.001, angle=angle) == 0
    assert c.sign_bits(0.1, 0.05, angle=angle) == 1
    with pytest.raises(InputError, match="from 0 to 3"):
        c.sign_failure(64, 0.1, angle=math.nextafter(math.pi, 4))


def test_a_pilot_that_overflowed_is_refused():
    for wrong in (np.nan, np.inf):
        with pytest.raises(InputError, match="pilot"):
            c.sharp_inner_filters(np.array([1.0, wrong] * 10), eps=0.1, delta=0.05)
        with pytest.raises(InputError, match="pilot"):
            c.sharp_filters(np.array([1.0, wrong] * 10), np.ones(20), np.ones(20), eps=0.1, delta=0.05)


def test_projections_of_fine_tolerance():
    """χ²/m of 5e7 dimensions is normal to 1e-3 at five deviations; SciPy's incomplete gamma is off by 6 % there."""
    limit = 2 * norm.sf(1e-3 * math.sqrt(5e7 / 2))
    assert c.projection_failure(50_000_000, 1e-3) == pytest.approx(limit, rel=5e-3, abs=0)
    assert c.projection_width(1e-3, 1e-6) == pytest.approx(2 * (norm.isf(5e-7) / 1e-3) ** 2, rel=5e-4)


def test_signs_of_billions_of_bits():
    """Beyond 2³¹ bits the law came out as NaN, which a search takes for no failure at all."""
    for bits in (10**9, 10**11):
        eps = 2.5 / math.sqrt(bits)  # five deviations at 90 degrees
        fails = math.floor(bits * (0.5 + eps) + 1e-9) + 0.5 - bits / 2
        limit = 2 * norm.sf(fails / (0.5 * math.sqrt(bits)))
        assert c.sign_failure(bits, eps, angle=math.pi / 2) == pytest.approx(limit, rel=1e-4, abs=0)
        assert c.sign_failure(bits, eps) == pytest.approx(limit, rel=1e-2, abs=0)
