"""Chains of layers on two inputs: exact probabilities of one layer, witnesses run forwards, sweeps of directions."""

from __future__ import annotations

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.injectivity import deep_collision, deep_sectors
from initscope.testing import z_score
from initscope.theory.injectivity import probability


def forward(layers, x):
    for weight in layers:
        x = np.maximum(weight @ x, 0)
    return x


def chain(rng, width, depth):
    return [rng.standard_normal((width, 2))] + [rng.standard_normal((width, width)) for _ in range(depth - 1)]


def test_one_layer_has_the_exact_probability():
    """z-score of 400 layers of 8×2 against the closed form .625; catches .1."""
    rng = np.random.default_rng(8)
    kept = [deep_collision(chain(rng, 8, 1)) is None for _ in range(400)]
    assert abs(z_score(kept, probability(8, 2).value)) < 4


@pytest.mark.parametrize(("width", "depth"), [(6, 1), (7, 2), (9, 3)])
def test_sectors_are_those_of_a_sweep_and_their_maps_the_network(width, depth):
    layers = chain(np.random.default_rng([width, depth]), width, depth)
    sectors = deep_sectors(layers)
    for sector in sectors:
        for share in (0.01, 0.5, 0.99):
            x = (1 - share) * sector.first + share * sector.last
            np.testing.assert_allclose(sector.matrix @ x, forward(layers, x), atol=1e-10 * np.abs(x).max())
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    hidden, patterns = np.stack([np.cos(angle), np.sin(angle)]), []
    for weight in layers:
        hidden = np.maximum(weight @ hidden, 0)
        patterns.append(hidden > 0)
    pattern = np.concatenate(patterns)
    changes = int((pattern != np.roll(pattern, 1, axis=1)).any(axis=0).sum())
    assert changes <= len(sectors) + 3  # the four corners of the start may cut a sector in two


def test_witnesses_have_one_output_and_chains_have_collisions_of_both_kinds():
    """Collisions between different sectors, of full rank each, are found too: chains need more than layers."""
    rng = np.random.default_rng(0)
    between = 0
    for _ in range(120):
        layers = chain(rng, 8, 2)
        found = deep_collision(layers)
        if found is None:
            continue
        x, y = found
        a, b = forward(layers, x), forward(layers, y)
        assert np.abs(a - b).max() <= 1e-9 * max(np.abs(a).max(), 1e-9)
        assert np.linalg.norm(x - y) > 1e-9 * np.linalg.norm(x)
        matrices = [sector.matrix for sector in deep_sectors(layers)]
        between += min(np.linalg.svd(matrix, compute_uv=False)[1] for matrix in matrices) > 1e-6
    assert between > 3


def test_where_none_is_found_outputs_stay_apart():
    """A sweep of 600 directions: no two have nearly parallel outputs unless they are near each other."""
    rng = np.random.default_rng(5)
    angle = np.linspace(0, 2 * np.pi, 601)[:-1]
    circle = np.stack([np.cos(angle), np.sin(angle)])
    tried = 0
    for _ in range(30):
        layers = chain(rng, 12, 2)
        if deep_collision(layers) is not None:
            continue
        tried += 1
        outputs = forward(layers, circle)
        outputs /= np.linalg.norm(outputs, axis=0)
        distance = np.arccos(np.clip(outputs.T @ outputs, -1, 1))
        apart = np.abs(np.angle(np.exp(1j * (angle[:, None] - angle))))
        assert distance[apart > 0.1].min() > 1e-3
    assert tried > 15


def test_refusals():
    with pytest.raises(InputError, match="two columns"):
        deep_collision([np.ones((4, 3))])
    with pytest.raises(InputError, match="do not fit"):
        deep_collision([np.ones((4, 2)), np.ones((5, 3))])
