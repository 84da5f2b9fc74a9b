"""Predictions at the edges: unlike norms, random slopes, laws within laws, weights that are not independent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.initializers import He, Orthogonal, Present, ZeroSum
from initscope.theory.activations import random_leaky_relu


def pairs(count, size, seed=0):
    return torch.randn(2, count, size, generator=torch.Generator().manual_seed(seed))


def network(width=64, activation=nn.ReLU):
    return nn.Sequential(nn.Linear(50, width), activation(), nn.Linear(width, width))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_prediction_does_not_depend_on_the_scale_of_one_input(scale):
    """Without biases; float32, to 1e-5: single precision lost .03 at 1e6."""
    x, y = pairs(3, 50)
    plain, scaled = (initscope.predict(network(), c * x, y, initializer=He()).cosine for c in (1.0, scale))
    assert np.abs(scaled - plain).max() < 1e-5


def test_an_input_beyond_rounding_keeps_its_cosine_and_the_rest_says_nothing():
    x, y = pairs(2, 50)
    expected = torch.cosine_similarity(x.double(), y.double()).numpy()
    found = initscope.predict(network().double(), 1e17 * x.double(), y.double(), initializer=He()).cosine
    assert np.abs(found[0] - expected).max() < 1e-14
    assert np.isnan(found[1:]).all()


def test_random_slopes_against_measured_networks():
    """nn.RReLU while training: 4 standard errors of 40 draws, about .006; the mean slope alone is off by .04."""
    x, y = pairs(3, 50)
    y = x + 0.3 * y
    model = network(200, lambda: nn.RReLU(0.1, 0.9)).train()
    predicted = initscope.predict(model, x, y, initializer=He())
    measured = initscope.measure(model, x, y, initializer=He(), draws=40, seed=1)
    assert [row.status for row in predicted.rows] == ["closed form"] * 4
    assert (np.abs(predicted.cosine - measured.cosine)[1:] < 4 * measured.cosine_se[1:]).all()
    assert predicted.cosine[2].mean() < initscope.predict(model.eval(), x, y, initializer=He()).cosine[2].mean() - 0.02


def test_moments_of_random_slopes():
    """Slopes uniform in [l, u] have mean square (l² + lu + u²)/3; equal inputs come apart by twice their variance."""
    sigma = random_leaky_relu(0.1, 0.9)
    assert float(sigma.second_moment(2.0)) == pytest.approx(1 + (0.01 + 0.09 + 0.81) / 3)
    assert float(sigma.distance(2.0, 2.0, 0.0)) == pytest.approx(2 * 0.8**2 / 12)


def test_zero_sum_of_zero_sum():
    """Two halves of the mean's second moment: 4 standard errors of 20 draws, about .02; λ = .5 alone is off by .1."""
    x, y = torch.rand(2, 2, 50, generator=torch.Generator().manual_seed(0))
    law = ZeroSum(base=ZeroSum(base=He(), strength=0.7), strength=0.7)
    predicted = initscope.predict(network(300), x, y, initializer=law).cosine
    measured = initscope.measure(network(300), x, y, initializer=law, draws=20, seed=1)
    assert (np.abs(predicted - measured.cosine)[1:] < 4 * measured.cosine_se[1:]).all()
    assert law.weight_distribution(nn.Linear(3, 3)).strength == pytest.approx(0.91)


def test_a_single_weight_has_a_size():
    layer = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(-0.5)
    law = Present().weight_distribution(layer)
    assert law.variance == 0.25
    assert "single weight" in law.note


def test_no_band_where_weights_are_not_independent():
    x, y = pairs(2, 50)
    assert np.isnan(initscope.predict(network(50), x, y, initializer=Orthogonal()).cosine_sd[1:]).all()
    assert np.isfinite(initscope.predict(network(50), x, y, initializer=He()).cosine_sd[1]).all()


def test_where_values_are_huge_gelu_is_relu():
    """Mean squares grow to 1e27; in float32 a mean square beyond 1e7 was infinite, and all behind it NaN."""
    x, y = pairs(3, 64)
    layers = {kind: [step for _ in range(8) for step in (nn.Linear(64, 64), kind())] for kind in (nn.GELU, nn.ReLU)}
    gelu, relu = (
        initscope.predict(nn.Sequential(*steps), 1e3 * x, 1e3 * y, He(gain=30.0), gradients=True)
        for steps in layers.values()
    )
    np.testing.assert_allclose(gelu.cosine, relu.cosine, atol=1e-4)
    np.testing.assert_allclose(gelu.rms_ratio, relu.rms_ratio, rtol=1e-4)
    np.testing.assert_allclose(gelu.gradient_ratio, relu.gradient_ratio, rtol=1e-3)


@pytest.mark.parametrize("kind", [nn.ReLU, nn.GELU])
def test_gradients_behind_an_overflow_are_not_told(kind):
    """Mean squares of 1e43 are no float32: GELU raised an `InputError` about its covariances."""
    x, y = pairs(3, 64)
    steps = [step for _ in range(16) for step in (nn.Linear(64, 64), kind())]
    found = initscope.predict(nn.Sequential(*steps), 1e3 * x, 1e3 * y, He(gain=30.0), gradients=True)
    assert found.gradient_ratio is None or np.isnan(found.gradient_ratio[1]).all()
