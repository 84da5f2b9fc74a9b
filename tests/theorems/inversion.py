"""Statements about recovering inputs from outputs, found another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import optimize, stats
from sklearn.linear_model import RidgeClassifier
from theorems.witness import Witness, drawn, share

from initscope.data import load


def linear_estimate():
    """The input, to its error √((2·3 + 3)/400,000) ‖x‖ over the coordinates."""
    x = np.array([1.0, -2.0, 0.5])
    return Witness(x, math.sqrt((2 * 3 + 3) / 400_000 / 3) * np.linalg.norm(x))


def projected_estimate():
    return Witness([0, 2.0, 0, 0, 0, 0], 2 * math.sqrt(5 / 20_000))


def estimate_error():
    rng, squares, roots = np.random.default_rng(1), [], []
    for _ in range(4000):
        weight = rng.normal(size=(256, 4))
        estimate = 2 / 256 * weight.T @ np.maximum(weight[:, 0], 0)
        squares.append(np.sum((estimate - [1, 0, 0, 0]) ** 2))
    found, roots = drawn(squares), drawn(np.sqrt(squares))
    # The example's own experiment reports a root mean square over 400 layers, this has 4,000.
    return Witness([found.value, math.sqrt(found.value)], [found.error, roots.error * math.sqrt(11)])


def growth():
    """Networks of variance 2/width undone by their transposes, inputs of 20 dimensions: root mean square errors."""
    rng, rows = np.random.default_rng(1), []
    for _ in range(600):
        x = rng.normal(size=20)
        first, second = (rng.normal(scale=math.sqrt(2 / 300), size=(300, n)) for n in (20, 300))
        one = np.maximum(first @ x, 0)
        two = np.maximum(second @ one, 0)
        estimates = first.T @ one, first.T @ (second.T @ two)
        rows.append([np.sum((estimate - x) ** 2) / np.sum(x**2) for estimate in estimates])
    found = drawn(rows)
    roots = np.sqrt(found.value)
    errors = found.error / 2 / roots
    # The example draws 90 networks, this 600; the formula is of first order in 1/width.
    return Witness([*roots, *roots], [*(errors * math.sqrt(1 + 600 / 90)), *errors], tolerance=0.005)


def recovery():
    return Witness(np.arange(25.0) / 25, tolerance=1e-9)


def inverted_picture():
    return Witness([1.0, 1.0], tolerance=1e-3)


def active_rows():
    """Four inputs and ten rows; large layers for the condition number, whose limit they approach."""
    rng = np.random.default_rng(1)
    x = np.array([1.0, 0, 0, 0])
    spans = [np.linalg.matrix_rank(w[w @ x > 0]) == 4 for w in rng.normal(size=(4000, 10, 4))]
    conditions = []
    for _ in range(4):
        weight = rng.normal(size=(8 * 250, 250))
        singular = np.linalg.svd(weight[weight[:, 0] > 0], compute_uv=False)
        conditions.append(singular[0] / singular[-1])
    traces = [np.trace(np.linalg.inv(a.T @ a)) for a in rng.normal(size=(4000, 60, 10))]
    span, trace = share(spans), drawn(traces)
    amplification = math.sqrt(trace.value)
    return Witness(
        [span.value, np.mean(conditions), amplification],
        [span.error, 0.03, trace.error / 2 / amplification],
    )


def statistical_dimension(share_nonzero):
    """Of the descent cone of the ℓ₁ norm over the dimension: ρ ↦ min over τ of ρ(1 + τ²) + (1-ρ) E(|g|-τ)₊²."""

    def value(tau):
        tail = 2 * ((1 + tau**2) * stats.norm.sf(tau) - tau * stats.norm.pdf(tau))
        return share_nonzero * (1 + tau**2) + (1 - share_nonzero) * tail

    return optimize.minimize_scalar(value, bounds=(0, 6), method="bounded", options={"xatol": 1e-10}).fun


def sparse_recovery():
    """The curve where the statistical dimension is δ; and ten linear programmes on either side of it."""
    nonzero = optimize.brentq(lambda p: statistical_dimension(p) - 0.5, 1e-4, 0.5)
    curve = nonzero / 0.5
    rng, successes = np.random.default_rng(1), []
    for relative in (0.6, 1.5):
        found = []
        for _ in range(10):
            matrix, x = rng.normal(size=(50, 100)), np.zeros(100)
            k = round(relative * curve * 50)
            x[rng.choice(100, k, replace=False)] = rng.normal(size=k)
            solved = optimize.linprog(np.ones(200), A_eq=np.hstack([matrix, -matrix]), b_eq=matrix @ x)
            found.append(np.abs(solved.x[:100] - solved.x[100:] - x).max() < 1e-5)
        successes.append(1 + np.mean(found))
    return Witness([curve, *successes], [0, 0.04, 0.04], tolerance=1e-6)


def restricted_isometry():
    t = math.sqrt(2 / 1000 * (math.log(math.comb(50, 3)) + math.log(2 / 0.05)))
    bound = (1 + math.sqrt(3 / 1000) + t) ** 2 - 1
    matrix = np.random.default_rng(0).normal(size=(30, 10)) / np.sqrt(30)
    norms = [
        np.linalg.norm(matrix[:, chosen].T @ matrix[:, chosen] - np.eye(3), 2)
        for chosen in map(list, itertools.combinations(range(10), 3))
    ]
    return Witness([bound, max(norms)])


def compressed_digits():
    digits = load("digits")
    rows, rng = digits.images.reshape(len(digits.images), -1), np.random.default_rng(1)
    accuracies = []
    for _ in range(3):
        measured = rows @ rng.normal(size=(64, 16))
        measured = (measured - measured.mean(axis=0)) / measured.std()
        features = np.maximum(np.column_stack([measured, np.ones(len(rows))]) @ rng.normal(size=(17, 500)), 0)
        order = rng.permutation(len(rows))
        fitted = RidgeClassifier().fit(features[order[540:]], digits.labels[order[540:]])
        accuracies.append(fitted.score(features[order[:540]], digits.labels[order[:540]]))
    # Another linear classifier on other measurements.
    return Witness(np.mean(accuracies), tolerance=0.06)
