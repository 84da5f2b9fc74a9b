"""Criteria of reproductions: the stored results at full scale have the status that their numbers give, and each
criterion changes its answer when a number is changed by the stated amount."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripts import load_script

from initscope.reproductions import Number, all_reproductions, get
from initscope.reproductions._statistics import extrapolate
from initscope.reproductions.deep_tightness import half_injective, median_width
from initscope.reproductions.protocol import full_scale_status

ROOT = Path(__file__).parents[2]
STORED = {
    result["id"]: result for result in json.loads((ROOT / "docs" / "full_scale.json").read_text(encoding="utf-8"))
}
TALK = [(1, 12, 31.48), (1, 24, 35.41), (1, 48, 36.79), (2, 12, 45.42), (2, 24, 49.88), (2, 48, 50.46)]
"""Layers, bits and mAP of the networks in the table of the talk."""


def stored_numbers(id):
    return {name: Number(**number) for name, number in STORED[id]["ours"].items()}


def judged(id, ours, holds=True):
    """Status and reason of a reproduction at full scale whose numbers are these."""
    return get(id).judge(ours, holds=None if get(id).holds is None else holds, scale="full")


def test_stored_statuses_are_those_of_the_stored_numbers():
    """Also in the package, whose file --list shows."""
    script = load_script(ROOT / "docs" / "figures" / "make_full_scale.py")
    assert set(STORED) == set(all_reproductions())
    for id, result in STORED.items():
        assert script.rejudged(result) == result
        assert full_scale_status(id) == {"status": result["status"], "why": result["why"]}


def test_counts_of_the_readme_use_the_right_number_of_the_verb():
    script = load_script(ROOT / "docs" / "figures" / "make_full_scale.py")
    statuses = ["agrees", "agrees", "not confirmed", "not comparable", "not comparable"]
    sentence = script.counted([{"status": status} for status in statuses])
    assert sentence == "5 reproductions at full scale: 2 agree, 2 are not comparable, 1 is not confirmed."


@pytest.mark.parametrize(
    ("id", "supporting"),
    [
        ("talk-training-subsets", {"boundary, 300 samples": Number(0.603, 0.0013)}),
        ("talk-metric-learning", {"cross-entropy+triplet minus cross-entropy, 100 labels": Number(-0.0185, 0.0043)}),
        ("talk-tessellation", {"equal parameters, 8 × 11": Number(12_000.0, 113.0)}),
        (
            "injectivity-ground-states",  # within the errors of e(α), or clearly below the value at n = 100
            {
                "α = 3: found, and full RSB, n = 200": Number(0.13, 0.006),
                "α = 4: found, and full RSB, n = 200": Number(0.32, 0.009),
                "α = 6: found, and full RSB, n = 200": Number(0.81, 0.001),
            },
        ),
        (
            "talk-hashing",  # the talk's six rows of networks, which differ here, within a point
            {f"NN-{layers} {bits}": Number(value + 0.9, 0.2) for layers, bits, value in TALK},
        ),
    ],
)
def test_contrary_outcomes_are_not_confirmed_until_a_number_supports_the_claim(id, supporting):
    ours = stored_numbers(id)
    assert set(supporting) <= set(ours)
    assert judged(id, ours)[0] == "not confirmed"
    assert judged(id, ours | supporting)[0] in ("agrees", "not comparable")


@pytest.mark.parametrize(
    ("id", "opposing"),
    [
        ("injectivity-collisions", {"found at n = 1000, α = 6": Number(2 / 3)}),
        ("injectivity-collisions", {"found at n = 50, α = 30": Number(1 / 3)}),
        ("injectivity-deep-tightness", {"n = 2, layers L 32": Number(12.0, 0.2)}),
        ("injectivity-inverse-lipschitz", {"n → ∞: extrapolated, expansivity α 20": Number(0.28, 0.01)}),
        ("cnn-rgb-statistics", {"norm difference, nearest definition (%)": Number(11.0, 0.5)}),
        ("cnn-rgb-statistics", {"angle": Number(11.7, 0.24)}),
    ],
)
def test_statements_that_agree_stop_agreeing_when_a_number_is_changed(id, opposing):
    """By one layer of three without a collision at 0.9 of the threshold, or by three standard errors and more."""
    ours = stored_numbers(id)
    assert judged(id, ours)[0] == "agrees"
    assert judged(id, ours | opposing)[0] in ("differs", "not confirmed")


def test_hashes_of_other_rows_are_not_compared_with_the_talk():
    """Other descriptors rank differently without any hash, and fewer rows are not the talk's table."""
    ours = stored_numbers("talk-hashing")
    assert judged("talk-hashing", ours | {"raw 0": Number(60.0)})[0] == "not comparable"
    assert judged("talk-hashing", {"raw 0": ours["raw 0"], "NN-1 12": ours["NN-1 12"]})[0] == "not comparable"


