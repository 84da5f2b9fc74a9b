"""The compared hashes on data where the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigvalsh
from sklearn.datasets import load_digits

from initscope.embed import AGH, ITQ, KSH, SSH, DiffHash, SignHash, mean_average_precision, unpack_bits
from initscope.embed._anchors import squared_distances
from initscope.embed._base import random_generator
from initscope.embed.diff_hash import best_threshold, pair_moments
from initscope.embed.ssh import sample_pairs
from initscope.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def same_partition(bit, classes):
    """Whether a bit is the class, up to its name."""
    return (bit == classes).all() or (bit != classes).all()


def test_itq_finds_the_corners_of_a_rotated_cube(rng):
    """Corners of a rotated cube: the best rotation undoes it, and every code is a corner (error 0)."""
    corners = rng.integers(0, 2, (400, 4)) * 2.0 - 1
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :4]
    X = corners @ rotation.T + 5
    errors = []
    for seed in range(5):
        hasher = ITQ(bits=4, random_state=seed).fit(X)
        scores = (X - X.mean(axis=0)) @ hasher.weights_.T
        errors.append(((np.sign(scores) - scores) ** 2).mean())
        np.testing.assert_allclose(hasher.weights_ @ hasher.weights_.T, np.eye(4), atol=1e-10)
        start = ITQ(bits=4, iterations=0, random_state=seed).fit(X)
        raw = (X - X.mean(axis=0)) @ start.weights_.T
        assert errors[-1] <= ((np.sign(raw) - raw) ** 2).mean() + 1e-12
    assert min(errors) < 0.01


def test_itq_with_more_bits_than_features_keeps_orthonormal_rows(rng):
    hasher = ITQ(bits=10).fit(rng.standard_normal((100, 3)))
    np.testing.assert_allclose(hasher.weights_.T @ hasher.weights_, np.eye(3), atol=1e-10)


def test_pair_moments_are_those_of_all_pairs(rng):
    X, classes = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    like, unlike = pair_moments(X, classes)
    offsets = X[:, None] - X[None]
    same = classes[:, None] == classes[None]
    np.testing.assert_allclose(like, np.einsum("ijk,ijl,ij->kl", offsets, offsets, same) / same.sum())
    np.testing.assert_allclose(unlike, np.einsum("ijk,ijl,ij->kl", offsets, offsets, ~same) / (~same).sum())


def test_best_threshold_by_brute_force(rng):
    values, classes = rng.standard_normal(40).round(1), rng.integers(0, 3, 40)
    same = classes[:, None] == classes[None]

    def gain(cut):
        split = (values[:, None] > cut) != (values[None] > cut)
        return split[~same].mean() - split[same].mean()

    cuts = (np.sort(values)[:-1] + np.sort(values)[1:]) / 2
    assert gain(best_threshold(values, classes)) == pytest.approx(max(map(gain, cuts)))


def test_diff_hash_finds_the_direction_between_two_classes(rng):
    """Classes 8 apart along a direction hidden in larger common noise elsewhere: one bit is enough."""
    direction = np.linalg.qr(rng.standard_normal((10, 10)))[0][:, 0]
    classes = rng.integers(0, 2, 500)
    X = rng.standard_normal((500, 10)) + np.outer(8.0 * classes, direction)
    hasher = DiffHash(bits=1).fit(X, classes)
    assert abs(hasher.weights_[0] @ direction) > 0.99
    assert same_partition(unpack_bits(hasher.transform(X), 1)[:, 0], classes)


def test_ssh_picks_the_feature_that_tells_classes_apart(rng):
    classes = rng.integers(0, 2, 400)
    X = rng.standard_normal((400, 12))
    X[:, 7] += 10 * classes
    hasher = SSH(bits=3).fit(X, classes)
    assert hasher.features_[0] == 7
    share = (unpack_bits(hasher.transform(X), 3)[:, 0] == classes).mean()
    assert max(share, 1 - share) > 0.96  # cuts are 32 quantiles: 1.5 % apart on either side


def test_ssh_boosts_on_pairs(rng):
    """Every bit against all features and quantiles, pair by pair, with weights from the votes of the bits before.

    Those votes, and a constant that balances like and unlike pairs, are an additive model F; weights are exp(-l F).
    """
    X, classes = rng.standard_normal((60, 3)), rng.integers(0, 4, 60)
    X[:, 1] += classes
    X = np.column_stack([X, np.ones(60)])
    hasher = SSH(bits=6, pairs=400, thresholds=5).fit(X, classes)
    left, right, like = sample_pairs(classes, 400, random_generator(0, "ssh"))

    def called_like(feature, cut):
        return (X[left, feature] > cut) == (X[right, feature] > cut)

    def gap(weights, feature, cut):
        called = called_like(feature, cut)
        return np.average(called[like], weights=weights[like]) - np.average(called[~like], weights=weights[~like])

    stumps = [(j, cut) for j in range(3) for cut in np.quantile(X[:, j], np.linspace(0, 1, 7)[1:-1])]
    F = np.zeros(400)
    for feature, cut in zip(hasher.features_, hasher.thresholds_):
        weights = np.exp(-np.where(like, F, -F))
        r = gap(weights, feature, cut)
        assert r == pytest.approx(max(gap(weights, *stump) for stump in stumps), abs=1e-12)
        F += np.where(called_like(feature, cut), 1, -1) * np.log((1 + r) / (1 - r)) / 2
        F -= np.log(np.exp(F)[~like].sum() / np.exp(-F)[like].sum()) / 2


def test_ssh_takes_no_bit_that_separates_like_pairs_most():
    """Two classes of two rows: the first feature separates like pairs always and unlike ones every other time."""
    X, classes = np.array([[0.0, 0], [1, 0], [0, 0], [1, 1]]), np.array([0, 0, 1, 1])
    hasher = SSH(bits=1, pairs=2000).fit(X, classes)
    assert hasher.features_[0] == 1  # r = 1/2 - 1/2 of the second feature; of the first 0 - 1/2


def test_ssh_bits_separate_rows():
    """Digits have constant pixels, and a cut of one of them agrees with every like pair."""
    X, y = load_digits(return_X_y=True)
    bits = SSH(bits=48, pairs=5000, packed=False).fit(X, y).transform(X)
    assert (bits.min(axis=0) < bits.max(axis=0)).all()


def test_sampled_pairs_are_like_or_unlike_as_said(rng):
    classes = rng.integers(0, 4, 50)
    left, right, like = sample_pairs(classes, 999, rng)
    np.testing.assert_array_equal(classes[left] == classes[right], like)
    assert (left != right).all()
    assert (like.sum(), len(like)) == (500, 999)
    counts = np.bincount(left[~like], minlength=50)
    assert counts.min() > 0


def test_agh_separates_two_distant_groups_whatever_their_shape(rng):
    """Two long parallel strips: the graph between them is cut by the first eigenvector, not the widest direction."""
    classes = np.repeat([0, 1], 300)
    X = np.column_stack([rng.uniform(0, 40, 600), 6.0 * classes + rng.uniform(0, 1, 600)])
    for layers in (1, 2):
        bits = unpack_bits(AGH(bits=2, layers=layers, anchors=60).fit(X).transform(X), 2)
        assert same_partition(bits[:, 0], classes)


def test_agh_eigenvectors_are_those_of_the_full_graph(rng):
    X = rng.standard_normal((80, 3))
    hasher = AGH(bits=3, layers=1, anchors=20).fit(X)
    ties = hasher._ties(*hasher._nearest(X)).toarray()
    graph = ties / ties.sum(axis=0) @ ties.T
    np.testing.assert_allclose(ties.sum(axis=1), 1)
    values = np.sort(np.linalg.eigvalsh(graph))[::-1][1:4]
    embedded = ties @ hasher.weights_
    np.testing.assert_allclose(graph @ embedded, embedded * values, atol=1e-8)
    np.testing.assert_allclose(embedded.sum(axis=0), 0, atol=1e-8)


def test_agh_second_cuts_are_the_least_of_all_balanced_ones(rng):
    X = rng.standard_normal((80, 3))
    hasher = AGH(bits=2, layers=2, anchors=20).fit(X)
    ties = hasher._ties(*hasher._nearest(X)).toarray()
    laplacian = np.eye(80) - ties / ties.sum(axis=0) @ ties.T
    value = (ties @ hasher.weights_)[:, 0]
    positive = value > 0

    def energy(high, low):
        v = np.where(positive, value - high, low - value)
        return v @ laplacian @ v, v.sum()

    high, low = hasher.cuts_[:, 0]
    best, balance = energy(high, low)
    assert abs(balance) < 1e-8
    slope = positive.sum() / (~positive).sum()  # moves that keep the balance
    for step in (-0.5, -0.1, 0.1, 0.5):
        other, balance = energy(high + step, low + step * slope)
        assert abs(balance) < 1e-8
        assert other > best


def test_agh_second_bit_is_set_far_from_the_first_cut_on_both_sides(rng):
    """Points on a line get 11, 10, 00, 01 or its mirror image: the second cut of each side (Liu et al. 2011, eq. 15).

    So neighbours differ in at most one bit, also across the first cut. The second bit of one side reversed would give
    11, 10, 01, 00, that of both 10, 11, 01, 00.
    """
    X = np.column_stack([np.sort(rng.uniform(0, 1, 400)), np.zeros(400)])
    bits = unpack_bits(AGH(bits=2, layers=2, anchors=30).fit(X).transform(X), 2)
    starts = np.flatnonzero((bits[1:] != bits[:-1]).any(axis=1)) + 1
    sequence = bits[[0, *starts]].tolist()
    assert sequence in ([[1, 1], [1, 0], [0, 0], [0, 1]], [[0, 1], [0, 0], [1, 0], [1, 1]])
    assert np.diff([0, *starts, 400]).min() > 40  # quarters, more or less


def test_ksh_learns_a_parity_that_no_projection_has(rng):
    """Four blobs on the corners of a square, classes by parity: kernels separate them with one bit."""
    corner = rng.integers(0, 2, (300, 2))
    classes = corner.sum(axis=1) % 2
    X = 6.0 * corner + rng.standard_normal((300, 2)) * 0.5
    bits = unpack_bits(KSH(bits=4, anchors=50).fit(X, classes).transform(X), 4)
    assert same_partition(bits[:, 0], classes)


def test_ksh_codes_fit_the_similarity_better_with_every_bit(rng):
    classes = rng.integers(0, 5, 200)
    X = rng.standard_normal((200, 8)) + 1.5 * rng.standard_normal((5, 8))[classes]
    errors = []
    for bits in (2, 8, 32):
        codes = unpack_bits(KSH(bits=bits, anchors=100).fit(X, classes).transform(X), bits) * 2.0 - 1
        errors.append(((codes @ codes.T / bits - np.where(classes[:, None] == classes, 1, -1)) ** 2).mean())
    assert errors[0] > errors[1] > errors[2]


def test_ksh_bits_are_fitted_to_what_the_bits_before_left_over(rng):
    """The relaxed solution of every bit from its definition, the residue R = mS - Σ h hᵀ written out as a matrix."""
    classes = rng.integers(0, 3, 60)
    X = rng.standard_normal((60, 4)) + 2 * np.eye(3, 4)[classes]
    hasher = KSH(bits=5, anchors=12, steps=0).fit(X, classes)
    kernel = np.exp(-((X[:, None] - hasher.anchors_) ** 2).sum(axis=2) / hasher.bandwidth_)
    kernel -= kernel.mean(axis=0)
    residue = 5.0 * np.where(classes[:, None] == classes, 1, -1)
    for weights in hasher.weights_:
        ours = weights @ kernel.T @ residue @ kernel @ weights / (weights @ kernel.T @ kernel @ weights)
        assert ours == pytest.approx(eigvalsh(kernel.T @ residue @ kernel, kernel.T @ kernel)[-1], rel=1e-3)
        signs = np.where(kernel @ weights > 0, 1.0, -1.0)
        residue -= np.outer(signs, signs)


def test_squared_distances_far_from_the_origin(rng):
    rows, anchors = (rng.integers(0, 17, (count, 30)) for count in (50, 8))
    expected = ((rows[:, None] - anchors) ** 2).sum(axis=2)
    for dtype in (np.float32, np.float64):
        found = squared_distances((rows + 10_000).astype(dtype), (anchors + 10_000).astype(dtype))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("method", [AGH(24), KSH(24, anchors=100, steps=5)], ids=repr)
def test_anchor_methods_do_not_depend_on_the_origin(method):
    """Grey values + 1000 are exact in single precision: their codes must be worth as much as those of the values."""
    X, y = load_digits(return_X_y=True)
    X, y = (X[:800] / 16).astype(np.float32), y[:800]
    scores = []
    for rows in (X, X + 1000, X.astype(np.float64) + 1000):
        codes = method.fit(rows[:600], y[:600]).transform(rows)
        scores.append(mean_average_precision(codes[600:], y[600:], codes[:600], y[:600]).value)
    assert scores == pytest.approx([scores[0]] * 3, abs=0.02)
    assert scores[0] > 0.5


@pytest.mark.parametrize("method", [DiffHash, SSH, KSH])
def test_supervised_beats_random_and_says_that_it_needs_labels(method, rng):
    classes = rng.integers(0, 4, 600)
    X = rng.standard_normal((600, 20)) * 3
    X[:, :4] += 6 * np.eye(4)[classes]
    train, test = slice(0, 300), slice(300, 600)

    def score(hasher):
        codes = hasher.fit(X[train], classes[train]).transform(X)
        return mean_average_precision(codes[test], classes[test], codes[train], classes[train]).value

    assert score(method(bits=8)) > score(SignHash(bits=8, center=True)) + 0.05
    with pytest.raises(InputError, match="requires y"):
        method().fit(X)


def test_too_many_bits_are_refused(rng):
    X, y = rng.standard_normal((20, 4)), np.arange(20) % 2
    with pytest.raises(InputError, match="n_features = 4"):
        DiffHash(bits=5).fit(X, y)
    with pytest.raises(InputError, match="at most 38 bits"):
        AGH(bits=40).fit(X)
