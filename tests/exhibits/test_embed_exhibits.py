"""Small versions of the talk's statements about widths, signs, cells and shifts, where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from initscope import data
from initscope.errors import InputError
from initscope.exhibits import layer_theorem, set_widths, shift_invariance, sign_exponent, tessellation


def test_set_widths_grow_as_stated():
    result = set_widths.run(ambient=200, ranks=(2, 4, 8), numbers=(1, 10, 100), sparsities=(1, 2, 5, 10), draws=100)
    for growth in result.families:
        assert growth.explained > 0.98
        assert growth.slope > 0
    assert len(result.table()) == 10


def test_layer_theorem_keeps_the_width_within_a_factor():
    """He scale: ω² shrinks by less than half for every layer with at least 10 ω² outputs; never grows."""
    result = layer_theorem.run(widths=(50, 1000), filters=(4, 16), side=8, draws=32)
    wide = [row for row in result.rows if row.outputs_per_squared_width >= 10]
    assert len(wide) >= 2
    assert all(0.5 < row.ratio < 1 + 3 * row.standard_error for row in wide)
    assert len(result.plot().lines) >= 2


def test_largest_deviation_falls_like_a_root():
    """Exponent near -1/2 for a finite set, well below the theorem's -1/6."""
    result = sign_exponent.run(bits=(32, 128, 512), points=60, dimension=5, layers=8)
    assert result.exponent == pytest.approx(-0.5, abs=0.07)
    assert result.exponent < result.theorem_exponent - 0.2
    assert list(result.cell_diameters) == sorted(result.cell_diameters, reverse=True)
    assert len(result.table()) == 3
    assert len(result.plot().lines) >= 3


def test_cells_of_lines_in_a_plane_are_those_of_the_formula():
    """One layer of n lines in general position cuts the plane into 1 + n + n(n-1)/2 cells."""
    rng = np.random.default_rng(0)
    angles = np.pi * (np.arange(5) + rng.random(5) * 0.5) / 5
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    grid = np.stack(np.meshgrid(*[np.linspace(-30, 30, 1200)] * 2), axis=-1).reshape(-1, 2)
    numbers = tessellation.cells([(lines, rng.uniform(-2, 2, 5))], grid)
    assert numbers.max() + 1 == 1 + 5 + 10


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_folding_networks_compute_tent_maps_with_exponentially_many_cells(depth):
    line = (np.arange(2048) + 0.5)[:, None] / 2048
    network = tessellation.folding_network(depth)
    values = line
    for weights, biases in network:
        values = np.maximum(values @ weights.T + biases, 0)
    expected = line[:, 0]
    for _ in range(depth):
        expected = 2 * np.minimum(expected, 1 - expected)
    np.testing.assert_allclose(values[:, 0] - values[:, 1], expected, atol=1e-9)
    assert tessellation.cells(network, line).max() + 1 >= 2**depth


def test_tessellation_rows_and_picture():
    result = tessellation.run(depths=(1, 3), parameters=60, resolution=40, draws=2, folds=(4,))
    kinds = {row.kind: row for row in result.rows}
    assert kinds["folding"].cells > kinds["best shallow"].cells
    assert kinds["best shallow"].cells == kinds["best shallow"].width + 1
    assert all(row.parameters <= 60 for row in result.rows if row.kind == "random")
    assert result.plot(picture=0).get_title().startswith("random, 1 layer of")
    cloud = np.random.default_rng(0).standard_normal((50, 6))
    met = tessellation.run(cloud, depths=(1,), parameters=300, draws=2, folds=())
    assert 1 < met.rows[0].cells <= 50
    with pytest.raises(InputError, match="on the plane"):
        met.plot()


def test_pooling_makes_features_invariant():
    """Cyclic shift, cyclic filters, average over the whole image: invariant; with less pooling more moves."""
    images = data.load("photos", crop=32, limit=12)
    result = shift_invariance.run(images, shifts=(1, 4), filters=8)
    moved = {(row.features, row.shift): row.distance for row in result.rows}
    assert moved["conv, 1×1 cells", 4] < 1e-4
    for shift in (1, 4):
        assert moved["conv, no pooling", shift] > moved["conv, 8×8 cells", shift] > moved["conv, 4×4 cells", shift]
        assert moved["scattering, 4×4 cells", shift] < moved["pixels", shift]
    assert len(result.plot().lines) >= 6


def test_scattering_is_a_contraction_to_averages():
    flat = np.full((1, 1, 16, 16), 0.5)
    coefficients = shift_invariance.scattering(flat)
    np.testing.assert_allclose(coefficients[0, :16], 0.5)
    with pytest.raises(InputError, match="cells"):
        shift_invariance.scattering(np.ones((1, 1, 18, 18)))
    with pytest.raises(InputError, match="to shift"):
        shift_invariance.run(data.ImageSet(np.ones((3, 4))))
