"""Curves and volumes in random ReLU networks: all formulas against drawn networks of small widths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory.angles import relu_cosine
from initscope.theory.trajectories import (
    angular_length_factor,
    expected_breakpoints,
    length_factor,
    mean_turning_angle,
    scale_reach,
    turning_angle_tail,
    volume_moment,
)

WIDTHS = (4, 3, 5)


def networks(draws, widths=WIDTHS, inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (inputs, *widths)
    return [
        rng.normal(size=(draws, m, before)) * math.sqrt(2 / m) for before, m in zip(sizes[:-1], widths, strict=True)
    ]


def images(layers, points):
    """Outputs of all networks (network, unit, point), and the preactivations of all layers."""
    hidden, before = np.broadcast_to(points, (len(layers[0]), *points.shape)), []
    for weight in layers:
        before.append(weight @ hidden)
        hidden = np.maximum(before[-1], 0)
    return hidden, before


def segment(points):
    """A segment that is not seen from 0 at a right angle, and the angle between its ends."""
    start, end = np.array([1.0, 0.2, 0.0]), np.array([-0.3, 1.0, 0.8])
    angle = math.acos(start @ end / np.linalg.norm(start) / np.linalg.norm(end))
    return start[:, None] + np.linspace(0, 1, points) * (end - start)[:, None], angle


def test_lengths_of_images():
    """z-score of 4,000 networks; catches 6 %. 400 points: polygons are shorter by less than 1e-4."""
    curve, _ = segment(400)
    outputs, _ = images(networks(4000), curve)
    lengths = np.linalg.norm(np.diff(outputs, axis=2), axis=1).sum(axis=1)
    ratios = lengths / np.linalg.norm(curve[:, -1] - curve[:, 0])
    assert abs(z_score(ratios, length_factor(WIDTHS))) < 4
    assert 4 * ratios.std() / math.sqrt(len(ratios)) < 0.06


@pytest.mark.parametrize(("dimension", "power"), [(1, 1.0), (2, 1.0), (2, 2.0), (3, 1.0)])
def test_volumes_of_small_balls(dimension, power):
    """z-score of 40,000 Jacobians at a fixed point; catches 10 %."""
    widths = (6, 5)
    layers = networks(40_000, widths, seed=1)
    hidden, jacobian = np.array([0.5, -1.0, 0.3]), np.eye(3)[:, :dimension]
    hidden, jacobian = (
        np.broadcast_to(hidden[:, None], (40_000, 3, 1)),
        np.broadcast_to(jacobian, (40_000, 3, dimension)),
    )
    for weight in layers:
        before = weight @ hidden
        hidden, jacobian = np.maximum(before, 0), (before > 0) * (weight @ jacobian)
    factors = np.maximum(np.linalg.det(jacobian.transpose(0, 2, 1) @ jacobian), 0) ** (power / 2)
    expected = volume_moment(widths, dimension, power=power)
    assert abs(z_score(factors, expected)) < 4
    assert 4 * factors.std() / math.sqrt(len(factors)) < 0.1 * expected


def test_in_one_dimension_the_volume_is_the_length():
    assert volume_moment([7, 30], 1) == pytest.approx(length_factor([7, 30]), rel=1e-12)
    assert volume_moment([7, 2], 3) == 0.0


def test_angular_lengths():
    """z-score of 4,000 networks; catches 5 %. Points whose image is 0 have no direction."""
    curve, angle = segment(400)
    outputs, _ = images(networks(4000, seed=2), curve)
    sizes = np.linalg.norm(outputs, axis=1, keepdims=True)
    units = np.divide(outputs, sizes, out=np.zeros_like(outputs), where=sizes > 0)
    lengths = 2 * np.arcsin(np.linalg.norm(np.diff(units, axis=2), axis=1) / 2)
    lengths[(sizes[:, 0, 1:] == 0) | (sizes[:, 0, :-1] == 0)] = 0
    totals = lengths.sum(axis=1)
    assert abs(z_score(totals / angle, angular_length_factor(WIDTHS))) < 4
    assert 4 * totals.std() / math.sqrt(len(totals)) < 0.05 * angle


def test_breakpoints_of_a_segment():
    """z-score of 4,000 networks; catches 4 %. Two breaks between neighboring points of 400 are rare."""
    curve, angle = segment(400)
    _, before = images(networks(4000, seed=3), curve)
    counts = np.zeros(4000)
    for values in before:
        counts += ((values[:, :, 1:] * values[:, :, :-1]) < 0).sum(axis=(1, 2))
    assert abs(z_score(counts, expected_breakpoints(WIDTHS, angle))) < 4
    assert 4 * counts.std() / math.sqrt(len(counts)) < 0.04 * counts.mean()


@pytest.mark.parametrize("width", [1, 3, 12])
def test_turning_angles_of_the_image_of_a_circle(width):
    """z-scores of 4,000 layers of two inputs, with the share of their bends above five angles; catches .03."""
    rows = np.random.default_rng(width).normal(size=(4000, width, 2))
    at = (
        np.stack([-rows[:, :, 1], rows[:, :, 0]], axis=2) / np.linalg.norm(rows, axis=2)[:, :, None]
    )  # zeros of each row
    tangents = np.stack([-at[:, :, 1], at[:, :, 0]], axis=2)
    active = np.einsum("dmi,dki->dmk", rows, at) > 1e-12
    speeds = np.einsum("dmi,dki->dmk", rows, tangents)
    others = np.linalg.norm(np.where(active, speeds, 0.0), axis=1)
    turns = np.arctan2(np.abs(np.einsum("dmm->dm", speeds)), others)
    for turn in (0.05, 0.3, 0.7, 1.2, 1.5):
        shares = (turns > turn).mean(axis=1)
        if shares.std():
            assert abs(z_score(shares, float(turning_angle_tail(turn, width)))) < 4
    assert width == 1 or abs(z_score(turns.mean(axis=1), mean_turning_angle(width))) < 4
    assert float(turning_angle_tail(math.pi / 2, width)) == 0.0


def test_mean_turning_angles_follow_their_limit():
    for width in (1000, 100_000, 10_000_000):
        assert mean_turning_angle(width) == pytest.approx(math.sqrt(math.pi / width), rel=2 / width)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_reach_at_a_scale_is_that_of_embedded_points(depth):
    """Points with these inner products, embedded by a factor of their matrix; the tangent by a difference of points."""
    angle, step = 0.8, 1e-4
    at = np.array([0.0, step, -step, angle])
    gram = np.cos(at[:, None] - at)
    for _ in range(depth):
        gram = relu_cosine(np.clip(gram, -1, 1))
    values, vectors = np.linalg.eigh(gram)
    points = vectors * np.sqrt(np.maximum(values, 0))
    tangent, chord = points[1] - points[2], points[3] - points[0]
    tangent /= np.linalg.norm(tangent)
    distance = np.linalg.norm(chord - (chord @ tangent) * tangent)
    # The tangent is a difference over a curve that turns like √step.
    assert scale_reach(angle, depth) == pytest.approx(chord @ chord / 2 / distance, rel=4 * math.sqrt(step))


def test_bad_arguments_are_refused():
    for call in (
        lambda: volume_moment([5], 0),
        lambda: expected_breakpoints([5], -1.0),
        lambda: scale_reach(1e-5, 1),
        lambda: angular_length_factor([0]),
    ):
        with pytest.raises(InputError):
            call()
