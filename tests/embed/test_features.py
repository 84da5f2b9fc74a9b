"""Random features: norms and cosines against theory, for dense and convolutional layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.embed import ConvFeatures, ReLUFeatures
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


@pytest.mark.parametrize("depth", [1, 3])
def test_dense_report_predicts_cosine_and_spread(depth):
    """2,000 pairs over 30 layers of width 400: mean deviation within 4 standard errors, spread within 10 %."""
    X = RNG.standard_normal((60, 30)) + 0.3
    means, spreads, predicted = [], [], []
    for seed in range(30):
        report = ReLUFeatures(width=400, depth=depth, random_state=seed).fit(X).distortion_report(X, pairs=500)
        means.append(report.mean_observed - report.mean_predicted)
        spreads.append(report.rms_observed)
        predicted.append(report.rms_predicted)
    # At finite width the mean is off by order 1/width a layer; the tolerance adds that.
    assert abs(np.mean(means)) < 4 * np.std(means) / np.sqrt(30) + depth / 400
    assert np.sqrt(np.mean(np.square(spreads))) == pytest.approx(np.mean(predicted), rel=0.1)
    assert abs(report.mean_input - report.mean_predicted) > 0.1  # the map is not the identity


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
    X = RNG.random((5, 3 * 8 * 8))
    features = ConvFeatures(filters=4000, image_shape=(3, 8, 8)).fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), np.linalg.norm(X, axis=1), rtol=0.03)


def test_conv_report_predicts_each_pair():
    """Deviations of 100 pairs, in units of their predicted spread: mean square near 1 over 8 layers."""
    X = RNG.standard_normal((40, 3 * 8 * 8))
    X[:, :64] = 0.1 * X[:, :64]
    ratio = []
    for seed in range(8):
        features = ConvFeatures(filters=100, image_shape=(3, 8, 8), random_state=seed).fit(X)
        report = features.distortion_report(X, pairs=100)
        ratio.append((report.rms_observed / report.rms_predicted) ** 2)
    assert np.mean(ratio) == pytest.approx(1, abs=0.25)
    assert report.largest < 6 * report.rms_predicted
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
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(InputError):
        bad(RNG.standard_normal((5, 16)))
