"""`HammingIndex` against brute force; files that are foreign, cut, flipped, or whose writer was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from initscope.embed import HammingIndex, pack_bits, rerank
from initscope.errors import InputError

RNG = np.random.default_rng(2)


def codes_of(rows, bits, rng=RNG):
    return pack_bits(rng.integers(0, 2, (rows, bits)))


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


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_save_and_load(kind, tmp_path):
    codes, queries = codes_of(300, 48), codes_of(10, 48)
    index = HammingIndex(48, kind, probes=4, effort=50)
    index.add(codes, np.arange(300)[::-1] + 5)
    index.save(tmp_path / "codes.index")
    loaded = HammingIndex.load(tmp_path / "codes.index")
    for mine, theirs in zip(index.search(queries, 7), loaded.search(queries, 7)):
        np.testing.assert_array_equal(mine, theirs)
    assert (loaded.bits, loaded.kind, loaded.probes, loaded.effort) == (48, kind, 4, 50)
    loaded.add(codes[:3], [1000, 1001, 1002])
    assert len(loaded) == 303
    assert [path.name for path in tmp_path.iterdir()] == ["codes.index"]


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_empty_index_saves_and_loads_and_refuses_to_search(kind, tmp_path):
    HammingIndex(12, kind).save(tmp_path / "empty.index")
    loaded = HammingIndex.load(tmp_path / "empty.index")
    assert len(loaded) == 0
    with pytest.raises(InputError, match="empty"):
        loaded.search(codes_of(1, 12), k=1)
    loaded.add(codes_of(3, 12))
    assert loaded.ids.tolist() == [0, 1, 2]


def test_few_probes_may_find_fewer():
    codes = pack_bits(RNG.random((100, 32)) < np.repeat([0.1, 0.9], 50)[:, None])
    index = HammingIndex(32, "ivf", lists=2, probes=1)
    index.add(codes)
    distances, found = index.search(codes[:1], k=100)
    assert sorted(found[0, :50]) == list(range(50))
    assert (found[0, 50:] == -1).all()
    assert (distances[0, 50:] == 33).all()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    files = []
    for kind in ("flat", "ivf", "hnsw"):
        index = HammingIndex(48, kind)
        index.add(codes_of(50, 48))
        index.save(folder / kind)
        files.append((folder / kind).read_bytes())
    return files


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_damaged_files_are_refused(saved, tmp_path_factory, data):
    """A bit flipped, a byte changed in the header, a cut at any length, a tail appended: always `InputError`."""
    content = bytearray(data.draw(st.sampled_from(saved)))
    damage = data.draw(st.sampled_from(["flip", "header", "cut", "append", "noise"]))
    if damage == "flip":
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "header":
        position = data.draw(st.integers(0, 200))
        content[position] = (content[position] + data.draw(st.integers(1, 255))) % 256
    elif damage == "cut":
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    elif damage == "append":
        content += data.draw(st.binary(min_size=1, max_size=40))
    else:
        content = data.draw(st.binary(max_size=300))
    path = tmp_path_factory.mktemp("damaged") / "index"
    path.write_bytes(bytes(content))
    with pytest.raises(InputError):
        HammingIndex.load(path)


def test_reasons_are_told_apart(tmp_path, saved):
    with pytest.raises(InputError, match="cannot be read"):
        HammingIndex.load(tmp_path / "missing")
    (tmp_path / "foreign").write_text("not an index, but long enough to hold a header and a checksum of one")
    with pytest.raises(InputError, match="no file of this kind"):
        HammingIndex.load(tmp_path / "foreign")
    newer = bytearray(saved[0])
    newer[16] = 9
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(InputError, match="version 9"):
        HammingIndex.load(tmp_path / "newer")
    (tmp_path / "cut").write_bytes(saved[0][:-5])
    with pytest.raises(InputError, match="truncated or damaged"):
        HammingIndex.load(tmp_path / "cut")


WRITER = """
import sys
import numpy as np
from initscope.embed import HammingIndex

path, mode = sys.argv[1:]
rng = np.random.default_rng(0)
index = HammingIndex.load(path)
while True:
    index.add(rng.integers(0, 256, (200_000, 6), dtype=np.uint8))
    if mode == "save":
        index.save(path)
        print("saved", len(index), flush=True)
    else:
        print("added", len(index), flush=True)
"""


@pytest.mark.parametrize("mode", ["add", "save"])
def test_a_killed_writer_loses_nothing_that_was_reported_saved(tmp_path, mode):
    path = tmp_path / "codes.index"
    start = HammingIndex(48)
    start.add(codes_of(100, 48))
    start.save(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for delay in (0.0, 0.02, 0.05):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), mode], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert writer.stdout is not None
        reported = [writer.stdout.readline()]
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        reported += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        sizes = [int(line.split()[1]) for line in reported if line.startswith("saved") and line.endswith("\n")]
        loaded = HammingIndex.load(path)
        assert len(loaded) >= max(sizes, default=100)
        if mode == "add":
            assert len(loaded) == 100
        assert loaded.search(codes_of(1, 48), k=3)[1].shape == (1, 3)
    for leftover in Path(tmp_path).glob(".codes.index*"):
        assert leftover != path


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
        (lambda i, c: i.search(c, k=11), "holds 10 codes"),
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
