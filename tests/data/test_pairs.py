from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import chisquare

from initscope.data import (
    ImageSet,
    between_class_pairs,
    gaussian_pairs,
    random_pairs,
    random_triplets,
    within_class_pairs,
)
from initscope.errors import InputError
from initscope.testing import z_score

LABELS = np.array([2, 0, 1, 2, 0, 2, 1, 2])


def numbered(count):
    """Images that hold their own index."""
    return np.arange(count, dtype=np.float32)[:, None, None, None] * np.ones((1, 1, 2, 2), np.float32)


def unordered(indices):
    return [tuple(sorted(pair)) for pair in indices.tolist()]


def all_pairs(kind):
    pairs = combinations(range(len(LABELS)), 2)
    if kind is random_pairs:
        return set(pairs)
    return {(i, j) for i, j in pairs if (LABELS[i] == LABELS[j]) == (kind is within_class_pairs)}


def draw(kind, count, seed=0):
    data = ImageSet(numbered(len(LABELS)), LABELS)
    return kind(data, count, seed)


KINDS = pytest.mark.parametrize("kind", [random_pairs, within_class_pairs, between_class_pairs])


@KINDS
def test_all_pairs_come_exactly_once_when_all_are_asked_for(kind):
    expected = all_pairs(kind)
    assert Counter(unordered(draw(kind, len(expected)).indices)) == Counter(expected)


@KINDS
def test_beyond_all_pairs_each_comes_equally_often_up_to_one(kind):
    total = len(all_pairs(kind))
    counts = Counter(unordered(draw(kind, 2 * total + 1).indices))
    assert set(counts) == all_pairs(kind)
    assert sorted(counts.values()) == [2] * (total - 1) + [3]


@KINDS
def test_draws_are_uniform(kind):
    """Chi-square of 3,000 draws over at most 28 pairs: catches one that comes twice as often as the rest, or never."""
    expected = sorted(all_pairs(kind))
    counts = Counter(pair for seed in range(1500) for pair in unordered(draw(kind, 2, seed).indices))
    assert chisquare([counts[pair] for pair in expected]).pvalue > 1e-4


@given(st.integers(2, 30), st.integers(1, 60), st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_x_and_y_are_the_images_of_the_indices_and_never_the_same(total, count, seed):
    x, y, indices = random_pairs(numbered(total), count, seed)
    assert x.shape == (count, 1, 2, 2)
    assert np.array_equal(x[:, 0, 0, 0], indices[:, 0])
    assert np.array_equal(y[:, 0, 0, 0], indices[:, 1])
    assert (indices[:, 0] != indices[:, 1]).all()
    if count <= total * (total - 1) // 2:
        assert len(set(unordered(indices))) == count


def test_same_seed_same_pairs_and_other_seed_others():
    first, again, other = (random_pairs(numbered(100), 50, seed).indices for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_either_image_may_come_first():
    first_smaller = np.diff(random_pairs(numbered(500), 2000).indices, axis=1) > 0
    assert abs(z_score(first_smaller[:, 0], 0.5)) < 4


def test_torch_tensors_stay_tensors():
    x, y, _ = random_pairs(torch.from_numpy(numbered(5)), 4)
    assert isinstance(x, torch.Tensor)
    assert isinstance(y, torch.Tensor)


def test_large_sets_need_no_list_of_all_pairs():
    indices = random_pairs(np.zeros((100_000, 1), np.float32), 1000).indices
    assert len(set(unordered(indices))) == 1000


@pytest.mark.parametrize("count", [0, 1])
def test_one_image_makes_no_pair(count):
    with pytest.raises(InputError, match=f"{count} image: a pair needs two different images"):
        random_pairs(numbered(count), 5)


def test_classes_that_make_no_pairs():
    with pytest.raises(InputError, match="every class has one image only"):
        within_class_pairs(numbered(3), 1, labels=[0, 1, 2])
    with pytest.raises(InputError, match="one class only"):
        between_class_pairs(numbered(3), 1, labels=[1, 1, 1])
    with pytest.raises(InputError, match="no labels"):
        within_class_pairs(numbered(3), 1)
    with pytest.raises(InputError, match=r"3 images but labels of shape \(2,\)"):
        within_class_pairs(numbered(3), 1, labels=[1, 1])


def test_triplets_are_all_possible_ones_and_uniform():
    """Every valid triplet is drawn with its own probability: chi-square, catches one off by a half."""
    anchor, positive, negative, indices = random_triplets(ImageSet(numbered(8), LABELS), 40_000)
    assert np.array_equal(np.stack([anchor, positive, negative], axis=1)[:, :, 0, 0, 0], indices)
    a, p, n = LABELS[indices].T
    assert (a == p).all()
    assert (a != n).all()
    assert (indices[:, 0] != indices[:, 1]).all()
    counts = Counter(map(tuple, indices.tolist()))
    sizes = np.bincount(LABELS)
    expected = {
        (i, j, k): 40_000 / 8 / (sizes[LABELS[i]] - 1) / (8 - sizes[LABELS[i]])
        for i in range(8)
        for j in range(8)
        for k in range(8)
        if i != j and LABELS[i] == LABELS[j] != LABELS[k]
    }
    assert set(counts) <= set(expected)
    assert chisquare([counts[key] for key in expected], list(expected.values())).pvalue > 1e-4


def test_triplets_skip_anchors_without_company():
    indices = random_triplets(numbered(4), 200, labels=[0, 1, 1, 2]).indices
    assert set(indices[:, 0]) == {1, 2}
    assert set(indices[:, 2]) == {0, 3}


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_triplets_need_two_classes_and_company(labels):
    with pytest.raises(InputError, match="a triplet needs two classes"):
        random_triplets(numbered(3), 1, labels=labels)


@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.3, 0.95, 1.0])
def test_gaussian_pairs_have_the_correlation(rho):
    """400,000 products of standard normals: catches a correlation off by 4·√(1+ρ²)/√400000 ≤ 0.009."""
    x, y = gaussian_pairs(1000, rho, shape=(1, 20, 20), seed=3)
    x, y = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    for values, expected in ((x, 0), (y, 0), (x**2, 1), (y**2, 1), (x * y, rho)):
        assert abs(z_score(values, expected)) < 4
    assert abs(z_score(x * y, rho + 0.02)) > 4


def test_gaussian_pairs_refuse_what_is_no_correlation():
    with pytest.raises(InputError, match=r"rho = 1\.5 must be between -1 and 1"):
        gaussian_pairs(3, 1.5)
    with pytest.raises(InputError, match="rho = nan"):
        gaussian_pairs(3, float("nan"))
