"""Small versions of the talk's statements about widths, signs, cells and shifts, where the answer is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from initscope import data, embed
from initscope.errors import InputError
from initscope.reproductions import layer_theorem, set_widths, shift_invariance, sign_exponent, tessellation
from initscope.reproductions._statistics import fit_line, mean_and_error
from initscope.theory.angles import relu_cosine


def test_a_line_and_its_error_are_those_of_numpy():
    """The larger of the two errors that `numpy.polyfit` knows: from the points' own (equal here), from the scatter."""
    x, rng = np.array([1.0, 2.0, 4.0, 7.0, 8.0]), np.random.default_rng(0)
    for noise, own in ((0.1, 0.5), (0.5, 0.1)):
        y = 3 - 2 * x + noise * rng.standard_normal(5)
        line = fit_line(x, y, np.full(5, own))
        (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
        unscaled = np.polyfit(x, y, 1, w=np.full(5, 1 / own), cov="unscaled")[1]
        assert (line.slope, line.intercept) == pytest.approx((slope, intercept))
        assert line.slope_error == pytest.approx(math.sqrt(max(covariance[0, 0], unscaled[0, 0])))
        assert line.explained == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    assert fit_line([0, 2], [1, 5], [0.3, 0.4]).slope_error == pytest.approx(0.25)


def test_set_widths_grow_as_stated():
    """Every point against fresh sets and Gaussians, sampled plainly: 4 standard errors catch 10 % of ω²."""
    ambient, rng = 150, np.random.default_rng(9)
    result = set_widths.run(
        ambient=ambient, ranks=(2, 4, 8, 16), numbers=(1, 5, 25), sparsities=(1, 2, 5, 10, 20), draws=500
    )

    def chi_in_subspaces(number, rank):
        frames = np.linalg.qr(rng.standard_normal((number, ambient, rank)))[0]
        return np.linalg.norm(rng.standard_normal((1000, ambient)) @ frames, axis=2).max(axis=0)

    def largest_entries(k):
        return np.linalg.norm(np.sort(np.abs(rng.standard_normal((2000, ambient))), axis=1)[:, -k:], axis=1)

    samples = (
        [chi_in_subspaces(10, rank) for rank in (2, 4, 8, 16)],
        [chi_in_subspaces(number, 8) for number in (1, 5, 25)],
        [largest_entries(k) for k in (1, 2, 5, 10, 20)],
    )
    for growth, plain in zip(result.families, samples):
        means, errors = np.transpose([mean_and_error(sample) for sample in plain])
        off = np.array(growth.squared) - means**2
        assert (np.abs(off) < 4 * np.hypot(growth.errors, 2 * means * errors)).all()
        assert (0.1 * means**2 > 4 * np.hypot(growth.errors, 2 * means * errors)).all()
        assert growth.slope > 10 * growth.slope_error > 0
    assert len(result.table()) == 12
    assert len(result.figure().axes) == 3
    assert result.plot(family=1).get_xlabel() == "log(number)"


def unit_vectors(count, dimension, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_wide_layers_have_the_width_of_their_gaussian_process():
    """Inner products with features of a wide layer are a Gaussian process with the ReLU's kernel: sampled directly.

    4 standard errors catch 10 % of the ratio; the layer's own scale (a factor of 2) would be seen at once.
    """
    points = unit_vectors(60, 4)
    result = layer_theorem.run(points, widths=(2000,), filters=(), layers=4, draws=400)
    (row,) = result.rows
    kernel = relu_cosine(np.clip(points @ points.T, -1, 1))
    values, vectors = np.linalg.eigh(kernel)
    paths = vectors * np.sqrt(np.maximum(values, 0)) @ np.random.default_rng(1).standard_normal((60, 20_000))
    width, error = mean_and_error(np.ptp(paths, axis=0))
    limit = width**2 / result.squared_width
    allowed = 4 * math.hypot(row.standard_error, 2 * limit * error / width)
    assert abs(row.ratio - limit) < allowed < 0.1 * limit
    assert row.outputs_per_squared_width == pytest.approx(2000 / result.squared_width)
    assert len(result.plot().lines) >= 2


def test_the_error_of_a_layer_s_ratio_is_over_layers():
    """A single filter: between runs the ratio varies as its error says (16 runs: within a factor of 2 at 4 σ).

    Directions alone would give an error ten times too small.
    """
    points = unit_vectors(50, 36)
    rows = [
        layer_theorem.run(points, widths=(), filters=(1,), side=6, layers=6, draws=50, seed=100 * seed).rows[0]
        for seed in range(16)
    ]
    observed = np.std([row.ratio for row in rows], ddof=1)
    assert observed / 2 < np.sqrt(np.mean([row.standard_error**2 for row in rows])) < 2 * observed


def test_largest_deviation_against_plain_signs():
    """The same points under Gaussian matrices of our own: 4 standard errors, which catch 25 % and the exponent -1/6."""
    bits, layers, rng = (256, 512, 1024, 2048), 20, np.random.default_rng(3)
    result = sign_exponent.run(bits=bits, points=60, dimension=5, layers=layers)
    rows = np.random.default_rng(0).standard_normal((60, 5))  # as the reproduction draws them
    share = np.arccos(np.clip(cosines(rows), -1, 1)) / np.pi
    for place, length in enumerate(bits):
        largest = []
        for _ in range(layers):
            signs = np.where(rows @ rng.standard_normal((5, length)) > 0, 1.0, -1.0)
            largest.append(np.abs((1 - signs @ signs.T / length) / 2 - share).max())
        mean, error = mean_and_error(largest)
        allowed = 4 * math.hypot(error, result.standard_errors[place])
        assert abs(result.largest[place] - mean) < allowed < 0.25 * mean
    assert abs(result.exponent + 0.5) < 4 * result.exponent_error
    assert result.exponent < result.theorem_exponent - 4 * result.exponent_error
    assert len(result.table()) == 4
    assert len(result.plot().lines) >= 3


def cosines(rows):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units @ units.T


def test_every_length_has_layers_of_its_own(monkeypatch):
    """Layers of one seed are nested, and points of the fit would move together."""
    seeds, plain = [], embed.SignHash

    def recorded(length, random_state):
        seeds.append(random_state)
        return plain(length, random_state=random_state)

    monkeypatch.setattr(embed, "SignHash", recorded)
    result = sign_exponent.run(bits=(8, 16, 32), points=20, dimension=3, layers=5)
    assert len(set(seeds)) == len(seeds) == 15
    assert list(result.cell_diameters) == sorted(result.cell_diameters, reverse=True)


@pytest.mark.parametrize(
    "once",
    [
        lambda: layer_theorem.run(np.eye(4), widths=(3,), filters=(), layers=1),
        lambda: sign_exponent.run(bits=(8, 16), layers=1),
        lambda: tessellation.run(draws=1),
        lambda: shift_invariance.run(draws=1),
        lambda: shift_invariance.run(data.ImageSet(np.ones((1, 1, 8, 8)))),
    ],
)
def test_one_draw_has_no_standard_error(once):
    with pytest.raises(InputError, match="= 1 must be"):
        once()


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
    result = tessellation.run(depths=(1, 3), parameters=60, units=12, resolution=40, draws=2, folds=(4,))
    kinds = {row.kind: row for row in result.rows}
    assert kinds["folding"].cells > kinds["best shallow"].cells
    assert kinds["best shallow"].cells == kinds["best shallow"].width + 1
    assert all(row.parameters <= 60 for row in result.rows if row.kind == "equal parameters")
    assert [row.units for row in result.rows if row.kind == "equal units"] == [12, 12]
    assert result.plot(index=0).get_title().startswith("random, 1 layer of")
    cloud = np.random.default_rng(0).standard_normal((50, 6))
    met = tessellation.run(cloud, depths=(1,), parameters=300, draws=2, folds=())
    assert 1 < met.rows[0].cells <= 50
    with pytest.raises(InputError, match="on the plane"):
        met.plot()


def test_cells_of_random_networks_follow_their_units_not_their_depth():
    """Equal units: within 30 % of each other (4 standard errors). Equal parameters: deep ones less than half."""
    result = tessellation.run(depths=(1, 3), parameters=200, units=24, resolution=100, draws=20, folds=())
    (shallow, deep), (one_layer, three_layers) = (
        [row for row in result.rows if row.kind == kind] for kind in ("equal parameters", "equal units")
    )
    assert deep.cells + 4 * deep.standard_error < (shallow.cells - 4 * shallow.standard_error) / 2
    difference = abs(three_layers.cells - one_layer.cells)
    assert difference + 4 * math.hypot(three_layers.standard_error, one_layer.standard_error) < 0.3 * one_layer.cells


@pytest.fixture(scope="module")
def photographs():
    return data.load("photos", crop=16, limit=12)


def test_pooling_makes_features_invariant(photographs):
    """Cyclic shift, cyclic filters, average over the whole image: invariant; with less pooling more moves."""
    result = shift_invariance.run(photographs, shifts=(1, 4), filters=8, draws=2)
    moved = {(row.features, row.shift): row.distance for row in result.rows}
    assert moved["conv, 1×1 cells", 4] < 1e-4
    for shift in (1, 4):
        assert moved["conv, no pooling", shift] > moved["conv, 8×8 cells", shift] > moved["conv, 4×4 cells", shift]
        assert moved["scattering, 4×4 cells", shift] < moved["pixels", shift]
    assert len(result.plot().lines) >= 7


def test_the_brightness_of_images_does_not_count(photographs):
    """Pixels against brute force over all pairs of centered images; a constant added to each image changes nothing."""
    brighter = photographs.images + np.arange(12, dtype=np.float32)[:, None, None, None]
    rows = [
        shift_invariance.run(data.ImageSet(images), shifts=(2,), filters=2, draws=2).rows
        for images in (photographs.images, brighter)
    ]
    for plain, bright in zip(*rows):
        assert bright.distance == pytest.approx(plain.distance, rel=1e-3, abs=1e-5)
    centered = photographs.images - photographs.images.mean(axis=(2, 3), keepdims=True)
    moves = [np.linalg.norm(np.roll(image, 2, axis=2) - image) for image in centered]
    apart = [np.linalg.norm(one - other) for one, other in itertools.combinations(centered, 2)]
    assert rows[0][0].distance == pytest.approx(np.mean(moves) / np.mean(apart), rel=1e-5)


def test_the_error_of_a_shift_is_the_jackknife_s(photographs):
    """Of 5 images one is left out at a time; of pixels, where nothing else is drawn."""
    images = photographs.images[:5]
    whole, *parts = (
        shift_invariance.run(data.ImageSet(rest), shifts=(2,), filters=2, draws=2).rows[0]
        for rest in (images, *(np.delete(images, place, axis=0) for place in range(5)))
    )
    assert whole.standard_error == pytest.approx(math.sqrt(4 * np.var([part.distance for part in parts])), rel=1e-4)


def test_scattering_has_no_bands_for_constant_images():
    bands = shift_invariance.scattering(np.full((1, 3, 16, 16), 0.5))
    assert bands.shape == (1, 16 * (12 + 4 * 8 + 4 * 4))
    np.testing.assert_allclose(bands, 0, atol=1e-12)
    with pytest.raises(InputError, match="cells"):
        shift_invariance.scattering(np.ones((1, 1, 18, 18)))
    with pytest.raises(InputError, match="to shift"):
        shift_invariance.run(data.ImageSet(np.ones((3, 4))))


def test_cell_averages():
    ramp = np.broadcast_to(np.arange(4.0), (1, 4, 4))
    np.testing.assert_array_equal(shift_invariance.cell_averages(ramp, 2), [[0.5, 2.5, 0.5, 2.5]])


@pytest.mark.parametrize(("scales", "orientations"), [(3, 4), (2, 8), (4, 3)])
def test_scattering_contracts(scales, orientations):
    """Bands, times 4 for cells of 16 pixels, are no farther apart than the images they come from.

    The wave of which the wavelets keep most, half of its energy, has nearly constant moduli, which averages keep too:
    the bound is not idle, and wavelets larger by a quarter would break it.
    """

    def bands(images):
        return 4 * shift_invariance.scattering(images, scales=scales, orientations=orientations)

    noise = np.random.default_rng(0).standard_normal((8, 1, 16, 16))
    photographs = data.load("photos", crop=16, limit=8).images[:, :1]
    for images in (noise, photographs, noise + 5 * photographs):
        for (one, bands_of_one), (other, bands_of_other) in itertools.combinations(zip(images, bands(images)), 2):
            assert np.linalg.norm(bands_of_one - bands_of_other) < np.linalg.norm(one - other)
    waves = np.fft.fft2(np.eye(256).reshape(256, 1, 16, 16)).real
    kept = (bands(waves) ** 2).sum(axis=1) / (waves**2).sum(axis=(1, 2, 3))
    assert 0.48 < kept.max() < 0.5 + 0.25
