"""Staying in the band in every layer: one layer, simulation, and the bounds on either side."""

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory import norms


def bands(eps, depth):
    powers = np.arange(1, depth + 1)
    return ((1 - eps) ** powers).tolist(), ((1 + eps) ** powers).tolist()


@pytest.mark.parametrize(("width", "eps"), [(3, 0.5), (100, 0.1), (1919, 0.1)])
def test_one_layer(width, eps):
    found = norms.path_norm_failure([width], [1 - eps], [1 + eps])
    assert found.value == pytest.approx(norms.relu_norm_failure(width, eps), rel=1e-11, abs=0)


@pytest.mark.parametrize(("widths", "eps"), [([3, 3, 3], 0.5), ([5, 50, 20], 0.5), ([60] * 5, 0.2), ([4] * 6, 0.9)])
def test_against_simulation(widths, eps):
    """10⁵ networks; detects 0.0063 (4 σ) in a failure of one half."""
    generator = np.random.default_rng(11)
    lows, highs = bands(eps, len(widths))
    draws = 100_000
    ratio, bad = np.ones(draws), np.zeros(draws, dtype=bool)
    for width, low, high in zip(widths, lows, highs):
        units = np.maximum(generator.standard_normal((draws, width), dtype=np.float32), 0)
        ratio *= 2 / width * np.einsum("nm,nm->n", units, units)
        bad |= (ratio < low) | (ratio > high)
    found = norms.path_norm_failure(widths, lows, highs)
    assert found.error < 1e-9
    assert abs(z_score(bad, found.value)) < 4
    assert abs(z_score(bad, found.value + 0.015)) > 4


def test_between_last_layer_and_union():
    lows, highs = bands(0.1, 5)
    found = norms.path_norm_failure([800] * 5, lows, highs).value
    each = [norms.deep_norm_failure([800] * depth, lows[depth - 1], highs[depth - 1]).value for depth in range(1, 6)]
    assert max(each) <= found <= sum(each)
    assert found <= norms.activation_bound([800] * 5, 0.1)


def test_bad_input():
    with pytest.raises(InputError, match="one of each per layer"):
        norms.path_norm_failure([10, 10], [0.5], [2.0])
    with pytest.raises(InputError, match="low"):
        norms.path_norm_failure([10], [2.0], [0.5])
