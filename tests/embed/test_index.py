"""`HammingIndex` against brute force; files that are foreign, cut, flipped, or whose writer was killed."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import struct

import faiss
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


def signed(magic_and_version, header, payload):
    """A file with the checksum of whatever it holds: what a hostile or faulty writer could make."""
    body = magic_and_version + struct.pack("<I", len(header)) + header + payload
    return body + hashlib.sha256(body).digest()


def parts_of(content):
    (length,) = struct.unpack_from("<I", content, 20)
    return content[:20], content[24 : 24 + length], content[24 + length : -32]


def loads_or_is_refused(path, content):
    """Load, and if that is accepted, use the index; anything but `InputError` or a right answer is a failure."""
    path.write_bytes(content)
    try:
        index = HammingIndex.load(path)
    except InputError:
        return
    if len(index):
        distances, found = index.search(codes_of(3, index.bits), k=min(5, len(index)))
        assert np.isin(found, [*index.ids, -1]).all()
        assert (distances >= 0).all()
    index.add(codes_of(2, index.bits))


WRONG = st.one_of(
    st.integers(-5, 100), st.sampled_from([2**31, 2**62, 2**70, -(2**70), 1e400, 0.5, None, True, "x", [], [[1]], {}])
)


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_files_with_a_right_checksum_and_wrong_contents_never_crash(saved, tmp_path_factory, data):
    """Fields of the header replaced, removed or its types and shapes changed; numbers of the arrays overwritten."""
    start, header, payload = parts_of(data.draw(st.sampled_from(saved)))
    fields = json.loads(header)
    for _ in range(data.draw(st.integers(0, 2))):
        where = data.draw(st.sampled_from([fields, fields["meta"], *fields["arrays"]]))
        if not where:
            continue
        name = data.draw(st.sampled_from(sorted(where)))
        if name == "dtype":
            where[name] = data.draw(st.sampled_from(["uint8", "int32", "int64", "float32", "float64", "O", ["x"]]))
        elif name == "shape" and where[name]:
            where[name] = [*where[name]]
            where[name][data.draw(st.integers(0, len(where[name]) - 1))] = data.draw(WRONG)
        elif name not in ("meta", "arrays"):
            where[name] = data.draw(WRONG)
    payload = bytearray(payload)
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(payload) - 8))
        payload[position : position + 4] = struct.pack(
            "<i", data.draw(st.sampled_from([-2, -1, 0, 1, 49, 50, 2**31 - 1]))
        )
    content = signed(start, json.dumps(fields).encode(), bytes(payload))
    loads_or_is_refused(tmp_path_factory.mktemp("crafted") / "index", content)


def array_file(kind, **arrays):
    meta = {"bits": 48, "kind": kind, "lists": None, "probes": 16, "links": 16, "effort": 64}
    parts = [{"name": name, "dtype": a.dtype.name, "shape": list(a.shape)} for name, a in arrays.items()]
    payload = b"".join(array.tobytes() for array in arrays.values())
    start = b"initscope-index\n" + struct.pack("<I", 1)
    return signed(start, json.dumps({"meta": meta, "arrays": parts}).encode(), payload)


def zeros(*shape, dtype=np.int64):
    return np.zeros(shape, dtype=dtype)


BYTES = np.uint8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (signed(b"initscope-index\n\1\0\0\0", b"[" * 100_000, b""), "header"),
        (
            array_file(
                "ivf",
                ids=np.arange(3),
                centroids=zeros(1, 8, dtype=BYTES),
                sizes=zeros(1) + 3,
                list_ids=np.arange(3),
                codes=zeros(3, 0, dtype=BYTES),
            ),
            "codes",
        ),
        (
            array_file(
                "ivf",
                ids=np.arange(3),
                centroids=zeros(2, 8, dtype=BYTES),
                sizes=np.array([4, -1]),
                list_ids=np.arange(3),
                codes=zeros(3, 8, dtype=BYTES),
            ),
            "sizes",
        ),
        (array_file("flat", ids=np.arange(2), codes=zeros(2, 3, dtype=BYTES)), "codes"),
        (array_file("flat", ids=np.arange(2), codes=zeros(2, 8, dtype=np.float64)), "codes"),
        (array_file("flat", ids=zeros(2), codes=zeros(2, 8, dtype=BYTES)), "repeat"),
        (array_file("flat", ids=np.array([-1, 4]), codes=zeros(2, 8, dtype=BYTES)), "negative"),
        (array_file("hnsw", ids=np.arange(2), graph=zeros(40, dtype=BYTES)), "codes"),
    ],
    ids=["nested", "ivf-width", "ivf-sizes", "flat-width", "flat-type", "repeated-ids", "negative-ids", "hnsw"],
)
def test_contents_that_do_not_fit_are_refused(content, reason, tmp_path):
    (tmp_path / "crafted").write_bytes(content)
    with pytest.raises(InputError, match=reason):
        HammingIndex.load(tmp_path / "crafted")


def interrupted(real, codes_taken):
    """faiss's ``add`` with an interrupt that arrives when so large a share of the codes is in."""

    def add(self, codes, *ids):
        share = slice(round(codes_taken * len(codes)))
        if codes_taken:
            real(self, np.ascontiguousarray(codes[share]), *(each[share] for each in ids))
        raise KeyboardInterrupt

    return add


