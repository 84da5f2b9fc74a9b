"""Pictures show the numbers that they claim to show."""

import numpy as np
import pytest

from initscope.geometry import Comparison
from initscope.pages.figures import angle_figure, norm_figure, pairs_figure


def line(ax, label):
    return next(found for found in ax.lines if found.get_label() == label)


def test_angles(comparison):
    ax = angle_figure(comparison)
    assert np.array_equal(line(ax, "predicted").get_ydata(), comparison.prediction.angle.mean(axis=1))
    (bars,) = ax.containers
    assert np.array_equal(bars[0].get_ydata(), comparison.measurement.angle.mean(axis=1))
    upper = np.array([segment[1, 1] for segment in bars[2][0].get_segments()])
    error = comparison.measurement.mean_angle_se
    assert np.allclose(upper - bars[0].get_ydata(), 2 * error)
    assert ax.get_xticklabels()[0].get_text() == "relu3"
    (band,) = ax.collections[:1]
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(
        np.percentile(comparison.prediction.angle, 90, axis=1).max()
    )


def test_sizes_are_drawn_behind_activations(comparison):
    ax = norm_figure(comparison)
    assert line(ax, "predicted").get_xdata().tolist() == [0, 2, 4, 6]
    # He's law keeps the size per unit of a ReLU network: the predicted line is level.
    assert line(ax, "predicted").get_ydata() == pytest.approx(1, abs=1e-6)


def test_pairs_measured_against_predicted(comparison):
    ax = pairs_figure(comparison)
    last = line(ax, "after relu3")
    assert np.array_equal(last.get_xdata(), comparison.prediction.cosine[6])
    assert np.array_equal(last.get_ydata(), comparison.measurement.cosine[6])
    alone = pairs_figure(Comparison(measurement=comparison.measurement))
    assert np.array_equal(line(alone, "after relu3").get_xdata(), comparison.measurement.cosine[0])
    assert alone.get_xlabel() == "cosine of the inputs"


def test_layers_without_a_prediction_leave_a_gap(partly_covered):
    assert np.isnan(line(angle_figure(partly_covered), "predicted").get_ydata()[2:]).all()
    norm_figure(partly_covered)
    assert {found.get_label() for found in pairs_figure(partly_covered).lines[:-1]} == {"after 0"}


def test_given_axes_are_used(comparison):
    ax = angle_figure(comparison)
    assert comparison.plot(ax) is ax
