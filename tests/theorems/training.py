"""Statements about classes and training, found another way."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from theorems.witness import Witness, drawn

from initscope.data import load


def digits():
    """Images as rows, and their labels."""
    found = load("digits")
    return found.images.reshape(len(found.images), -1).astype(float), found.labels


def rectified(rows, width=4000, seed=0):
    return np.maximum(rows @ np.random.default_rng(seed).normal(size=(rows.shape[1], width)), 0)


def median(values, tolerance):
    """A median and its standard error from 200 resamples."""
    rng = np.random.default_rng(0)
    resampled = [np.median(rng.choice(values, len(values))) for _ in range(200)]
    return np.median(values), np.std(resampled) * np.sqrt(2) + tolerance / 4


def angle_ratios():
    rows, _ = digits()
    rng = np.random.default_rng(1)
    first, second = rng.integers(len(rows), size=(2, 1500))
    kept = first != second

    def angles(points):
        u, v = points[first[kept]], points[second[kept]]
        cosines = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
        return np.arccos(np.clip(cosines, -1, 1))

    before = angles(rows)
    layers = [median(angles(rectified(rows, seed=seed)) / before, tolerance=0.0) for seed in range(6)]
    medians, errors = np.array(layers).T
    between = medians.std(ddof=1)  # all pairs share the directions of a layer
    of_pairs, of_mean = errors.mean(), between / np.sqrt(len(medians))
    return Witness([medians.mean()] * 2, np.hypot(of_pairs, [np.hypot(between, of_mean), of_mean]))


def triplets():
    """Ratios of distances after and before, each over the root of the total variance of the anchors' points."""
    rows, labels = digits()
    after = rectified(rows)
    rng = np.random.default_rng(1)
    anchors = rng.integers(len(rows), size=3000)
    spread = np.sqrt(after[anchors].var(axis=0).sum() / rows[anchors].var(axis=0).sum())
    medians = []
    for same in (True, False):
        others = [rng.choice(np.flatnonzero((labels == labels[a]) == same)) for a in anchors]
        u, v = (np.linalg.norm(points[others] - points[anchors], axis=1) for points in (rows, after))
        medians.append(median(v[u > 0] / u[u > 0] / spread, tolerance=0.01))
    (intra, intra_error), (inter, inter_error) = medians
    return Witness([intra, inter, intra], [intra_error, inter_error, intra_error])


def accuracy_in_groups():
    right = np.arange(1, 101) % 3 > 0
    return Witness([right[start : start + 25].mean() for start in range(0, 100, 25)])


def extreme_learning():
    rows, labels = digits()
    rows = np.column_stack([rows, np.ones(len(rows))])
    accuracies = []
    for seed in range(5):
        features = rectified(rows, 300, seed)
        fitted = RidgeClassifier().fit(features[::2], labels[::2])
        accuracies.append(fitted.score(features[1::2], labels[1::2]))
    # Another ridge and other directions: accuracies of 97 or 98 % differ by less than this.
    return Witness(np.mean(accuracies), tolerance=0.02)


def logistic(choose, draws=6):
    """Test accuracies of logistic regression on ``choose(labels, rng)`` of every second digit."""
    rows, labels = digits()
    rng, accuracies = np.random.default_rng(1), []
    for _ in range(draws):
        chosen = choose(labels[::2], rng)
        fitted = LogisticRegression(C=10, max_iter=1000).fit(rows[::2][chosen], labels[::2][chosen])
        accuracies.append(fitted.score(rows[1::2], labels[1::2]))
    return drawn(accuracies)


def ten_of_each(labels, rng):
    return np.concatenate([rng.choice(np.flatnonzero(labels == digit), 10, replace=False) for digit in range(10)])


def linear_classifier():
    """The same model by another optimizer: 2 % of accuracy either way, three runs against six."""
    everything, few = logistic(lambda labels, rng: slice(None), draws=2), logistic(ten_of_each)
    return Witness([everything.value, few.value], [0.0, few.error * 2], tolerance=0.03)


def subsets():
    found = logistic(lambda labels, rng: rng.choice(len(labels), 100, replace=False))
    return Witness([found.value], found.error * 2, tolerance=0.03)


def neural_collapse():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 100)
    rows = np.eye(3)[labels] @ rng.normal(size=(3, 5)) * 2 + rng.normal(size=(300, 5))
    means = np.stack([rows[labels == label].mean(axis=0) for label in range(3)])
    within = (rows - means[labels]).T @ (rows - means[labels]) / 300
    between = (means - means.mean(axis=0)).T @ (means - means.mean(axis=0)) / 3
    value = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / 3
    return Witness([value, value, -np.cos(2 * np.pi / 3)], tolerance=1e-5)


def bootstrap():
    values = np.sort(np.random.default_rng(0).normal(size=51)) + 3
    resampled = np.median(np.random.default_rng(1).choice(values, (200_000, 51)), axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975], method="inverted_cdf")
    return Witness([np.median(values), low, high])
