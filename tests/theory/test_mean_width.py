"""Widths of sets against independent computations: mpmath, other closed forms, brute-force suprema, Monte Carlo."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory.mean_width import (
    Ball,
    Ellipsoid,
    GaussianMixture,
    SparseSet,
    Subspace,
    SupportSet,
    gaussian_norm_mean,
    sudakov_log_packing,
)

RNG = np.random.default_rng(20)


@pytest.mark.parametrize("n", [1, 2, 7, 100, 999, 1000, 1001, 5000, 10**6])
def test_gaussian_norm_mean_in_high_precision(n):
    with mpmath.workdps(40):
        exact = mpmath.sqrt(2) * mpmath.exp(mpmath.loggamma(mpmath.mpf(n + 1) / 2) - mpmath.loggamma(mpmath.mpf(n) / 2))
        assert abs(gaussian_norm_mean(n) / exact - 1) < 1e-12


def test_ellipsoid_width_is_the_ball_s_for_equal_axes():
    for n in (1, 2, 30):
        assert Ellipsoid.from_axes([2.5] * n).width() == pytest.approx(Ball(n, 2.5).width(), rel=1e-10)


@pytest.mark.parametrize("axes", [[1.0, 0.1], [5.0, 3.0, 1e-3], list(1 / np.arange(1, 40) ** 2)])
def test_ellipsoid_width_by_sampling(axes):
    """Width by quadrature against 100,000 Gaussians; would catch a relative error of 1 % (4 standard errors)."""
    g = np.random.default_rng(3).standard_normal((100_000, len(axes)))
    samples = 2 * np.sqrt((g**2 * np.square(axes)).sum(axis=1))
    width = Ellipsoid.from_axes(axes).width()
    assert abs(z_score(samples, width)) < 4
    assert abs(z_score(samples, width * 1.02)) > 4


def test_ellipsoid_of_two_axes_is_an_elliptic_integral():
    """E sqrt(a² g² + b² h²) = E|r| · mean radius over the circle = sqrt(pi/2) · (2/pi) a E(1 - b²/a²)."""
    a, b = 3.0, 0.7
    exact = 2 * math.sqrt(math.pi / 2) * (2 / math.pi) * a * float(mpmath.ellipe(1 - (b / a) ** 2))
    assert Ellipsoid.from_axes([a, b]).width() == pytest.approx(exact, rel=1e-10)


def test_subspace_ignores_redundant_columns():
    basis = RNG.standard_normal((20, 4))
    doubled = np.hstack([basis, basis @ RNG.standard_normal((4, 3))])
    assert Subspace(doubled, 2.0).width() == Ball(4, 2.0).width()
    g = RNG.standard_normal((50, 20))
    inside = basis @ np.linalg.lstsq(basis, g.T, rcond=None)[0]
    np.testing.assert_allclose(Subspace(doubled, 2.0).support(g), 2 * np.linalg.norm(inside, axis=0), rtol=1e-10)


def test_sparse_support_against_every_choice_of_columns():
    dictionary = RNG.standard_normal((6, 8))
    g = RNG.standard_normal((20, 6))
    brute = np.max(
        [np.linalg.norm(g @ dictionary[:, list(c)], axis=1) for c in itertools.combinations(range(8), 3)], axis=0
    )
    np.testing.assert_allclose(SparseSet(dictionary, 3).support(g), brute, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_one_sparse_width_by_sampling(n):
    """Largest of n half-normals by quadrature against 5,000 samples; detects a relative error of 4 %."""
    samples = 2 * np.abs(np.random.default_rng(n).standard_normal((5000, n))).max(axis=1)
    assert abs(z_score(samples, SparseSet(n, 1).width())) < 4
    assert abs(z_score(samples, SparseSet(n, 1).width() * 1.08)) > 4


@pytest.mark.parametrize("n", [2, 1000, 10**8, 10**12, 10**18])
def test_one_sparse_width_in_high_precision(n):
    """For many coordinates 1 - P^n is all in digits that P itself does not have."""
    with mpmath.workdps(40):
        typical = mpmath.sqrt(2 * mpmath.log(n))
        places = [0, typical / 2, typical * 0.8, typical, typical + 1, typical + 3, typical + 15]
        exact = 2 * mpmath.quad(lambda t: 1 - mpmath.erf(t / mpmath.sqrt(2)) ** n, places)
        assert abs(SparseSet(n, 1).width() / exact - 1) < 1e-12


def test_a_number_of_coordinates_may_be_numpy_s():
    assert SparseSet(np.int64(100), 5).ambient == 100
    assert SparseSet(np.int64(100), 1).width() == SparseSet(100, 1).width()


@pytest.mark.parametrize(
    ("members", "radius"),
    [
        (Ball(5, 2.0), 2.0),
        (Subspace(RNG.standard_normal((5, 2)), 3.0), 3.0),
        (Ellipsoid.from_axes([1.0, 4.0, 2.0]), 4.0),
        (SparseSet(7, 2), 1.0),
        (SparseSet(RNG.standard_normal((5, 9)), 2), None),
        (GaussianMixture(np.array([[0.0, 3.0]]), np.array([[[1.0], [0.0]]]), radius=5.0), 4.0),  # 3² + 4² = 5²
        (GaussianMixture(np.ones((2, 2)), np.ones((2, 2, 1)), radius=5.0), 5.0),  # means in the span: through 0
        (GaussianMixture(np.array([[0.0, 3.0], [1.0, 0.0]]), np.ones((2, 2, 1)), radius=5.0), None),
    ],
)
def test_enclosing_radius(members, radius):
    assert members.enclosing_radius == (None if radius is None else pytest.approx(radius, rel=1e-12))


def test_mixture_support_against_dense_sampling_of_the_set():
    """The supremum over a million points of the set is below the exact one and close to it."""
    means = np.array([[0.3, 0.2, 0.1], [0.0, 0.5, -0.4]])
    factors = RNG.standard_normal((2, 3, 1))
    members = GaussianMixture(means, factors, radius=1.0)
    points = []
    for mean, factor in zip(means, factors):
        line = mean + np.linspace(-20, 20, 500_001)[:, None] * factor[:, 0]
        points.append(line[np.linalg.norm(line, axis=1) <= 1])
    points = np.concatenate(points)
    g = RNG.standard_normal((30, 3))
    brute = (points @ g.T).max(axis=0)
    exact = members.support(g)
    assert (brute <= exact + 1e-12).all()
    np.testing.assert_allclose(brute, exact, atol=1e-3)


def test_mixture_far_from_the_ball_and_without_radius_are_refused():
    means, factors = np.array([[0.0, 0.0, 5.0]]), np.array([[[1.0], [0.0], [0.0]]])
    with pytest.raises(InputError, match=r"no component meets the ball; the nearest is at 5"):
        GaussianMixture(means, factors, radius=1.0)
    with pytest.raises(InputError, match="infinite"):
        GaussianMixture(means, factors)
    assert GaussianMixture(means, factors, radius=13.0).width() == pytest.approx(2 * 12 * gaussian_norm_mean(1))


@pytest.mark.parametrize(
    "members",
    [
        Ball(5, 2.0),
        Subspace(RNG.standard_normal((5, 2))),
        Ellipsoid(RNG.standard_normal((5, 4))),
        SparseSet(RNG.standard_normal((5, 9)), 2),
        SparseSet(5, 2),
        GaussianMixture(np.zeros((3, 5)), RNG.standard_normal((3, 5, 2)), radius=1.0),
    ],
    ids=lambda members: type(members).__name__,
)
def test_numpy_and_torch_agree_and_support_is_sublinear(members):
    g, h = RNG.standard_normal((2, 40, 5))
    np.testing.assert_allclose(members.support(torch.from_numpy(g)).numpy(), members.support(g), rtol=1e-12)
    assert (members.support(g + h) <= members.support(g) + members.support(h) + 1e-12).all()
    np.testing.assert_allclose(members.support(3 * g), 3 * members.support(g))


@given(st.integers(2, 60), st.floats(0.05, 3))
@settings(deadline=None, max_examples=40)
def test_sudakov_holds_for_orthogonal_vectors(n, eps):
    """n scaled basis vectors are pairwise ``eps`` apart; their exact width bounds their number."""
    if n == 2:  # two points at distance eps: equality by the choice of the constant
        width = eps * math.sqrt(2 / math.pi)
        assert math.log(2) == pytest.approx(sudakov_log_packing(width, eps))
        return
    largest = quad(lambda t: 1 - ndtr(t) ** n - ndtr(-t) ** n, 0, 12)[0]
    assert math.log(n) <= sudakov_log_packing(2 * largest * eps / math.sqrt(2), eps)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Ball(0),
        lambda: Ball(3, -1.0),
        lambda: Subspace(np.zeros((4, 2))),
        lambda: Subspace(np.array([1.0, 2.0])),
        lambda: Ellipsoid(np.full((2, 2), np.nan)),
        lambda: Ellipsoid(np.zeros((2, 2))),
        lambda: SparseSet(10, 11),
        lambda: SparseSet(10, 0),
        lambda: GaussianMixture(np.zeros((2, 3)), np.ones((3, 3, 1)), radius=1.0),
        lambda: SupportSet(lambda g: g, ambient=3).support(np.ones((2, 3))),
        lambda: sudakov_log_packing(-1.0, 1.0),
        lambda: sudakov_log_packing(1.0, 0.0),
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(InputError):
        bad()
