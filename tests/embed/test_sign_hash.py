"""`SignHash`: bits are those of the definition, and Hamming distances follow the exact binomial law of the angle."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.stats import binom, kstest

from initscope.embed import SignHash, hamming_bound, hamming_distance, unpack_bits
from initscope.embed._base import random_generator
from initscope.embed.distortion import hamming_distortion, random_pairs, unequal_by_bit
from initscope.errors import InputError
from initscope.testing import z_score

RNG = np.random.default_rng(11)


def pairs_at(angles, n, rng):
    """Pairs of unit vectors at given angles, in independent random planes."""
    u, v = rng.standard_normal((2, len(angles), n))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    v -= (u * v).sum(axis=1, keepdims=True) * u
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    return u, np.cos(angles)[:, None] * u + np.sin(angles)[:, None] * v


def test_bits_are_the_signs_of_the_layer():
    X = RNG.standard_normal((50, 9))
    hasher = SignHash(bits=21, center=True).fit(X)
    expected = ((X - X.mean(axis=0)) @ hasher.weights_.T > 0).astype(np.uint8)
    np.testing.assert_array_equal(unpack_bits(hasher.transform(X), 21), expected)
    np.testing.assert_array_equal(SignHash(bits=21, center=True, packed=False).fit(X).transform(X), expected)
    np.testing.assert_array_equal(SignHash(bits=21, center=True, device="cpu").fit(X).transform(X), hasher.transform(X))


@pytest.mark.parametrize("bits", [48, 256, 4096])
def test_ten_thousand_pairs_follow_the_binomial_law(bits):
    """Kolmogorov–Smirnov on 10,000 nearly independent pairs (dimension 120): catches 0.04 standard deviations.

    The same test must fail for angles wrong by 3 %.
    """
    rng = np.random.default_rng(bits)
    angles = rng.uniform(0.1, math.pi - 0.1, 10_000)
    u, v = pairs_at(angles, 120, rng)
    hasher = SignHash(bits=bits).fit(u)
    counts = hamming_distance(hasher.transform(u), hasher.transform(v))

    def p_value(share):
        below = binom.cdf(counts - 1, bits, share)
        return kstest(below + rng.random(10_000) * (binom.cdf(counts, bits, share) - below), "uniform").pvalue

    assert p_value(angles / math.pi) > 1e-3
    assert p_value(1.03 * angles / math.pi) < 1e-3
    assert np.abs(counts / bits - angles / math.pi).max() < hamming_bound(bits, delta=0.05, pairs=10_000)


def test_report_says_what_the_law_predicts():
    X = RNG.standard_normal((3000, 40))
    report = SignHash(bits=256).fit(X).distortion_report(X)
    assert report.rms_observed == pytest.approx(report.rms_predicted, rel=0.05)
    assert report.largest < report.bound
    assert report.pvalue > 1e-3
    assert report.pairs == 10_000
    assert "angles" not in report.table()[0]
    cosine = (X[0] @ X[1]) / np.linalg.norm(X[0]) / np.linalg.norm(X[1])
    two = SignHash(bits=8).fit(X).distortion_report(X[:2], pairs=4)
    np.testing.assert_allclose(two.angles, math.acos(cosine))
    assert report.plot().get_title() == "256 bits"


def test_few_rows_give_each_pair_once_and_an_honest_p_value():
    """P-values of 200 correct hashes of 20 rows: KS against uniform, which 10,000 pairs with repetition fail by far.

    190 pairs of 20 rows share rows and a layer; bits do not. A true angle 5 % larger must be seen at 4,096 bits.
    """
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20, 3))
    reports = [SignHash(128, random_state=seed).fit(X).distortion_report(X) for seed in range(200)]
    assert reports[0].pairs == 190
    assert len({*zip(*(side.tolist() for side in random_pairs(20, 10_000, rng)))}) == 190
    pvalues = [report.pvalue for report in reports]
    assert kstest(pvalues, "uniform").pvalue > 1e-3
    biases = np.array([[report.bias, report.bias_standard_error] for report in reports])
    assert abs(z_score(biases[:, 0], 0.0)) < 4
    assert biases[:, 0].std() == pytest.approx(biases[:, 1].mean(), rel=0.2)
    long = SignHash(4096).fit(X).distortion_report(X)
    by_bit = unequal_by_bit(SignHash(4096).fit_transform(X), *np.triu_indices(20, 1), 4096)
    assert hamming_distortion(1.05 * long.angles, long.hamming, 4096, by_bit=by_bit).pvalue < 1e-3
    assert SignHash(8).fit(X).distortion_report(X).pvalue is None


@given(st.integers(2, 5000), st.integers(1, 300), st.integers(0, 100))
def test_random_pairs_are_different_rows_and_never_twice(rows, pairs, seed):
    left, right = random_pairs(rows, pairs, np.random.default_rng(seed))
    assert len(left) == min(pairs, rows * (rows - 1) // 2)
    assert ((left >= 0) & (left < right) & (right < rows)).all()
    assert len({*zip(left.tolist(), right.tolist())}) == len(left)


def test_centered_report_measures_angles_around_the_mean():
    X = RNG.standard_normal((500, 20)) + 30
    report = SignHash(bits=512, center=True).fit(X).distortion_report(X, pairs=2000)
    assert report.angles.mean() == pytest.approx(math.pi / 2, abs=0.05)
    assert report.rms_observed == pytest.approx(report.rms_predicted, rel=0.1)


def test_convolutional_bits_follow_the_mean_angle_of_the_patches():
    """z-score of the unequal bits over 100 layers of 64 bits against m · mean patch angle / π; catches 3 %."""
    x, y = RNG.random((2, 3 * 6 * 7))
    y[: 3 * 14] = 0  # zero patches too
    x.reshape(3, 6, 7)[:, :4, :4] = y.reshape(3, 6, 7)[:, :4, :4] = 0
    rows = np.stack([x, y])
    counts, expected = [], None
    for seed in range(100):
        hasher = SignHash(bits=64, kernel_size=3, image_shape=(3, 6, 7), random_state=seed).fit(rows)
        report = hasher.distortion_report(rows, pairs=1)
        expected = report.angles[0] / math.pi
        counts.append(report.hamming[0])
    error = math.sqrt(expected * (1 - expected) / (64 * 100))
    assert abs(np.mean(counts) / 64 - expected) < 4 * error
    assert error < 0.007
    patches = []
    a, b = x.reshape(3, 6, 7), y.reshape(3, 6, 7)
    for i in range(6):
        for j in range(7):
            index = np.ix_(range(3), [(i + k) % 6 for k in range(3)], [(j + k) % 7 for k in range(3)])
            p, q = a[index].ravel(), b[index].ravel()
            norms = np.linalg.norm(p) * np.linalg.norm(q)
            both_zero = not p.any() and not q.any()
            patches.append(0 if both_zero else math.pi / 2 if norms == 0 else math.acos(min(p @ q / norms, 1)))
    assert expected * math.pi == pytest.approx(np.mean(patches), abs=1e-7)
    assert (hasher.weights_ != 0).sum(axis=1).tolist() == [27] * 64


@pytest.mark.parametrize("rows", [12, 3000])
@pytest.mark.parametrize("center", [False, True])
def test_rows_with_the_data_s_covariance_follow_the_law_of_its_angle(rows, center):
    """z-score of 40,000 bits per pair against the angle in the metric of the second moments, computed from them.

    Six pairs, most at right angles to the eye: 4 standard errors catch 1.1 % of θ/π = ½. Angles of the rows themselves
    must fail the same check.
    """
    rng = np.random.default_rng(rows)
    X = rng.standard_normal((rows, 20)) * np.geomspace(3, 0.1, 20) + 0.3
    hasher = SignHash(40_000, center=center, directions="data").fit(X)
    centered = X - X.mean(axis=0) if center else X
    moments = centered.T @ centered
    pairs = hasher.distortion_report(X[:12], pairs=6)
    u, v = (centered[side] for side in random_pairs(12, 6, random_generator(0, "pairs")))

    def share(metric):
        inner = ((u @ metric) * v).sum(axis=1)
        return np.arccos(inner / np.sqrt(((u @ metric) * u).sum(axis=1) * ((v @ metric) * v).sum(axis=1))) / math.pi

    np.testing.assert_allclose(pairs.angles / math.pi, share(moments), atol=1e-7)

    def z_scores(expected):
        return np.abs(pairs.hamming / 40_000 - expected) / np.sqrt(expected * (1 - expected) / 40_000)

    assert z_scores(share(moments)).max() < 4
    assert z_scores(share(np.eye(20))).max() > 4


def test_directions_that_cannot_be_are_refused():
    X = RNG.standard_normal((9, 16))
    with pytest.raises(InputError, match="directions = 'best' is unknown"):
        SignHash(8, directions="best").fit(X)
    with pytest.raises(InputError, match="takes no NumPy array"):
        SignHash(8, activation=torch.nn.ReLU()).fit(X)
    with pytest.raises(InputError, match="kernel_size = 3 cannot be combined"):
        SignHash(8, directions="data", kernel_size=3).fit(X)
    with pytest.raises(InputError, match="do not differ from their mean"):
        SignHash(8, directions="data", center=True).fit(np.ones((5, 3)))


def test_orthogonal_rows_are_unbiased_with_less_than_binomial_spread():
    """8,000 groups of 8 rows in 8 dimensions, pairs at 25°, 90° and 140°: mean within 4 standard errors of θ/π
    (catches 4 %), variance below the binomial one by more than 4; independent rows pass the first and not the second.
    """
    n, groups = 8, 8000
    angles = np.radians([25, 90, 140])
    u, v = pairs_at(angles, n, np.random.default_rng(5))

    def counts(hasher):
        bits = hasher.fit(u).transform(u) != hasher.transform(v)
        return bits.reshape(len(angles), groups, n).sum(axis=2)

    share = angles / math.pi
    variance = n * share * (1 - share)
    for orthogonal in (True, False):
        unequal = counts(SignHash(n * groups, orthogonal=orthogonal, packed=False))
        error = np.sqrt(variance / groups)
        assert (error < 0.04 / 4 * n * share).all()
        assert (np.abs(unequal.mean(axis=1) - n * share) < 4 * error).all()
        excess = (unequal - n * share[:, None]) ** 2 - variance[:, None]
        z = excess.mean(axis=1) / (excess.std(axis=1) / math.sqrt(groups))
        assert (z < -4).all() if orthogonal else (np.abs(z) < 4).all()


def test_orthogonal_rows_come_in_orthonormal_groups():
    X = RNG.standard_normal((20, 6))
    weights = SignHash(16, orthogonal=True).fit(X).weights_
    for group in (weights[:6], weights[6:12], weights[12:]):
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-12)
    report = SignHash(16, orthogonal=True, center=True).fit(X).distortion_report(X, pairs=30)
    assert report.bound is report.bias_standard_error is report.pvalue is None
    assert report.rms_observed > 0


def test_bound_is_the_smallest_that_holds():
    """Brute force over p: at the bound the failure is at most delta, just below it is more."""
    bits, delta, pairs = 40, 0.1, 5
    bound = hamming_bound(bits, delta=delta, pairs=pairs)

    def failure(eps):
        k = np.arange(bits + 1)
        return max(
            binom.pmf(k, bits, p)[np.abs(k / bits - p) > eps + 1e-12].sum() for p in np.linspace(0.001, 0.999, 1501)
        )

    assert pairs * failure(bound) <= delta * 1.001
    assert pairs * failure(bound - 2e-3) > delta


def test_random_state_and_streaming():
    X = RNG.standard_normal((30, 5)).astype(np.float32)
    first, again, other = (SignHash(bits=64, random_state=s).fit_transform(X) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    hasher = SignHash(bits=64, random_state=1).fit(X)
    assert hasher.weights_.dtype == np.float32
    np.testing.assert_array_equal(np.concatenate(list(hasher.transform_stream([X[:7], X[7:]]))), first)
    old_style = SignHash(bits=64, random_state=np.random.RandomState(3)).fit_transform(X)
    np.testing.assert_array_equal(old_style, SignHash(bits=64, random_state=np.random.RandomState(3)).fit_transform(X))


@pytest.mark.parametrize("activation", ["sigmoid", "softplus", "nonsense", np.cos, lambda t: t - 0.1])
def test_activations_with_other_signs_are_refused(activation):
    with pytest.raises(InputError, match="activation"):
        SignHash(activation=activation).fit(np.eye(3))


def test_activations_with_the_same_sign_give_the_same_code():
    X = RNG.standard_normal((20, 4))
    for activation in ("tanh", "leaky_relu", np.arctan, lambda t: np.maximum(t, 0)):
        np.testing.assert_array_equal(SignHash(activation=activation).fit_transform(X), SignHash().fit_transform(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"bits": 0},
        {"bits": 2.5},
        {"kernel_size": 9},
        {"kernel_size": 2, "image_shape": (1, 2, 3)},
        {"kernel_size": 2, "orthogonal": True},
    ],
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(InputError):
        SignHash(**parameters).fit(RNG.standard_normal((5, 16)))


def test_nan_in_new_data_is_refused_in_any_block(monkeypatch):
    X = RNG.standard_normal((5000, 3))
    hasher = SignHash().fit(X)
    for wrong in (np.nan, np.inf):
        X[4999, 1] = wrong
        for refused in (hasher.transform, SignHash().fit):
            with pytest.raises(InputError, match="row 4999 of X holds NaN, infinity"):
                refused(X)


def test_hardtanh_by_name_is_sign_of_the_truncated_layer():
    """The talk's saturating activation: bits are those of hard truncation computed by hand, distances follow angles."""
    rows = np.random.default_rng(0).standard_normal((200, 12))
    hasher = SignHash(512, activation="hardtanh", packed=False, random_state=1).fit(rows)
    by_hand = np.clip(rows @ hasher.weights_.T, -1, 1) > 0
    np.testing.assert_array_equal(hasher.transform(rows), by_hand)
    np.testing.assert_array_equal(SignHash(512, packed=False, random_state=1).fit_transform(rows), by_hand)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    angles = np.arccos(np.clip((unit[:100] * unit[100:]).sum(axis=1), -1, 1)) / np.pi
    deviation = (by_hand[:100] != by_hand[100:]).mean(axis=1) - angles
    assert np.abs(deviation / np.sqrt(angles * (1 - angles) / 512)).max() < 4.5
