"""`HammingIndex` interrupted while it adds or removes, or killed: at every line of the library, amid the bytes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from codes import random_codes

from initscope.embed import HammingIndex
from initscope.errors import InputError

faiss = pytest.importorskip("faiss")
RNG = np.random.default_rng(2)
codes_of = partial(random_codes, RNG)


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


# Each writer is a fork that ends itself by SIGKILL or SIGXFSZ at a place, not at a time: no clock is involved.
WRITERS = """
import itertools, json, os, resource, signal, sys
import faiss
import numpy as np
from initscope.embed import HammingIndex

path, mode, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
size = os.path.getsize(path)


def dying_at(count):
    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("initscope"):
            return None
        count -= event == "line"
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def write(place):
    index = HammingIndex.load(path)
    ids = np.arange(len(index), len(index) + rows)
    codes = np.ascontiguousarray(ids[:, None].view(np.uint8)[:, :6])
    if mode == "lines":
        sys.settrace(dying_at(place))
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (place, place))
    index.add(codes, ids)
    index.save(path)


for place in itertools.count(1) if mode == "lines" else range(0, size, size // 8 + 1):
    if not (writer := os.fork()):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        write(place)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(writer, 0)[1])
    left = [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)]
    print(json.dumps({"killed": killed, "left": len(left), "ids": HammingIndex.load(path).ids.tolist()}))
    if not killed:
        break
"""


def numbered(ids):
    """Every code spells its id, so that what a file holds can be told from what it should hold."""
    return np.ascontiguousarray(ids[:, None].view(np.uint8)[:, :6])


@pytest.mark.parametrize("mode", ["lines", "bytes"])
def test_killed_writers_lose_nothing_that_was_saved(tmp_path, mode):
    """The file is always whole, the old one or the new one; the next good save removes what killed writers left."""
    path, rows = tmp_path / "codes.index", 100
    start = HammingIndex(48)
    start.add(numbered(np.arange(rows)))
    start.save(path)
    command = [sys.executable, "-B", "-c", WRITERS, str(path), mode, str(rows)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    held, kills, leftovers = rows, 0, 0
    for line in ran.stdout.splitlines():
        writer = json.loads(line)
        assert len(writer["ids"]) in ((held, held + rows) if writer["killed"] else (held + rows,))
        held = len(writer["ids"])
        assert writer["ids"] == list(range(held))
        kills, leftovers = kills + writer["killed"], leftovers + writer["left"]
    assert kills >= 5
    assert leftovers  # some were hit between making the temporary file and renaming it
    loaded = HammingIndex.load(path)
    distances, found = loaded.search(numbered(np.arange(held)), k=1)
    np.testing.assert_array_equal(found[:, 0], np.arange(held))
    np.testing.assert_array_equal(distances, 0)
    loaded.save(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
