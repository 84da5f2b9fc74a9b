"""Random features: norms and cosines against theory, for dense and convolutional layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.embed import ConvFeatures, ReLUFeatures
from initscope.embed._base import random_generator
from initscope.embed.distortion import random_pairs
from initscope.errors import InputError

RNG = np.random.default_rng(12)


def test_relu_features_are_the_layer():
    X = RNG.standard_normal((10, 6))
    features = ReLUFeatures(width=50, depth=2).fit(X)
    expected = X
    for weights in features.weights_:
        expected = np.maximum(expected @ weights.T, 0)
    np.testing.assert_allclose(features.transform(X), expected)
    np.testing.assert_allclose(ReLUFeatures(width=50, depth=2, device="cpu").fit(X).transform(X), expected)


def z_score(values):
    """Mean of independent values in its standard errors."""
    return np.mean(values) / (np.std(values, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize("depth", [1, 3])
def test_dense_report_predicts_cosine_and_spread(depth):
    """200 pairs over 30 layers of width 400: mean cosine and mean square deviation as z-scores over the layers.

    Catches 0.03 of the cosine and 40 % of the variance: so much off, the same checks fail.
    """
    X = RNG.standard_normal((60, 30)) + 0.3
    reports = [
        ReLUFeatures(width=400, depth=depth, random_state=seed).fit(X).distortion_report(X, pairs=200)
        for seed in range(30)
    ]
    bias = np.array([report.mean_observed - report.mean_predicted for report in reports])
    predicted = np.array([report.rms_predicted**2 for report in reports])
    excess = np.array([report.rms_observed**2 for report in reports]) - predicted
    assert abs(z_score(bias)) < 4
    assert abs(z_score(excess)) < 4
    for sign in (-1, 1):
        assert abs(z_score(bias + sign * 0.03)) > 4
        assert abs(z_score(excess + sign * 0.4 * predicted)) > 4
    assert abs(reports[0].mean_input - reports[0].mean_predicted) > 0.1  # the map is not the identity


def test_report_takes_only_the_rows_of_its_pairs(monkeypatch):
    X = RNG.standard_normal((1000, 8))
    features = ReLUFeatures(width=20).fit(X)
    expected = features.distortion_report(X, pairs=3)
    embedded = []
    transform = ReLUFeatures.transform
    monkeypatch.setattr(
        ReLUFeatures, "transform", lambda self, rows: embedded.append(len(rows)) or transform(self, rows)
    )
    report = features.distortion_report(X, pairs=3)
    assert embedded == [6]
    left, right = random_pairs(1000, 3, random_generator(0, "pairs"))
    outputs = np.maximum(X @ features.weights_[0].T, 0)
    cosines = (outputs[left] * outputs[right]).sum(axis=1)
    cosines /= np.linalg.norm(outputs[left], axis=1) * np.linalg.norm(outputs[right], axis=1)
    np.testing.assert_allclose(report.observed, cosines)
    np.testing.assert_array_equal(report.observed, expected.observed)


def test_conv_features_are_the_layer():
    X = RNG.random((5, 2 * 6 * 7)).astype(np.float32)
    features = ConvFeatures(filters=4, kernel_size=3, image_shape=(2, 6, 7)).fit(X)
    images = torch.from_numpy(X).reshape(5, 2, 6, 7)
    padded = torch.cat([images, images[:, :, :2]], dim=2)
    padded = torch.cat([padded, padded[:, :, :, :2]], dim=3)
    expected = torch.conv2d(padded, torch.from_numpy(features.weights_)).relu().reshape(5, -1).numpy()
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-6)
    pooled = ConvFeatures(filters=4, kernel_size=3, image_shape=(2, 6, 7), pool=1).fit_transform(X)
    np.testing.assert_allclose(pooled, expected.reshape(5, 4, -1).mean(axis=2), rtol=1e-4, atol=1e-6)


def test_conv_features_keep_norms():
    """Squared norms are means over independent filters: z-scores over 4,000 of them; catches a gain wrong by 10 %."""
    X = RNG.random((5, 3 * 8 * 8))
    features = ConvFeatures(filters=4000, image_shape=(3, 8, 8)).fit_transform(X)
    energies = 4000 * (features.reshape(5, 4000, 64) ** 2).sum(axis=2)
    for energy, square in zip(energies, (X**2).sum(axis=1)):
        assert abs(z_score(energy - square)) < 4
        for gain in (0.9, 1.1):
            assert abs(z_score(gain**2 * energy - square)) > 4


def test_conv_report_predicts_each_pair():
    """100 pairs over 16 layers: mean square deviation as a z-score over the layers; catches 30 % of the variance."""
    X = RNG.standard_normal((40, 3 * 8 * 8))
    X[:, :64] = 0.1 * X[:, :64]
    reports = [
        ConvFeatures(filters=100, image_shape=(3, 8, 8), random_state=seed).fit(X).distortion_report(X, pairs=100)
        for seed in range(16)
    ]
    predicted = np.array([report.rms_predicted**2 for report in reports])
    excess = np.array([report.rms_observed**2 for report in reports]) - predicted
    assert abs(z_score(excess)) < 4
    for sign in (-1, 1):
        assert abs(z_score(excess + sign * 0.3 * predicted)) > 4
    report = reports[0]
    assert report.largest == np.abs(report.observed - report.predicted).max()
    assert "theorem 1" in report.statement
    assert len(report.plot().lines) == 2


@pytest.mark.parametrize(
    "bad",
    [
        lambda X: ConvFeatures(filters=0).fit(X),
        lambda X: ConvFeatures(kernel_size=9, image_shape=(1, 4, 4)).fit(X),
        lambda X: ConvFeatures(pool=5).fit(X),
        lambda X: ConvFeatures(pool=1).fit(X).distortion_report(X),
        lambda X: ReLUFeatures(width=0).fit(X),
        lambda X: ReLUFeatures(width=5).fit(X).distortion_report(np.zeros((4, 16))),
        lambda X: ReLUFeatures(width=5).fit(X).distortion_report(X, pairs=10.0),
        lambda X: ReLUFeatures(width=5).fit(X).distortion_report(np.full((4, 16), np.nan)),
        lambda X: ConvFeatures(filters=5).fit(X).distortion_report(np.full((4, 16), np.nan)),
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(InputError):
        bad(RNG.standard_normal((5, 16)))
