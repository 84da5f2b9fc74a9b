"""Rates: slope -1/2, growth with depth, the sparse transition on the theoretical curve; discrimination."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope import data
from initscope.invert import discriminate, error_growth, error_rate, psnr, restricted_isometry, sparse_transition
from initscope.invert.sensing import make_sensing


def test_slope_of_one_half():
    """50 draws at four widths: each error is certain to 3 % or so, the slope to .02."""
    rate = error_rate((8, 32), (256, 512, 1024, 2048), inputs=40, draws=50)
    for slope in rate.slopes().values():
        assert slope == pytest.approx(-0.5, abs=0.05)
    deviations = [(point.error - point.predicted) / point.standard_error for point in rate.points]
    assert np.abs(deviations).max() < 4
    wrong = [(point.error - 1.2 * point.predicted) / point.standard_error for point in rate.points]
    assert np.abs(wrong).max() > 4
    rate.plot()


def test_growth_with_depth():
    """Without projections the variance doubles a layer, as predicted; with them the error grows at most linearly."""
    growth = error_growth(4, width=300, dimension=4, draws=12)
    for point in growth.points:
        assert abs(point.plain - point.plain_predicted) < 4 * point.plain_standard_error
        assert point.projected < 1.3 * point.depth * growth.points[0].projected
    assert growth.exponent() < 1
    growth.plot()


def test_sparse_transition_on_the_curve():
    """n = 400 at m/n = 1/4: half succeed within 10 % of Donoho–Tanner's sparsity; 15 trials at 5 sparsities."""
    found = sparse_transition((0.25,), trials=15, relative=(0.8, 0.9, 1.0, 1.1, 1.2))
    (row,) = found.thresholds()
    assert row["ratio"] == pytest.approx(1, abs=0.1)
    assert row["standard_error"] < 0.05 * row["theory"]
    assert found.points[0].success > 0.9
    assert found.points[-1].success < 0.3
    found.plot()


def test_matching_pursuit_recovers_sparser_inputs():
    found = sparse_transition((0.5,), inputs=100, trials=10, relative=(0.3,), method="matching pursuit")
    assert found.points[0].success > 0.9


def test_restricted_isometry_of_pairs():
    """The search over supports finds the true constant of all pairs of columns, by enumeration."""
    a = np.random.default_rng(0).standard_normal((30, 12)) / np.sqrt(30)
    gram = a.T @ a
    exact = max(abs(np.linalg.eigvalsh(gram[np.ix_([i, j], [i, j])]) - 1).max() for i in range(12) for j in range(i))
    found = restricted_isometry(a, 2, samples=60)
    assert found <= exact + 1e-12
    assert found == pytest.approx(exact, rel=1e-9)


def test_measurements_have_the_size_that_was_asked_for():
    for name in ("gaussian", "convolution", "tomography"):
        for ratio in (2, 4, 8, 16, 32):
            measurement = make_sensing(name, 8, 64 // ratio, arc=120, seed=0)
            assert 64 / ratio / 2 <= measurement.outputs <= 64 / ratio


def test_digits_are_told_apart_when_they_cannot_be_reconstructed():
    """At 1:4 Gaussian measurements decide nine of ten digits; no solver beats the mean image by 3 dB."""
    digits = data.load("digits")
    found = discriminate(digits.images, digits.labels, (2, 4), measurements=("gaussian",), reconstruct=2,
                         features=300, epochs=1)  # fmt: skip
    two, four = (row for row in found.rows if row.measurement == "gaussian")
    assert found.full > 0.95
    assert two.features > four.features > 0.88
    assert two.psnr > four.psnr
    assert four.psnr < found.mean_image_psnr + 3
    assert 0 <= four.cnn <= 1
    assert {row.solver for row in found.rows} <= {"total variation", "wavelets", "filtered back projection"}
    found.plot()


def test_tomography_has_filtered_back_projection():
    """A square from 5 angles: total variation, which suits it, beats filtered back projection, which gets it too."""
    measurement = make_sensing("tomography", 16, 128, arc=180, seed=0)
    image = torch.zeros(1, 1, 16, 16)
    image[..., 5:11, 5:11] = 1.0
    found = measurement.reconstructions(measurement.measure(image)[0])
    assert set(found) == {"total variation", "wavelets", "filtered back projection"}
    scores = {name: psnr(image[0].numpy(), picture) for name, picture in found.items()}
    assert scores["total variation"] > scores["filtered back projection"] > 10
