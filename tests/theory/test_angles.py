"""The maps of angles, against high precision, simulation and their own limits."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory import angles


def exact_gap(gap):
    """1 - R̂(1 - gap) with 60 digits."""
    with mpmath.workdps(60):
        rho = 1 - mpmath.mpf(gap)
        value = (mpmath.sqrt(1 - rho**2) + (mpmath.pi - mpmath.acos(rho)) * rho) / mpmath.pi
        return 1 - value


@pytest.mark.parametrize("gap", [0.0, *np.logspace(-14, math.log10(2), 400), 0.125 - 1e-12, 0.125, 1.0, 2.0])
def test_gap_map_keeps_twelve_digits(gap):
    gap = min(float(gap), 2.0)
    expected = exact_gap(gap)
    assert abs(angles.relu_cosine_gap(gap) - expected) <= 1e-12 * abs(expected)


def test_gap_map_in_torch_and_single_precision():
    gaps = np.logspace(-12, 0.3, 50)
    expected = angles.relu_cosine_gap(gaps)
    assert np.allclose(angles.relu_cosine_gap(torch.tensor(gaps)).numpy(), expected, rtol=1e-14)
    single = angles.relu_cosine_gap(torch.tensor(gaps, dtype=torch.float32)).numpy()
    assert np.allclose(single, expected, rtol=1e-5)


@pytest.mark.parametrize(("rho", "slope"), [(1.0, 1.0), (-1.0, 0.0), (0.0, 0.5), (0.5, 2 / 3)])
def test_slope_of_relu_cosine(rho, slope):
    """R̂'(ρ) = (π - θ)/π, at the ends too."""
    x = torch.tensor(rho, dtype=torch.float64, requires_grad=True)
    angles.relu_cosine(x).backward()
    assert float(x.grad) == pytest.approx(slope, abs=1e-12)


@pytest.mark.parametrize("gap", [1e-12, 1e-6, 1e-3, 0.4])
def test_relu_cosine_of_nearly_opposite_inputs(gap):
    """In 40 digits: what is left near -1 is small, and was lost beside the 1 (2e-7 off at a gap of 1e-6)."""
    with mpmath.workdps(40):
        rho = mpmath.mpf(-1 + gap)
        expected = (mpmath.sqrt(1 - rho**2) + (mpmath.pi - mpmath.acos(rho)) * rho) / mpmath.pi
    assert float(angles.relu_cosine(-1 + gap)) == pytest.approx(float(expected), rel=1e-12, abs=0)


def test_relu_cosine_by_simulation():
    """A layer of 2000 units, 400 times, as ratio of means: an error of .001 in the cosine would be seen."""
    rng = np.random.default_rng(3)
    theta = 1.1
    x, z = rng.standard_normal((2, 400, 2000))
    a = np.maximum(x, 0)
    b = np.maximum(math.cos(theta) * x + math.sin(theta) * z, 0)
    excess = 2 * (a * b).mean(axis=1)
    expected = angles.relu_cosine(math.cos(theta))
    assert abs(z_score(excess, expected)) < 4
    assert abs(z_score(excess, expected + 0.02)) > 4
    assert angles.relu_angle(theta) == pytest.approx(math.acos(expected), abs=1e-12)


def test_squared_distance_by_simulation_and_sign():
    """Minus before ψ: with the plus of the talk opposite vectors would end 3 apart (squared), not 1."""
    rng = np.random.default_rng(4)
    theta, nu, nv = 1.3, 1.0, 1.5
    a = rng.standard_normal((2, 300_000))
    u = nu * a[0]
    v = nv * (math.cos(theta) * a[0] + math.sin(theta) * a[1])
    samples = (np.maximum(u, 0) - np.maximum(v, 0)) ** 2
    expected = angles.squared_distance(nu, nv, theta)
    assert abs(z_score(samples, expected)) < 4
    assert abs(z_score(samples, expected + 2 * nu * nv * angles.psi(theta))) > 4
    ratios = [
        float(angles.squared_distance(1, 1.5, t) / (1 + 2.25 - 3 * math.cos(t))) for t in np.radians([20, 90, 180])
    ]
    assert [round(r, 2) for r in ratios] == [0.48, 0.35, 0.26]


