"""`HammingIndex` against brute force: searching, adding, removing, and input that is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from codes import random_codes

from initscope.embed import HammingIndex, pack_bits, rerank
from initscope.errors import InputError

faiss = pytest.importorskip("faiss")
RNG = np.random.default_rng(2)
codes_of = partial(random_codes, RNG)


def brute(queries, codes):
    return np.unpackbits(queries[:, None] ^ codes[None], axis=2).sum(axis=2)


@pytest.mark.parametrize("bits", [1, 12, 48, 64, 100, 256])
@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_search_finds_what_brute_force_finds(kind, bits):
    """Exact for "flat" and for "ivf" with every list probed; "hnsw" finds the true nearest distance of 90 %."""
    codes, queries = codes_of(400, bits), codes_of(20, bits)
    ids = RNG.permutation(10_000)[:400]
    index = HammingIndex(bits, kind, probes=1000)
    index.add(codes[:150], ids[:150])
    index.add(codes[150:], ids[150:])
    distances, found = index.search(queries, k=5)
    truth = brute(queries, codes)
    position = {name: row for row, name in enumerate(ids)}
    for query in range(20):
        np.testing.assert_array_equal(distances[query], [truth[query, position[name]] for name in found[query]])
    exact = np.sort(truth, axis=1)[:, :5]
    if kind == "hnsw":
        assert (distances[:, 0] == exact[:, 0]).mean() >= 0.9
    else:
        np.testing.assert_array_equal(distances, exact)
    assert all(len(set(row)) == 5 for row in found)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_remove(kind):
    codes = codes_of(200, 24)
    index = HammingIndex(24, kind, probes=1000)
    index.add(codes, np.arange(200) * 7)
    assert index.remove([0, 70, 71, 693]) == 3
    assert len(index) == 197
    kept = np.setdiff1d(np.arange(200), [0, 10, 99])
    np.testing.assert_array_equal(np.sort(index.ids), kept * 7)
    distances, found = index.search(codes[[10, 50]], k=197)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(kept * 7, (2, 1)))
    np.testing.assert_array_equal(distances, np.sort(brute(codes[[10, 50]], codes[kept]), axis=1))
    index.add(codes[:1], [0])
    assert index.search(codes[:1], k=1)[0][0, 0] == 0


def test_hnsw_says_that_it_cannot_remove():
    index = HammingIndex(8, "hnsw")
    index.add(codes_of(5, 8))
    with pytest.raises(InputError, match=r"hnsw.*cannot remove"):
        index.remove([1])


def test_few_probes_may_find_fewer():
    codes = pack_bits(RNG.random((100, 32)) < np.repeat([0.1, 0.9], 50)[:, None])
    index = HammingIndex(32, "ivf", lists=2, probes=1)
    index.add(codes)
    distances, found = index.search(codes[:1], k=100)
    assert sorted(found[0, :50]) == list(range(50))
    assert (found[0, 50:] == -1).all()
    assert (distances[0, 50:] == 33).all()


def test_hnsw_finds_equal_codes(tmp_path):
    """Few distinct codes, many of each, added in parts: as exact as a search of all, before and after a file."""
    distinct = codes_of(100, 48)
    codes = distinct[RNG.integers(0, 100, 5000)]
    graph, flat = HammingIndex(48, "hnsw"), HammingIndex(48)
    for part in (slice(0, 10), slice(10, 11), slice(11, 3000), slice(3000, 5000)):
        for index in (graph, flat):
            index.add(codes[part], np.arange(5000)[part] * 3)
    queries = codes[:40]
    exact = flat.search(queries, 150)[0]
    graph.save(tmp_path / "graph")
    for index in (graph, HammingIndex.load(tmp_path / "graph")):
        distances, found = index.search(queries, 150)
        np.testing.assert_array_equal(distances, exact)
        assert all(len(set(row)) == 150 for row in found)
        np.testing.assert_array_equal(distances, np.take_along_axis(brute(queries, codes), found // 3, axis=1))
        equal = [np.flatnonzero((codes == query).all(axis=1)) * 3 for query in queries]
        for row, same in zip(found, equal):
            np.testing.assert_array_equal(row[: len(same)], same[:150])


def test_what_a_graph_does_not_reach_is_none(monkeypatch):
    index = HammingIndex(48, "hnsw")
    index.add(np.repeat(codes_of(10, 48), 3, axis=0))
    search = faiss.IndexBinaryHNSW.search

    def short(self, queries, k):
        distances, found = search(self, queries, k)
        distances[:, 4:], found[:, 4:] = -(2**31), -1
        return distances, found

    monkeypatch.setattr(faiss.IndexBinaryHNSW, "search", short)
    distances, found = index.search(codes_of(5, 48), 20)
    assert (found[:, :12] >= 0).all()
    assert (found[:, 12:] == -1).all()
    assert (distances[:, 12:] == 49).all()
    assert (np.diff(distances, axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda i, c: i.add(c.astype(np.int32)), "no packed code"),
        (lambda i, c: i.add(c[:, :1]), "1 bytes"),
        (lambda i, c: i.add(np.full((1, 2), 255, np.uint8)), "padding"),
        (lambda i, c: i.add(c, ids=[1]), "one id per code"),
        (lambda i, c: i.add(c[:2], ids=[7, 7]), "repeat"),
        (lambda i, c: i.add(c[:2], ids=[3, 99]), "id 3 is in the index"),
        (lambda i, c: i.add(c[:1], ids=[-4]), "negative"),
        (lambda i, c: i.add(c[:1], ids=[0.5]), "whole numbers"),
        (lambda i, c: i.add(c[:1], ids=np.array([2**63], dtype=np.uint64)), "too large"),
        (lambda i, c: i.remove([2**63]), "too large"),
        (lambda i, c: i.search(c, k=11), "holds 10 codes"),
        (lambda i, c: HammingIndex(12).search(c), "the index is empty"),
        (lambda i, c: i.search(c, k=0), "k = 0"),
        (lambda i, c: HammingIndex(0), "bits = 0"),
        (lambda i, c: HammingIndex(8, "tree"), "tree"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(bad, reason):
    codes = codes_of(10, 12)
    index = HammingIndex(12)
    index.add(codes)
    with pytest.raises(InputError, match=reason):
        bad(index, codes)
    assert len(index) == 10
    np.testing.assert_array_equal(index.search(codes, k=1)[0], 0)


def test_counting_on_stops_at_the_last_id():
    index = HammingIndex(8)
    index.add(codes_of(1, 8), [2**63 - 1])
    with pytest.raises(InputError, match="give ids"):
        index.add(codes_of(1, 8))
    index.add(codes_of(1, 8), [5])
    assert len(index) == 2


def test_rerank_sorts_candidates_by_cosine():
    queries, vectors = RNG.standard_normal((4, 6)), RNG.standard_normal((50, 6))
    candidates = np.stack([RNG.permutation(50)[:20] for _ in range(4)])
    candidates[0, 3] = -1
    cosines, rows = rerank(queries, candidates, vectors, k=20)
    for query, near, got, found in zip(queries, candidates, cosines, rows):
        exact = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        real = near[near >= 0]
        np.testing.assert_array_equal(found[: len(real)], real[np.argsort(-exact[real])])
        np.testing.assert_allclose(got[: len(real)], np.sort(exact[real])[::-1])
    assert rows[0, -1] == -1
    for bad in (np.full((4, 2), 50), np.zeros((3, 2), int), np.zeros((4, 2))):
        with pytest.raises(InputError):
            rerank(queries, bad, vectors, k=1)
