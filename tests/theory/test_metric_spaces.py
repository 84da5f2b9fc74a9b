"""Gromov–Hausdorff bounds against the distance itself, by enumerating all correspondences of small sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from initscope.embed import SignHash, hamming_distance
from initscope.errors import InputError
from initscope.theory.metric_spaces import gromov_hausdorff_bounds, map_distortion


def exact(x, y):
    """The least half distortion over all relations that cover both sets."""
    cells = list(product(range(len(x)), range(len(y))))
    best = np.inf
    for choice in range(1, 1 << len(cells)):
        pairs = [cell for bit, cell in enumerate(cells) if choice >> bit & 1]
        left, right = map(list, zip(*pairs))
        if len(set(left)) == len(x) and len(set(right)) == len(y):
            best = min(best, np.abs(x[np.ix_(left, left)] - y[np.ix_(right, right)]).max() / 2)
    return best


def plane(rng, points):
    places = rng.standard_normal((points, 2))
    return np.linalg.norm(places[:, None] - places, axis=2)


@pytest.mark.parametrize("seed", range(12))
def test_the_bounds_enclose_the_distance(seed):
    rng = np.random.default_rng(seed)
    before = plane(rng, 3)
    after = plane(rng, 3) if seed % 2 else before * rng.uniform(0.7, 1.3)
    if seed % 3 == 0:
        after[0] = after[1]  # two points with one image
        after[:, 0] = after[:, 1]
        after[0, 0] = after[0, 1] = after[1, 0] = 0.0
    found = gromov_hausdorff_bounds(before, after)
    truth = exact(before, after)
    assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
    assert found.upper == map_distortion(before, after) / 2


def test_signs_embed_a_set_in_that_sense():
    """The more bits, the nearer the codes are to the set; and never farther than half the largest deviation."""
    rows = np.random.default_rng(1).standard_normal((60, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    angles = np.arccos(np.clip(rows @ rows.T, -1, 1)) / np.pi
    np.fill_diagonal(angles, 0)
    uppers = []
    for bits in (16, 256, 4096):
        codes = SignHash(bits, random_state=2).fit_transform(rows)
        hamming = np.stack([hamming_distance(np.broadcast_to(code, codes.shape), codes) for code in codes]) / bits
        found = gromov_hausdorff_bounds(angles, hamming)
        assert found.lower >= abs(angles.max() - hamming.max()) / 2 - 1e-12
        uppers.append(found.upper)
    assert uppers[0] > 2 * uppers[1] > 4 * uppers[2]


def test_refusals():
    with pytest.raises(InputError, match="square"):
        map_distortion([[0, 1]], [[0, 1]])
    with pytest.raises(InputError, match="symmetric"):
        map_distortion([[0, 1], [2, 0]], [[0, 1], [1, 0]])
    with pytest.raises(InputError, match="image for each point"):
        map_distortion([[0, 1], [1, 0]], [[0.0]])
