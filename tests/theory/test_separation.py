"""Formulas of class geometry against enumeration, resampling and Monte Carlo."""

import itertools

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory.separation import (
    bootstrap_median,
    relu_angle_ratio,
    relu_distance_ratio,
    simplex_cosine,
    variability_collapse,
)


def test_bootstrap_interval_against_all_resamples():
    """Every one of 7^7 resamples of seven values; catches a shift of one order statistic."""
    values = np.array([0.3, 1.0, 1.7, 2.9, 3.1, 5.0, 9.0])
    draws = np.array(list(itertools.product(range(7), repeat=7)), dtype=np.int8)
    medians = np.sort(np.median(values[draws], axis=1))
    for level in (0.5, 0.8, 0.95, 0.99):
        tail = (1 - level) / 2
        # Smallest x with P(median* <= x) >= tail, and >= 1 - tail.
        low, high = (medians[int(np.ceil(share * len(medians) - 1e-9)) - 1] for share in (tail, 1 - tail))
        assert bootstrap_median(values, level=level) == (2.9, low, high)


def test_bootstrap_interval_covers_the_median():
    """Coverage over 4,000 samples of 101 exponential values; four standard errors of a share of .95 are .014."""
    rng = np.random.default_rng(5)
    inside = [low <= np.log(2) <= high for _, low, high in map(bootstrap_median, rng.exponential(size=(4000, 101)))]
    assert abs(np.mean(inside) - 0.95) < 0.014


def test_bootstrap_interval_leaves_out_nan():
    assert bootstrap_median([np.nan, 1.0, 2.0, 3.0]) == bootstrap_median([1.0, 2.0, 3.0])
    assert np.isnan(bootstrap_median([np.nan])).all()
    with pytest.raises(InputError, match="level"):
        bootstrap_median([1.0], level=1.0)


def test_bootstrap_interval_of_values_that_belong_together():
    """Whole rows of two are resampled; against 20,000 resamples, ends within 3 of 202 order statistics.

    Second members equal to the first make intervals √2 wider than those of independent values, and second members from
    another distribution make them narrower.
    """
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 101))
    spans = []
    for members in (first, second, 3 + second):
        rows = np.column_stack([first, members])
        interval = bootstrap_median(rows)
        medians = np.sort(np.median(rows[rng.integers(101, size=(20_000, 101))].reshape(20_000, -1), axis=1))
        ranked = np.sort(rows.reshape(-1))
        for end, share in ((interval.low, 0.025), (interval.high, 0.975)):
            places = np.searchsorted(ranked, [end, medians[int(share * len(medians))]])
            assert abs(places[0] - places[1]) <= 3
        spans.append(np.subtract(*np.searchsorted(ranked, [interval.high, interval.low])))
    assert spans[0] > 1.2 * spans[1] > 1.2 * spans[2]


@pytest.mark.parametrize("theta", [0.1, 1.0, 2.5])
def test_ratios_against_random_layers(theta):
    """1,000 layers of 4,000 units; detects an error of four standard errors, about .002 of a ratio."""
    rng = np.random.default_rng(2)
    u, v = np.array([1.0, 0.0]), 1.5 * np.array([np.cos(theta), np.sin(theta)])
    distances, angles = [], []
    for _ in range(1000):
        weights = rng.standard_normal((4000, 2)) * np.sqrt(2 / 4000)
        after = [np.maximum(weights @ each, 0) for each in (u, v)]
        distances.append(np.linalg.norm(after[0] - after[1]) / np.linalg.norm(u - v))
        cosine = after[0] @ after[1] / np.linalg.norm(after[0]) / np.linalg.norm(after[1])
        angles.append(np.arccos(cosine) / theta)
    for seen, said in ((distances, relu_distance_ratio(1.0, 1.5, theta)), (angles, relu_angle_ratio(theta))):
        error = np.std(seen) / np.sqrt(len(seen))
        # The ratio at finite width is biased by the order of 1/width.
        assert abs(np.mean(seen) - float(said)) < 4 * error + 5e-4
        assert error < 1e-3


def test_angle_ratio_of_many_layers_multiplies():
    first = relu_angle_ratio(1.2)
    assert float(relu_angle_ratio(1.2, 2)) == pytest.approx(
        float(first * relu_angle_ratio(1.2 * float(first))), abs=1e-12
    )
    assert float(relu_angle_ratio(1.2, 0)) == 1.0
    assert np.isnan(relu_angle_ratio(0.0))


def test_collapse_against_the_matrices_themselves():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 40)
    rows = rng.standard_normal((120, 6)) * np.arange(1, 7) + 3 * rng.standard_normal((3, 6))[classes]
    means = np.stack([rows[classes == each].mean(axis=0) for each in range(3)])
    within = sum(np.cov(rows[classes == each].T, bias=True) for each in range(3)) / 3
    between = np.cov(means.T, bias=True)
    expected = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / 3
    assert variability_collapse(rows, classes) == pytest.approx(expected, rel=1e-10)
    assert variability_collapse(means, np.arange(3)) == 0.0
    with pytest.raises(InputError, match="at least two"):
        variability_collapse(rows, np.zeros(120))


def test_simplex_is_what_it_says():
    corners = np.eye(5) - 1 / 5
    cosine = corners[0] @ corners[1] / (corners[0] @ corners[0])
    assert simplex_cosine(5) == pytest.approx(cosine, abs=1e-15)
    with pytest.raises(InputError):
        simplex_cosine(1)
