"""Flat patches: the bound between the truth and what it claims, against patches cut out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from initscope import data
from initscope.errors import InputError
from initscope.theory.images import (
    cosine,
    data_flatness,
    excess_bound,
    expected_cosine,
    flatness_bound,
    flatness_map,
    flatness_scores,
    monochromatic_outliers,
)

RNG = np.random.default_rng


def patches(images, kernel):
    """All cyclic patches, [n, positions, taps], by rolling: the center of an odd kernel is the position."""
    rolls = range(-(kernel // 2), kernel - kernel // 2)
    shifted = [np.roll(images, (-a, -b), axis=(2, 3)) for a in rolls for b in rolls]
    return np.stack(shifted, axis=-1).transpose(0, 2, 3, 1, 4).reshape(len(images), -1, images.shape[1] * kernel**2)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_map_is_the_angle_of_each_patch(channels):
    images = RNG(0).standard_normal((2, channels, 6, 7)) + 0.5
    seen = patches(images, 3)
    cosines = seen.sum(axis=2) / np.linalg.norm(seen, axis=2) / math.sqrt(seen.shape[2])
    found = flatness_map(images, kernel_size=3)
    np.testing.assert_allclose(found.reshape(2, -1), np.arccos(cosines), atol=1e-12)
    np.testing.assert_allclose(flatness_map(torch.tensor(images), kernel_size=3).numpy(), found, atol=1e-14)


def test_the_bound_is_the_sum_over_patches():
    x, y = RNG(1).random((2, 3, 2, 5, 6)) - 0.2
    a, b = patches(x, 3), patches(y, 3)
    sizes = [np.linalg.norm(each, axis=2) for each in (a, b)]
    angles = [np.arccos(each.sum(axis=2) / size / math.sqrt(18)) for each, size in zip((a, b), sizes)]
    theta = np.minimum(angles[0] + angles[1], np.pi)
    by_hand = (sizes[0] * sizes[1] * (np.sin(theta) - theta * np.cos(theta)) / np.pi).sum(axis=1) / 9
    np.testing.assert_allclose(flatness_bound(x, y, kernel_size=3).inner, by_hand, rtol=1e-12)


def test_images_without_negative_values_have_no_obtuse_angles():
    """Lone bright pixels, 70.5° from flat in a 3×3 patch: two of them are at a right angle at most, ψ = 1/π."""
    x, y = np.zeros((2, 2, 1, 8, 8))
    x[:, :, 2, 2] = y[:, :, 3, 3] = 1
    x[1, 0, 7, 7] = -1e-9  # a negative value anywhere, and the angles may add up
    seen = 4 / 9  # of nine patches four hold both pixels
    doubled = 2 * math.acos(1 / 3)
    expected = [seen / math.pi, seen * (math.sin(doubled) - doubled * math.cos(doubled)) / math.pi]
    np.testing.assert_allclose(flatness_bound(x, y, kernel_size=3).inner, expected, rtol=1e-8)
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=3)[0], seen / math.pi, rtol=1e-12)  # attained


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("positive", [True, False])
def test_truth_bound_scores_are_in_this_order(kernel, positive):
    rng = RNG([kernel, positive])
    x, y = rng.standard_normal((2, 60, 2, 6, 8)) * rng.random((2, 60, 1, 1, 1)) ** 3 + rng.standard_normal(
        (2, 60, 1, 1, 1)
    )
    x, y = (abs(x), abs(y)) if positive else (x, y)
    truth = expected_cosine(x, y, kernel_size=kernel) - cosine(x, y)
    bound = flatness_bound(x, y, kernel_size=kernel).cosine
    scores = [flatness_scores(side, kernel_size=kernel) for side in (x, y)]
    assert np.all(truth <= bound + 1e-12)
    assert np.all(bound <= (scores[0] + scores[1]) / 2 + 1e-12)


def test_on_photographs_it_says_what_the_other_bound_cannot():
    """Grey photographs at 32×32: the truth, the flatness bound and `excess_bound`, which exceeds it tenfold."""
    photos = data.load("photos", crop=32, limit=60).images.mean(axis=1, keepdims=True)
    x, y = photos[:30], photos[30:60]
    truth = (expected_cosine(x, y, kernel_size=3) - cosine(x, y)).mean()
    bound = flatness_bound(x, y, kernel_size=3).cosine.mean()
    assert truth < bound < 4 * truth
    assert bound < 0.2 * excess_bound(x, y, kernel_size=3).cosine.mean()


def test_the_statement_of_a_data_set_covers_every_pair():
    """The mean over all pairs of the separated bound, by the double loop, and the largest truth under the largest."""
    images = RNG(3).random((12, 1, 5, 5)) + RNG(4).random((12, 1, 1, 1))
    found = data_flatness(np.concatenate([images, np.zeros((1, 1, 5, 5))]), kernel_size=3)
    left, right = (
        index[~np.eye(12, dtype=bool).ravel()] for index in (np.repeat(range(12), 12), np.tile(range(12), 12))
    )
    truth = expected_cosine(images[left], images[right], kernel_size=3) - cosine(images[left], images[right])
    angle, seen = flatness_map(images, kernel_size=3).reshape(12, -1), patches(images, 3)
    weight = np.linalg.norm(seen, axis=2) / 3 / np.linalg.norm(images.reshape(12, -1), axis=1)[:, None]
    excess = (np.sin(2 * angle) - 2 * angle * np.cos(2 * angle)) / np.pi  # all angles are below the bend here
    separated = (weight[left] * weight[right] * (excess[left] + excess[right]) / 2).sum(axis=1)
    assert 2 * angle.max() < 2.02
    np.testing.assert_allclose(found.mean_excess, separated.mean(), rtol=1e-12)
    assert truth.mean() < found.mean_excess
    assert truth.max() < found.largest_excess
    assert (found.images, found.skipped) == (12, 1)
    by_image = [separated[left == k].mean() for k in range(12)]
    np.testing.assert_allclose(
        found.mean_excess_standard_error, 2 * np.std(by_image, ddof=1) / math.sqrt(12), rtol=1e-12
    )


def test_the_tangent_continues_the_bound_where_patches_oppose_the_constant():
    """Patches of alternating signs are at a right angle to the constant, negative ones at 180°: g must stay above ψ."""
    board = (-1.0) ** np.add.outer(range(6), range(6)).reshape(1, 1, 6, 6)
    for x, y in ((board, -board), (board, -np.ones_like(board)), (-board - 0.3, board + 0.4)):
        truth = expected_cosine(x, y, kernel_size=2) - cosine(x, y)
        assert truth <= (flatness_scores(x, kernel_size=2) + flatness_scores(y, kernel_size=2)) / 2 + 1e-12


def test_outliers_are_the_images_of_one_colour():
    rng = RNG(5)
    grey = np.repeat(rng.random((4, 1, 6, 6)), 3, axis=1) + 0.05 * rng.random((4, 3, 6, 6))
    red, greenish = rng.random((2, 3, 6, 6)) * np.array([[1, 0, 0], [0.2, 1, 0.2]]).reshape(2, 3, 1, 1)
    images = np.stack([grey[0], greenish, grey[1], red, np.zeros((3, 6, 6)), grey[2]])
    found = monochromatic_outliers(images, names=list("abcdef"))
    assert [row["name"] for row in found.table()] == ["d", "b"]
    assert (found.skipped, found.share) == (1, 0.4)
    assert found.outliers[0].gray_share == pytest.approx(1 / 3)
    assert found.outliers[1].energy[1] == pytest.approx((greenish[1] ** 2).sum() / (greenish**2).sum())
    with pytest.raises(InputError, match="no color"):
        monochromatic_outliers(images[:, :1])
    with pytest.raises(InputError, match="names for 6 images"):
        monochromatic_outliers(images, names=["a"])
    with pytest.raises(InputError, match="a pair needs two"):
        data_flatness(images[4:5], kernel_size=3)
    images[0, 0, 0, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        flatness_map(images, kernel_size=3)
