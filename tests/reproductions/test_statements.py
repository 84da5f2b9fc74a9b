"""What the reproductions compute themselves, against something independent; and that their checks can fail."""

import math
from itertools import product

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.reproductions import get
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.barron_rate import _ball, _Function
from initscope.reproductions.region_counts import folding_layers
from initscope.reproductions.subspace_norms import extremes
from initscope.reproductions.tessellation import cells
from initscope.testing import z_score
from initscope.theory.regions import montufar_regions


def curves(*points):
    return Curves(tuple(points), "x", "y", marks={"here": 1.0})


def test_curves_agree_within_errors_where_both_are_known():
    assert curves(Point("a", 1, 1.0, 0.1, 1.3), Point("a", 2, 1.0), Point("b", 1, predicted=2.0)).agree(errors=4)
    assert not curves(Point("a", 1, 1.0, 0.1, 1.5)).agree(errors=4)
    assert not curves(Point("a", 1, 1.0, predicted=1.1)).agree(errors=4)
    assert curves(Point("a", 1, 1.0, predicted=1.1)).agree(bias=0.11)


def test_curves_name_their_numbers_and_hold_none_for_what_is_not_known():
    found = curves(Point("a", 1, 1.0, 0.1), Point("a", 2, predicted=3.0))
    assert {name: (n.value, n.error) for name, n in found.numbers().items()} == {
        "a, x 1": (1.0, 0.1),
        "a, x 2": (3.0, None),
    }
    assert list(found.numbers(ends=True)) == ["a, x 2"]
    assert found.table()[1] == {"kind": "a", "x": 2.0, "measured": None, "standard_error": None, "predicted": 3.0}
    assert found.plot().get_xlabel() == "x"


def test_barron_s_units_have_the_function_as_their_mean():
    """z-scores of 20,000 units at ten points; a function off by 3 % of its constant would be seen at one of them."""
    rng = np.random.default_rng(3)
    function, x = _Function(4, 3, rng), _ball(10, 4, rng)
    drawn = function.units(x, 20_000, rng)
    assert np.abs(z_score(drawn, function(x), axis=1)).max() < 4
    assert np.abs(drawn).max() <= 2 * function.constant
    assert np.abs(z_score(drawn, function(x) + 0.03 * function.constant, axis=1)).max() > 4
    direct = np.mean([np.cos(x @ w + b) - math.cos(b) for w, b in zip(function.frequencies, function.phases)], axis=0)
    np.testing.assert_allclose(function(x), direct)


@pytest.mark.parametrize(("width", "depth"), [(2, 1), (2, 4), (3, 3), (5, 2)])
def test_folding_layers_attain_the_count(width, depth):
    expected = montufar_regions(1, [width] * depth)
    assert expected == width ** (depth - 1) * (width + 1)
    line = (np.arange(50 * expected) + 0.5)[:, None] / (50 * expected)
    assert cells(folding_layers(width, depth), line).max() + 1 == expected


def test_one_layer_in_two_dimensions_has_the_count_of_lines_in_general_position():
    """Four lines in the plane: 11 cells, seen on a grid."""
    rng = np.random.default_rng(1)
    axis = np.linspace(-40, 40, 1500)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert cells([(rng.standard_normal((4, 2)), rng.standard_normal(4))], grid).max() + 1 == montufar_regions(2, [4])


def test_extremes_of_a_layer_are_those_of_a_fine_sweep():
    weight = np.random.default_rng(2).standard_normal((40, 2))
    angle = np.linspace(0, 2 * np.pi, 20_000)
    norms = np.linalg.norm(np.maximum(np.stack([np.cos(angle), np.sin(angle)], 1) @ weight.T, 0), axis=1)
    low, high = extremes(weight)
    assert high == pytest.approx(norms.max(), rel=1e-6)
    assert norms.min() - 1e-6 < low < 1.02 * norms.min()


@pytest.mark.parametrize(
    "id",
    [
        "norms-figure-1",
        "norms-figure-2",
        "norms-figure-3",
        "norms-equation-20",
        "norms-fan-out",
        "norms-footnote-1",
        "norms-initializations",
        "norms-theorem-1",
        "norms-proposition-1",
    ],
)
def test_norms_are_kept_whatever_the_data(id):
    """Sparse rows with a mean, far from Gaussian."""
    rng = np.random.default_rng(4)
    rows = rng.exponential(size=(80, 30)) * (rng.random((80, 30)) < 0.3)
    assert get(id).run(data=rows).status == "agrees"


def test_images_of_the_user_take_the_place_of_the_data():
    rng = np.random.default_rng(6)
    images = rng.random((8, 3, 16, 16), dtype=np.float32)
    shown = get("cnn-figure-1").run(data=images)
    assert shown.status == "not comparable"
    assert list(shown.ours) == ["your images, 3×3: slope"]
    for id, wrong in product(("cnn-slope-filter", "talk-invariances"), (rng.random((5, 4)),)):
        with pytest.raises(InputError, match="must be"):
            get(id).run(data=wrong)
