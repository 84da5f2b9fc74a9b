"""Counts of cells and modes against enumeration."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.regions import arrangement_regions, montufar_regions, rbm_mixture


@pytest.mark.parametrize("units", [2, 3, 5, 8])
def test_cells_of_an_arrangement_in_the_plane(units):
    """Every cell of lines in general position has a corner: the patterns around all crossings are the cells."""
    rng = np.random.default_rng(units)
    normals, offsets = rng.standard_normal((units, 2)), rng.standard_normal(units)
    patterns = set()
    for i, j in combinations(range(units), 2):
        corner = normals @ np.linalg.solve(normals[[i, j]], -offsets[[i, j]]) + offsets > 0
        for sides in product([False, True], repeat=2):
            corner[[i, j]] = sides
            patterns.add(tuple(corner.tolist()))
    assert len(patterns) == arrangement_regions(2, units)
    assert arrangement_regions(2, 1) == 2


def test_depth_multiplies_and_one_layer_is_the_arrangement():
    assert montufar_regions(2, [7]) == arrangement_regions(2, 7)
    assert montufar_regions(2, [4, 6, 5]) == (4 // 2) ** 2 * (6 // 2) ** 2 * arrangement_regions(2, 5)
    assert montufar_regions(3, [9] * 10) > 10**12 > arrangement_regions(3, 90)
    with pytest.raises(InputError, match="width"):
        montufar_regions(3, [2, 4])
    with pytest.raises(InputError, match="empty"):
        montufar_regions(3, [])


@pytest.mark.parametrize("groups", [1, 2])
def test_so_many_modes_can_a_boltzmann_machine_have(groups):
    """Three hidden units drive four visible ones to 8 sign patterns, no two of them neighbours: 2^m modes in all.

    A mode of a product distribution is one vertex, and a mixture of k products has at most k modes without neighbours.
    """
    block = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [1, 1, 1]])
    weights = np.kron(np.eye(groups, dtype=int), block)
    states = np.array(list(product([-1, 1], repeat=3 * groups)))
    modes = np.sign(states @ weights.T)
    distances = (modes[:, None] != modes).sum(axis=2)[~np.eye(len(modes), dtype=bool)]
    assert (modes != 0).all()
    assert distances.min() >= 2
    found = rbm_mixture(visible=4 * groups, hidden=3 * groups)
    assert (found.components, found.exact) == (len(modes), True)
    assert found.rbm_parameters == weights.size + sum(weights.shape)


def test_beyond_the_condition_it_is_a_lower_bound():
    found = rbm_mixture(visible=5, hidden=6)
    assert (found.components, found.exact) == (8, False)
    assert rbm_mixture(visible=3, hidden=2).components == 1