ADDING = {
    "flat": (faiss.IndexBinaryFlat, "add"),
    "ivf": (faiss.IndexBinaryIVF, "add_with_ids"),
    "hnsw": (faiss.IndexBinaryHNSW, "add"),
}


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
@pytest.mark.parametrize("taken", [0, 0.5, 1])
def test_an_interrupted_add_is_undone_done_or_refused(kind, taken, tmp_path, monkeypatch):
    """Python raises an interrupt when faiss returns: all codes are in, or none, and what is saved can be loaded."""
    codes = codes_of(90, 48)
    index = HammingIndex(48, kind, probes=1000)
    index.add(codes[:50])
    index.save(tmp_path / "saved")
    owner, name = ADDING[kind]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted(getattr(owner, name), taken))
        with pytest.raises(KeyboardInterrupt):
            index.add(codes[50:])
    if taken == 0.5:
        for refused in (
            lambda: index.add(codes[:1], [1000]),
            lambda: index.search(codes[:1], 1),
            lambda: index.save(tmp_path / "saved"),
            lambda: copy.deepcopy(index),
            *([] if kind == "hnsw" else [lambda: index.remove([1])]),
        ):
            with pytest.raises(InputError, match="half-way"):
                refused()
    else:
        index.save(tmp_path / "saved")
    held = 90 if taken == 1 else 50
    loaded = HammingIndex.load(tmp_path / "saved")
    assert loaded.ids.tolist() == list(range(held))
    np.testing.assert_array_equal(loaded.search(codes[:held], k=1)[0], 0)


def test_an_interrupted_first_add_leaves_nothing(monkeypatch):
    monkeypatch.setattr(faiss.IndexBinaryIVF, "add_with_ids", interrupted(None, 0))
    index = HammingIndex(48, "ivf")
    with pytest.raises(KeyboardInterrupt):
        index.add(codes_of(20, 48))
    monkeypatch.undo()
    codes = codes_of(400, 48)
    index.add(codes)
    assert len(index) == 400
    assert index._index.nlist == 80  # lists of these codes, not of those that never came in


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_an_interrupted_remove_is_done(kind, monkeypatch):
    codes = codes_of(60, 48)
    index = HammingIndex(48, kind, probes=1000)
    index.add(codes)
    owner = faiss.IndexBinaryFlat if kind == "flat" else faiss.IndexBinaryIVF
    monkeypatch.setattr(owner, "remove_ids", interrupted(owner.remove_ids, 1))
    with pytest.raises(KeyboardInterrupt):
        index.remove([3, 7])
    assert len(index) == 58
    np.testing.assert_array_equal(np.sort(index.search(codes[:1], 58)[1][0]), np.setdiff1d(np.arange(60), [3, 7]))


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


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_copies_and_pickles(kind, copied):
    codes = codes_of(80, 48)
    index = HammingIndex(48, kind, probes=7)
    index.add(codes, np.arange(80) * 2)
    other = copied(index)
    for mine, theirs in zip(index.search(codes, 5), other.search(codes, 5)):
        np.testing.assert_array_equal(mine, theirs)
    other.add(codes[:1], [1])
    assert (len(index), len(other), other.probes) == (80, 81, 7)


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