def test_a_large_distance_from_a_published_number_is_reported():
    assert "2.9 standard errors (angle)" in judged("cnn-rgb-statistics", stored_numbers("cnn-rgb-statistics"))[1]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_both_panels_of_figure_2_must_be_below_their_bounds(direction):
    declared = get("norms-figure-2")
    result = declared.produce(**declared.small)
    assert declared.holds(result)
    assert not declared.holds(replace(result, **{f"{direction}_quantile": (0.1, 1.05 * result.lemma[-1])}))
    assert not declared.holds(replace(result, lemma=tuple(0.9 * value for value in result.exact)))


def test_the_layer_theorem_needs_a_constant_above_and_a_smaller_ratio_below():
    declared = get("talk-layer-theorem")
    result = declared.produce(**declared.small)
    assert declared.holds(result)
    for index, ratio in ((0, 0.8), (2, 0.2), (3, 1.4)):  # m = 1, where m is far below ω²; m = 1,000; m = 2,000
        rows = list(result.rows)
        rows[index] = replace(rows[index], ratio=ratio)
        assert not declared.holds(replace(result, rows=tuple(rows)))


def test_the_line_of_figure_1_is_the_line_of_its_points():
    declared = get("cnn-figure-1")
    panel = declared.produce(panels=(("photos:crop=32", 3),), pairs=20, filters=8, layers=3, limit=40).rows[0]
    slope, intercept = np.polyfit(panel.before, panel.after, 1)
    assert (panel.slope, panel.intercept) == pytest.approx((slope, intercept), rel=1e-3)


def test_theorem_2_needs_norms_within_the_promise_and_more_dimensions_than_claimed():
    declared = get("norms-theorem-2")
    result = declared.produce(**declared.small)
    assert declared.holds(result)
    first, dimension = 0, next(i for i, row in enumerate(result.rows) if row.kind.startswith("dimension"))
    for index, value in ((first, 0.95), (dimension, 3.0)):  # a distortion above ε = .9; an image that is nearly a plane
        rows = list(result.rows)
        rows[index] = replace(rows[index], measured=value)
        assert not declared.holds(replace(result, rows=tuple(rows)))


@pytest.mark.parametrize(
    ("id", "changes"),
    [
        # ReLU that nearly preserves, hard tanh that collapses, shares a tenth from free probability
        ("cnn-dynamical-isometry", {1: 0.4, 5: 0.2, 3: 0.72}),
        # a first layer that has a line already, a last one that has none, a share .1 from the prediction
        ("cnn-weights-along-a-line", {0: 0.6, 20: 0.85, 5: 0.9}),
    ],
)
def test_the_opposite_of_isometry_needs_shares_that_rise_as_predicted(id, changes):
    declared = get(id)
    result = declared.produce(**declared.small)
    assert declared.holds(result)
    for index, value in changes.items():
        rows = list(result.rows)
        rows[index] = replace(rows[index], measured=value)
        assert not declared.holds(replace(result, rows=tuple(rows)))


def test_medians_of_up_and_down_trials_have_the_right_errors():
    """The spread of z is near 1 for 70 sequences of 50 trials of a logistic curve; an error off by 35 % fails."""

    def z(seed):
        rng = np.random.default_rng(seed)
        median = 20 + rng.uniform()
        number = median_width(lambda width, _: bool(rng.logistic(median, 1.2) < width), 17, 50)
        return (number.value - median) / number.error

    values = [z(seed) for seed in range(70)]
    assert abs(np.mean(values)) < 0.45
    assert 0.7 < np.std(values) < 1.3


def test_half_of_the_layers_are_injective_where_the_exact_probability_is_one_half():
    """For two inputs 1 - m(m - 2)/2^(m - 1) crosses one half between 7 and 8 units; |z| < 4 catches .4."""
    half = half_injective(2, 1, draws=300)
    assert half.error < 0.1
    assert abs(half.value - 7.27 / 2) < 4 * half.error


@pytest.mark.parametrize("factor", [0.9, 1.15])
def test_the_geometry_of_images_is_compared_with_its_formulas(factor):
    declared = get("injectivity-image-geometry")
    result = declared.produce(**declared.small)
    assert declared.holds(result)
    for name in ("breakpoints", "reach"):
        panel = getattr(result, name)
        rows = tuple(replace(row, predicted=factor * row.predicted) for row in panel.rows)
        assert not declared.holds(replace(result, **{name: replace(panel, rows=rows)}))


@pytest.mark.parametrize("power", [2 / 3, 1.0])
def test_extrapolations_have_the_right_errors(power):
    """The spread of z of 300 fits; an error that is off by 20 % fails."""
    sizes, errors, z = np.array([10.0, 20.0, 50.0, 100.0]), np.array([0.04, 0.03, 0.02, 0.01]), []
    for seed in range(300):
        means = 1 + 2 * sizes**-power + errors * np.random.default_rng(seed).standard_normal(4)
        limit = extrapolate(sizes, means, errors, power=power)
        z.append((limit.value - 1) / limit.error)
    assert abs(np.mean(z)) < 0.25
    assert 0.8 < np.std(z) < 1.1
