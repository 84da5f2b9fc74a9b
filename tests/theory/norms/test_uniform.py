"""Gordon's band: attained and respected; the covering bounds; the mean norm; cones counted."""

import math

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.plan import subspace_extremes
from initscope.theory import norms


@pytest.mark.parametrize("width", [1, 2, 5, 30, 400])
def test_expected_norm_by_quadrature(width):
    """E√r = ∫ P(r > t²) dt over the exact law, 1e-7."""
    nodes, weights = np.polynomial.legendre.leggauss(600)
    top = 8.0 if width < 30 else 2.0
    t = top / 2 * (nodes + 1)
    mean = top / 2 * float(weights @ [norms.norm_ratio_tail(value**2, width) for value in t])
    assert norms.expected_relu_norm(width) == pytest.approx(mean, abs=1e-6)


def test_expected_norm_expansion():
    assert norms.expected_relu_norm(10_000) == pytest.approx(1 - 5 / 80_000, abs=1e-8)


@pytest.mark.parametrize(("width", "dim"), [(2000, 10), (2000, 50), (8000, 200)])
def test_gordon_band_is_kept_and_nearly_attained(width, dim):
    """Extremes found over one drawn subspace stay inside (δ = .05) and reach 80 % of the center term √(2d/m)."""
    generator = np.random.default_rng(dim)
    weights = generator.standard_normal((width, dim)) * math.sqrt(2 / width)
    low, high = subspace_extremes(weights, restarts=6, steps=100)
    bottom, top = norms.gordon_band(width, math.sqrt(dim), 0.05)
    assert bottom <= low < high <= top
    center, reach = norms.expected_relu_norm(width), math.sqrt(2 * dim / width)
    assert high - center >= 0.8 * reach
    assert center - low >= 0.8 * reach


def test_point_cloud_band():
    """100 points: the band of width √(2 log 100) holds in at least 1 - δ of 200 layers."""
    generator = np.random.default_rng(0)
    points = generator.standard_normal((100, 30))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    bottom, top = norms.gordon_band(500, math.sqrt(2 * math.log(100)), 0.05)
    failed = 0
    for _ in range(200):
        ratio = np.linalg.norm(
            np.maximum(points @ generator.standard_normal((30, 500)) * math.sqrt(2 / 500), 0), axis=1
        )
        failed += bool(ratio.min() < bottom or ratio.max() > top)
    assert failed <= 10 + 4 * math.sqrt(200 * 0.05 * 0.95)


def test_figures_of_the_theory():
    """d = 10, ε = .1, δ = .05: norms 6.9e3 against 5.6e5, squared norms 2.9e4 against 2.6e6."""
    assert norms.gordon_width(math.sqrt(10), 0.1, 0.05, squared=False) == pytest.approx(6.9e3, rel=0.01)
    assert norms.gordon_width(math.sqrt(10), 0.1, 0.05) == pytest.approx(2.9e4, rel=0.01)
    assert norms.lemma3_width(10, 0.1, 0.05, squared=False) == pytest.approx(5.6e5, rel=0.01)
    assert norms.lemma3_width(10, 0.1, 0.05) == pytest.approx(2.6e6, rel=0.01)


def test_cone_count_by_enumeration():
    """Sign patterns of m random linear forms on R³, counted from many directions."""
    generator = np.random.default_rng(2)
    width, dim = 6, 3
    forms = generator.standard_normal((width, dim))
    patterns = np.unique(forms @ generator.standard_normal((dim, 50_000)) > 0, axis=1).shape[1]
    assert patterns == round(math.exp(norms.cone_count_log(width, dim)))


@pytest.mark.parametrize(("width", "dim"), [(10**9, 5), (10**12, 3), (4, 9)])
def test_cones_of_wide_layers_are_counted(width, dim):
    """In whole numbers; logarithms of gamma functions were 2e-8 and 3e-5 off."""
    count = 2 * sum(math.comb(width - 1, i) for i in range(dim))
    assert norms.cone_count_log(width, dim) == pytest.approx(math.log(count), rel=1e-14)


def test_repaired_theorem_costs_more():
    printed = norms.theorem2_width(5, 0.2, 0.05, depth=4)
    repaired = norms.theorem2_width(5, 0.2, 0.05, depth=4, repaired=True)
    assert repaired > printed > norms.lemma3_width(5, 0.2, 0.05)


def test_deep_bands_hold_on_samples():
    """Three layers on a plane, every direction of a fine grid: all inside in 10 networks (δ = .05 for each)."""
    width, depth = 3000, 3
    bands = norms.gordon_deep_band(width, math.sqrt(2), depth, 0.05)
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    start = np.stack([np.cos(angles), np.sin(angles)])
    generator = np.random.default_rng(4)
    for _ in range(10):
        hidden = start
        for low, high in bands:
            basis = np.linalg.qr(hidden, mode="r")
            weights = generator.standard_normal((width, basis.shape[0])) * math.sqrt(2 / width)
            hidden = np.maximum(weights @ basis, 0)
            ratio = np.linalg.norm(hidden, axis=0)
            assert low <= ratio.min()
            assert ratio.max() <= high


def test_bad_input():
    with pytest.raises(InputError, match="one_sided_width"):
        norms.gordon_band(100, -1.0, 0.05)
    with pytest.raises(InputError, match="dim = 0"):
        norms.lemma3_width(0, 0.1, 0.05)
