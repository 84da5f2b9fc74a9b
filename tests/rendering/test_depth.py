"""Plots against depth show the right numbers, at any scale, without a script."""

import math
import re

import numpy as np
import pytest

from initscope.rendering.depth import Panel, axis_limits, axis_name, depth_ticks, drawn_panels
from initscope.rendering.quantities import angles, error_over_pairs, sizes


def panel(values, **options):
    return Panel("size", "of something", "how to read it", np.array(values, dtype=float), **options)


def drawn(made, bad=frozenset()):
    return drawn_panels([made], [f"layer {index}" for index in range(len(made.measured))], [bad])["panels"][0]


def heights(path, made):
    """The values that dots or a line stand at: the drawing's coordinates undone by hand."""
    low, high, logarithmic = axis_limits(made)
    shares = [1 - float(y) / 100 for _, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    if logarithmic:
        return [10 ** (math.log10(low) + share * (math.log10(high) - math.log10(low))) for share in shares]
    return [low + share * (high - low) for share in shares]


@pytest.mark.parametrize("values", [[1.0, 0.8, 0.3], [1.0, 1e-9, 1e-24], [44.0, 90.0, 12.5]])
def test_dots_stand_at_their_values(values):
    """Coordinates have two decimals of a hundred: a relative error of half of one in 10,000 of the axis."""
    made = panel(values)
    found = heights(drawn(made)["dots"], made)
    low, high, logarithmic = axis_limits(made)
    if logarithmic:
        assert np.log10(found) == pytest.approx(np.log10(values), abs=1e-4 * math.log10(high / low))
    else:
        assert found == pytest.approx(values, abs=1e-4 * (high - low))


def test_rows_stand_at_even_places_and_gaps_stay_empty():
    made = panel([1.0, math.nan, 2.0, 3.0], predicted=np.array([1.0, math.nan, 2.0, math.nan]))
    shown = drawn(made, frozenset({3}))
    assert re.findall(r"M([\d.]+)", shown["dots"]) == ["125.0", "625.0"]
    assert re.findall(r"M([\d.]+)", shown["marked"]) == ["875.0"]
    assert re.findall(r"[ML]([\d.]+)", shown["line"]) == ["125.0", "625.0"]


def test_error_bars_reach_two_standard_errors():
    made = panel([1.0, 2.0], error=np.array([0.1, math.nan]), least=0.0, most=4.0, logarithmic=False)
    # (1 ± 0.2)/4 of the axis, from the top.
    assert drawn(made)["bars"] == "M250.0 70.0V80.0"


def test_long_error_bars_are_in_the_picture():
    made = panel([1.0, 2.0], error=np.array([0.1, 1.0]), least=0.0, logarithmic=False)
    assert axis_limits(made)[1] > 4


def test_bands_are_shaded_between_their_ends():
    open_above = drawn(panel([0.0, 1.0], low=0.25, least=0.0, most=1.0, logarithmic=False))
    assert [float(number) for number in open_above["healthy"]] == [0, 75]
    both = drawn(panel([0.0, 1.0], low=0.25, high=0.5, least=0.0, most=1.0, logarithmic=False))
    assert [float(number) for number in both["healthy"]] == [50, 25]
    assert not drawn(panel([0.0, 1.0]))["has_band"]


def test_a_near_edge_of_a_band_is_in_the_picture_and_a_far_one_is_not():
    low, high, _ = axis_limits(panel([1.0, 30.0], low=1e-3, high=1e3))
    assert low < 1 < 1e3 < high
    assert low > 1e-3


def test_what_is_exactly_zero_stands_on_the_axis():
    made = panel([0.0, 1e-6, 1.0])
    assert axis_limits(made)[2]
    assert re.findall(r"M[\d.]+ ([\d.]+)", drawn(made)["dots"])[0] == "100.00"


@pytest.mark.parametrize("values", [[0.0, 0.0], [5.0, 5.0], [1e-30, 1e30], [math.inf, 1.0], [1e-300, 1.0]])
def test_odd_values_are_drawn(values):
    shown = drawn(panel(values))
    assert "nan" not in shown["dots"]
    assert "inf" not in shown["dots"]
    assert 2 <= len(shown["ticks"]) <= 6


def test_a_panel_without_values_is_left_out():
    assert drawn_panels([panel([math.nan, math.nan])], ["a", "b"])["panels"] == []


def test_the_axis_names_at_most_eight_layers():
    for rows in (1, 2, 3, 8, 9, 60, 401):
        ticks = depth_ticks(rows)
        assert ticks[0] == 0
        assert len(ticks) <= 8
        assert len(set(np.diff(ticks))) <= 1


def test_the_axis_names_rows_that_show_something():
    """Of forty steps of an attention layer five have a value: these are named, and none so near that it overlaps."""
    values = np.full(40, math.nan)
    values[[0, 6, 26, 28, 39]] = 1.0
    axis = drawn_panels([panel(values)], [f"attention.step{index}" for index in range(40)])["axis"]
    assert [tick["name"][-2:].strip("p") for tick in axis] == ["0", "6", "26", "39"]
    assert [tick["role"] for tick in axis] == ["at-start", "minor", "minor", "at-end"]  # long names: every third
    few = drawn_panels([panel([1.0, 2.0, 3.0])], ["input", "a", "b"])["axis"]
    assert [tick["role"] for tick in few] == ["", "minor", ""]


def test_long_paths_are_named_by_their_block_or_their_end():
    assert axis_name("layer 11 (Linear)") == "layer 11"
    assert axis_name("transformer.h.10.attention.query (Linear)") == "h.10…"
    assert axis_name("model.layers.3.mlp.experts.7.up_proj") == "experts.7…"
    assert axis_name("classifier.output.dense") == "…output.dense"


def test_errors_over_pairs_are_those_of_a_mean():
    values = np.random.default_rng(0).normal(size=(3, 50))
    values[1, 7:] = np.nan
    values[2, 1:] = np.nan
    found = error_over_pairs(values)
    assert found[0] == pytest.approx(values[0].std(ddof=1) / math.sqrt(50))
    assert found[1] == pytest.approx(values[1, :7].std(ddof=1) / math.sqrt(7))
    assert math.isnan(found[2])


def test_angles_and_sizes_of_a_comparison(comparison):
    measured = comparison.measurement
    angle, size = angles(comparison), sizes(comparison)
    assert np.allclose(angle.measured, measured.angle.mean(axis=1))
    assert np.allclose(angle.error, measured.mean_angle_se)
    # The error of the size is that of the length, the number of units taken out of both.
    assert np.allclose(size.error / size.measured, measured.mean_norm_ratio_se / measured.norm_ratio.mean(axis=1))
    assert angle.error_is == "over draws of the weights"
    some = size.at([0, 2])
    assert np.flatnonzero(np.isfinite(some.measured)).tolist() == [0, 2]
    assert np.flatnonzero(np.isfinite(some.predicted)).tolist() == [0, 2]
