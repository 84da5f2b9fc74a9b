"""Colour statistics against exact cases, the red/green example, and how one-coloured pictures deviate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.reproductions import saturation
from initscope.theory.angles import relu_cosine
from initscope.theory.images import (
    channel_statistics,
    cosine,
    expected_cosine,
    gray_share,
    red_green_pair,
)

RNG = np.random.default_rng


def tinted(grey, colour):
    return grey[:, None] * np.asarray(colour, dtype=float)[None, :, None, None]


def test_readings_on_known_norms():
    """Channels proportional to one picture: angle 0, norms in the ratio 1 : 2 : 4, every reading by hand."""
    stats = channel_statistics(tinted(RNG(0).random((5, 6, 6)), (1, 2, 4)))
    assert stats.angle < 1e-5
    mean, spread = 7 / 3, np.std([1, 2, 4])
    by_hand = {
        "pair / larger": (1 / 2 + 3 / 4 + 1 / 2) / 3,
        "pair / smaller": (1 + 3 + 1) / 3,
        "pair / mean": (1 / 1.5 + 3 / 2.5 + 2 / 3) / 3,
        "range / mean": 3 / mean,
        "range / largest": 3 / 4,
        "deviation / mean": spread / mean,
        "mean deviation / mean": (4 / 3 + 1 / 3 + 5 / 3) / 3 / mean,
        "of mean norms": (1 / 1.5 + 3 / 2.5 + 2 / 3) / 3,
    }
    assert stats.norm_difference.keys() == by_hand.keys()
    for name, value in by_hand.items():
        np.testing.assert_allclose(stats.norm_difference[name], value, rtol=1e-12, err_msg=name)
        assert stats.norm_difference_standard_error[name] < 1e-12
    assert (stats.images, stats.skipped) == (5, 0)
    assert len(stats.table()) == 9


def test_angles_on_known_pictures():
    """Pairs of channels at 90°, 60° and 45°."""
    basis = np.eye(4).reshape(4, 2, 2)
    a, b, c = basis[0], basis[1], (basis[0] + basis[1])
    image = np.stack([a, b, c])[None]
    np.testing.assert_allclose(channel_statistics(np.concatenate([image, 3 * image])).angle, (90 + 45 + 45) / 3)
    sixty = np.stack([basis[0], 0.5 * basis[0] + math.sqrt(0.75) * basis[2]])[None]
    np.testing.assert_allclose(channel_statistics(np.concatenate([sixty, sixty])).angle, 60)


def test_standard_errors_are_those_of_the_mean():
    """Spread of the estimate over 200 data sets of 50 images against the reported error: within 25 % (5 sigma)."""
    rng = RNG(1)
    runs = [channel_statistics(rng.random((50, 3, 4, 4)) * rng.uniform(0.5, 1.5, (50, 3, 1, 1))) for _ in range(200)]
    for read in (
        lambda s: (s.angle, s.angle_standard_error),
        lambda s: (s.norm_difference["pair / mean"], s.norm_difference_standard_error["pair / mean"]),
    ):
        values, errors = np.transpose([read(stats) for stats in runs])
        assert 0.75 < errors.mean() / values.std(ddof=1) < 1.25


def test_the_error_of_a_difference_that_cannot_be_negative():
    """Channels with equal expected norms, 300 data sets: spread over error .8 to 1.25; a jackknife gives .6."""
    rng = RNG(4)
    runs = [channel_statistics((1 + 0.1 * rng.standard_normal((40, 3)))[:, :, None, None]) for _ in range(300)]
    name = "of mean norms"
    values, errors = np.transpose([(s.norm_difference[name], s.norm_difference_standard_error[name]) for s in runs])
    assert 0.8 < values.std(ddof=1) / np.sqrt((errors**2).mean()) < 1.25


def test_black_channels_are_counted_not_averaged():
    images = RNG(2).random((4, 3, 5, 5))
    images[1, 0] = 0
    images[2] = 0
    stats = channel_statistics(images)
    assert (stats.images, stats.skipped) == (2, 2)
    np.testing.assert_allclose(stats.angle, channel_statistics(images[[0, 3]]).angle)
    np.testing.assert_allclose(channel_statistics(torch.from_numpy(images)).angle, stats.angle, rtol=1e-12)
    np.testing.assert_allclose(channel_statistics(images.astype(np.float32)).angle, stats.angle, rtol=1e-5)


def test_gray_share():
    grey = RNG(3).random((2, 6, 6))
    np.testing.assert_allclose(gray_share(tinted(grey, (1, 1, 1))), 1)
    np.testing.assert_allclose(gray_share(tinted(grey, (0, 2, 0))), 1 / 3)
    np.testing.assert_allclose(gray_share(tinted(grey, (1, 2, 4))), 49 / 63)


@pytest.mark.parametrize("kernel", [1, 3, 8])
def test_red_and_green(kernel):
    """ρ_in = 0 and ρ̄_out = R̂(0) = 1/π, at every filter size."""
    red, green = red_green_pair(8)
    np.testing.assert_allclose([(red**2).sum(), (green**2).sum()], 1)
    assert cosine(red, green) == 0
    np.testing.assert_allclose(expected_cosine(red, green, kernel_size=kernel), 1 / math.pi, rtol=1e-12)


def test_flat_pictures_follow_the_dense_map():
    """Flat colours u, v: every patch pair has the cosine of u and v."""
    u, v = (0.9, 0.4, 0.1), (0.2, 0.5, 0.8)
    x, y = (tinted(np.ones((1, 6, 6)), colour) for colour in (u, v))
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=3), relu_cosine(cosine(x, y)), rtol=1e-12)


def test_saturation():
    """Grey pictures with a black half: the deviation grows with the strength and ends below the dense 1/π."""
    rng = RNG(4)
    grey = rng.random((2, 6, 12, 12)) * (np.arange(12) < 7)[:, None]
    x, y = (tinted(picture, (1, 1, 1)) for picture in grey)
    result = saturation.run(x, y, kernel_size=3)
    assert result.gray_share[0] == pytest.approx(1)
    assert result.gray_share[-1] == pytest.approx(1 / 3)
    assert np.all(np.diff(result.deviation[1:]) > 0)
    assert result.cosine[-1] == 0
    assert 0.2 < result.deviation[-1] < 1 / math.pi
    np.testing.assert_allclose(np.subtract(result.expected_cosine, result.cosine), result.deviation, atol=1e-12)
    assert len(result.table()) == 5
    assert result.plot().get_ylabel() == "cosine after - before"
    single = saturation.run(x[:1], y[:1], kernel_size=3, strengths=(0.5,))
    assert math.isnan(single.deviation_standard_error[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: channel_statistics(x[:, :1]), "two channels; gray images"),
        (lambda x: channel_statistics(x[:1]), "at least two images"),
        (lambda x: channel_statistics(0 * x), "fewer than two images have all channels non-zero"),
        (lambda x: channel_statistics(np.where(x > 0.99, np.nan, x)), "image 0 holds NaN"),
        (lambda x: gray_share(0 * x), "zero or holds NaN has no gray share"),
        (lambda x: red_green_pair(0), "size = 0"),
        (lambda x: saturation.run(x[:, :1], x[:, :1], kernel_size=3), "single channel"),
        (lambda x: saturation.run(x, x, kernel_size=3, strengths=(2,)), "strength = 2 must lie in"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call(RNG(5).random((3, 3, 12, 12)))
