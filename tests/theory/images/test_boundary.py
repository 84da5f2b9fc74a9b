"""Definition 2 against its own words, example 1 exactly, theorem 5 on random shapes, the resolution experiment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from initscope.errors import InputError
from initscope.reproductions import resolution
from initscope.theory.images import (
    boundary_bounds,
    contracting_positions,
    cosine,
    excess_bound,
    expected_cosine,
    expected_distance,
    expected_inner,
    rectangle_boundary,
    shared_boundary,
)

RNG = np.random.default_rng
SIZE = 24


def definition_2(a, b, r):
    """Conditions (15a) and (15b), pixel by pixel."""
    n, m = a.shape
    offsets = list(itertools.product(range(-r, r + 1), repeat=2))
    out = np.zeros_like(a, dtype=bool)
    for i, j in itertools.product(range(n), range(m)):
        square = [((i + p) % n, (j + q) % m) for p, q in offsets]
        meets = any(a[q] for q in square) and any(b[q] for q in square)
        leaves = any(not a[q] for q in square) or any(not b[q] for q in square)
        out[i, j] = meets and leaves
    return out


def disc(rng):
    i, j = np.indices((SIZE, SIZE))
    return (i - rng.integers(SIZE)) ** 2 + (j - rng.integers(SIZE)) ** 2 <= rng.integers(1, SIZE // 2) ** 2


def rectangle(rng):
    body = np.zeros((SIZE, SIZE), dtype=bool)
    top, left = rng.integers(SIZE, size=2)
    body[: rng.integers(1, SIZE + 1), : rng.integers(1, SIZE + 1)] = True
    return np.roll(body, (top, left), axis=(0, 1))


def union(rng):
    return disc(rng) | rectangle(rng) | disc(rng)


def noise(rng):
    body = rng.random((SIZE, SIZE)) < rng.random()
    body[0, 0] = True
    return body


SHAPES = [disc, rectangle, union, noise]


@pytest.mark.parametrize("shapes", list(itertools.product(SHAPES, SHAPES)))
@pytest.mark.parametrize("r", [0, 1, 3])
def test_definition_2(shapes, r):
    rng = RNG(0)
    a, b = (shape(rng) for shape in shapes)
    np.testing.assert_array_equal(shared_boundary(a, b, r), definition_2(a, b, r))


@settings(max_examples=80, deadline=None)
@given(
    r=st.integers(0, 3),
    overlap=st.tuples(st.integers(6, 12), st.integers(6, 12)),
    excess=st.lists(st.integers(0, 4), min_size=8, max_size=8),
    shift=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_example_1_is_exact(r, overlap, excess, shift):
    """Any two rectangles whose overlap is e×f and that leave cyclic gaps of 2r: |∂_r| = 4r(e+f)."""
    (e, f), n = overlap, 12 + 8 + 2 * 3 + 8
    a, b = np.zeros((2, n, n), dtype=bool)
    for axis_body, (top, bottom, left, right) in ((a, excess[:4]), (b, excess[4:])):
        # on every side at most one of the two bodies reaches beyond the overlap
        axis_body[10 - top : 10 + e + bottom, 10 - left : 10 + f + right] = True
    inter = a & b
    rows, columns = inter.any(axis=1).sum(), inter.any(axis=0).sum()
    a, b = (np.roll(body, shift, axis=(0, 1)) for body in (a, b))
    assert shared_boundary(a, b, r).sum() == rectangle_boundary(int(rows), int(columns), r)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), first=st.sampled_from(SHAPES), second=st.sampled_from(SHAPES), r=st.integers(1, 4))
def test_theorem_5_on_random_shapes(seed, first, second, r):
    """Both inequalities, the combined bound, and the sharper ones: 0 ≤ excess ≤ |∂_r|/π, distances never grow."""
    rng = RNG(seed)
    a, b = first(rng), second(rng)
    bounds = boundary_bounds(a, b, r)
    x, y = a[None, None].astype(float), b[None, None].astype(float)
    inner = expected_inner(x, y, kernel_size=2 * r + 1)[0]
    distance = expected_distance(x, y, kernel_size=2 * r + 1)[0]
    rounding = 1e-9
    for value, (low, high) in (
        (inner, bounds.inner_bounds),
        (inner, bounds.sharp_inner_bounds),
        (distance, bounds.distance_bounds),
        (distance, bounds.sharp_distance_bounds),
    ):
        assert low - rounding <= value <= high + rounding
    np.testing.assert_allclose([bounds.inner, bounds.distance], [(x * y).sum(), ((x - y) ** 2).sum()])
    np.testing.assert_allclose(bounds.cosine, cosine(x, y)[0], rtol=1e-12)
    after = expected_cosine(x, y, kernel_size=2 * r + 1)[0]
    assert abs(after - bounds.cosine) <= bounds.cosine_radius + rounding
    mask = contracting_positions(x, y, kernel_size=2 * r + 1)[0]
    assert not (mask & ~shared_boundary(a, b, r)).any()
    assert excess_bound(x, y, kernel_size=2 * r + 1).inner[0] <= bounds.boundary / np.pi + rounding


def test_theorem_5_can_fail_with_a_smaller_boundary():
    """Bite: half the boundary divided by π is no bound, the excess uses most of the sharp one on noise."""
    rng = RNG(1)
    a, b = rng.random((2, SIZE, SIZE)) < 0.1
    bounds = boundary_bounds(a, b, 1)
    excess = expected_inner(a[None, None] / 1.0, b[None, None] / 1.0, kernel_size=3)[0] - bounds.inner
    assert 0.02 * bounds.boundary < excess < bounds.boundary / np.pi


def test_pairs_torch_and_eps():
    rng = RNG(2)
    a, b = np.stack([disc(rng) for _ in range(3)]), np.stack([union(rng) for _ in range(3)])
    stacked = boundary_bounds(a, b, 2, eps=0.1)
    tensors = boundary_bounds(torch.from_numpy(a), torch.from_numpy(b), 2, eps=0.1)
    for k in range(3):
        single = boundary_bounds(a[k], b[k], 2)
        assert stacked.boundary[k] == single.boundary == shared_boundary(a[k], b[k], 2).sum()
        np.testing.assert_allclose(stacked.cosine_radius[k], single.cosine_radius + 0.1)
    np.testing.assert_allclose(tensors.cosine_radius.numpy(), stacked.cosine_radius)
    mask = shared_boundary(torch.from_numpy(a), torch.from_numpy(b), 2)
    assert mask.dtype == torch.bool
    np.testing.assert_array_equal(mask.numpy(), shared_boundary(a, b, 2))
    assert [row["boundary"] for row in stacked.table()] == stacked.boundary.tolist()
    assert len(boundary_bounds(a[0], b[0], 1).table()) == 1


def test_resolution_falls():
    """Rectangles: the ratio falls exactly like 1/k (example 1), the deviation stays below it and falls alike."""
    a, b = np.zeros((2, 20, 20))
    a[2:12, 3:13], b[5:16, 6:14] = 1, 1
    result = resolution.run(a, b, 1, (1, 2, 4, 8))
    area = np.sqrt(100 * 88)
    expected = [rectangle_boundary(7 * k, 7 * k, 1) / (area * k**2) for k in (1, 2, 4, 8)]
    np.testing.assert_allclose(result.boundary_ratio, expected, rtol=1e-12)
    deviation = np.asarray(result.deviation)
    assert np.all((deviation > 0) & (deviation < np.asarray(expected) / np.pi))
    np.testing.assert_allclose(deviation[2:] / deviation[1:-1], 0.5, atol=0.02)
    assert len(result.table()) == 4
    assert result.plot().get_xlabel() == "resolution factor"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: shared_boundary(a, a[:10], 1), r"\(24, 24\) and \(10, 24\) must have one shape"),
        (lambda a: shared_boundary(a * 0.5, a, 1), "a must be binary"),
        (lambda a: shared_boundary(a, np.where(a, np.nan, 0), 1), "b must be binary"),
        (lambda a: shared_boundary(a, a, 12), "kernel of 25 taps .* more than the 24"),
        (lambda a: shared_boundary(a, a, -1), "r = -1 must be"),
        (lambda a: boundary_bounds(a, np.zeros_like(a), 1), "body without pixels"),
        (lambda a: boundary_bounds(a, a, 1, eps=-1), "eps = -1"),
        (lambda a: rectangle_boundary(3, 9, 2), "overlap of 3×9 must be at least 2r = 4"),
        (lambda a: resolution.run(a[None], a[None], 1), r"\(1, 24, 24\) must be \[height, width\]: pass one pair"),
        (lambda a: resolution.run(a, a, 1, (0,)), "factor = 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call(disc(RNG(3)))
