"""Reproductions of recovery: checks can fail, numbers agree with a plain computation, bad input is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from initscope import data
from initscope.errors import InputError
from initscope.invert import Discrimination, ErrorGrowth, ErrorRate
from initscope.invert.discrimination import DiscriminationRow
from initscope.invert.rates import GrowthPoint, RatePoint
from initscope.reproductions import compressed_discrimination, compressed_tomography, get, inverted_pictures
from initscope.reproductions.recovery_depth import RecoveryDepth
from initscope.reproductions.recovery_rate import RecoveryRate


def errors(power, certain=0.01):
    """Errors that fall with a given power of m, as predicted."""
    widths = np.array([100, 200, 400, 800])
    values = 3.0 * widths**power
    points = [RatePoint(4, 1.9, int(m), e, certain * e, e) for m, e in zip(widths, values)]
    return RecoveryRate(ErrorRate(10, 5, tuple(points)))


def test_the_slope_of_recovery_is_that_of_a_power_law():
    found = errors(-0.5)
    assert found.lines()[4].slope == pytest.approx(-0.5)
    assert found.holds()
    assert not errors(-0.4).holds()
    off = replace(found.errors, points=tuple(replace(p, predicted=1.05 * p.predicted) for p in found.errors.points))
    assert not RecoveryRate(off).holds()


def growth(values, predicted=1.0):
    points = [GrowthPoint(n, 1.0, 0.1, predicted, e, 0.98 * e, 1.02 * e) for n, e in enumerate(values, 1)]
    return RecoveryDepth(ErrorGrowth(100, 3, 100, tuple(points)))


def test_errors_may_grow_linearly_and_not_faster():
    assert growth([0.1, 0.2, 0.3, 0.4]).holds()
    assert not growth([0.1, 0.2, 0.4, 0.8]).holds()
    assert not growth([0.1, 0.1], predicted=1.5).holds()
    number = growth([0.1]).numbers()["layers 1: relative error"]
    assert number.error == pytest.approx(1.2533 * 0.004 / 1.349 / 10, rel=1e-3)


def test_sparse_recovery_off_the_curve_is_seen():
    declared = get("talk-sparse-recovery")
    found = declared.produce(**declared.small)
    assert declared.holds(found)
    moved = tuple(replace(point, theory=1.4 * point.theory) for point in found.points)
    assert not declared.holds(replace(found, points=moved))


def rows_of(accuracy, decibels):
    row = DiscriminationRow("gaussian", 4.0, 16, accuracy, 0.01, float("nan"), float("nan"), decibels, 0.1, 0.5, "tv")
    table = Discrimination("x", 100, 50, 0.9, 0.01, float("nan"), float("nan"), 0.1, 10.0, (row,))
    return compressed_discrimination.CompressedDiscrimination((table,))


def test_the_regime_is_where_one_decides_and_does_not_reconstruct():
    """All pixels give .9 and guessing .1, so that .82 keeps nine tenths; the mean image has 10 dB, errors are .1 dB."""
    assert rows_of(0.83, 11.1).regime()
    assert not rows_of(0.81, 11.1).regime()
    assert not rows_of(0.83, 11.3).regime()


def test_a_picture_of_the_user_comes_back_with_the_quality_that_is_told():
    square = np.zeros((1, 3, 16, 16), dtype=np.float32)
    square[:, :, 5:11, 4:12] = 0.8
    found = compressed_tomography.run(square, ratios=(2, 8))
    for row, answer in zip(found.rows, found.reconstructions):
        assert row.psnr == pytest.approx(-10 * np.log10(np.mean((answer - square[0, 0]) ** 2)), abs=1e-4)
    best = [found.rows[place] for place in found.best()]
    assert [row.ratio for row in best] == [2, 8]
    assert best[0].psnr > best[1].psnr
    assert all(row.measurements <= 256 / row.ratio for row in found.rows)
    assert len(found.figure().axes) == 3


def test_bad_data_are_refused():
    with pytest.raises(InputError, match="and square"):
        compressed_tomography.run(np.zeros((1, 1, 8, 9)))
    with pytest.raises(InputError, match="no labels"):
        compressed_discrimination.run(replace(data.load("digits", limit=30), labels=None))
    with pytest.raises(InputError, match="INITSCOPE_DATA"):
        inverted_pictures.run(np.zeros((1, 3, 32, 32)), weights="nowhere.npz")
    with pytest.raises(InputError, match="must be"):
        inverted_pictures.run(np.zeros((32, 32)), weights=None)


def test_photographs_of_the_user_are_inverted():
    images = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
    options = {"network": "conv3x3x24-relu", "weights": None, "layers": ("relu1",)}
    assert inverted_pictures.run(images, **options).rows[0].psnr > 60
