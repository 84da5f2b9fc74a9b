"""Sentences say what the numbers say."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from initscope.geometry import Comparison
from initscope.graph import traits_of_module
from initscope.rendering.summary import headline, suggestion


def with_angles(comparison, degrees, size=1.0):
    cosine = np.cos(np.radians(degrees))[:, None].repeat(7, axis=1)
    return Comparison(prediction=replace(comparison.prediction, cosine=cosine, rms_ratio=np.full_like(cosine, size)))


@pytest.mark.parametrize(
    ("degrees", "said", "tried"),
    [
        ([60, 60, 50, 40, 29, 28, 27.0], "shrink from 60.0° to 27.0° .* median has halved at relu2", "zero"),
        ([60, 60, 55, 53, 50, 48, 45.0], "shrink from 60.0° to 45.0° .* does not halve", "zero"),
        ([60, 60, 60, 60, 60, 60, 61.0], "are preserved", "No change is needed"),
        ([20, 30, 40, 50, 60, 60, 61.0], "grow from 20.0° to 61.0°", "Run initscope inspect .* angles grow"),
    ],
)
def test_angles(comparison, degrees, said, tried):
    made = with_angles(comparison, degrees)
    assert re.search(said, headline(made))
    assert re.search(tried, suggestion(made))


def test_laws_and_activations_are_named_where_they_are(comparison):
    opened, closed = (with_angles(comparison, np.linspace(*ends, 7)) for ends in ((20, 60), (60, 20)))
    assert "ZeroSum(strength=0.5)" in suggestion(opened, "zero-sum")
    assert "ZeroSum" not in suggestion(opened, "he")
    assert "zero-sum" not in suggestion(closed, "zero-sum")
    gelu = {"kind": "GELU", "traits": traits_of_module(torch.nn.GELU())}
    rows = tuple(replace(row, **gelu) if row.traits.is_relu else row for row in closed.prediction.rows)
    smooth = Comparison(replace(closed.prediction, rows=rows))
    assert "ReLU" in suggestion(closed)
    assert "become similar" in suggestion(smooth)
    assert "ReLU" not in suggestion(smooth)


@pytest.mark.parametrize(("error", "said", "tried"), [(3.1, "are preserved within 2", "more draws"),
                                                      (1.5, "grow from", "angles grow")])  # fmt: skip
def test_a_change_within_two_standard_errors_is_none(comparison, error, said, tried):
    degrees = np.linspace(47.7, 51.2, 7)
    cosine = np.cos(np.radians(degrees))[:, None].repeat(7, axis=1)
    errors = np.radians(error) * np.sin(np.radians(degrees))
    measured = replace(comparison.measurement, cosine=cosine, gap=None, mean_cosine_se=errors)
    made = Comparison(measurement=measured)
    assert said in headline(made)
    assert tried in suggestion(made)


def test_sizes(comparison):
    level = [60.0] * 7
    assert "The RMS grows by a factor of 100:" in suggestion(with_angles(comparison, level, 100.0))
    assert "The RMS shrinks by a factor of 50:" in suggestion(with_angles(comparison, level, 0.02))
    assert "RMS" not in suggestion(with_angles(comparison, level, 0.5))


def test_both_sides_are_named(comparison, partly_covered):
    assert "(measured; " in headline(comparison)
    assert "° predicted)" in headline(comparison)
    assert "no prediction for the last layer" in headline(partly_covered)


def test_nothing_covered(partly_covered):
    prediction = replace(partly_covered.prediction, cosine=partly_covered.prediction.cosine.copy())
    prediction.cosine[1:] = np.nan
    assert "No layer of this model is covered" in headline(Comparison(prediction))
    assert "part of the model" in suggestion(Comparison(prediction))
