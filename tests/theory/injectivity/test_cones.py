"""Cones and subspaces: against projections of Gaussian vectors, beta laws, Cover's count, and drawn layers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory.injectivity import (
    circular_volumes,
    crofton_probability,
    euler_characteristic,
    euler_of_layer,
    orthant_volumes,
    probability,
    product_volumes,
    statistical_dimension,
    subspace_volumes,
)
from initscope.theory.injectivity.bounds import cells


@pytest.mark.parametrize("angle", [0.1, 0.5, math.pi / 4, 1.2, 1.5])
@pytest.mark.parametrize("dim", [2, 3, 7, 40])
def test_a_subspace_meets_a_circular_cone_if_it_is_near_the_axis(dim, angle):
    """Its nearest ray is the axis's projection, whose squared length is Beta(n/2, (m-n)/2): an exact law."""
    volumes = circular_volumes(dim, angle)
    assert volumes.sum() == pytest.approx(1, abs=1e-12)
    assert volumes @ (-1.0) ** np.arange(dim + 1) == pytest.approx(0, abs=1e-12)  # Gauss–Bonnet
    for n in range(1, dim):
        exact = stats.beta(n / 2, (dim - n) / 2).sf(math.cos(angle) ** 2)
        assert crofton_probability(volumes, n) == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize("dim", [1, 2, 5, 12])
def test_on_orthants_crofton_is_covers_count(dim):
    for n in range(dim + 1):
        assert crofton_probability(orthant_volumes(dim), n) == pytest.approx(cells(dim, n) / 2**dim if n else 0.0)
    assert crofton_probability(orthant_volumes(dim), dim) == pytest.approx(1.0)


def test_the_statistical_dimension_is_the_mean_square_of_projections():
    """40,000 Gaussian vectors on an orthant, a circular cone and their product: z-scores; 5 % would be seen."""
    rng = np.random.default_rng(0)
    g = rng.standard_normal((40_000, 9))
    angle, axis, side = 0.7, g[:, 0], np.linalg.norm(g[:, 1:4], axis=1)
    along = axis * math.cos(angle) + side * math.sin(angle)  # on the nearest side of the cone
    inside = np.arctan2(side, axis) <= angle
    circular = np.where(inside, axis**2 + side**2, np.maximum(along, 0) ** 2)
    orthant = (np.maximum(g[:, 4:], 0) ** 2).sum(axis=1)
    volumes = circular_volumes(4, angle)
    both = product_volumes(volumes, orthant_volumes(5))
    for squares, cone in ((circular, volumes), (orthant, orthant_volumes(5)), (circular + orthant, both)):
        assert abs(z_score(squares, statistical_dimension(cone))) < 4
        assert abs(z_score(squares, 1.05 * statistical_dimension(cone))) > 4
    assert statistical_dimension(subspace_volumes(9, 4)) == 4


def test_subspaces_meet_when_their_dimensions_say_so():
    assert [crofton_probability(subspace_volumes(5, 3), n) for n in range(6)] == [0, 0, 0, 1, 1, 1]
    # The transition happens where dimensions add up: δ + n = m.
    volumes = circular_volumes(200, math.asin(math.sqrt(0.3)))
    assert statistical_dimension(volumes) == pytest.approx(60, abs=1)
    assert crofton_probability(volumes, 110) < 0.01
    assert crofton_probability(volumes, 170) > 0.99


@pytest.mark.parametrize(("m", "n", "draws"), [(5, 2, 800), (6, 2, 800), (8, 3, 150)])
def test_chi_of_layers_has_the_surrogate_as_mean_and_not_the_probability(m, n, draws):
    """Enumerated layers: the mean of χ is q (4 σ), and the share of χ = 0 is p (n = 2: arcs have no holes)."""
    rng = np.random.default_rng([m, n])
    layers = rng.standard_normal((draws, m, n))
    found = np.array([euler_of_layer(layer) for layer in layers])
    assert abs(z_score(found, float(euler_characteristic(m, n)))) < 4
    assert m == 6 or z_score(found, 1.0) > 4  # 1 - p is at most that
    if n == 2:
        assert abs(z_score(found == 0, probability(m, n).value)) < 4


def test_chi_is_additive_and_the_indicator_is_not():
    """Arcs of a layer with two inputs: pieces counted by walking around the circle."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        layer = rng.standard_normal((6, 2))
        across = np.arctan2(layer[:, 0], -layer[:, 1])
        kinks = np.sort(np.concatenate([across, np.mod(across, 2 * np.pi) - np.pi]))
        middles = kinks + np.diff(np.append(kinks, kinks[0] + 2 * np.pi)) / 2
        few = (np.stack([np.cos(middles), np.sin(middles)], 1) @ layer.T > 0).sum(axis=1) < 2
        # Kinks between two cells with too many rows may still have few: their two rows are zero there.
        corner = (np.stack([np.cos(kinks), np.sin(kinks)], 1) @ layer.T > 1e-9).sum(axis=1) < 2
        ring = np.stack([corner, few], axis=1).ravel()
        pieces = int((ring & ~np.roll(ring, 1)).sum())
        assert euler_of_layer(layer) == pieces


def test_refusals():
    with pytest.raises(InputError, match="sum 1"):
        statistical_dimension([0.5, 0.2])
    with pytest.raises(InputError, match="angle"):
        circular_volumes(3, 2.0)
    with pytest.raises(InputError, match="rows × inputs"):
        euler_of_layer(np.ones((2, 3)))
    with pytest.raises(InputError, match="too many faces"):
        euler_of_layer(np.ones((60, 8)))