@pytest.mark.parametrize(("degrees", "ratio"), [(5, 0.99), (20, 0.96), (90, 0.79), (180, 0.5)])
def test_small_angles_contract_least(degrees, ratio):
    theta = math.radians(degrees)
    assert round(float(angles.relu_angle(theta)) / theta, 2) == ratio


def test_zero_sum_opens_angles():
    points = angles.fixed_points("relu", strength=1.0)
    assert [round(p.cosine, 9) for p in points] == [0.0, 1.0]
    assert [p.stable for p in points] == [True, False]
    assert points[0].slope == pytest.approx(0.5 / (1 - 1 / math.pi), rel=1e-6)
    assert points[1].slope == pytest.approx(1 / (1 - 1 / math.pi), rel=1e-12)
    half = angles.fixed_points("relu", strength=0.5)[0]
    assert half.stable
    assert angles.zero_sum_relu_cosine(half.cosine, 0.5) == pytest.approx(half.cosine, abs=1e-9)


def test_plain_relu_collapses_slowly():
    assert angles.slope_at_one("relu") == pytest.approx(1.0, abs=1e-14)
    assert math.isinf(angles.depth_scale("relu"))
    gap = 1.0
    ratios = {}
    for depth in range(1, 1001):
        gap = float(angles.relu_cosine_gap(gap))
        ratios[depth] = 2 * math.asin(math.sqrt(gap / 2)) / (3 * math.pi / depth)
    assert round(ratios[100], 3) == 0.898
    assert round(ratios[1000], 3) == 0.985


def test_collapse_depth_is_the_first_layer_below():
    theta = 0.9
    depth = angles.collapse_depth(theta, ratio=0.25)
    track = [theta]
    for _ in range(depth):
        track.append(float(angles.relu_angle(track[-1])))
    assert track[depth] <= 0.25 * theta < track[depth - 1]
    assert angles.collapse_depth(theta, strength=1.0, limit=200) is None


@given(st.floats(-1, 1))
def test_relu_map_contracts_and_is_bounded(rho):
    """Theorem 3 with one pixel: max(ρ, 0) ≤ R̂(ρ) ≤ (1 + ρ)/2."""
    value = float(angles.relu_cosine(rho))
    assert max(rho, 0) - 1e-15 <= value <= (1 + rho) / 2 + 1e-15


def test_cosine_map_is_the_ratio_of_duals():
    for name in ("gelu", "tanh", "relu", "silu"):
        sigma = angles.activation(name)
        k, rho = 1.7, 0.3
        expected = (3 * sigma.dual(k, k, rho * k) + 0.2) / (3 * sigma.second_moment(k) + 0.2)
        ours = angles.cosine_map(name, rho, variance=k, weight_variance=3.0, bias_variance=0.2)
        assert float(ours) == pytest.approx(float(expected), abs=1e-11)


def test_slope_at_one_is_the_derivative_of_the_map():
    for name in ("gelu", "tanh", "relu"):
        step = 1e-6
        near = 1 - float(angles.cosine_map(name, 1 - step, variance=1.4))
        # The next term of the ReLU map is of order step^1.5.
        assert near / step == pytest.approx(angles.slope_at_one(name, variance=1.4), abs=3 * math.sqrt(step))


def test_critical_gain_is_critical():
    """At the edge of chaos the variance stands still and χ = 1; known: ReLU √2, tanh 1 without bias."""
    assert angles.critical_gain("relu") == pytest.approx(math.sqrt(2), rel=1e-12)
    assert angles.critical_gain("tanh") == pytest.approx(1.0, abs=1e-9)
    assert angles.critical_gain("erf") == pytest.approx(math.sqrt(math.pi) / 2, rel=1e-9)
    gain = angles.critical_gain("tanh", bias_variance=0.05)
    k = _fixed_variance("tanh", gain**2, 0.05)
    assert angles.slope_at_one("tanh", variance=k, weight_variance=gain**2, bias_variance=0.05) == pytest.approx(
        1.0, abs=1e-6
    )


