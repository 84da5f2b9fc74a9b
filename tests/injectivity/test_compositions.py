"""Chains of layers: exact probabilities and counts, witnesses run forwards, linear programs, sweeps of directions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from initscope.errors import InputError
from initscope.injectivity import decide, deep_collision, deep_cones
from initscope.testing import z_score
from initscope.theory.injectivity import probability
from initscope.theory.injectivity.bounds import cells


def forward(layers, x):
    for weight in layers:
        x = np.maximum(weight @ x, 0)
    return x


def chain(rng, width, depth, inputs=2):
    return [rng.standard_normal((width, inputs))] + [rng.standard_normal((width, width)) for _ in range(depth - 1)]


def test_one_layer_has_the_exact_probability():
    """z-score of 200 layers of 8×2 against the closed form .625; catches .14."""
    rng = np.random.default_rng(8)
    kept = [deep_collision(chain(rng, 8, 1)) is None for _ in range(200)]
    assert abs(z_score(kept, probability(8, 2).value)) < 4


@pytest.mark.parametrize(("width", "inputs"), [(9, 2), (8, 3), (7, 4)])
def test_the_cones_of_one_layer_are_the_cells_of_the_arrangement(width, inputs):
    """Cover's count of cells in general position; the maps of two cells differ."""
    layers = chain(np.random.default_rng([width, inputs]), width, 1, inputs)
    maps = {(cone.matrix != 0).any(axis=1).tobytes() for cone in deep_cones(layers)}
    assert len(maps) == cells(width, inputs)


@pytest.mark.parametrize(("width", "depth", "inputs"), [(7, 2, 2), (9, 3, 2), (8, 2, 3), (5, 2, 4)])
def test_every_input_is_in_a_cone_and_its_map_is_the_network(width, depth, inputs):
    """300 random inputs; inside a cone the network is linear, so the same map holds for its rays."""
    rng = np.random.default_rng([width, depth, inputs])
    layers = chain(rng, width, depth, inputs)
    cones = deep_cones(layers)
    size = np.prod([np.linalg.norm(weight) for weight in layers])
    for x in rng.standard_normal((300, inputs)):
        inside = [cone for cone in cones if (cone.facets @ x).min() > 0]
        assert len(inside) == 1
        np.testing.assert_allclose(inside[0].matrix @ x, forward(layers, x), atol=1e-12 * size * np.linalg.norm(x))
    for cone in cones[:: max(1, len(cones) // 50)]:
        for ray in cone.inputs:
            np.testing.assert_allclose(cone.matrix @ ray, forward(layers, ray), atol=1e-12 * size)


def test_one_layer_is_decided_as_by_branching():
    rng = np.random.default_rng(3)
    layers = [rng.standard_normal((width, inputs)) for inputs, width in ((3, 13), (4, 15)) for _ in range(3)]
    decisions = [decide(layer).injective for layer in layers]
    assert set(decisions) == {True, False}
    assert [deep_collision([layer]) is None for layer in layers] == decisions


def meets(first, second):
    """Linear program: two inputs of two cones with the same output that are not the same input.

    Among inputs with the same output, the distance along a random direction is maximized both ways.
    """
    n = first.inputs.shape[1]
    ups = np.block([[-first.facets, np.zeros_like(first.facets)], [np.zeros_like(second.facets), -second.facets]])
    same = np.hstack([first.matrix, -second.matrix])
    direction = np.random.default_rng(0).standard_normal(n)
    for sign in (1, -1):
        cost = sign * np.concatenate([direction, -direction])
        result = linprog(cost, ups, np.zeros(len(ups)), same, np.zeros(len(same)), bounds=(-1, 1))
        if result.status == 0 and result.fun < -1e-7:
            return True
    return False


def test_decisions_are_those_of_linear_programs_over_all_pairs_of_cones():
    """Also for pairs that `deep_collision` leaves out. Of seed 6 only the images of different cones meet."""
    decisions = []
    for seed in (0, 5, 6):
        layers = chain(np.random.default_rng([1, seed]), 8, 2)
        cones = deep_cones(layers)
        ranks = [np.linalg.matrix_rank(cone.matrix) for cone in cones]
        collides = min(ranks) < 2 or any(meets(a, b) for a, b in combinations(cones, 2))
        decisions.append(collides)
        assert (deep_collision(layers) is not None) == collides
    assert set(decisions) == {True, False}


def test_a_deep_linear_network_is_injective_however_badly_it_is_conditioned():
    """[V; -V] passes V x on, so 16 layers are one invertible matrix, here of condition number above 1e9."""
    rng = np.random.default_rng(0)
    layers, product, back = [], np.eye(2), np.eye(2)
    for _ in range(16):
        v = np.array([[1.0, 0.1], [0.1, 0.2]]) + 0.01 * rng.standard_normal((2, 2))
        layers.append(np.vstack([v, -v]) @ back)
        product, back = v @ product, np.hstack([np.eye(2), -np.eye(2)])
    assert np.linalg.cond(product) > 1e9
    assert deep_collision(layers) is None
    assert deep_collision([*layers, rng.standard_normal((3, 4))]) is not None


@pytest.mark.parametrize(("width", "inputs", "trials"), [(8, 2, 80), (15, 3, 8)])
def test_witnesses_have_one_output_and_chains_have_collisions_of_both_kinds(width, inputs, trials):
    """Collisions between different cones, of full rank each, are found too: chains need more than layers."""
    rng = np.random.default_rng(0)
    between = 0
    for _ in range(trials):
        layers = chain(rng, width, 2, inputs)
        pair = deep_collision(layers)
        if pair is None:
            continue
        x, y = pair
        a, b = forward(layers, x), forward(layers, y)
        assert np.abs(a - b).max() <= 1e-9 * max(np.abs(a).max(), 1e-9)
        assert np.linalg.norm(x - y) > 1e-9 * np.linalg.norm(x)
        between += all(np.linalg.matrix_rank(cone.matrix) == inputs for cone in deep_cones(layers))
    assert between >= 2


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
    with pytest.raises(InputError, match="do not fit"):
        deep_collision([np.ones((4, 2)), np.ones((5, 3))])
    with pytest.raises(InputError, match="layers is empty"):
        deep_cones([])
    with pytest.raises(InputError, match="more than 20 cones"):
        deep_collision(chain(np.random.default_rng(0), 9, 2), limit=20)
