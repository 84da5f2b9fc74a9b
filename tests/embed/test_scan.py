"""The compiled search against a stable sort of all distances, ties included, and inside `HammingIndex`."""

from __future__ import annotations

import numpy as np
import pytest

from initscope.embed import HammingIndex, pack_bits, scan

pytest.importorskip("numba")
LOOPS = scan.scan_loops(1 << 40)

RNG = np.random.default_rng(5)


def codes_with_ties(rows, bits, free=7):
    """Only the last few bits differ, so that most distances are shared by many."""
    bits_of = np.zeros((rows, bits), dtype=np.uint8)
    bits_of[:, -free:] = RNG.integers(0, 2, (rows, min(free, bits)))
    return pack_bits(bits_of)


def sorted_all(queries, codes, k):
    distances = np.bitwise_count(queries[:, None] ^ codes[None]).sum(axis=2, dtype=np.int64)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order


@pytest.mark.parametrize("bits", [8, 64, 100, 256, 300])
@pytest.mark.parametrize(("rows", "k"), [(1, 1), (255, 255), (256, 10), (1000, 1), (1000, 100), (3000, 2999)])
def test_scan_is_a_stable_sort(bits, rows, k):
    codes, queries = codes_with_ties(rows, bits), codes_with_ties(70, bits)
    for threads in (1, 3):
        for found, expected in zip(scan.Scan(codes, LOOPS).search(queries, k, threads), sorted_all(queries, codes, k)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [1, 3, 40])
def test_candidates_that_keep_improving(k):
    """Nearest last, in long runs of ties: what was kept must be dropped again and again."""
    ones = np.repeat(np.arange(256, -1, -1), 90)
    codes = pack_bits(np.arange(256)[None, :] < ones[:, None])
    queries = np.zeros((2, 32), dtype=np.uint8)
    for found, expected in zip(scan.Scan(codes, LOOPS).search(queries, k, 1), sorted_all(queries, codes, k)):
        np.testing.assert_array_equal(found, expected)


def test_no_queries():
    distances, places = scan.Scan(codes_with_ties(10, 16), LOOPS).search(codes_with_ties(1, 16)[:0], 4, 2)
    assert distances.shape == places.shape == (0, 4)


def test_the_index_answers_alike_before_and_after_it_goes_over_to_the_loops(monkeypatch):
    codes, queries = codes_with_ties(900, 48), codes_with_ties(9, 48)
    ids = RNG.permutation(10_000)[:900]
    index = HammingIndex(48)
    index.add(codes[:800], ids[:800])
    monkeypatch.setattr("initscope.embed.index.scan_loops", lambda compared: None)
    by_faiss = index.search(queries, 50)
    assert not index.compiled
    monkeypatch.setattr("initscope.embed.index.scan_loops", lambda compared: LOOPS)
    for mine, theirs in zip(index.search(queries, 50), by_faiss):
        np.testing.assert_array_equal(mine, theirs)
    assert index.compiled
    index.add(codes[800:], ids[800:])
    index.remove(ids[:5])
    distances, places = sorted_all(queries, codes[5:], 50)
    for mine, theirs in zip(index.search(queries, 50), (distances, ids[5:][places])):
        np.testing.assert_array_equal(mine, theirs)


def test_loops_are_loaded_once_enough_was_asked(monkeypatch):
    asked = []
    monkeypatch.setattr("initscope.embed.index.scan_loops", lambda compared: asked.append(compared))
    index = HammingIndex(100)
    index.add(codes_with_ties(30, 100))
    for _ in range(3):
        index.search(codes_with_ties(4, 100), 2)
    assert asked == [240, 480, 720]  # 4 queries × 30 codes × 2 words each time
    wanted = {}
    monkeypatch.setattr(scan, "loops", lambda module, pays: wanted.setdefault(pays, module))
    assert scan.scan_loops(1 << 20)
    assert scan.scan_loops(1 << 30)
    assert set(wanted) == {False, True}
