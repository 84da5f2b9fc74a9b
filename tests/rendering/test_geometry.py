"""Results of pairs: their tables, their JSON, the errors they state."""

import json

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.geometry import Comparison


def test_json_has_the_promised_keys_and_the_means_over_pairs(comparison):
    answer = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert (answer["pairs"], answer["draws"]) == (7, 2)
    assert len(answer["rows"]) == 7
    last = answer["rows"][-1]
    assert {"layer", "kind", "status", "cosine_predicted", "cosine_measured", "cosine_se"} <= set(last)
    assert {"norm_ratio_predicted", "norm_ratio_measured", "norm_ratio_se", "note"} <= set(last)
    assert last["cosine_measured"] == pytest.approx(comparison.measurement.cosine[-1].sum() / 7)
    assert answer["rows"][0]["cosine_se"] == 0


def test_a_layer_without_a_rule_keeps_its_row_and_its_reason(partly_covered):
    rows = partly_covered.table()
    assert [row["status"] for row in rows] == ["closed form"] * 2 + ["not covered"] * 3
    assert rows[2]["note"] == "LocalResponseNorm has no rule"
    assert rows[3]["note"] == "a layer before it is not covered"
    assert rows[2]["cosine_predicted"] is None
    assert rows[2]["cosine_measured"] is not None


def test_every_pair_has_its_own_numbers(comparison):
    pairs = comparison.pairs_table()
    assert len(pairs) == 7 * 7
    at = pairs[7 * 2 + 3]
    assert (at["layer"], at["pair"]) == ("relu1", 3)
    assert at["cosine_predicted"] == comparison.prediction.cosine[2, 3]
    assert at["cosine_se"] == comparison.measurement.cosine_se[2, 3]


def test_one_side_alone_shows_itself(comparison):
    for side in (comparison.prediction, comparison.measurement):
        assert len(side.table()) == 7
        assert side.to_dict()["rows"][0]["layer"] == "input"
        assert "<svg" in side._repr_html_()
        assert "<html" in side.to_html()
        assert side.plot().get_ylabel().startswith("angle")


def test_angle_error_is_the_cosine_error_on_the_slope_of_the_arccosine(comparison):
    """Pairs of nearly equal angles: moving every cosine by its error moves the mean angle by its error, to 5 %."""
    measured = comparison.measurement
    for row in range(1, 7):
        step = measured.mean_cosine_se[row] * 1e-3
        moved = np.degrees(np.arccos(measured.cosine[row] - step) - np.arccos(measured.cosine[row])).mean()
        assert moved == pytest.approx(1e-3 * measured.mean_angle_se[row], rel=0.05)


def test_sides_of_different_models_are_refused(comparison, partly_covered):
    with pytest.raises(InputError, match="not of the same model and pairs"):
        Comparison(comparison.prediction, partly_covered.measurement)
    with pytest.raises(InputError, match="a prediction, a measurement, or both"):
        Comparison()


def test_halving_is_the_first_layer_from_which_on_angles_are_halved(comparison):
    from dataclasses import replace

    angles = np.radians([40.0, 35, 19, 25, 20, 19, 12])
    cosine = np.cos(angles)[:, None].repeat(7, axis=1)
    measured = Comparison(measurement=replace(comparison.measurement, cosine=cosine))
    # relu1 dips below 20 degrees but conv2 does not stay there.
    assert measured.halving_depth() == "relu2"
    assert measured.halving_depth(0.2) is None
