"""Tie-exact retrieval metrics against every order of the ties, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from initscope.embed import mean_average_precision, pack_bits, precision_recall
from initscope.errors import InputError


def average_precision(relevant):
    ranks = np.flatnonzero(relevant) + 1
    return np.mean(np.arange(1, len(ranks) + 1) / ranks)


def all_rankings(distances, relevant):
    """Every ranking that sorts by distance, as lists of relevance flags."""
    groups = [np.flatnonzero(distances == d) for d in np.unique(distances)]
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [relevant[i] for order in orders for i in order]


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_against_all_orders_of_ties(seed):
    rng = np.random.default_rng(seed)
    codes, query = pack_bits(rng.integers(0, 2, (7, 3))), pack_bits(rng.integers(0, 2, (1, 3)))
    labels = rng.integers(0, 2, 7)
    labels[0] = 1
    distances = np.unpackbits(codes ^ query, axis=1).sum(axis=1)
    rankings = list(all_rankings(distances, labels == 1))
    scores = [average_precision(ranking) for ranking in rankings]
    result = mean_average_precision(query, [1], codes, labels)
    assert result.value == pytest.approx(np.mean(scores), abs=1e-12)
    assert result.best == pytest.approx(max(scores), abs=1e-12)
    assert result.worst == pytest.approx(min(scores), abs=1e-12)
    curve = precision_recall(query, [1], codes, labels, ranks=range(1, 8), radii=range(9))
    expected = [np.mean([np.mean(ranking[:k]) for ranking in rankings]) for k in range(1, 8)]
    np.testing.assert_allclose(curve.precision_at_rank, expected, atol=1e-12)
    np.testing.assert_allclose(curve.recall_at_rank, np.array(expected) * np.arange(1, 8) / labels.sum(), atol=1e-12)
    for radius, precision, recall in zip(curve.radius, curve.precision_at_radius, curve.recall_at_radius):
        inside = labels[distances <= radius]
        assert precision == pytest.approx(inside.mean() if len(inside) else 0.0)
        assert recall == pytest.approx(inside.sum() / labels.sum())


def test_real_distances_with_and_without_ties_agree_with_the_hamming_path():
    rng = np.random.default_rng(4)
    codes, queries = pack_bits(rng.integers(0, 2, (500, 12))), pack_bits(rng.integers(0, 2, (20, 12)))
    labels, query_labels = rng.integers(0, 5, 500), rng.integers(0, 5, 20)
    distances = np.unpackbits(queries[:, None] ^ codes[None], axis=2).sum(axis=2)
    by_codes = mean_average_precision(queries, query_labels, codes, labels)
    by_distance = mean_average_precision(None, query_labels, None, labels, distances=distances)
    assert by_codes.to_dict() == pytest.approx(by_distance.to_dict())
    untied = distances + rng.random(distances.shape) * 0.5
    result = mean_average_precision(None, query_labels, None, labels, distances=untied)
    plain = np.mean([average_precision(labels[np.argsort(row)] == label) for row, label in zip(untied, query_labels)])
    assert [result.value, result.best, result.worst] == pytest.approx([plain] * 3)
    assert by_codes.worst < result.value < by_codes.best


def test_infinite_distances_are_ties():
    result = mean_average_precision(None, [1], None, [0, 1, 1], distances=[[np.inf, 0.0, np.inf]])
    assert (result.worst, result.best) == pytest.approx(((1 + 2 / 3) / 2, 1))
    assert result.value == pytest.approx((result.worst + result.best) / 2)


def test_random_codes_give_the_share_of_relevant_items(monkeypatch):
    """Constant codes: every order is equally likely; the mean is that of random permutations."""
    codes, labels = np.zeros((1000, 2), dtype=np.uint8), np.repeat([0, 1], [100, 900])
    result = mean_average_precision(codes[:5], [0] * 5, codes, labels)
    rng = np.random.default_rng(0)
    samples = [average_precision(rng.permutation(labels) == 0) for _ in range(4000)]
    assert abs(np.mean(samples) - result.value) < 4 * np.std(samples) / np.sqrt(4000)
    monkeypatch.setattr("initscope.embed.codes._BLOCK_ELEMENTS", 1500)
    assert mean_average_precision(codes[:5], [0] * 5, codes, labels).value == pytest.approx(result.value)
    assert mean_average_precision(codes[:5], [0] * 5, codes, np.zeros(1000)).worst == pytest.approx(1)


def test_queries_without_relevant_items_are_counted_apart():
    codes = np.zeros((4, 1), dtype=np.uint8)
    result = mean_average_precision(codes[:2], [0, 9], codes, [0, 0, 0, 0])
    assert (result.queries, result.skipped) == (1, 1)
    with pytest.raises(InputError, match="share no value"):
        mean_average_precision(codes[:1], [9], codes, [0, 0, 0, 0])


@pytest.mark.parametrize(
    "bad",
    [
        lambda c: mean_average_precision(c[:1], [0, 1], c, [0, 1, 0]),
        lambda c: mean_average_precision(c[:1], [0], c, [0, 1]),
        lambda c: mean_average_precision(c[:1].astype(float), [0], c, [0, 1, 0]),
        lambda c: mean_average_precision(c[:1, :1], [0], c, [0, 1, 0]),
        lambda c: mean_average_precision(None, [0], None, [0, 1], distances=[[0.0, np.nan]]),
        lambda c: precision_recall(c[:1], [0], c, [0, 1, 0], ranks=(4,)),
    ],
)
def test_bad_input_is_refused(bad):
    with pytest.raises(InputError):
        bad(np.zeros((3, 2), dtype=np.uint8))
