"""Boundary search against brute force in float64."""

import numpy as np
import pytest

from initscope.class_geometry import boundary_points
from initscope.class_geometry.boundary import sketch

pytest.importorskip("faiss")


def brute_force(rows, classes, anchors):
    far, near = [], []
    for anchor in anchors:
        distance = np.sqrt(((rows.astype(np.float64) - rows[anchor].astype(np.float64)) ** 2).sum(axis=1))
        own = classes == classes[anchor]
        far.append(np.flatnonzero(own)[distance[own].argmax()])
        near.append(np.flatnonzero(~own)[distance[~own].argmin()])
    return np.array(far), np.array(near)


@pytest.mark.parametrize(("offset", "classes"), [(0.0, 10), (300.0, 3)])
def test_equals_brute_force_on_2000_points(offset, classes):
    """Far from the origin float32 products lose their digits; the second look must not."""
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((2000, 40)) + offset).astype(np.float32)
    labels = rng.integers(0, classes, 2000)
    anchors = rng.permutation(2000)
    found = boundary_points(rows, labels, anchors)
    far, near = brute_force(rows, labels, anchors)
    np.testing.assert_array_equal(found.farthest, far)
    np.testing.assert_array_equal(found.nearest, near)
    exact = np.linalg.norm(rows[near].astype(np.float64) - rows[anchors], axis=1)
    np.testing.assert_allclose(found.nearest_distance, exact, rtol=1e-12)


def test_classes_smaller_than_the_number_of_candidates():
    rows = np.array([[0.0], [1.0], [5.0], [9.0]], dtype=np.float32)
    found = boundary_points(rows, np.array(["a", "a", "b", "b"]), np.arange(4))
    assert found.farthest.tolist() == [1, 0, 3, 2]
    assert found.nearest.tolist() == [2, 2, 1, 1]
    assert found.nearest_distance.tolist() == [5.0, 4.0, 4.0, 8.0]


def test_equal_candidates_go_by_number():
    rows = np.array([[0.0], [1.0], [-1.0], [2.0], [-2.0]], dtype=np.float32)
    found = boundary_points(rows, np.array([0, 0, 0, 1, 1]), np.array([0]))
    assert (found.farthest[0], found.nearest[0]) == (1, 3)


def test_sketch_keeps_squared_distances():
    """Mean over 400 sketches to 64 of 640 features; the standard error of one is √(2/64) = 18 %, of the mean .9 %."""
    gap = np.random.default_rng(1).standard_normal(640)
    squares = []
    for seed in range(400):
        order, sign = sketch(640, seed)
        squares.append((((gap * sign)[order].reshape(64, 10).sum(axis=1)) ** 2).sum() / (gap @ gap))
    assert abs(np.mean(squares) - 1) < 4 * np.sqrt(2 / 64 / 400)
    assert np.std(squares) == pytest.approx(np.sqrt(2 / 64), rel=0.2)
