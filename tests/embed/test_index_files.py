"""Files of `HammingIndex`: written and read back, foreign, cut, flipped, or with contents that do not fit; copies."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import struct
from functools import partial

import numpy as np
import pytest
from codes import random_codes
from hypothesis import given, settings, strategies as st

from initscope.embed import HammingIndex
from initscope.errors import InputError

faiss = pytest.importorskip("faiss")
RNG = np.random.default_rng(2)
codes_of = partial(random_codes, RNG)


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
    with pytest.raises(InputError, match="not a file of this kind"):
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
