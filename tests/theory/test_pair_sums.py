"""Cosines and influences from sums over units, against direct computation."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from initscope.theory.pair_sums import angle_from_gap, cosine_from_gap, filter_influence


def test_cosine_is_the_inner_product_over_the_norms():
    x, y = np.random.default_rng(0).standard_normal((2, 50))
    expected = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert cosine_from_gap(x @ x, y @ y, (x - y) @ (x - y)) == pytest.approx(expected, abs=1e-15)


def test_what_rounding_has_lost_is_nan():
    assert math.isnan(cosine_from_gap(1e34, 1.0, 1e34))
    assert math.isnan(cosine_from_gap(0.0, 1.0, 1.0))
    assert abs(float(cosine_from_gap(1e16, 1.0, 1e16 + 1 - 2 * 0.5e8)) - 0.5) < 1e-7


@pytest.mark.parametrize("gap", [2e-30, 3e-17, 1e-9, 0.3, 1.9])
def test_angle_of_tiny_gaps(gap):
    with mpmath.workdps(60):
        expected = float(mpmath.acos(1 - mpmath.mpf(gap)))
    assert float(angle_from_gap(gap)) == pytest.approx(expected, rel=1e-14)
    assert math.isnan(float(angle_from_gap(math.nan)))


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
def test_influence_is_the_derivative_of_the_cosine_by_a_filters_weight(library):
    """Central differences of the cosine when one filter counts 1 ± t times; 1e-9, so an error of 1e-8 is seen."""
    u, v = np.random.default_rng(1).standard_normal((2, 7, 5))
    sums = [(a * b).sum(axis=1) for a, b in ((u, u), (v, v), (u, v))]
    cosine, influence = filter_influence(*(library(values) for values in sums))
    for index in range(7):
        moved = []
        for t in (1e-5, -1e-5):
            weight = np.ones(7)
            weight[index] += t
            xx, yy, xy = ((weight * values).sum() for values in sums)
            moved.append(xy / math.sqrt(xx * yy))
        assert (moved[0] - moved[1]) / 2e-5 == pytest.approx(float(influence[index]), abs=1e-9)
    assert float(cosine) == pytest.approx(sums[2].sum() / math.sqrt(sums[0].sum() * sums[1].sum()), rel=1e-14)