def _fixed_variance(name, weight_variance, bias_variance):
    k = 1.0
    for _ in range(60):
        k = float(angles.variance_map(name, k, weight_variance=weight_variance, bias_variance=bias_variance))
    return k


def test_an_activation_that_jumps_parts_nearby_inputs():
    """1 - ρ becomes a multiple of √(1 - ρ): the slope is infinite, cosine 1 unstable, one layer decides."""
    for name in ("sign", "step"):
        assert angles.slope_at_one(name) == math.inf
        assert angles.depth_scale(name) == 0
        points = angles.fixed_points(name)
        assert [point.stable for point in points[-2:]] == [True, False]
        assert all(a.stable != b.stable for a, b in pairwise(points))  # a continuous map has them in turn
        with pytest.raises(InputError, match="part at every gain"):
            angles.critical_gain(name)
    assert angles.depth_scale("cos", variance=1e-300) == 0


@pytest.mark.parametrize(("name", "bias_variance"), [("gelu", 0.0), ("silu", 0.0), ("mish", 0.0), ("gelu", 0.04)])
def test_no_critical_gain_where_the_variance_explodes(name, bias_variance):
    with pytest.raises(InputError, match="grows without end"):
        angles.critical_gain(name, bias_variance=bias_variance)


@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "elu", "selu", "hardtanh", "relu6"])
def test_critical_gain_keeps_small_signals(name):
    """χ → 1 for small variances, and the variance does not grow: kinks at 0 have two slopes."""
    gain = angles.critical_gain(name)
    k = 1e-8
    assert angles.slope_at_one(name, variance=k, weight_variance=gain**2) == pytest.approx(1, abs=1e-3)
    assert float(angles.variance_map(name, k, weight_variance=gain**2)) == pytest.approx(k, rel=1e-3)
    assert float(angles.variance_map(name, 0.1, weight_variance=gain**2)) <= 0.1 * (1 + 1e-12)


def test_fixed_points_near_cosine_one_are_found():
    """λ = 5e-4 settles at θ = 3λ/2 to first order: θ²/2·λ/π = θ³/(3π)."""
    points = angles.fixed_points("relu", strength=5e-4)
    assert [point.stable for point in points] == [True, False]
    assert math.acos(points[0].cosine) == pytest.approx(1.5 * 5e-4, rel=1e-2)
    assert [round(point.cosine) for point in angles.fixed_points("identity")] == [-1, 1]


def test_angle_map_has_its_slope_at_zero():
    theta = torch.tensor([0.0, 1.0, math.pi], dtype=torch.float64, requires_grad=True)
    angles.relu_angle(theta).sum().backward()
    step = 1e-6
    slope = (float(angles.relu_angle(1 + step)) - float(angles.relu_angle(1 - step))) / (2 * step)
    np.testing.assert_allclose(theta.grad[:2].numpy(), [1.0, slope], rtol=1e-8)
    assert torch.isfinite(theta.grad).all()


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="radians"):
        angles.psi(90.0)
    with pytest.raises(InputError, match="radians"):
        angles.relu_angle(-1.0)
    with pytest.raises(InputError, match="strength = 5"):
        angles.cosine_map("relu", 0.5, strength=5)
    with pytest.raises(InputError, match="strength = 5"):
        angles.collapse_depth(1.0, strength=5)
    with pytest.raises(InputError, match=r"cosine lies in \[-1, 1\]"):
        angles.relu_cosine(1.5)
    with pytest.raises(InputError, match=r"cosine lies in \[-1, 1\]"):
        angles.relu_cosine(math.nan)
    with pytest.raises(InputError, match="gap"):
        angles.relu_cosine_gap(-0.5)
    with pytest.raises(InputError, match="strength = 2"):
        angles.zero_sum_relu_cosine(0.1, 2)
    with pytest.raises(InputError, match="no edge of chaos"):
        angles.critical_gain("relu", bias_variance=0.1)
    with pytest.raises(InputError, match="variance = 0"):
        angles.cosine_map("tanh", 0.3, variance=0.0)
